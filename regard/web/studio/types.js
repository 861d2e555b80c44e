// Types of the server's answers.

/** @typedef {import("../views/matrix.js").Wire} Wire */
/** @typedef {import("../views/matrix.js").Matrix} Matrix */
/** @typedef {{name: string, kind: string, system: string, summary: string, figure: any, limits: Record<string, any>, tape?: {width: number, item: number, trained: number} | null}} ModelRow */
/** @typedef {{text: string, score: number, words: string[], alignment: Wire | null}} Hypothesis */
/** @typedef {{id: number, parent: number | null, step: number, word: string, log_probability: number}} TreeNode */
/** @typedef {{nodes: TreeNode[], hypotheses: number[][]}} Tree */
/** @typedef {{text: string, source_words: string[], target_words: string[], alignment: Wire | null, beam?: Hypothesis[], tree?: Tree, layers?: any}} Translated */
/** @typedef {{question: string, order: number[], exact: number[], weights: Wire, length?: number, exact_length?: number}} Pointed */
/** @typedef {{kind: "read" | "write", weights: Wire, stages: Record<string, Wire>}} TapeHead */
/** @typedef {{inputs: number[][], outputs: number[][], right: number[][], wrong: number, heads: TapeHead[]}} Machine */
/** @typedef {{answer: string, probability: number, sentences: string[], hops: Wire, unknown: string[]}} Answered */
/** @typedef {{text: string, words: string[], maps: Wire[], grid: [number, number]}} Captioned */
/** @typedef {{name: string, min: number, max: number, value: number, step: number}} Parameter */
/** @typedef {{recipe: string, metric: string, value: number, paper: number | null, machine: string, date: string}} MeasuredValue */
/** @typedef {{key: string, kind: string, title: string, authors: string, year: number, link: string, equation: string, sentence: string, symbols: Record<string, string>, parameters: Parameter[], measured: MeasuredValue[], file: string}} Mechanism */

/** @typedef {{step: number, text: string, source_words: string[], target_words: string[], alignment: Wire | null}} Latest */
/** @typedef {{id: string, status: string, model: string, task: string, step: number, steps: number, loss: number | null, valid_loss: number | null, variant?: string, seed?: number | null, metric?: string | null, value?: number | null, reason?: string | null, curve?: {train: number[][], valid: number[][]}, alignment?: Latest | null}} Run */

/** A drawing of the page that can be saved. */
/** @typedef {{toPNG: () => Promise<Blob>, toSVG: () => string}} Drawing */

/**
 * The props of every room: the values of its address, a setter, the models, and whether there is a server.
 * @typedef {{
 *   values: Record<string, string>,
 *   change: (values: Record<string, string | number | boolean | null | undefined>) => void,
 *   models: ModelRow[],
 *   live: boolean,
 *   still: boolean,
 * }} RoomProps
 */

export {};
