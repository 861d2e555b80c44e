import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { canonical, findExample } from "../../regard/web/studio/api.js";
import { firstModel, POINTING, questions, someBits, somePoints } from "../../regard/web/studio/defaults.js";
import { agreeing, area, sameCycle } from "../../regard/web/studio/geometry.js";
import { measuredOf } from "../../regard/web/studio/rooms/charts.js";
import { rowOfStep, used } from "../../regard/web/studio/rooms/remember.js";
import { readScene, writeScene } from "../../regard/web/studio/rooms/see.js";
import { escapeText, fileName, savedPage } from "../../regard/web/studio/save.js";
import { ticks } from "../../regard/web/studio/scales.js";
import { drawingOf, pixelsOf, readStrokes, writeStrokes } from "../../regard/web/studio/strokes.js";

const STUDIO = new URL("../../regard/web/studio/", import.meta.url);

test("equal questions are equal, whatever the order of their keys", () => {
  assert.equal(canonical({ b: [1, 2], a: undefined, c: "x" }), canonical({ c: "x", b: [1, 2] }));
  assert.notEqual(canonical({ a: 1 }), canonical({ a: "1" }));
  assert.equal(findExample([{ method: "", path: "p", body: { a: 1, b: 2 }, answer: 3 }], "p", { b: 2, a: 1 })?.answer, 3);
  assert.equal(findExample([], "p", undefined), undefined);
});

test("every first question of a room has its answer among the examples", () => {
  for (const [file, path, body] of questions()) {
    const kept = JSON.parse(readFileSync(new URL(`examples/${file}.json`, STUDIO), "utf8"));
    assert.ok(findExample(kept, path, body), `${path} ${canonical(body)}`);
  }
});

test("all examples together stay small, and so do all scripts", () => {
  const bytes = (folder, end) => readdirSync(new URL(folder, STUDIO)).filter((name) => name.endsWith(end))
    .reduce((sum, name) => sum + readFileSync(new URL(`${folder}${name}`, STUDIO)).length, 0);
  assert.ok(bytes("examples/", ".json") < 600_000);
  assert.ok(bytes("./", ".js") + bytes("rooms/", ".js") + bytes("../views/", ".js") + bytes("../vendor/", ".js") < 300_000);
});

test("a room begins with its own model, or with the first that is served", () => {
  const served = [{ name: "mine" }, { name: "stories" }];
  assert.equal(firstModel(served, "stories"), "stories");
  assert.equal(firstModel(served, "hull"), "mine");
  assert.equal(firstModel([], "hull"), "hull");
});

test("points and bits of a seed are the same, and points stand apart", () => {
  assert.deepEqual(somePoints(12, 7, 2), somePoints(12, 7, 2));
  assert.notDeepEqual(someBits(5, 8, 1), someBits(5, 8, 2));
  const points = somePoints(POINTING.hull.most, 3, 2);
  for (const [i, a] of points.entries()) for (const b of points.slice(i + 1)) assert.ok(Math.hypot(a[0] - b[0], a[1] - b[1]) > 0.09);
});

test("corners are compared wherever the list begins", () => {
  assert.ok(sameCycle([1, 2, 3], [3, 1, 2]));
  assert.ok(!sameCycle([1, 2, 3], [3, 2, 1]));
  assert.ok(!sameCycle([1, 2], [1, 2, 3]));
  assert.equal(agreeing([1, 2, 3], [1, 3, 3]), 2);
  assert.equal(area([[0, 0], [1, 0], [1, 1], [0, 1]], [0, 1, 2, 3]), 1);
});

test("strokes come back, and are drawn where they were", () => {
  const strokes = readStrokes("00zz.a0");
  assert.deepEqual(strokes, [[[0, 0], [35, 35]], [[10, 0]]]);
  assert.equal(writeStrokes(strokes), "00zz.a0");
  assert.deepEqual(readStrokes("<script>"), []);
  const ink = pixelsOf([[[18, 0], [18, 35]]]);
  assert.equal(ink[14 * 28 + 14], 255);
  assert.equal(ink[14 * 28 + 2], 0);
  assert.equal(atob(drawingOf(strokes).data).length, 28 * 28);
});

test("scenes come back", () => {
  assert.equal(writeScene(readScene("012.834")), "012.834");
  assert.deepEqual(readScene("-"), Array(9).fill(null));
});

test("the used part of a ring goes over its end", () => {
  const head = (slots) => ({ rows: slots.length, columns: 8, values: Float32Array.from(slots.flatMap((slot) => Array.from({ length: 8 }, (_, i) => (i === slot ? 1 : 0)))) });
  assert.deepEqual(used([head([0, 7, 6])]), [5, 6, 7, 0, 1]);
  assert.deepEqual(used([head([2, 3])]), [1, 2, 3, 4]);
  assert.equal(used([head([0, 1, 2, 3, 4, 5, 6, 7])]).length, 8);
});

test("steps of the input know their vector", () => {
  assert.deepEqual([0, 1, 2].map((step) => rowOfStep(step, 1, 2)), [0, 1, -1]);
  assert.deepEqual([0, 1, 2, 3, 4, 5, 8].map((step) => rowOfStep(step, 3, 6)), [-1, 0, 1, 2, -1, 3, -1]);
});

test("axes have round numbers", () => {
  assert.deepEqual(ticks(0, 1), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(ticks(0, 2000), [0, 500, 1000, 1500, 2000]);
  assert.deepEqual(ticks(3, 3), [3]);
});

test("a saved page holds no markup that was typed", () => {
  const page = savedPage({ title: "<b>", note: "a & b", svg: "<svg/>", address: "http://x/?q=\"", dark: false, lang: "en" });
  assert.ok(page.includes("&lt;b&gt;") && page.includes("a &amp; b") && !page.includes("<b>"));
  assert.equal(escapeText('"'), "&quot;");
  assert.equal(fileName("Où est la gare ?"), "Où-est-la-gare");
  assert.equal(fileName("///"), "regard");
});

test("what was measured is grouped by variant, and what waits is left out", () => {
  const run = (variant, value) => ({ id: "", status: "", model: "", task: "", step: 0, steps: 0, loss: null, valid_loss: null, variant, value });
  assert.deepEqual(measuredOf([run("dot", 1), run("general", null), run("dot", 3)]), [{ variant: "dot", values: [1, 3], mean: 2 }]);
});
