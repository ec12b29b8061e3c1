/* The table of answers, for one target at a time. */

import { byId, count, decimals, make, picture, plural, verdict } from "./elements.js";

/* The cells of one target: with several targets their names carry that of the target. */
export function cellsOf(row, model, target) {
  const suffix = model.targets.length > 1 ? `_${target}` : "";
  const own = (name) => row.cells[`${name}${suffix}`] ?? null;
  const value = own("predicted"), lower = own("lower");
  return {
    prediction: value === null ? own("prediction") : figures(value),
    interval: lower === null ? null : `${figures(lower)} to ${figures(own("upper"))}`,
    probability: own("probability"),
    uncertainty: own("uncertainty"),
    set: own("conformal_set"),
    prototype: own("prototype"),
    score: row.cells.ood_score,
    domain: row.cells.domain ?? null,
    reason: row.cells.domain_reason ?? null,
    nearest: row.cells.nearest_training_molecule ?? null,
    similarity: row.cells.similarity ?? null,
    status: row.cells.status,
    message: row.cells.message,
  };
}

/* A measured number with four significant figures. */
const figures = (value) => String(Number(value.toPrecision(4)));

export const probabilityName = (model) =>
  model.task === "multiclass" ? "Probability" : `Probability of ${model.classes[1]}`;

export const isRegression = (model) => model.task === "regression";

export const intervalName = (model) => `Interval (${Math.round(100 * model.coverage)}\u00a0%)`;

export const plausibleName = (model) => `Plausible (${Math.round(100 * model.coverage)}\u00a0%)`;

/* "{a|b}" as one would say it. */
export function plausible(set) {
  if (set === null) return "–";
  const members = set.slice(1, -1);
  return members ? members.split("|").join(" or ") : "none";
}

export const nameOf = (row) => row.name || `Row ${count(row.row)}`;

/* Its number and line as far as its name does not say them; null when nothing is left to say. */
export function placeOf(row) {
  const told = [];
  if (row.name) told.push(`row ${count(row.row)}`);
  if (row.line !== row.row) told.push(`line ${count(row.line)}`);
  return told.length ? make("span", { className: "note" }, told.join(", ")) : null;
}

function headings(model) {
  const shown = [["Molecule", ""], ["Decisive atoms", ""], ["Prediction", ""]];
  if (!isRegression(model)) shown.push([probabilityName(model), "number"]);
  if (model.coverage !== null) shown.push([isRegression(model) ? intervalName(model) : plausibleName(model), ""]);
  if (model.domains) shown.push(["Domain", ""]);
  shown.push(["Nearest in training", ""], ["Similarity", "number"]);
  return shown;
}

export function showTable(model, page, target, open) {
  const columns = headings(model);
  byId("columns").replaceChildren(
    ...columns.map(([text, kind]) => make("th", { scope: "col", role: "columnheader", className: kind }, text)),
  );
  byId("rows").replaceChildren(...page.rows.map((row, place) => line(row, model, target, columns, () => open(place))));
  const first = page.rows[0]?.row ?? 0, last = page.rows.at(-1)?.row ?? 0;
  const about = model.targets.length > 1 ? ` for ${target}` : "";
  byId("caption").textContent =
    `Rows ${count(first)} to ${count(last)}${about}. Atoms glow as ${model.scored_by} says. Enter on a row opens its details.`;
}

function line(row, model, target, columns, open) {
  const cells = cellsOf(row, model, target);
  const opener = make("button", { type: "button", className: "open", onclick: open }, nameOf(row));
  const head = make("th", { scope: "row", role: "rowheader", className: "molecule" },
    opener, placeOf(row), make("code", { className: "spelling" }, row.smiles));
  const answered = cells.prediction !== null;
  const rest = answered ? answer(row, cells, model) : refusal(cells, columns.length - 1);
  const element = make("tr", { role: "row", className: answered ? "" : "without" }, head, ...rest);
  element.addEventListener("click", (event) => {
    if (!event.target.closest("button, a") && !String(getSelection())) open();
  });
  return element;
}

function cell(label, content, kind = "") {
  const element = make("td", { role: "cell", className: kind }, content);
  element.dataset.label = label;
  return element;
}

function answer(row, cells, model) {
  const drawn = row.drawing ? picture(row.drawing, `${nameOf(row)}, decisive atoms`) : "–";
  const near = row.nearest_drawing ? picture(row.nearest_drawing, cells.nearest) : "–";
  const shown = [
    cell("Decisive atoms", drawn, "wide"),
    cell("Prediction", make("strong", {}, cells.prediction)),
  ];
  if (!isRegression(model)) shown.push(cell(probabilityName(model), decimals(cells.probability), "number"));
  if (model.coverage !== null) {
    shown.push(isRegression(model) ? cell("Interval", cells.interval ?? "–") : cell("Plausible", plausible(cells.set)));
  }
  if (model.domains) shown.push(cell("Domain", verdict(cells.domain)));
  shown.push(cell("Nearest in training", near, "wide"), cell("Similarity", decimals(cells.similarity), "number"));
  return shown;
}

function refusal(cells, width) {
  const told = make("td", { role: "cell", colSpan: width, className: "refusal" },
    verdict("", `no answer: ${cells.status}`), make("span", {}, cells.message ?? ""));
  return [told];
}

/* How many rows have which verdict, and how many have no answer. */
export function showCounts(summary) {
  const items = Object.keys({ "in domain": 0, "borderline": 0, "out of domain": 0 })
    .filter((word) => summary.domains[word])
    .map((word) => make("li", {}, verdict(word, `${count(summary.domains[word])} ${word}`)));
  const refused = summary.rows - summary.answered;
  if (refused) items.push(make("li", {}, verdict("", `${plural(refused, "row")} without an answer`)));
  byId("counts").replaceChildren(make("li", {}, plural(summary.rows, "row")), ...items);
}
