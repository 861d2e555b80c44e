import assert from "node:assert/strict";
import { test } from "node:test";
import { difference, placeWords, textWidth, through } from "../../regard/web/studio/words.js";

test("words are found in the sentence as it is written", () => {
  const segments = placeWords("Le garçon m'a vu.", ["le", "garçon", "m", "'", "a", "vu", "."]);
  assert.equal(segments.map((each) => each.text).join(""), "Le garçon m'a vu.");
  assert.deepEqual(segments.filter((each) => each.word !== null).map((each) => each.text), ["Le", "garçon", "m", "'", "a", "vu", "."]);
});

test("pieces of words, with spaces before them", () => {
  const segments = placeWords("une pomme verte.", ["une", " pomme", " ver", "te", "."]);
  assert.deepEqual(segments.filter((each) => each.word !== null).map((each) => each.text), ["une", "pomme", "ver", "te", "."]);
});

test("a word that is not there is passed over", () => {
  const segments = placeWords("abc def", ["abc", "<unk>", "def"]);
  assert.deepEqual(segments.filter((each) => each.word !== null).map((each) => each.word), [0, 2]);
});

test("the difference marks what the other has not", () => {
  const marked = (a, b) => difference(a.split(" "), b.split(" ")).filter((part) => part.kind === "new").map((part) => part.text);
  assert.deepEqual(marked("a b c d", "a b c d"), []);
  assert.deepEqual(marked("a b c d", "a x c d"), ["x"]);
  assert.deepEqual(marked("a b c", "z a b c y"), ["z", "y"]);
  assert.deepEqual(marked("a b c", "x y"), ["x", "y"]);
});

test("a node of a search knows the hypotheses that go through it", () => {
  const node = (id, parent, step) => ({ id, parent, step, word: "", log_probability: 0 });
  const nodes = [node(0, null, 0), node(1, null, 0), node(2, 0, 1), node(3, 0, 1), node(4, 2, 2)];
  assert.deepEqual(through({ nodes, hypotheses: [[0, 2, 4], [0, 3]] }), [[0, 1], [], [0], [1], [0]]);
});

test("Chinese signs are wider", () => {
  assert.ok(textWidth("翻译", 10) > textWidth("ab", 10));
});
