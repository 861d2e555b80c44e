import assert from "node:assert/strict";
import { test } from "node:test";

import { colourOf, levelOf, luminance, table } from "../../regard/web/views/palette.js";

// Viénot, Brettel, Mollon 1999: what is left of a colour without one kind of cone, in linear light
const BLIND = {
  protan: [[0.1124, 0.8876, 0], [0.1124, 0.8876, 0], [0.004, -0.004, 1]],
  deutan: [[0.2928, 0.7072, 0], [0.2928, 0.7072, 0], [-0.0223, 0.0223, 1]],
};
const linear = (x) => (x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4);

function seenBy(kind, colour) {
  const light = colour.map(linear), [r, g, b] = BLIND[kind].map((row) => row.reduce((sum, x, i) => sum + x * light[i], 0));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

for (const dark of [false, true]) {
  for (const marked of [false, true]) {
    test(`a larger weight is ${dark ? "lighter" : "darker"} for every kind of colour vision${marked ? ", marked too" : ""}`, () => {
      const sign = dark ? 1 : -1;
      for (const see of [luminance, (c) => seenBy("protan", c), (c) => seenBy("deutan", c)]) {
        const seen = Array.from({ length: 17 }, (_, i) => see(colourOf(i / 16, dark, marked)));
        for (let i = 1; i < seen.length; i++) assert.ok(sign * (seen[i] - seen[i - 1]) > 0, `${i}: ${seen[i - 1]} ${seen[i]}`);
      }
    });
  }
}

test("the ends of the scale differ by more than letters on paper must", () => {
  for (const dark of [false, true]) {
    const [a, b] = [luminance(colourOf(0, dark)), luminance(colourOf(1, dark))].sort((x, y) => y - x);
    assert.ok((a + 0.05) / (b + 0.05) > 7);
  }
});

test("a table has an opaque colour for each level", () => {
  const bytes = new Uint8Array(table(false).buffer);
  assert.equal(bytes.length, 1024);
  assert.deepEqual([...bytes.slice(0, 4)], [255, 255, 255, 255]);
  for (let i = 3; i < 1024; i += 4) assert.equal(bytes[i], 255);
});

test("levels follow the root of the share, and what is no weight is nothing", () => {
  assert.equal(levelOf(0.25, 1), 128);
  assert.equal(levelOf(1, 1), 255);
  assert.equal(levelOf(2, 1), 255);
  for (const nothing of [0, -1, Number.NaN]) assert.equal(levelOf(nothing, 1), 0);
  assert.equal(levelOf(1, 0), 0);
});
