// The attention of a whole model: its heads as thumbnails, one of them large.

import { alignment } from "./alignment.js";
import { heads } from "./heads.js";
import { decodeMatrix, shrink } from "./matrix.js";
import { addStyle, fill, make, shown } from "./style.js";

/** @typedef {import("./matrix.js").Matrix} Matrix */
/** @typedef {import("./matrix.js").Wire} Wire */
/** @typedef {{name: string, path: string, shape: [number, number], rows: number, columns: number, heads: (Wire & {pool: number})[]}} Layer */
/** rows and columns: index of their text, or -1. pool: how many positions one cell covers, on each axis. */
/** @typedef {{name: string, layers: Layer[]}} Group */
/** @typedef {{groups: Group[], texts: string[][]}} TraceData */
/** @typedef {(layer: string, head: number, first: number, count: number) => Promise<Float32Array>} FetchRows */
/** exact weights of `count` queries from `first` on, row by row */

const WORDS = {
  layer: "Layer", head: "head", attention: "Attention", looked: "looked at", query: "query", key: "key",
  pooled: "Each cell is the largest weight of {pool} × {pool}: all of this head would be too large for the page.",
  fetch: "Select a row to fetch the weights of its first query.",
  pooledHeads: "{pooled} of {heads} heads are shown pooled. For exact weights give regard.view a larger `limit` or fewer layers, or use its .widget().",
};
const WHOLE = 2 ** 20; // cells: up to this size a head is fetched whole

/**
 * @param {HTMLElement} element
 * @param {{data: TraceData, fetchRows?: FetchRows, words?: Partial<typeof WORDS & import("./heatmap.js").HeatmapOptions["words"]>}} options
 */
