// What the rooms show first; the examples are the precomputed answers. Pure: needs no page.
import { drawingOf, readStrokes } from "./strokes.js";

export const TRANSLATORS = ["en-fr", "en-fr-rnnsearch", "en-fr-local", "demo-rnnsearch", "demo-seq2seq", "en-zh"];
/** @type {{text: string, model?: string, with?: string}[]} */
export const SENTENCES = [
  { text: "The old man who lives next door gave me a red book." },
  { text: "My brother bought a new red car yesterday." },
  { text: "He did not come because he was ill." },
  { text: "The boy who often wears an old green coat reads a French novel at home.", model: "demo-rnnsearch", with: "demo-seq2seq" },
];
export const BEAM = 4;

/** @typedef {{least: number, most: number, dimension: number, seed: number, count: number, counts: number[]}} PointRule `counts` for new random points */
/** @type {Record<string, PointRule>} */
export const POINTING = {
  hull: { least: 3, most: 50, dimension: 2, seed: 7, count: 12, counts: [6, 12, 30] },
  delaunay: { least: 4, most: 5, dimension: 2, seed: 4, count: 5, counts: [5] },
  tour: { least: 4, most: 10, dimension: 2, seed: 6, count: 8, counts: [5, 8, 10] },
  sort: { least: 2, most: 10, dimension: 1, seed: 5, count: 8, counts: [5, 8, 10] },
};

/** @typedef {{width: number, item: number, rows: number, least: number, most: number, trained: number, seed: number}} TapeRule */
/** @type {Record<string, TapeRule>} */
export const TAPES = {
  "ntm-copy": { width: 8, item: 1, rows: 10, least: 1, most: 100, trained: 20, seed: 3 },
  "ntm-recall": { width: 6, item: 3, rows: 4, least: 2, most: 12, trained: 6, seed: 8 },
};

/** @type {{story: string[], question: string}[]} */
export const STORIES = [
  {
    story: ["Anna took the lamp.", "Paul went to the kitchen.", "Anna went to the garden.", "Lena ran to the library.", "Anna walked to the attic."],
    question: "Where is the lamp?",
  },
  { story: ["Lena went to the kitchen.", "Paul ran to the garden.", "Lena walked to the attic.", "Omar went to the cellar."], question: "Where is Lena?" },
  { story: ["Omar grabbed the book.", "Paul went to the library.", "Omar ran to the cellar.", "Lena went to the attic."], question: "Where is the book?" },
];

/** @type {Record<string, string>} */
export const READERS = { entail: "entailment", score: "lstmn" };
export const PAIRS = [
  { label: "entailment", premise: "w14 w52 w16 w47 w50 w58 w39 w33", hypothesis: "w52 w39 w58 w47" },
  { label: "neutral", premise: "w14 w52 w16 w47 w50 w58 w39 w33", hypothesis: "w52 w39 w18 w47" },
  { label: "contradiction", premise: "w14 w52 w16 w47 w50 w58 w39 w33", hypothesis: "w52 -w39 w58 w47" },
];
export const SCORED = ["The boy who often wears an old green coat reads a French novel at home.", "The boy who often wears an old green coat"];

export const CAPTIONERS = ["shapes-captions", "shapes-captions-hard"]; // soft, hard
export const PICTURES = 6; // examples of the test set
export const SAMPLES = { model: "sagan-shapes", count: 8, seed: 1 };

export const CLASSIFIER = "snail-omniglot";
// five invented characters, and a second drawing of the third
export const CHARACTERS = [
  "66iku6.ikiv.9vrv",
  "8u88e5k8kg8i.kgtu",
  "i4iw.6cc8icoguc.8qimsq",
  "6ai5uauoiv6o6a.i5iv",
  "s7c77dciqiuoou7u",
  "h5jv.5db8idnhue.9rhnrs",
];
export const LABELS = ["A", "B", "C", "D", "E"];

/**
 * The initial model of a room: the one it is made for, or the server's first.
 * @param {{name: string}[]} choices
 * @param {string} wanted
 */
export function firstModel(choices, wanted) {
  return choices.some((each) => each.name === wanted) ? wanted : (choices[0]?.name ?? wanted);
}

/**
 * A seeded random generator, the same in every browser.
 * @param {number} seed
 */
