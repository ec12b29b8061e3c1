/* The page: send molecules, wait, show answers. */

import { forget, getJob, getModel, getRows, mapAddress, Problem, resultAddress, send } from "./api.js";
import { openDetails } from "./details.js";
import { byId, count, decimals, make, plural } from "./elements.js";
import { showCounts, showTable } from "./table.js";

const EXAMPLE = [
  "CC(=O)Oc1ccccc1C(=O)O aspirin",
  "CN1C=NC2=C1C(=O)N(C(=O)N2C)C caffeine",
  "OC(=O)CCc1ccncc1 pyridylpropionic acid",
  "c1ccc2ccccc2c1 naphthalene",
].join("\n");
const METRICS = { roc_auc: "ROC-AUC", accuracy: "Accuracy", average_precision: "Average precision" };
const PASTED = "pasted.smi";
const JOB = "job";
const POLL = 400;
const SAY_EVERY = 4000;

const state = { model: null, job: null, page: null, target: "", sending: null };

async function start() {
  byId("form").addEventListener("submit", (event) => { event.preventDefault(); guarded(submit); });
  byId("molecules").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("form").requestSubmit();
  });
  byId("example").addEventListener("click", () => { byId("molecules").value = EXAMPLE; byId("molecules").focus(); });
  byId("cancel").addEventListener("click", cancel);
  byId("earlier").addEventListener("click", () => guarded(() => showPage(state.page.page - 1)));
  byId("later").addEventListener("click", () => guarded(() => showPage(state.page.page + 1)));
  byId("target").addEventListener("change", () => { state.target = byId("target").value; render(); });
  byId("map").addEventListener("load", fitMap);
  byId("file").addEventListener("change", showChoice);
  byId("unchoose").addEventListener("click", () => { byId("file").value = ""; showChoice(); byId("file").focus(); });
  for (const kind of ["dragover", "drop"]) byId("drop").addEventListener(kind, dropped);
  await guarded(async () => { showModel(await getModel()); });
  const known = sessionStorage.getItem(JOB);
  if (known && state.model) await guarded(() => follow(known));
}

/* Whatever fails is said on the page, with what to do. */
async function guarded(work) {
  byId("problem").hidden = true;
  try {
    await work();
  } catch (error) {
    if (error.name === "AbortError") return;
    byId("problem-error").textContent = error.message;
    byId("problem-remedy").textContent = error instanceof Problem ? error.remedy : "";
    byId("problem").hidden = false;
    say("");
  }
}

function showModel(model) {
  state.model = model;
  state.target = model.targets[0];
  const asked = model.targets.length > 3 ? `${model.targets.length} targets` : model.targets.join(", ");
  const who = model.members.length > 1 ? `committee of ${model.members.length} models` : model.method;
  byId("eyebrow").textContent = `mphil serve · ${who} · ${model.data.file ?? "own data"}`;
  byId("heading").textContent = `Predict ${asked}`;
  document.title = `Predict ${asked} · mphil`;
  byId("lead").textContent = lead(model);
  const most = `At most ${count(model.limits.file_rows)} rows and ${Math.round(model.limits.file_bytes / 1024 ** 2)} MB; more with mphil predict.`;
  byId("file-hint").textContent = most;
  byId("target").replaceChildren(...model.targets.map((name) => make("option", { value: name }, name)));
  byId("target-field").hidden = model.targets.length < 2;
}

function lead(model) {
  const told = [`Trained on ${plural(model.training_molecules, "molecule")}.`];
  if (model.data.threshold) told.push(`Active is ${model.data.threshold}.`);
  const answering = model.members.length > 1 ? model.scores.committee : model.scores[model.method];
  const shifted = answering?.ood_test ?? null;
  if (shifted !== null) told.push(`${METRICS[model.metric] ?? model.metric} ${decimals(shifted)} on test molecules unlike those of training.`);
  if (!model.domains) told.push("The bundle has no domain verdicts.");
  return [...told, ...model.notes].join(" ");
}

async function submit() {
  const [file] = byId("file").files;
  const text = byId("molecules").value;
  if (!file && !text.trim()) throw new Problem("There are no molecules.", "Paste SMILES or choose a file.");
  if (file && text.trim()) throw new Problem("There are pasted molecules and a file.", "Clear the text or take the file away.");
  if (file && file.size > state.model.limits.file_bytes) {
    throw new Problem("The file is too large.", "Use mphil predict BUNDLE FILE: it takes files of any size.");
  }
  state.sending = new AbortController();
  busy(true);
  say(file ? `Sending ${file.name}` : "Sending");
  try {
    const job = file
      ? await send(file, file.name, byId("column").value.trim(), state.sending.signal)
      : await send(pasted(text), PASTED, "", state.sending.signal);
    leave();
    await follow(job.id);
  } finally {
    busy(false);
  }
}

