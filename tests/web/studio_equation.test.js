import assert from "node:assert/strict";
import { test } from "node:test";
import { pieces } from "../../regard/web/studio/equation.js";

const linked = (equation, symbols) => pieces(equation, symbols).filter((each) => each.shows).map((each) => [each.text, each.shows]);

test("nothing of an equation is lost", () => {
  const equation = "w_g    = g w_c + (1 - g) w_{t-1}      (equation 7)\nw̃(i)   = Σ_j w_g(j) s(i - j)   modulo N";
  const found = pieces(equation, { w_g: "row 1", "w̃": "row 2", g: "gate", s: "shift" });
  assert.equal(found.map((each) => each.text).join(""), equation);
});

test("a symbol with its subscript comes before the letter alone, and what stands for nothing leads nowhere", () => {
  const symbols = { w_c: "row 0", w: "row 3", "w_{t-1}": "", g: "gate" };
  assert.deepEqual(linked("w = g w_c + (1 - g) w_{t-1}", symbols), [["w", "row 3"], ["g", "gate"], ["w_c", "row 0"], ["g", "gate"]]);
});

test("marks over a letter belong to it, words are no symbols, and neither is the paper's own note", () => {
  assert.deepEqual(linked("a_t(s) = align(h_t, h̄_s) exp(-D)     (section a)", { a: "weights", h: "rows", "h̄": "columns", D: "half_width", e: "scores" }),
    [["a_t", "weights"], ["h_t", "rows"], ["h̄_s", "columns"], ["D", "half_width"]]);
});
