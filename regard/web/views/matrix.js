// Weights as they are sent, and as the views use them.

/** @typedef {{shape: number[], type: "uint8" | "float32", scale?: number, data: string, compressed?: "deflate"}} Wire */
/** @typedef {{rows: number, columns: number, values: Float32Array}} Matrix */
/** @typedef {{rows: number, columns: number, values: Uint8Array}} Levels */

/** @param {string} text base64 @returns {Uint8Array<ArrayBuffer>} */
export function bytesOf(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/** @param {Uint8Array<ArrayBuffer>} bytes zlib's format */
export async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** @param {Wire} wire @returns {Promise<Matrix>} */
export async function decodeMatrix(wire) {
  const [rows, columns] = wire.shape;
  let bytes = bytesOf(wire.data);
  if (wire.compressed) bytes = await inflate(bytes);
  const width = wire.type === "float32" ? 4 : 1;
  if (bytes.length !== rows * columns * width) {
    throw new Error(`matrix: data has ${bytes.length} bytes; expected ${rows * columns * width} for ${rows} × ${columns}.`);
  }
  if (width === 4) return { rows, columns, values: floats(bytes) };
  const step = (wire.scale ?? 1) / 255;
  const values = new Float32Array(bytes.length);
  for (let i = 0; i < bytes.length; i++) values[i] = bytes[i] * step;
  return { rows, columns, values };
}

/** @param {Uint8Array<ArrayBuffer>} bytes float32, little-endian */
function floats(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const values = new Float32Array(bytes.length / 4);
  for (let i = 0; i < values.length; i++) values[i] = view.getFloat32(4 * i, true);
  return values;
}

/** @param {ArrayLike<number>[]} lists one per row @returns {Matrix} */
export function matrixOf(lists) {
  const rows = lists.length, columns = rows ? lists[0].length : 0;
  const values = new Float32Array(rows * columns);
  for (const [row, list] of lists.entries()) values.set(Array.from(list), row * columns);
  return { rows, columns, values };
}

/** @param {Matrix} matrix */
export function largest(matrix) {
  let found = 0;
  for (const value of matrix.values) if (value > found) found = value;
  return found;
}

/** The largest weights of a row (or column), with their positions.
 * @param {Matrix} matrix @param {number} index @param {number} count @param {"row" | "column"} [axis]
 * @returns {{index: number, weight: number}[]} */
export function strongest(matrix, index, count, axis = "row") {
  const length = axis === "row" ? matrix.columns : matrix.rows;
  /** @type {{index: number, weight: number}[]} */
  const best = [];
  for (let i = 0; i < length; i++) {
    const weight = axis === "row" ? matrix.values[index * matrix.columns + i] : matrix.values[i * matrix.columns + index];
    if (!(weight > 0)) continue;
    if (best.length === count && weight <= best[count - 1].weight) continue;
    best.push({ index: i, weight });
    best.sort((a, b) => b.weight - a.weight);
    if (best.length > count) best.pop();
  }
  return best;
}

/** Max-pool pairs of columns.
 * @param {Levels} levels @returns {Levels} */
export function poolColumns({ rows, columns, values }) {
  const half = (columns + 1) >> 1, pooled = new Uint8Array(rows * half);
  for (let row = 0; row < rows; row++) {
    const from = row * columns, to = row * half;
    for (let column = 0; column < half; column++) {
      const a = values[from + 2 * column], b = 2 * column + 1 < columns ? values[from + 2 * column + 1] : 0;
      pooled[to + column] = Math.max(a, b);
    }
  }
  return { rows, columns: half, values: pooled };
}

/** Max-pool pairs of rows.
 * @param {Levels} levels @returns {Levels} */
export function poolRows({ rows, columns, values }) {
  const half = (rows + 1) >> 1, pooled = new Uint8Array(half * columns);
  for (let row = 0; row < half; row++) {
    const a = 2 * row * columns, b = 2 * row + 1 < rows ? a + columns : a, to = row * columns;
    for (let column = 0; column < columns; column++) {
      pooled[to + column] = Math.max(values[a + column], values[b + column]);
    }
  }
  return { rows: half, columns, values: pooled };
}

/** Max-pooled versions of a matrix, computed lazily: `at(i, j)` pools 2^i rows and 2^j columns into one.
 * @param {Levels} whole */
export function pyramid(whole) {
  /** @type {Map<string, Levels>} */
  const made = new Map();
  /** @param {number} i @param {number} j @returns {Levels} */
  function at(i, j) {
    if (i === 0 && j === 0) return whole;
    const key = `${i} ${j}`, known = made.get(key);
    if (known) return known;
    const fresh = j >= i ? poolColumns(at(i, j - 1)) : poolRows(at(i - 1, j));
    made.set(key, fresh);
    return fresh;
  }
  return { at };
}

/** The matrix max-pooled to at most `most` rows and columns.
 * @param {Matrix} matrix @param {number} most @returns {Matrix} */
export function shrink(matrix, most) {
  const { rows, columns, values } = matrix;
  if (rows <= most && columns <= most) return matrix;
  const high = Math.ceil(rows / most), wide = Math.ceil(columns / most);
  const r = Math.ceil(rows / high), c = Math.ceil(columns / wide), small = new Float32Array(r * c);
  for (let row = 0; row < rows; row++) {
    const to = Math.floor(row / high) * c, from = row * columns;
    for (let column = 0; column < columns; column++) {
      const place = to + Math.floor(column / wide), value = values[from + column];
      if (value > small[place]) small[place] = value;
    }
  }
  return { rows: r, columns: c, values: small };
}
