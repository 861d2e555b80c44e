// Texts of the page in the reader's language: `t("save")`; values replace {names}.
import { fill } from "../views/style.js";

export const LANGUAGES = ["en", "zh"];

/** @type {Record<string, string>} */
let words = {};
/** @type {Record<string, [string, string]>} titles and sentences of mechanisms; the English ones are in the catalogue */
let titles = {};
/** @type {Record<string, string>} texts of the views in regard/web/views */
let views = {};
/** @type {string} */
let language = "en";

/**
 * @param {string} wanted one of LANGUAGES
 * @returns {Promise<void>}
 */
export async function loadTexts(wanted) {
  const read = async (/** @type {string} */ name) => (await fetch(new URL(`./texts/${name}.json`, import.meta.url))).json();
  [words, titles] = await Promise.all([read(wanted), wanted === "en" ? {} : read(`mechanisms.${wanted}`)]);
  language = wanted;
  views = Object.fromEntries(Object.entries(words).flatMap(([key, text]) => (key.startsWith("view.") ? [[key.slice(5), text]] : [])));
  document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
}

export function currentLanguage() {
  return language;
}

/** The texts of the views; the same object until the language changes. */
export function viewWords() {
  return views;
}

/**
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 * @returns {string}
 */
export function t(key, values) {
  return fill(words[key] ?? key, values ?? {});
}

/**
 * A text, or the fallback if this language has none, as for models and mechanisms of others.
 * @param {string} key
 * @param {string} otherwise
 */
export function tOr(key, otherwise) {
  return words[key] ?? otherwise;
}

/**
 * Title and sentence of a mechanism; English for those of other packages.
 * @param {{key: string, title: string, sentence: string}} row
 */
export function titleOf({ key, title, sentence }) {
  const [own, said] = titles[key] ?? [title, sentence];
  return { title: own, sentence: said };
}
