import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fill, LANGUAGES } from "../../regard/web/studio/texts.js";

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

test("every text that is there is asked for", () => {
  const unused = keys("en").filter((key) => !literals.has(key) && !templates.some((template) => template.test(key)));
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
