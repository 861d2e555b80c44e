// Words of the page in the reader's language: `t("save")`, with values put in for {names}.

export const LANGUAGES = ["en", "zh"];

/** @type {Record<string, string>} */
let words = {};
/** @type {string} */
let language = "en";

/**
 * @param {string} wanted
 * @returns {Promise<void>}
 */
export async function loadTexts(wanted) {
  language = LANGUAGES.includes(wanted) ? wanted : "en";
  const answer = await fetch(new URL(`./texts/${language}.json`, import.meta.url));
  words = await answer.json();
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
 * @param {string} text
 * @param {Record<string, string | number>} values
 */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}
