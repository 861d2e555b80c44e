import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { LANGUAGES } from "../../regard/web/studio/texts.js";
import { fill } from "../../regard/web/views/style.js";

const STUDIO = new URL("../../regard/web/studio/", import.meta.url);
const read = (name) => readFileSync(new URL(name, STUDIO), "utf8");
const scripts = ["./", "rooms/"].flatMap((folder) => readdirSync(new URL(folder, STUDIO)).filter((name) => name.endsWith(".js")).map((name) => read(folder + name)));
const source = scripts.join("\n");
const keys = (language) => Object.keys(JSON.parse(read(`texts/${language}.json`)));

// what the scripts ask for: whole keys, and keys with a part that is filled in
const calls = [...source.matchAll(/\bt(?:Or)?\(\s*((?:[^()`]|\([^()]*\))*)/g)].map((found) => found[1]);
const whole = new Set(calls.flatMap((call) => [...call.matchAll(/"([a-z][\w.-]*)"/gi)].map((found) => found[1])));
const templates = [...source.matchAll(/\bt(?:Or)?\(`([^`]*)`/g)].map((found) => new RegExp(`^${found[1].split(/\$\{[^}]*\}/).map((part) => part.replaceAll(".", "\\.")).join(".+")}$`));
const literals = new Set([...source.matchAll(/"([a-z][\w.-]*)"/gi)].map((found) => found[1]));

test("both languages have the same texts, none of them empty", () => {
  const [first, ...others] = LANGUAGES.map(keys);
  for (const other of others) assert.deepEqual([...other].sort(), [...first].sort());
  for (const language of LANGUAGES) for (const text of Object.values(JSON.parse(read(`texts/${language}.json`)))) assert.ok(text.trim());
});

test("no key stands twice in a file", () => {
  for (const language of LANGUAGES) {
    const found = [...read(`texts/${language}.json`).matchAll(/^ {2}"([^"]+)":/gm)].map((each) => each[1]);
    assert.equal(found.length, new Set(found).size);
  }
});

test("every text that is asked for is there", () => {
  const known = new Set(keys("en"));
  const missing = [...whole].filter((key) => key.includes(".") && !known.has(key));
  assert.deepEqual(missing, []);
  for (const template of templates) assert.ok([...known].some((key) => template.test(key)), String(template));
});

// what the drawings of regard/web/views say by themselves, outside of the studio
const VIEWS = new URL("../views/", STUDIO);
const said = Object.assign({}, ...readdirSync(VIEWS).filter((name) => name.endsWith(".js")).flatMap((name) => {
  const found = readFileSync(new URL(name, VIEWS), "utf8").match(/^const WORDS = (\{[\s\S]*?\});$/m);
  return found ? [new Function(`return ${found[1]}`)()] : [];
}));

test("every word of a drawing has its text, the same in English", () => {
  const english = Object.entries(JSON.parse(read("texts/en.json"))).filter(([key]) => key.startsWith("view."));
  assert.ok(Object.keys(said).length > 20);
  assert.deepEqual(Object.fromEntries(english.map(([key, text]) => [key.slice(5), text])), said);
});

test("scripts show no words that are not from the texts", () => {
  const shown = />([^<>`${}]*\p{L}{2,}[^<>`${}]*)<|(?:aria-label|title|placeholder|alt)="([^"$]*\p{L}{2,}[^"]*)"/gu;
  const names = new Set(["regard", "regard studio:"]);
  const found = scripts.flatMap((script) => [...script.replaceAll(/^\s*(\/\/|\*|\/\*\*).*$/gm, "").replaceAll(/<code>[^<]*<\/code>|=>/g, "").matchAll(shown)]);
  const plain = found.map((each) => (each[1] ?? each[2]).trim()).filter((text) => !names.has(text) && !/[=;(){}&]/.test(text));
  assert.deepEqual(plain, []);
});

test("every text that is there is asked for", () => {
  const unused = keys("en").filter((key) => !key.startsWith("view.") && !literals.has(key) && !templates.some((template) => template.test(key)));
  assert.deepEqual(unused, []);
});

test("translations fill in the same values", () => {
  const [en, zh] = LANGUAGES.map((language) => JSON.parse(read(`texts/${language}.json`)));
  for (const key of Object.keys(en)) {
    const names = (text) => [...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1]).sort();
    assert.deepEqual(names(zh[key]), names(en[key]), key);
  }
});

test("every mechanism has a Chinese title and sentence", () => {
  const rows = JSON.parse(read("examples/mechanisms.json")).find((each) => each.path === "mechanisms").answer;
  const titles = JSON.parse(read("texts/mechanisms.zh.json"));
  assert.deepEqual(Object.keys(titles).sort(), rows.map((row) => row.key).sort());
  for (const pair of Object.values(titles)) assert.ok(pair.length === 2 && pair.every((text) => /[\u4e00-\u9fff]|max/.test(text)), String(pair));
});

test("values are filled in, and an unknown name stays", () => {
  assert.equal(fill("{a} of {b}", { a: 1 }), "1 of {b}");
});
