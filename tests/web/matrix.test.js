import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";

import { decodeMatrix, largest, matrixOf, poolColumns, poolRows, pyramid, shrink, strongest } from "../../regard/web/views/matrix.js";

const base64 = (bytes) => Buffer.from(bytes).toString("base64");

test("bytes are shares of the scale", async () => {
  const found = await decodeMatrix({ shape: [2, 2], type: "uint8", scale: 0.5, data: base64([0, 255, 51, 102]) });
  assert.deepEqual([found.rows, found.columns], [2, 2]);
  assert.deepEqual([...found.values].map((x) => x.toFixed(4)), ["0.0000", "0.5000", "0.1000", "0.2000"]);
});

test("compressed bytes are the same", async () => {
  const bytes = Uint8Array.from({ length: 300 }, (_, i) => i % 7);
  const wire = { shape: [20, 15], type: "uint8", scale: 1 };
  const plain = await decodeMatrix({ ...wire, data: base64(bytes) });
  const packed = await decodeMatrix({ ...wire, data: base64(deflateSync(bytes)), compressed: "deflate" });
  assert.deepEqual(packed, plain);
});

test("float32 is exact", async () => {
  const values = Float32Array.of(0.1, 1 / 3, 0, 1e-7, 2.5, 1);
  const found = await decodeMatrix({ shape: [2, 3], type: "float32", scale: 1, data: base64(values.buffer) });
  assert.deepEqual(found.values, values);
});

test("data of another size is refused", async () => {
  await assert.rejects(decodeMatrix({ shape: [2, 2], type: "uint8", scale: 1, data: base64([1, 2, 3]) }), /data has 3 bytes; expected 4/);
});

test("the strongest of a row and of a column come first", () => {
  const matrix = matrixOf([[0.1, 0.6, 0.3], [0.7, 0, 0.3]]);
  assert.deepEqual(strongest(matrix, 0, 2).map(({ index }) => index), [1, 2]);
  assert.deepEqual(strongest(matrix, 1, 5).map(({ index }) => index), [0, 2]);
  assert.deepEqual(strongest(matrix, 0, 1, "column").map(({ index }) => index), [1]);
  assert.ok(Math.abs(largest(matrix) - 0.7) < 1e-6);
});

test("pooling keeps the largest, also of odd sizes", () => {
  const levels = { rows: 3, columns: 3, values: Uint8Array.of(1, 2, 3, 4, 9, 6, 7, 8, 5) };
  assert.deepEqual(poolColumns(levels), { rows: 3, columns: 2, values: Uint8Array.of(2, 3, 9, 6, 8, 5) });
  assert.deepEqual(poolRows(levels), { rows: 2, columns: 3, values: Uint8Array.of(4, 9, 6, 7, 8, 5) });
});

test("a level of the pyramid has the largest of each block, on each axis its own size", () => {
  const rows = 13, columns = 37, values = Uint8Array.from({ length: rows * columns }, (_, i) => (i * 7919) % 251);
  const levels = pyramid({ rows, columns, values });
  for (const [i, j] of [[0, 0], [0, 3], [2, 0], [1, 2], [4, 6]]) {
    const found = levels.at(i, j), expected = new Uint8Array(found.rows * found.columns);
    assert.deepEqual([found.rows, found.columns], [Math.ceil(rows / 2 ** i), Math.ceil(columns / 2 ** j)]);
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < columns; c++) {
        const place = (r >> i) * found.columns + (c >> j);
        expected[place] = Math.max(expected[place], values[r * columns + c]);
      }
    }
    assert.deepEqual(found.values, expected);
  }
});

test("a thumbnail has few cells and the largest weight", () => {
  const matrix = { rows: 100, columns: 7, values: Float32Array.from({ length: 700 }, (_, i) => i / 700) };
  const small = shrink(matrix, 40);
  assert.ok(small.rows <= 40 && small.columns === 7);
  assert.equal(largest(small), largest(matrix));
  assert.equal(shrink(matrix, 100), matrix);
});
