// Curves between words, source above and target below; the width of a curve is the weight.

import { strongest } from "./matrix.js";
import { themeOf } from "./palette.js";
import { addStyle, escapeXml, make, pictureOf, shown } from "./style.js";

/** @typedef {import("./matrix.js").Matrix} Matrix */
/**
 * @typedef {object} CurvesOptions
 * @property {Matrix} matrix one row per target word
 * @property {string[]} rows target words, below
 * @property {string[]} columns source words, above
 * @property {number} [selected] a row that stays marked
 * @property {(row: number, column: number) => void} [onHover] the index that is not pointed at is -1
 * @property {(row: number) => void} [onSelect]
 * @property {string} [label]
 * @property {number} [height]
 * @property {number} [least] smaller weights have no curve
 * @property {(row: number, column: number) => string} [say] replaces the sentence below
 * @property {Partial<typeof WORDS>} [words]
 */

const WORDS = { looked: "looked at", by: "was looked at by", nothing: "nothing", hint: "Point at a word. Thick lines: most of the attention.", curves: "curves between words" };
const SVG = "http://www.w3.org/2000/svg";
const GAP = 7;
const FONT = { largest: 14, smallest: 11 };

/** Centres of the words in a line: evenly spread, without overlaps.
 * @param {number[]} widths @param {number} room @returns {number[]} */
export function spread(widths, room) {
  const sum = widths.reduce((a, b) => a + b, 0);
  const gap = Math.max(GAP, (room - sum) / (widths.length + 1));
  let x = gap;
  return widths.map((width) => {
    const middle = x + width / 2;
    x += width + gap;
    return middle;
  });
}

/** @param {number[]} widths @returns the least room they need */
export function needed(widths) {
  return widths.reduce((a, b) => a + b + GAP, GAP);
}

