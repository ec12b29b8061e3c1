/* One molecule in full: large drawing, ranked parts, nearest prototypes. */

import { explain, Problem } from "./api.js";
import { byId, count, decimals, make, picture, verdict } from "./elements.js";
import { cellsOf, intervalName, isRegression, nameOf, placeOf, plausible, plausibleName, probabilityName } from "./table.js";

const dialog = byId("details");
const body = byId("details-body");
let shown = null;

byId("close").addEventListener("click", () => dialog.close());
byId("previous").addEventListener("click", () => step(-1));
byId("next").addEventListener("click", () => step(1));
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
dialog.addEventListener("close", () => shown?.closed(shown.place));

function step(by) {
  if (shown.rows[shown.place + by]) show({ ...shown, place: shown.place + by });
}

/* `closed` is told which row was looked at last. */
export function openDetails(rows, place, model, target, closed) {
  show({ rows, place, model, target, closed });
  dialog.showModal();
  byId("details-heading").focus();
}

async function show(state) {
  shown = state;
  const { rows, place, model, target } = state;
  const row = rows[place];
  byId("details-heading").textContent = nameOf(row);
  byId("previous").disabled = place === 0;
  byId("next").disabled = place === rows.length - 1;
  const smiles = make("p", { className: "smiles" }, placeOf(row), " ", make("code", {}, row.smiles));
  if (row.cells.status !== "ok") {
    body.replaceChildren(smiles, make("p", {}, verdict("", `no answer: ${row.cells.status}`)), make("p", {}, row.cells.message ?? ""));
    return;
  }
  body.replaceChildren(smiles, make("p", { className: "note" }, "Explaining …"));
  let told;
  try {
    told = await explain(row.canonical ?? row.smiles, target);
  } catch (error) {
    if (shown !== state) return;
    const text = error instanceof Problem ? `${error.message} ${error.remedy}` : String(error);
    body.replaceChildren(smiles, make("p", {}, text));
    return;
  }
  if (shown !== state) return;
  fill(told, row, smiles, model, target);
}

function fill(told, row, smiles, model, target) {
  const { reasons, nearest_drawing: near } = told.rows[0];
  const cells = cellsOf(row, model, target);
  if (!reasons) {
    body.replaceChildren(smiles, make("p", {}, told.rows[0].cells.message ?? ""));
    return;
  }
  const large = picture(reasons.drawing, `${nameOf(row)}, decisive atoms`, "drawing large");
  body.replaceChildren(
    make("div", { className: "split" },
      make("figure", {}, large, make("figcaption", {}, glow(told, model)), smiles),
      make("div", {}, facts(cells, model, target), parts(reasons, large, model))),
    make("div", { className: "split" }, prototypes(told, reasons), nearest(cells, near)),
  );
}

const glow = (told, model) => `Atoms glow as ${told.scored_by} says.`
  + (model.targets.length > 1 ? " Atoms and changes are averaged over all targets." : "");

function facts(cells, model, target) {
  const entries = [["Prediction", model.targets.length > 1 ? `${target}: ${cells.prediction}` : cells.prediction]];
  if (isRegression(model)) {
    if (model.coverage !== null) entries.push([intervalName(model), cells.interval ?? "–"]);
  } else {
    entries.push([probabilityName(model), decimals(cells.probability, 3)]);
    if (model.coverage !== null) entries.push([plausibleName(model), plausible(cells.set)]);
  }
  if (cells.uncertainty !== null) entries.push(["Spread of the models", decimals(cells.uncertainty, 3)]);
  if (model.domains) entries.push(["Domain", verdict(cells.domain)]);
  if (cells.reason) entries.push(["Why", cells.reason]);
  entries.push(["Distance from training", decimals(cells.score, 3)]);
  return make("dl", {}, ...entries.map(([name, value]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

function parts(reasons, large, model) {
  if (!reasons.parts.length) return make("p", { className: "note" }, "It has no part that could be hidden.");
  const plain = large.src;
  const lines = reasons.parts.map((part) => {
    let name = part.name ? make("span", {}, part.name) : make("code", {}, part.smiles);
    if (part.drawing) {
      name = make("button", { type: "button", className: "part" }, name);
      name.setAttribute("aria-pressed", "false");
      name.addEventListener("click", () => {
        const chosen = name.getAttribute("aria-pressed") === "true";
        for (const other of body.querySelectorAll(".part")) other.setAttribute("aria-pressed", "false");
        name.setAttribute("aria-pressed", String(!chosen));
        large.src = chosen ? plain : `data:image/svg+xml,${encodeURIComponent(part.drawing)}`;
      });
    }
    return make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, part.kind),
      make("td", { className: "number" }, decimals(part.importance)),
      make("td", { className: "number" }, `${part.change < 0 ? "−" : "+"}${Math.abs(part.change).toFixed(3)}`));
  });
  const heads = [["Part", ""], ["Kind", ""], ["Importance", "number"], ["Change", "number"]];
  const shown = isRegression(model) ? "predicted number" : probabilityName(model).replace("P", "p");
  const caption = `Parts, the most coloured first. Change: what becomes of the ${shown} without the part. Press a part to outline it.`;
  const told = reasons.disagreement ? make("p", { className: "note" }, reasons.disagreement) : null;
  return make("div", {}, told, make("div", { className: "scroll parts", role: "region", label: "Parts of the molecule", tabIndex: 0 },
    make("table", {}, make("caption", {}, caption),
      make("thead", {}, make("tr", {}, ...heads.map(([text, kind]) => make("th", { scope: "col", className: kind }, text)))),
      make("tbody", {}, ...lines))));
}

function prototypes(told, reasons) {
  const word = told.prototypes ? "prototype" : "class centre";
  const figures = reasons.prototypes.map((one) => make("figure", {},
    one.drawing ? picture(one.drawing, one.molecule) : null,
    make("figcaption", {}, make("strong", {}, told.prototypes ? `${one.class_name}, ${word} ${one.number}` : one.class_name),
      `: similarity ${decimals(one.similarity)}; ` + (one.members
        ? `stands for ${count(one.members)} training molecules, the nearest is drawn` : "not in use"))));
  const content = figures.length ? make("div", { className: "cards" }, ...figures)
    : make("p", { className: "note" }, "The method has none.");
  return make("div", {}, make("h3", {}, `Nearest ${word}s`), content);
}

function nearest(cells, drawing) {
  const figure = drawing
    ? make("div", { className: "cards" }, make("figure", {}, picture(drawing, cells.nearest), make("figcaption", {},
      `Tanimoto similarity ${decimals(cells.similarity)}`, make("br"), make("code", { className: "spelling" }, cells.nearest))))
    : make("p", { className: "note" }, "There is none.");
  return make("div", {}, make("h3", {}, "Nearest training molecule"), figure);
}
