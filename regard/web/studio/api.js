// Requests to the server. Without one, answers come from precomputed examples in the folder `examples`.

/** @typedef {{method: string, path: string, body?: unknown, answer: unknown}} Kept */
/** @typedef {{code: string, message: string}} Failure */

const SERVER = new URL("/", globalThis.location?.href ?? "http://localhost/");

/** @type {"unknown" | "live" | "static" | "locked"} */
let mode = "unknown";
let token = "";
/** @type {Map<string, Promise<Kept[]>>} */
const files = new Map();
/** @type {Map<string, unknown>} */
const remembered = new Map();

/** An error to display: `message` is a sentence. */
export class ApiError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** @param {string} given the token, for a server started with one */
export function presentToken(given) {
  token = given;
}

/** @param {Record<string, string>} [more] */
function headers(more) {
  return { accept: "application/json", ...(token ? { authorization: `Bearer ${token}` } : {}), ...more };
}

export function currentMode() {
  return mode;
}

/**
 * Find out whether there is a server, and which models it has.
 * @returns {Promise<import("./types.js").ModelRow[]>}
 */
export async function connect() {
  try {
    const answer = await fetch(new URL("v1/models", SERVER), { headers: headers() });
    if (answer.status === 401) {
      mode = "locked";
      return [];
    }
    if (!answer.ok || !(answer.headers.get("content-type") ?? "").includes("json")) throw new Error();
    const models = await answer.json();
    mode = "live";
    return models;
  } catch {
    mode = "static";
    return keptModels();
  }
}

/** Reload the server's models and clear the cache: a run may have continued training. */
export async function freshModels() {
  remembered.clear();
  return call("models", undefined);
}

/** The models of the examples. @returns {Promise<import("./types.js").ModelRow[]>} */
export async function keptModels() {
  const kept = await examples("models");
  return /** @type {import("./types.js").ModelRow[]} */ (kept[0]?.answer ?? []);
}

/**
 * A file of examples: requests and the answers of a server.
 * @param {string} name
 * @returns {Promise<Kept[]>}
 */
export function examples(name) {
  let file = files.get(name);
  if (!file) {
    file = fetch(new URL(`./examples/${name}.json`, import.meta.url)).then((answer) => (answer.ok ? answer.json() : []), () => []);
    files.set(name, file);
  }
  return file;
}

/**
 * The stored answer to a request, if there is one.
 * @param {Kept[]} kept
 * @param {string} path
 * @param {unknown} body
 */
export function findExample(kept, path, body) {
  const wanted = canonical(body);
  return kept.find((each) => each.path === path && canonical(each.body) === wanted);
}

/**
 * JSON with sorted keys, so that equal requests are equal strings.
 * @param {unknown} value
 * @returns {string}
 */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value && typeof value === "object") {
    const entries = Object.entries(value).filter(([, each]) => each !== undefined).sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${entries.map(([key, each]) => `${JSON.stringify(key)}:${canonical(each)}`).join(",")}}`;
  }
  return JSON.stringify(value) ?? "null";
}

/**
 * Ask the server, unless the examples of `file` have the answer.
 * @param {string} path for instance `translate`
 * @param {unknown} body undefined: a GET
 * @param {{file?: string, signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export async function ask(path, body, { file, signal } = {}) {
  const key = `${path} ${canonical(body)}`;
  if (remembered.has(key)) return remembered.get(key);
  if (file) {
    const found = findExample(await examples(file), path, body);
    if (found) return found.answer;
  }
  if (mode === "static") throw new ApiError("static", "");
  const answer = await call(path, body, signal);
  if (remembered.size > 200) remembered.clear();
  remembered.set(key, answer);
  return answer;
}

/**
 * Ask the server, bypassing the cache.
 * @param {string} path
 * @param {unknown} body
 * @param {AbortSignal} [signal]
 */
export async function call(path, body, signal) {
  /** @type {Response} */
  let answer;
  try {
    answer = await fetch(new URL(`v1/${path}`, SERVER), body === undefined
      ? { signal, headers: headers() }
      : { method: "POST", headers: headers({ "content-type": "application/json" }), body: JSON.stringify(body), signal });
  } catch (problem) {
    if (signal?.aborted) throw problem;
    throw new ApiError("unreachable", "");
  }
  /** @type {any} */
  let content = null;
  try {
    content = await answer.json();
  } catch {
    throw new ApiError("unreachable", "");
  }
  if (!answer.ok) throw new ApiError(content?.error?.code ?? String(answer.status), content?.error?.message ?? "");
  return content;
}
