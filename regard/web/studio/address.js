// Addresses of rooms: `#/translate?model=en-fr&text=Hello`. Pure functions; app.js talks to the browser.

/** @typedef {{room: string, values: Record<string, string>}} Address */

/** @type {readonly string[]} */
export const ROOMS = ["translate", "point", "remember", "ask", "read", "see", "mechanisms", "compare", "model"];

/**
 * Parse a hash. An unknown room becomes the first one.
 * @param {string} hash
 * @returns {Address}
 */
export function readAddress(hash) {
  const [path, query] = split(hash.replace(/^#\/?/, ""), "?");
  const room = ROOMS.includes(path) ? path : ROOMS[0];
  /** @type {Record<string, string>} */
  const values = {};
  for (const [key, value] of new URLSearchParams(query)) values[key] = value;
  return { room, values };
}

/**
 * The hash that `readAddress` parses; empty values are omitted.
 * @param {string} room
 * @param {Record<string, string | number | boolean | null | undefined>} values
 */
export function writeAddress(room, values) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== "" && value !== false) query.set(key, String(value));
  }
  const text = query.toString();
  return `#/${room}${text ? `?${text}` : ""}`;
}

/**
 * Parse an integer from 0 to `most`; anything else is 0.
 * @param {string | undefined} text
 * @param {number} most
 */
export function readWhole(text, most) {
  const found = Math.floor(Number(text));
  return found > 0 ? Math.min(found, most) : 0;
}

/**
 * Points as `x,y x,y` in thousandths, which keeps addresses short.
 * @param {number[][]} points
 */
export function writePoints(points) {
  return points.map((point) => point.map((x) => Math.round(x * 1000)).join(",")).join(" ");
}

/**
 * @param {string | undefined} text
 * @returns {number[][] | null} null: no points, or not readable
 */
export function readPoints(text) {
  if (!text) return null;
  const points = text.trim().split(/\s+/).map((point) => point.split(",").map((x) => Number(x) / 1000));
  const width = points[0].length;
  const fine = points.every((point) => point.length === width && point.every((x) => Number.isFinite(x) && x >= 0 && x <= 1));
  return fine ? points : null;
}

/**
 * Rows of bits in hexadecimal, two digits per row of eight, joined by dots.
 * @param {number[][]} rows
 */
export function writeBits(rows) {
  return rows.map((row) => parseInt(row.join(""), 2).toString(16)).join(".");
}

/**
 * @param {string | undefined} text
 * @param {number} width bits of a row
 * @returns {number[][] | null}
 */
export function readBits(text, width) {
  if (!text || !/^[0-9a-f]+(\.[0-9a-f]+)*$/.test(text)) return null;
  const rows = text.split(".").map((digits) => parseInt(digits, 16));
  if (rows.some((row) => row >= 2 ** width)) return null;
  return rows.map((row) => row.toString(2).padStart(width, "0").split("").map(Number));
}

/**
 * @param {string} text
 * @param {string} mark
 * @returns {[string, string]}
 */
function split(text, mark) {
  const at = text.indexOf(mark);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}
