// Words in sentences: positions, differences, the paths of a beam search. Pure functions.

/** @typedef {{text: string, word: number | null}} Segment */
/** @typedef {{text: string, kind: "same" | "new"}} Part */
/** @typedef {import("./types.js").Tree} Tree */

/**
 * Split a text at its words, so that each can be pointed at in the original sentence.
 * @param {string} text
 * @param {string[]} words in order; case and punctuation split off by a tokenizer may differ
 * @returns {Segment[]}
 */
export function placeWords(text, words) {
  /** @type {Segment[]} */
  const segments = [];
  const lower = text.toLowerCase();
  let at = 0;
  words.forEach((word, i) => {
    const wanted = word.trim().toLowerCase();
    const found = wanted ? lower.indexOf(wanted, at) : -1;
    if (found < 0 || found - at > 12) return;
    if (found > at) segments.push({ text: text.slice(at, found), word: null });
    at = found + wanted.length;
    segments.push({ text: text.slice(found, at), word: i });
  });
  if (at < text.length) segments.push({ text: text.slice(at), word: null });
  return segments;
}

/**
 * The words of `other`, with those missing in `base` marked as new (longest common subsequence).
 * @param {string[]} base
 * @param {string[]} other
 * @returns {Part[]}
 */
export function difference(base, other) {
  const table = Array.from({ length: base.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let i = base.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      table[i][j] = base[i] === other[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  /** @type {Part[]} */
  const parts = [];
  let i = 0;
  other.forEach((text, j) => {
    while (i < base.length && base[i] !== text && table[i + 1][j] >= table[i][j + 1]) i++;
    const same = i < base.length && base[i] === text;
    if (same) i++;
    parts.push({ text, kind: same ? "same" : "new" });
  });
  return parts;
}

/**
 * For each continuation kept by a beam search, the hypotheses that contain it.
 * @param {Tree} tree
 * @returns {number[][]}
 */
export function through({ nodes, hypotheses }) {
  /** @type {number[][]} */
  const found = nodes.map(() => []);
  hypotheses.forEach((way, rank) => {
    for (const id of way) found[id].push(rank);
  });
  return found;
}

/**
 * The approximate width of a text; CJK characters are square.
 * @param {string} text
 * @param {number} size
 */
export function textWidth(text, size) {
  let width = 0;
  for (const sign of text) width += /[⺀-鿿豈-﫿＀-￯]/u.test(sign) ? 1 : /[mwMW]/.test(sign) ? 0.9 : 0.57;
  return width * size;
}
