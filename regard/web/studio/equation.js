// Splits equations into symbols that link to what they stand for. Pure functions.

/** @typedef {{text: string, shows: string}} Piece `shows` is empty if there is no link */

// a word, or one letter with its marks and its subscript: q_t, w_{t-1}, h̄_s, α
const SYMBOL = /[A-Za-z]{2,}|\p{L}\p{M}*(?:_\{[^}]*\}|_\p{L}\p{M}*)?/gu;

/**
 * @param {string} equation
 * @param {Record<string, string>} symbols what each symbol shows
 * @returns {Piece[]}
 */
export function pieces(equation, symbols) {
  return equation.split("\n").flatMap((line, number) => [...(number ? [{ text: "\n", shows: "" }] : []), ...piecesOf(line, symbols)]);
}

/** @param {string} line @param {Record<string, string>} symbols @returns {Piece[]} */
function piecesOf(line, symbols) {
  const end = line.search(/ {3,}[^=]*$/); // start of the reference: (equation 5)
  const formula = end < 0 ? line : line.slice(0, end);
  /** @type {Piece[]} */
  const found = [];
  let at = 0;
  for (const { 0: text, index } of formula.matchAll(SYMBOL)) {
    const shows = symbols[text] ?? symbols[text.split("_")[0]] ?? "";
    if (!shows) continue;
    if (index > at) found.push({ text: formula.slice(at, index), shows: "" });
    found.push({ text, shows });
    at = index + text.length;
  }
  found.push({ text: line.slice(at), shows: "" });
  return found.filter((each) => each.text);
}
