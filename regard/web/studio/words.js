// Words of sentences: where they stand, how two differ, what a beam has in common. Pure functions.

/** @typedef {{text: string, word: number | null}} Segment */
/** @typedef {{text: string, kind: "same" | "new"}} Part */
/** @typedef {{words: string[], leaves: number[], children: Branch[]}} Branch */

/**
 * A text cut where its words are, so that a word can be pointed at in the sentence as it is written.
 * @param {string} text
 * @param {string[]} words in their order; case may differ, as may what a tokenizer split off
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
 * The words of `other`, those that `base` does not have marked as new (longest common subsequence).
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
 * Hypotheses as a tree: what they begin with in common stands once.
 * @param {string[][]} hypotheses
 * @returns {Branch}
 */
export function prefixTree(hypotheses) {
  /** @param {number[]} leaves @param {number} depth @returns {Branch} */
  const grow = (leaves, depth) => {
    /** @type {string[]} */
    const words = [];
    let at = depth;
    while (leaves.every((leaf) => at < hypotheses[leaf].length && hypotheses[leaf][at] === hypotheses[leaves[0]][at])) {
      words.push(hypotheses[leaves[0]][at]);
      at++;
    }
    /** @type {Map<string, number[]>} */
    const groups = new Map();
    if (leaves.length > 1) {
      for (const leaf of leaves) {
        const word = hypotheses[leaf][at] ?? "";
        groups.set(word, [...(groups.get(word) ?? []), leaf]);
      }
    }
    const ended = [...groups.keys()].filter((word) => word === "" && (groups.get(word)?.length ?? 0) === leaves.length);
    const children = ended.length ? [] : [...groups.values()].map((group) => grow(group, at));
    return { words, leaves, children };
  };
  return grow(hypotheses.map((_, i) => i), 0);
}

/**
 * How wide a text is at some size, about; CJK signs are square.
 * @param {string} text
 * @param {number} size
 */
export function textWidth(text, size) {
  let width = 0;
  for (const sign of text) width += /[⺀-鿿豈-﫿＀-￯]/u.test(sign) ? 1 : 0.55;
  return width * size;
}
