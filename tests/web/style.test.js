import assert from "node:assert/strict";
import { test } from "node:test";

import { needed, spread } from "../../regard/web/views/curves.js";
import { themeOfHost } from "../../regard/web/views/host.js";
import { escapeXml, shown } from "../../regard/web/views/style.js";

test("weights are read as per cent, other numbers as they are", () => {
  assert.equal(shown(0.534), "53 %");
  assert.equal(shown(0.042), "4.2 %");
  assert.equal(shown(0.0004), "< 0.1 %");
  assert.equal(shown(0), "0 %");
  assert.equal(shown(1), "100 %");
  assert.equal(shown(12.3456, 20), "12.3");
});

test("letters with a meaning in XML are escaped", () => {
  assert.equal(escapeXml('<a href="x">&'), "&lt;a href=&quot;x&quot;&gt;&amp;");
});

test("words in a line do not meet and fill the room", () => {
  const widths = [30, 12, 80, 25], room = needed(widths) + 60, middles = spread(widths, room);
  for (let i = 1; i < widths.length; i++) {
    assert.ok(middles[i] - widths[i] / 2 > middles[i - 1] + widths[i - 1] / 2);
  }
  assert.ok(middles[3] + widths[3] / 2 <= room);
});

test("the theme of each notebook is known", () => {
  const page = ({ className = "", jp, root = "", theme = "" }) => ({
    body: { className, dataset: jp === undefined ? {} : { jpThemeLight: jp } },
    documentElement: { className: root, dataset: {}, getAttribute: (name) => (name === "theme" ? theme : null) },
  });
  assert.equal(themeOfHost(page({ jp: "false" })), "dark");
  assert.equal(themeOfHost(page({ jp: "true" })), "light");
  assert.equal(themeOfHost(page({ className: "vscode-dark" })), "dark");
  assert.equal(themeOfHost(page({ className: "vscode-light" })), "light");
  assert.equal(themeOfHost(page({ className: "vscode-high-contrast" })), "dark");
  assert.equal(themeOfHost(page({ className: "vscode-high-contrast-light vscode-high-contrast" })), "light");
  assert.equal(themeOfHost(page({ className: "dark dark-theme" })), "dark"); // marimo
  assert.equal(themeOfHost(page({ root: "dark" })), "dark");
  assert.equal(themeOfHost(page({ theme: "dark" })), "dark");
  assert.equal(themeOfHost(page({})), undefined);
});