/* No SMILES holds a comma or a semicolon: behind the first one there is a name. */
const pasted = (text) => text.split("\n").map((line) => line.replace(/^(\s*[^\s,;]+)[,;]\s*/, "$1 ")).join("\n");

/* The answers of before are of no use to anybody once something else is wanted. */
function leave() {
  if (state.job) forget(state.job.id).catch(() => {});
  state.job = state.page = null;
  sessionStorage.removeItem(JOB);
  byId("answers").hidden = byId("map-section").hidden = true;
}

async function follow(id) {
  busy(true);
  try {
    sessionStorage.removeItem(JOB);
    const first = await getJob(id);
    sessionStorage.setItem(JOB, id);
    const job = await finished(first);
    if (!job) return;
    if (job.state === "failed") throw new Problem(job.error, job.remedy);
    showCounts(job.summary);
    showNotes(job);
    byId("download").href = resultAddress(id);
    say("Drawing");
    await showPage(1);
    say(`${plural(job.summary.answered, "answer")} to ${plural(job.summary.rows, "row")} in ${job.summary.seconds.toFixed(1)} s.`);
  } finally {
    busy(false);
  }
}

/* The job once it is over, or null when a user cancelled it meanwhile. */
async function finished(job) {
  let said = 0;
  const wanted = () => state.job?.id === job.id;
  state.job = job;
  while (!["done", "failed"].includes(state.job.state)) {
    showProgress(state.job);
    if (Date.now() - said > SAY_EVERY) { said = Date.now(); say(progressText(state.job)); }
    await new Promise((done) => { setTimeout(done, POLL); });
    const next = wanted() && await getJob(job.id).catch((error) => { if (wanted()) throw error; });
    if (!wanted()) return null;
    state.job = next;
  }
  return state.job;
}

function showNotes({ name, summary: { notes, escaped, column } }) {
  const told = name === PASTED ? [...notes] : [`${name}: molecules in column ${column}`, ...notes];
  if (escaped) told.push(`In the CSV, an apostrophe stands before ${plural(escaped, "cell")} that a spreadsheet would run as a formula.`);
  byId("notes").replaceChildren(...told.map((note) => make("li", {}, note)));
}

async function showPage(number) {
  state.page = await getRows(state.job.id, number);
  render();
}

function render() {
  const { model, page, target, job } = state;
  byId("answers").hidden = false;
  showTable(model, page, target, (place) => openDetails(page.rows, place, model, target, (last) => {
    byId("rows").querySelectorAll(".open")[last]?.focus();
  }));
  byId("pages").hidden = page.pages < 2;
  byId("page").textContent = `Page ${count(page.page)} of ${count(page.pages)}`;
  byId("earlier").disabled = page.page === 1;
  byId("later").disabled = page.page === page.pages;
  const drawn = page.rows.filter((row) => row.drawing).length;
  byId("map-section").hidden = !drawn;
  byId("map-text").textContent = `${plural(drawn, "molecule")} of the table above among training molecules, placed by the `
    + `direction of the embedding; stars are ${model.prototypes ? "prototypes" : "the mean directions of the classes or levels"}. `
    + "Hover over a point, or tap it, to see the molecule; drag or use the arrow keys to turn.";
  if (drawn) byId("map").contentWindow.location.replace(mapAddress(job.id, page.page, target));
}

/* The frame is as high as what is in it. */
function fitMap() {
  const frame = byId("map"), inside = frame.contentDocument?.body;
  if (!inside) return;
  new ResizeObserver(() => { frame.height = inside.scrollHeight; }).observe(inside);
}

function showProgress(job) {
  const bar = byId("progress");
  bar.hidden = false;
  if (job.rows_expected) [bar.max, bar.value] = [job.rows_expected, job.rows_done];
  else bar.removeAttribute("value");
}

function progressText(job) {
  if (job.state === "waiting") return job.ahead ? `Waiting for ${plural(job.ahead, "other file")}` : "Waiting";
  if (!job.rows_expected) return "Reading the file";
  return `${count(job.rows_done)} of about ${plural(job.rows_expected, "row")}`;
}

function cancel() {
  state.sending?.abort();
  leave();
  busy(false);
  say("Cancelled.");
  byId("predict").focus();
}

function busy(working) {
  byId("predict").disabled = working;
  byId("cancel").hidden = !working;
  if (!working) byId("progress").hidden = true;
}

function dropped(event) {
  event.preventDefault();
  if (event.type === "drop" && event.dataTransfer.files.length) byId("file").files = event.dataTransfer.files;
  showChoice();
}

function showChoice() {
  byId("unchoose").hidden = !byId("file").files.length;
}

const say = (text) => { byId("status").textContent = text; };

start();
