/* The server, as functions. What goes wrong is thrown with what to do about it. */

export class Problem extends Error {
  constructor(error, remedy = "") {
    super(error);
    this.remedy = remedy;
  }
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not answer.", "Is `mphil serve` still running? Start it again and reload.");
  }
  if (response.ok) return response.status === 204 ? null : response.json();
  const told = await response.json().catch(() => ({ error: `${response.status} ${response.statusText}`, remedy: "" }));
  throw new Problem(told.error, told.remedy);
}

export const getModel = () => ask("/api/model");
export const getJob = (id) => ask(`/api/jobs/${id}`);
export const getRows = (id, page) => ask(`/api/jobs/${id}/rows?page=${page}`);
export const forget = (id) => ask(`/api/jobs/${id}`, { method: "DELETE" });
export const resultAddress = (id) => `/api/jobs/${id}/result.csv`;
export const mapAddress = (id, page, target) => `/map/${id}?${new URLSearchParams({ page, target })}`;

export function send(body, name, column, signal) {
  const query = new URLSearchParams(column ? { name, column } : { name });
  const headers = { "content-type": "application/octet-stream" };
  return ask(`/api/files?${query}`, { method: "POST", headers, body, signal });
}

export function explain(smiles, target) {
  const headers = { "content-type": "application/json" };
  return ask("/api/explain", { method: "POST", headers, body: JSON.stringify({ smiles: [smiles], target }) });
}