export function numbers(seed) {
  let state = seed >>> 0 || 1;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/**
 * Points in thousandths, none too close to another.
 * @param {number} count
 * @param {number} seed
 * @param {number} dimension
 */
export function somePoints(count, seed, dimension) {
  const next = numbers(seed);
  /** @type {number[][]} */
  const points = [];
  for (let tries = 0; points.length < count && tries < 2000; tries++) {
    const point = Array.from({ length: dimension }, () => Math.round(60 + 880 * next()) / 1000);
    const apart = dimension === 2 ? 0.09 : 0.03;
    const far = points.every((other) => Math.hypot(...other.map((x, i) => x - point[i])) > apart);
    if (far) points.push(point);
  }
  return points;
}

/**
 * @param {number} rows
 * @param {number} width
 * @param {number} seed
 */
export function someBits(rows, width, seed) {
  const next = numbers(seed);
  return Array.from({ length: rows }, () => Array.from({ length: width }, () => (next() < 0.5 ? 0 : 1)));
}

/**
 * @param {number[][]} rows
 * @param {number} size
 */
export function items(rows, size) {
  return Array.from({ length: rows.length / size }, (_, i) => rows.slice(i * size, (i + 1) * size));
}

/**
 * The inputs of a machine: a shipped one, or the user's own for copying or recall.
 * @param {import("./types.js").ModelRow | undefined} row
 * @returns {TapeRule}
 */
export function tapeRule(row) {
  const shipped = TAPES[row?.name ?? "ntm-copy"];
  if (shipped || !row?.tape) return shipped ?? TAPES["ntm-copy"];
  const { width, item, trained } = row.tape;
  const like = TAPES[item === 1 ? "ntm-copy" : "ntm-recall"];
  return { ...like, width, item, trained, rows: Math.max(like.least, Math.min(like.rows, trained)) };
}

/**
 * A request to a machine.
 * @param {string} model
 * @param {number} item vectors of an item
 * @param {number[][]} bits
 * @param {number} ask
 */
export function tapeQuestion(model, item, bits, ask) {
  return item === 1 ? { model, bits } : { model, bits: items(bits, item), ask };
}

/**
 * A request to SNAIL.
 * @param {string} model
 * @param {string[]} characters strokes of the five, then of the query
 */
export function characterQuestion(model, characters) {
  const drawings = characters.map((text) => drawingOf(readStrokes(text)));
  return { model, drawings: drawings.slice(0, -1), labels: LABELS, query: drawings[drawings.length - 1] };
}

/** All requests with stored answers: [file, path, body]; without a body it is a GET. */
export function questions() {
  /** @type {[string, string, unknown][]} */
  const list = [["models", "models", undefined]];
  for (const model of TRANSLATORS) {
    for (const { text } of SENTENCES) list.push(["translate", "translate", { model, text, beam: BEAM }]);
  }
  list.push(["translate", "translate", { model: TRANSLATORS[0], text: SENTENCES[0].text, beam: BEAM, tree: true }]);
  for (const part of ["cross", "encoder", "decoder"]) list.push(["attention", "attention", { model: "en-fr", text: SENTENCES[0].text, part }]);
  for (const [model, { count, seed, dimension }] of Object.entries(POINTING)) {
    list.push(["point", "point", { model, points: somePoints(count, seed, dimension) }]);
  }
  for (const [model, { rows, item, width, seed }] of Object.entries(TAPES)) {
    list.push(["run", "run", tapeQuestion(model, item, someBits(rows * item, width, seed), 0)]);
  }
  for (const { story, question } of STORIES) list.push(["ask", "ask", { model: "stories", story, question }]);
  for (const { premise, hypothesis } of PAIRS) list.push(["read", "entail", { model: READERS.entail, premise, hypothesis }]);
  for (const text of SCORED) list.push(["read", "score", { model: READERS.score, text }]);
  for (let number = 0; number < PICTURES; number++) {
    for (const model of CAPTIONERS) list.push(["caption", `caption/example?model=${model}&number=${number}`, undefined]);
  }
  list.push(["sample", "sample", SAMPLES]);
  list.push(["classify", "classify", characterQuestion(CLASSIFIER, CHARACTERS)]);
  list.push(["mechanisms", "mechanisms", undefined]);
  return list;
}
