import assert from "node:assert/strict";
import { test } from "node:test";
import { ROOMS, readAddress, readBits, readPoints, readWhole, writeAddress, writeBits, writePoints } from "../../regard/web/studio/address.js";

test("an address comes back as it was written", () => {
  const values = { text: "Où est-ce ? 100 % & more #1", model: "en-fr", hypothesis: "2" };
  assert.deepEqual(readAddress(writeAddress("translate", values)), { room: "translate", values });
  for (const room of ROOMS) assert.equal(readAddress(writeAddress(room, {})).room, room);
});

test("what is empty is left out, and zero is not empty", () => {
  assert.equal(writeAddress("point", { a: "", b: null, c: undefined, d: false, e: 0 }), "#/point?e=0");
});

test("an unknown room is the first one", () => {
  for (const hash of ["", "#", "#/", "#/nowhere?x=1", "#main"]) assert.equal(readAddress(hash).room, ROOMS[0]);
});

test("points keep three digits", () => {
  const points = [[0.123, 0.9], [0, 1]];
  assert.deepEqual(readPoints(writePoints(points)), points);
  assert.deepEqual(readPoints(writePoints([[0.5], [0.25]])), [[0.5], [0.25]]);
});

test("points that cannot be read are refused", () => {
  for (const text of ["", undefined, "1,2 3", "a,b", "2000,1", "-1,0"]) assert.equal(readPoints(text), null);
});

test("bits come back, with their leading zeros", () => {
  const bits = [[0, 0, 0, 0, 0, 0, 0, 1], [1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]];
  assert.deepEqual(readBits(writeBits(bits), 8), bits);
});

test("bits that cannot be read are refused", () => {
  for (const text of ["", undefined, "zz", "1..2", "fff"]) assert.equal(readBits(text, 8), null);
});

test("a number that is none is 0, and one beyond its end is the end", () => {
  assert.deepEqual(["3", "2.9", "99", "-1", "x", "", undefined, "NaN", "1e9"].map((text) => readWhole(text, 7)), [3, 2, 7, 0, 0, 0, 0, 0, 7]);
});
