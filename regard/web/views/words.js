// Point at a word, and the others are shaded by its weights.

import { largest as largestOf } from "./matrix.js";
import { colourOf, levelOf, luminance, onThemeChange, themeOf } from "./palette.js";
import { addStyle, escapeXml, make, pictureOf, shown } from "./style.js";

/** @typedef {import("./matrix.js").Matrix} Matrix */
/**
 * @typedef {object} WordsOptions
 * @property {Matrix} matrix
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {boolean} [same] rows and columns are the same text, shown once
 * @property {number} [selected] the row shown while nothing is pointed at
 * @property {[number, number][]} [marks] linked words, underlined: [row, column]
 * @property {[string, string]} [names] of the rows and of the columns
 * @property {(row: number, column: number) => void} [onHover] the index that is not pointed at is -1
 * @property {(row: number) => void} [onSelect]
 */

/** @param {HTMLElement} element @param {WordsOptions} given */
export function words(element, given) {
  let options = { ...given };
  addStyle(element);
  const view = make("div", "rg-view rg-words", element);
  let theme = themeOf(element);
  let hot = { row: -1, column: -1 };
  let end = 1;
  /** @type {{rows: HTMLButtonElement[], columns: HTMLButtonElement[]}} */
  let buttons = { rows: [], columns: [] };
  /** @type {Set<string>} */
  let marked = new Set();

  function build() {
    view.replaceChildren();
    end = largestOf(options.matrix);
    marked = new Set((options.marks ?? []).map(([row, column]) => `${row} ${column}`));
    const [rowName, columnName] = options.names ?? ["target", "source"];
    const columns = options.same ? [] : side("columns", columnName);
    const rows = side("rows", options.same ? "" : rowName);
    buttons = { rows, columns: options.same ? rows : columns };
    shade();
  }

  /** @param {"rows" | "columns"} axis @param {string} name @returns {HTMLButtonElement[]} */
  function side(axis, name) {
    const line = make("div", "rg-side", view);
    if (name) make("span", "", line).textContent = name;
    const list = make("div", "rg-list", line);
    list.setAttribute("role", "group");
    if (name) list.setAttribute("aria-label", name);
    const made = options[axis].map((word, index) => {
      const button = make("button", "", list);
      button.type = "button";
      button.textContent = word || "␣";
      button.tabIndex = index ? -1 : 0;
      if (/[\u2e80-\u9fff]/.test(word)) button.lang = "zh-Hans";
      const on = () => (axis === "rows" ? point(index, -1) : point(-1, index));
      button.addEventListener("pointerenter", on);
      button.addEventListener("focus", () => {
        for (const other of made) other.tabIndex = -1;
        button.tabIndex = 0;
        on();
      });
      button.addEventListener("click", () => { if (axis === "rows") options.onSelect?.(index); });
      button.addEventListener("keydown", (event) => {
        const next = { ArrowRight: made[index + 1], ArrowDown: made[index + 1], ArrowLeft: made[index - 1], ArrowUp: made[index - 1], Home: made[0], End: made[made.length - 1] }[event.key];
        if (!next) return;
        event.preventDefault();
        next.focus();
      });
      return button;
    });
    return made;
  }

  function shade() {
    const { columns: width, values } = options.matrix;
    const byColumn = hot.row < 0 && hot.column >= 0;
    const row = hot.row >= 0 ? hot.row : options.selected ?? -1;
    const source = byColumn ? buttons.columns[hot.column] : buttons.rows[row];
    const shaded = byColumn ? buttons.rows : buttons.columns, plain = byColumn ? buttons.columns : buttons.rows;
    if (!options.same) for (const button of plain) paint(button, 0, false, button === source);
    for (const [index, button] of shaded.entries()) {
      const weight = byColumn ? values[index * width + hot.column] : row >= 0 ? values[row * width + index] : 0;
      const linked = marked.has(byColumn ? `${index} ${hot.column}` : `${row} ${index}`);
      paint(button, weight ?? 0, linked, options.same === true && button === source);
    }
  }

  /** @param {HTMLButtonElement} button @param {number} weight @param {boolean} linked @param {boolean} chosen */
  function paint(button, weight, linked, chosen) {
    const level = levelOf(weight, end);
    const key = `${level} ${linked} ${chosen} ${theme.dark}`;
    if (button.dataset.shown === key) return;
    button.dataset.shown = key;
    const colour = colourOf(level / 255, theme.dark);
    button.style.background = level ? `rgb(${colour.join(" ")})` : "";
    const light = luminance(colour) > 0.3;
    button.style.color = !level || light !== theme.dark ? "" : theme.dark ? "#12151b" : "#ffffff";
    button.dataset.weight = weight >= 0.005 * end ? shown(weight, end) : "";
    button.classList.toggle("rg-linked", linked);
    button.classList.toggle("rg-chosen", chosen);
  }

  /** @param {number} row @param {number} column @param {boolean} [tell] */
  function point(row, column, tell = true) {
    if (row === hot.row && column === hot.column) return;
    hot = { row, column };
    if (tell) options.onHover?.(row, column);
    shade();
  }

  view.addEventListener("pointerleave", () => point(-1, -1));
  build();
  const endTheme = onThemeChange(() => {
    theme = themeOf(element);
    shade();
  });

  function toSVG() {
    const box = view.getBoundingClientRect();
    const parts = [...view.querySelectorAll("button, .rg-side > span")].map((each) => {
      const place = each.getBoundingClientRect(), style = getComputedStyle(each);
      const x = place.left - box.left, y = place.top - box.top;
      return `<rect x="${x}" y="${y}" width="${place.width}" height="${place.height}" rx="5" fill="${style.backgroundColor}"/>` +
        `<text x="${x + place.width / 2}" y="${y + 16}" text-anchor="middle" fill="${style.color}">${escapeXml(each.textContent ?? "")}</text>`;
    });
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${box.width}" height="${box.height}" font-family="${escapeXml(getComputedStyle(view).fontFamily)}" font-size="14">` +
      `<rect width="100%" height="100%" fill="${theme.colours.paper}"/>${parts.join("")}</svg>\n`;
  }

  return {
    /** @param {Partial<WordsOptions>} data */
    update(data) {
      options = { ...options, ...data };
      if (data.rows || data.columns || data.marks || data.same !== undefined) {
        hot = { row: -1, column: -1 };
        return build();
      }
      if (data.matrix) end = largestOf(options.matrix);
      return shade();
    },
    /** @param {number} row @param {number} column */
    highlight(row, column) {
      point(row, column, false);
    },
    destroy() {
      endTheme();
      view.remove();
    },
    toSVG,
    /** @returns {Promise<Blob>} */
    toPNG() {
      return pictureOf(toSVG(), view.clientWidth, view.clientHeight);
    },
  };
}