export function trace(element, { data, fetchRows, words: given }) {
  const words = { ...WORDS, ...given };
  addStyle(element);
  const view = make("div", "rg-view", element);
  const chips = make("div", "rg-chips", view);
  const body = make("div", "rg-trace", view);
  const left = make("div", "rg-left", body), right = make("div", "", body);
  const title = make("h2", "rg-title", right), box = make("div", "", right), note = make("p", "rg-note", right);
  const wordsIn = make("div", "rg-fit");
  title.setAttribute("aria-live", "polite");
  const every = data.groups.flatMap((each) => each.layers.flatMap((layer) => layer.heads));
  const pooled = fetchRows ? 0 : every.filter((head) => head.pool > 1).length;
  make("p", "rg-note", view).textContent = pooled ? fill(words.pooledHeads, { pooled, heads: every.length }) : "";
  /** @type {Map<string, Matrix>} */
  const exact = new Map();
  let group = data.groups[0];
  let chosen = /** @type {[number, number]} */ ([0, 0]);
  let asked = 0;
  let row = -1;
  /** @type {ReturnType<typeof alignment> | undefined} */
  let large;

  for (const each of data.groups) {
    const chip = make("button", "", chips);
    chip.type = "button";
    chip.textContent = each.name;
    chip.addEventListener("click", () => {
      group = each;
      grid.update(gridOptions());
      press();
      void show(0, 0);
    });
  }
  chips.style.display = data.groups.length > 1 ? "" : "none";

  function press() {
    for (const [i, chip] of [...chips.children].entries()) chip.setAttribute("aria-pressed", String(data.groups[i] === group));
  }

  function gridOptions() {
    const count = Math.max(...group.layers.map((layer) => layer.heads.length));
    return {
      layers: group.layers.length, heads: count, names: group.layers.map((layer) => layer.name), label: group.name,
      selected: /** @type {[number, number]} */ ([0, 0]),
      size: Math.max(22, Math.min(40, Math.floor(430 / count))), words,
    };
  }

  const grid = heads(make("div", "", left), {
    ...gridOptions(),
    thumbnail: async (layer, head) => {
      const wire = group.layers[layer]?.heads[head];
      return wire ? shrink(await decodeMatrix(wire), 40) : null;
    },
    onSelect: (layer, head) => void show(layer, head),
  });

  left.append(wordsIn);

  /** @param {Layer} layer @param {"rows" | "columns"} axis @param {number} pool @returns {string[] | undefined} */
  function names(layer, axis, pool) {
    const text = data.texts[layer[axis]];
    if (!text || pool === 1) return text;
    const found = [];
    for (let i = 0; i < text.length; i += pool) found.push(`${text[i]} …`);
    return found;
  }

  /** @param {number} layerNumber @param {number} head */
  async function show(layerNumber, head) {
    const ticket = ++asked, layer = group.layers[layerNumber], wire = layer?.heads[head];
    if (!wire) return;
    chosen = [layerNumber, head];
    const key = `${layer.path} ${head}`, small = layer.shape[0] * layer.shape[1] <= WHOLE;
    const matrix = exact.get(key) ?? await decodeMatrix(wire);
    if (ticket !== asked) return;
    draw(layer, head, matrix, exact.has(key) ? 1 : wire.pool);
    if (wire.pool === 1 || exact.has(key) || !fetchRows || !small) return;
    const values = await fetchRows(layer.path, head, 0, layer.shape[0]);
    const whole = { rows: layer.shape[0], columns: layer.shape[1], values };
    exact.set(key, whole);
    if (ticket === asked) draw(layer, head, whole, 1);
  }

  /** @param {Layer} layer @param {number} head @param {Matrix} matrix @param {number} pool */
  function draw(layer, head, matrix, pool) {
    const rows = names(layer, "rows", pool), columns = names(layer, "columns", pool);
    const same = layer.rows >= 0 && layer.rows === layer.columns;
    const of = layer.name ? `${words.layer} ${layer.name}` : words.attention;
    title.textContent = layer.heads.length > 1 ? `${of}, ${words.head} ${head}` : of;
    title.title = layer.path;
    note.textContent = pool === 1 ? "" : `${fill(words.pooled, { pool })} ${fetchRows ? words.fetch : ""}`;
    const options = { matrix, rows, columns, same, label: `${layer.path}, ${words.head} ${head}`, wordsIn, words };
    if (large) large.update(options);
    else large = alignment(box, { ...options, names: [words.query, words.key], onSelect: (found) => void selected(found) });
    row = Math.min(row, matrix.rows - 1);
  }

  /** @param {number} found */
  async function selected(found) {
    row = found;
    const layer = group.layers[chosen[0]], pool = layer.heads[chosen[1]].pool, ticket = asked;
    if (pool === 1 || !fetchRows || exact.has(`${layer.path} ${chosen[1]}`)) return;
    const query = found * pool, values = await fetchRows(layer.path, chosen[1], query, 1);
    if (ticket !== asked || row !== found) return;
    const best = [...values.keys()].sort((a, b) => values[b] - values[a]).slice(0, 5);
    const name = (/** @type {"rows" | "columns"} */ axis, /** @type {number} */ i) => `${data.texts[layer[axis]]?.[i] ?? ""} (${i})`.trim();
    note.textContent = `“${name("rows", query)}” ${words.looked} ${best.map((i) => `${name("columns", i)} ${shown(values[i])}`).join(", ")}.`;
  }

  function fit() {
    body.classList.toggle("rg-narrow", element.clientWidth < grid.width() + 420);
  }

  view.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { "[": [0, -1], "]": [0, 1], "{": [-1, 0], "}": [1, 0] }[event.key];
    if (!step) return;
    const layer = chosen[0] + step[0], head = chosen[1] + step[1];
    if (!group.layers[layer]?.heads[head]) return;
    event.preventDefault();
    grid.update({ selected: [layer, head] });
    void show(layer, head);
  });

  press();
  const ready = show(0, 0);
  const size = new ResizeObserver(fit);
  size.observe(element);
  fit();

  return {
    ready,
    /** @param {{layer: number, head: number}} data */
    update({ layer, head }) {
      grid.update({ selected: [layer, head] });
      return show(layer, head);
    },
    destroy() {
      size.disconnect();
      grid.destroy();
      large?.destroy();
      view.remove();
    },
    toPNG: () => large?.toPNG(),
    toSVG: () => large?.toSVG(),
  };
}