/** @param {HTMLElement} element @param {CurvesOptions} given */
export function curves(element, given) {
  let options = { ...given };
  let words = { ...WORDS, ...options.words };
  addStyle(element);
  const view = make("div", "rg-view", element);
  const box = make("div", "rg-curves", view);
  const below = make("div", "rg-below", view);
  const say = make("output", "rg-say", below);
  say.setAttribute("aria-live", "polite");
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("role", "group");
  box.append(svg);
  let hot = { row: -1, column: -1 };
  let total = 0;
  /** @type {{path: SVGPathElement, row: number, column: number}[]} */
  let paths = [];
  /** @type {{rows: SVGTextElement[], columns: SVGTextElement[]}} */
  let texts = { rows: [], columns: [] };
  let focused = { axis: /** @type {"rows" | "columns"} */ ("rows"), index: 0 };

  /** @param {number} row @param {number} column */
  function weight(row, column) {
    return options.matrix.values[row * options.matrix.columns + column];
  }

  /** @param {number} font */
  function measure(font) {
    const pen = document.createElement("canvas").getContext("2d");
    if (pen) pen.font = `600 ${font}px ${getComputedStyle(view).fontFamily || "sans-serif"}`;
    const width = (/** @type {string} */ word) => (pen ? pen.measureText(word || "␣").width : 8 * word.length) + 2;
    return { rows: options.rows.map(width), columns: options.columns.map(width) };
  }

  function build() {
    total = element.clientWidth;
    let font = FONT.largest, widths = measure(font);
    const least = () => Math.max(needed(widths.rows), needed(widths.columns));
    while (least() > total - 2 && font > FONT.smallest) widths = measure(--font);
    const width = Math.max(total - 2, least()); // and scroll
    const height = options.height ?? 300, top = 22, bottom = height - 14;
    const across = { rows: spread(widths.rows, width), columns: spread(widths.columns, width) };
    svg.setAttribute("width", String(width));
    svg.setAttribute("height", String(height));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("font-size", String(font));
    svg.setAttribute("aria-label", options.label ?? words.curves);
    svg.replaceChildren();
    paths = [];
    const smallest = options.least ?? 0.03, { rows, columns } = options.matrix;
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const share = weight(row, column);
        if (!(share >= smallest)) continue;
        const path = document.createElementNS(SVG, "path");
        const a = across.columns[column], b = across.rows[row], y0 = top + 9, y1 = bottom - 18, middle = (y0 + y1) / 2;
        path.setAttribute("d", `M${a.toFixed(1)},${y0} C${a.toFixed(1)},${middle} ${b.toFixed(1)},${middle} ${b.toFixed(1)},${y1}`);
        path.setAttribute("stroke-width", (1 + 9 * Math.min(1, share)).toFixed(2));
        path.style.opacity = (0.12 + 0.75 * Math.min(1, share)).toFixed(3);
        svg.append(path);
        paths.push({ path, row, column });
      }
    }
    texts = {
      columns: options.columns.map((word, i) => text("columns", word, i, across.columns[i], top)),
      rows: options.rows.map((word, i) => text("rows", word, i, across.rows[i], bottom)),
    };
    mark();
  }

  /** @param {"rows" | "columns"} axis @param {string} word @param {number} index @param {number} x @param {number} y */
  function text(axis, word, index, x, y) {
    const made = document.createElementNS(SVG, "text");
    made.textContent = word || "␣";
    made.setAttribute("x", x.toFixed(1));
    made.setAttribute("y", String(y));
    made.setAttribute("text-anchor", "middle");
    made.setAttribute("role", "button");
    made.setAttribute("aria-label", sentenceOf(axis, index));
    made.setAttribute("tabindex", axis === focused.axis && index === focused.index ? "0" : "-1");
    const on = () => (axis === "rows" ? point(index, -1) : point(-1, index));
    made.addEventListener("pointerenter", on);
    made.addEventListener("focus", () => {
      texts[focused.axis][focused.index]?.setAttribute("tabindex", "-1");
      focused = { axis, index };
      made.setAttribute("tabindex", "0");
      on();
    });
    made.addEventListener("click", () => { if (axis === "rows") options.onSelect?.(index); });
    made.addEventListener("keydown", (event) => move(event, axis, index));
    svg.append(made);
    return made;
  }

  /** @param {KeyboardEvent} event @param {"rows" | "columns"} axis @param {number} index */
  function move(event, axis, index) {
    const list = texts[axis], other = axis === "rows" ? "columns" : "rows";
    const best = strongest(options.matrix, index, 1, axis === "rows" ? "row" : "column")[0]?.index ?? 0;
    const next = {
      ArrowLeft: list[index - 1], ArrowRight: list[index + 1], Home: list[0], End: list[list.length - 1],
      ArrowUp: axis === "rows" ? texts[other][best] : undefined, ArrowDown: axis === "columns" ? texts[other][best] : undefined,
    }[event.key];
    if (event.key === "Enter" && axis === "rows") options.onSelect?.(index);
    else if (event.key === "Escape") point(-1, -1);
    else if (next) next.focus();
    else return;
    event.preventDefault();
  }

  /** @param {"rows" | "columns"} axis @param {number} index */
  function sentenceOf(axis, index) {
    const isRow = axis === "rows", others = isRow ? options.columns : options.rows;
    const best = strongest(options.matrix, index, 3, isRow ? "row" : "column");
    const list = best.map((found) => `${others[found.index].trim()} ${shown(found.weight)}`).join(", ");
    return `“${options[axis][index].trim()}” ${isRow ? words.looked : words.by} ${list || words.nothing}`;
  }

  /** @param {number} row @param {number} column @param {boolean} [tell] */
  function point(row, column, tell = true) {
    if (row === hot.row && column === hot.column) return;
    hot = { row, column };
    if (tell) options.onHover?.(row, column);
    mark();
  }

  function mark() {
    const row = hot.row >= 0 || hot.column >= 0 ? hot.row : options.selected ?? -1, column = row >= 0 ? -1 : hot.column;
    const any = row >= 0 || column >= 0;
    for (const each of paths) {
      const on = each.row === row || each.column === column;
      each.path.setAttribute("class", any ? (on ? "rg-on" : "rg-dim") : "");
    }
    for (const [i, each] of texts.rows.entries()) put(each, i === row, row >= 0 || weight(i, column) <= 0.15);
    for (const [i, each] of texts.columns.entries()) put(each, i === column, column >= 0 || weight(row, i) <= 0.15);
    /** @param {Element} each @param {boolean} on @param {boolean} far */
    function put(each, on, far) {
      each.setAttribute("class", on ? "rg-on" : any && far ? "rg-dim" : "");
    }
    if (hot.row < 0 && hot.column < 0 && row >= 0 && texts.rows[row]) { // keep the playing word visible in a scrolling box
      box.scrollLeft = Number(texts.rows[row].getAttribute("x")) - box.clientWidth / 2;
    }
    if (options.say) say.textContent = options.say(row, column);
    else say.textContent = row >= 0 ? sentenceOf("rows", row) : column >= 0 ? sentenceOf("columns", column) : words.hint;
  }

  svg.addEventListener("pointerleave", () => point(-1, -1));
  build();
  const size = new ResizeObserver(() => { if (element.clientWidth !== total) build(); });
  size.observe(element);

  function toSVG() {
    const { colours } = themeOf(element);
    const copy = /** @type {SVGSVGElement} */ (svg.cloneNode(true));
    copy.setAttribute("xmlns", SVG);
    copy.setAttribute("font-family", getComputedStyle(view).fontFamily || "sans-serif");
    for (const each of copy.querySelectorAll("path")) {
      each.setAttribute("fill", "none");
      each.setAttribute("stroke-linecap", "round");
      each.setAttribute("stroke", each.classList.contains("rg-on") ? colours.strong : colours.accent);
      each.setAttribute("opacity", each.classList.contains("rg-dim") ? "0.05" : each.style.opacity);
    }
    for (const each of copy.querySelectorAll("text")) {
      each.setAttribute("fill", each.classList.contains("rg-on") ? colours.strong : colours.ink);
      if (each.classList.contains("rg-dim")) each.setAttribute("opacity", "0.25");
    }
    for (const each of copy.querySelectorAll("*")) {
      for (const name of ["class", "style", "tabindex", "role", "aria-label"]) each.removeAttribute(name);
    }
    return `<svg ${[...copy.attributes].map(({ name, value }) => `${name}="${escapeXml(value)}"`).join(" ")}>` +
      `<rect width="100%" height="100%" fill="${colours.paper}"/>${copy.innerHTML}</svg>\n`;
  }

  return {
    /** @param {Partial<CurvesOptions>} data */
    update(data) {
      const before = options.matrix, held = svg.contains(document.activeElement);
      options = { ...options, ...data };
      words = { ...WORDS, ...options.words };
      const onlySelected = Object.keys(data).every((key) => key === "selected");
      if (onlySelected) return mark();
      if (before.rows !== options.matrix.rows || before.columns !== options.matrix.columns) {
        hot = { row: -1, column: -1 };
        focused = { axis: "rows", index: 0 };
      }
      build();
      if (held) texts[focused.axis][focused.index]?.focus({ preventScroll: true });
      return undefined;
    },
    /** @param {number} row @param {number} column */
    highlight(row, column) {
      point(row, column, false);
    },
    destroy() {
      size.disconnect();
      view.remove();
    },
    toSVG,
    /** @returns {Promise<Blob>} */
    toPNG() {
      return pictureOf(toSVG(), Number(svg.getAttribute("width")), Number(svg.getAttribute("height")));
    },
  };
}
