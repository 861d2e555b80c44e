// Drawings by hand: strokes on a grid of 36 × 36, as text in the address and as 28 × 28 pixels. Pure functions.

/** @typedef {[number, number][]} Stroke integers from 0 to 35, right and down */

const GRID = 36;
const SIDE = 28;
const RADIUS = 1.05; // of the pen, in pixels

/** @param {Stroke[]} strokes */
export function writeStrokes(strokes) {
  return strokes.map((stroke) => stroke.map(([x, y]) => x.toString(36) + y.toString(36)).join("")).join(".");
}

/**
 * @param {string} text
 * @returns {Stroke[]}
 */
export function readStrokes(text) {
  if (!/^[0-9a-z.]*$/.test(text)) return [];
  return text.split(".").filter((part) => part.length > 1).map((part) => {
    /** @type {Stroke} */
    const stroke = [];
    for (let i = 0; i + 1 < part.length; i += 2) stroke.push([parseInt(part[i], 36), parseInt(part[i + 1], 36)]);
    return stroke;
  });
}

/**
 * Ink of each pixel, in row-major order, from 0 to 255.
 * @param {Stroke[]} strokes
 * @returns {Uint8Array}
 */
export function pixelsOf(strokes) {
  const ink = new Uint8Array(SIDE * SIDE);
  const scale = SIDE / GRID;
  for (const stroke of strokes) {
    for (let i = 0; i < stroke.length; i++) {
      const [ax, ay] = stroke[Math.max(0, i - 1)];
      const [bx, by] = stroke[i];
      mark(ink, (ax + 0.5) * scale, (ay + 0.5) * scale, (bx + 0.5) * scale, (by + 0.5) * scale);
    }
  }
  return ink;
}

/** @param {Uint8Array} ink @param {number} ax @param {number} ay @param {number} bx @param {number} by */
function mark(ink, ax, ay, bx, by) {
  const dx = bx - ax;
  const dy = by - ay;
  const long = dx * dx + dy * dy;
  for (let row = 0; row < SIDE; row++) {
    for (let column = 0; column < SIDE; column++) {
      const x = column + 0.5 - ax;
      const y = row + 0.5 - ay;
      const along = long > 0 ? Math.max(0, Math.min(1, (x * dx + y * dy) / long)) : 0;
      const far = Math.sqrt((x - along * dx) ** 2 + (y - along * dy) ** 2);
      const level = Math.round(255 * Math.max(0, Math.min(1, RADIUS + 0.5 - far)));
      const place = row * SIDE + column;
      if (level > ink[place]) ink[place] = level;
    }
  }
}

/**
 * The drawing as the server reads it.
 * @param {Stroke[]} strokes
 */
export function drawingOf(strokes) {
  let letters = "";
  for (const level of pixelsOf(strokes)) letters += String.fromCharCode(level);
  return { shape: [SIDE, SIDE], type: "uint8", scale: 1, data: btoa(letters) };
}
