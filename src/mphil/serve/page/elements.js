/* Small pieces of the page: elements, drawings, verdicts, numbers. Text is only ever set as text. */

const SVG = "http://www.w3.org/2000/svg";

/* A sign beside the word, so that the colour is never alone: a tick, a bar, a cross. */
const VERDICTS = {
  "in domain": { kind: "inside", path: "M4 8.5 7 11.5 12.5 5" },
  "borderline": { kind: "between", path: "M4.5 8H11.5" },
  "out of domain": { kind: "outside", path: "M5 5 11 11M11 5 5 11" },
};

export const byId = (id) => document.getElementById(id);

export function make(tag, properties = {}, ...children) {
  const { role, label, ...rest } = properties;
  const element = Object.assign(document.createElement(tag), rest);
  if (role) element.setAttribute("role", role);
  if (label) element.setAttribute("aria-label", label);
  element.append(...children.filter((child) => child !== null));
  return element;
}

export function picture(svg, alt, kind = "drawing") {
  return make("img", { className: kind, alt, src: `data:image/svg+xml,${encodeURIComponent(svg)}` });
}

export function verdict(word, text = word) {
  const known = VERDICTS[word];
  if (!known) return make("span", { className: "verdict refused" }, sign("M8 3.5V9M8 11.5V12.5"), text);
  return make("span", { className: `verdict ${known.kind}` }, sign(known.path), text);
}

function sign(path) {
  const svg = document.createElementNS(SVG, "svg");
  const parts = [["circle", { cx: 8, cy: 8, r: 7 }], ["path", { d: path }]];
  for (const [name, values] of [["viewBox", "0 0 16 16"], ["width", 16], ["height", 16], ["aria-hidden", "true"]]) {
    svg.setAttribute(name, values);
  }
  for (const [tag, values] of parts) {
    const part = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(values)) part.setAttribute(name, value);
    svg.append(part);
  }
  return svg;
}

export const count = (number) => number.toLocaleString("en");
export const decimals = (number, digits = 2) => (number === null || number === undefined ? "–" : number.toFixed(digits));
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
