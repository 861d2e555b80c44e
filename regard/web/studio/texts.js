// Words of the page in the reader's language: `t("save")`, with values put in for {names}.

export const LANGUAGES = ["en", "zh"];

/** @type {Record<string, string>} */
let words = {};
/** @type {Record<string, [string, string]>} titles and sentences of mechanisms; the catalogue has the English ones */
let titles = {};
/** @type {string} */
let language = "en";

/**
 * @param {string} wanted
 * @returns {Promise<void>}
 */
export async function loadTexts(wanted) {
  language = LANGUAGES.includes(wanted) ? wanted : "en";
  const read = async (/** @type {string} */ name) => (await fetch(new URL(`./texts/${name}.json`, import.meta.url))).json();
  [words, titles] = await Promise.all([read(language), language === "en" ? {} : read(`mechanisms.${language}`)]);
  document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
}

export function currentLanguage() {
  return language;
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
 * A text, or nothing where this language has none: names of models and mechanisms that we did not write.
 * @param {string} key
 * @param {string} otherwise
 */
export function tOr(key, otherwise) {
  return words[key] ?? otherwise;
}

/**
 * Title and sentence of a mechanism; English for one that a package of others brought.
 * @param {{key: string, title: string, sentence: string}} row
 */
export function titleOf({ key, title, sentence }) {
  const [own, said] = titles[key] ?? [title, sentence];
  return { title: own, sentence: said };
}

/**
 * @param {string} text
 * @param {Record<string, string | number>} values
 */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}
