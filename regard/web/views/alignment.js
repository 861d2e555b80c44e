// A readable matrix: words shaded by the attention of the word under the pointer, and a heat map.

import { heatmap } from "./heatmap.js";
import { addStyle, make } from "./style.js";
import { words } from "./words.js";

/** @typedef {import("./matrix.js").Matrix} Matrix */
/**
 * @typedef {object} AlignmentOptions
 * @property {Matrix} matrix
 * @property {string[]} [rows]
 * @property {string[]} [columns]
 * @property {boolean} [same] rows and columns are the same text
 * @property {number} [selected]
 * @property {[number, number][]} [marks]
 * @property {[string, string]} [names] of rows and columns
 * @property {string} [label]
 * @property {HTMLElement} [wordsIn] container of the words; default: beside the map
 * @property {(row: number) => void} [onSelect]
 * @property {(row: number, column: number) => string} [say]
 * @property {import("./heatmap.js").HeatmapOptions["words"]} [words] the map's texts, in another language
 */

const MOST = 1500; // longest text shown word by word
const WIDE = 760; // pixels from which words and map are side by side

/** @param {HTMLElement} element @param {AlignmentOptions} given */
export function alignment(element, given) {
  let options = { ...given };
  addStyle(element);
  const view = make("div", "rg-columns", element);
  const left = make("div", ""), right = make("div", "");
  (options.wordsIn ?? view).append(left);
  view.append(right);
  let selected = options.selected ?? -1;

  /** @param {number} row */
  function select(row) {
    selected = row;
    map.update({ selected: row });
    list?.update({ selected: row });
    options.onSelect?.(row);
  }

  function wordOptions() {
    const { matrix, rows = [], columns = [], same, marks, names } = options;
    return { matrix, rows, columns, same, marks, names, selected };
  }

  function makeWords() {
    const { rows, columns, matrix } = options;
    if (!rows || !columns || matrix.rows > MOST || matrix.columns > MOST) return undefined;
    return words(left, {
      ...wordOptions(), onSelect: select,
      // in a single text every word is a row; otherwise source words mark columns
      onHover: (row, column) => map.highlight(row, column),
    });
  }

  function fit() {
    view.classList.toggle("rg-narrow", options.wordsIn !== undefined || element.clientWidth < WIDE || !list);
    left.style.display = list ? "" : "none";
  }

  const map = heatmap(right, {
    ...mapOptions(), onSelect: select, onHover: (row, column) => list?.highlight(row, row >= 0 ? -1 : column),
  });
  let list = makeWords();
  fit();

  function mapOptions() {
    const { matrix, rows, columns, marks, label, say, words: said } = options;
    return { matrix, rows, columns, marks, label, say, selected, words: said };
  }

  const size = new ResizeObserver(fit);
  size.observe(element);

  return {
    /** @param {Partial<AlignmentOptions>} data */
    update(data) {
      const before = options;
      options = { ...options, ...data };
      if (data.selected !== undefined) selected = data.selected;
      if (selected >= options.matrix.rows) selected = -1;
      map.update(mapOptions());
      if (before.rows !== options.rows || before.columns !== options.columns || before.matrix.rows !== options.matrix.rows) {
        list?.destroy();
        list = makeWords();
      } else list?.update({ matrix: options.matrix, selected });
      fit();
    },
    destroy() {
      size.disconnect();
      map.destroy();
      list?.destroy();
      left.remove();
      view.remove();
    },
    toPNG: () => map.toPNG(),
    toSVG: () => map.toSVG(),
  };
}
