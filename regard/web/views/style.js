// CSS rules for the views, added to the page or shadow tree that contains them. Colours come from the
// page's variables, with fallbacks here.

const RULES = `
.rg-view { position: relative; font-size: 14px; line-height: 1.45; color: var(--ink, CanvasText); }
.rg-view *:focus-visible { outline: 2px solid var(--b, #d4600b); outline-offset: 2px; }
.rg-stack { position: relative; }
.rg-stack canvas { display: block; position: absolute; left: 0; top: 0; }
.rg-cells { border-radius: 6px; box-shadow: 0 0 0 1px var(--line, rgb(128 128 128 / .3)); }
.rg-below { display: flex; flex-wrap: wrap; gap: 4px 16px; align-items: center; margin-top: 10px; min-height: 30px; }
.rg-say { flex: 1 1 14rem; min-width: 0; color: var(--soft, GrayText); overflow-wrap: anywhere; }
.rg-legend { display: flex; gap: 6px; align-items: center; color: var(--soft, GrayText); font-size: 12px;
  font-variant-numeric: tabular-nums; }
.rg-legend canvas { width: 72px; height: 8px; border-radius: 4px; }
.rg-zoom { display: flex; gap: 4px; }
.rg-zoom button { font: inherit; line-height: 1; min-width: 28px; height: 28px; padding: 0 8px; cursor: pointer;
  border: 1px solid var(--line, rgb(128 128 128 / .4)); border-radius: 999px; background: none; color: inherit; }
.rg-zoom button:disabled { opacity: .35; cursor: default; }
.rg-curves { overflow-x: auto; overflow-y: hidden; }
.rg-curves svg { display: block; }
.rg-curves text { fill: var(--ink, CanvasText); cursor: default; outline-offset: 1px; }
.rg-curves text, .rg-curves path { transition: opacity .15s; }
.rg-curves path { fill: none; stroke: var(--a, #0b4f8a); stroke-linecap: round; pointer-events: none; }
.rg-curves .rg-dim { opacity: .25; }
.rg-curves path.rg-dim { opacity: .05 !important; }
.rg-curves text.rg-on { font-weight: 700; fill: var(--b, #d4600b); }
.rg-curves path.rg-on { stroke: var(--b, #d4600b); }
.rg-heads { overflow: auto; }
.rg-heads table { border-collapse: separate; border-spacing: 3px; }
.rg-heads th { font-weight: 400; font-size: 12px; line-height: 1; color: var(--soft, GrayText); padding: 0 3px; text-align: center; }
.rg-heads tbody th { position: sticky; left: 0; background: var(--card, Canvas); text-align: right; z-index: 1; }
.rg-heads td { padding: 0; }
.rg-heads button { display: block; padding: 0; border: 0; border-radius: 4px; background: none; cursor: pointer;
  box-shadow: 0 0 0 1px var(--line, rgb(128 128 128 / .3)); overflow: hidden; }
.rg-heads button:hover { box-shadow: 0 0 0 2px var(--soft, GrayText); }
.rg-heads button[aria-pressed=true] { box-shadow: 0 0 0 2px var(--b, #d4600b); }
.rg-heads canvas { display: block; width: 100%; height: 100%; }
.rg-side { display: grid; grid-template-columns: auto minmax(0, 1fr); column-gap: 14px; margin-bottom: 8px; }
.rg-side > span { font-size: 12px; line-height: 26px; color: var(--soft, GrayText); min-width: 3.4em; }
.rg-list { display: flex; flex-wrap: wrap; gap: 2px 3px; max-height: 15rem; overflow-y: auto; padding: 3px; grid-column: -2; }
.rg-list button { font: inherit; color: inherit; cursor: default; min-width: 24px; padding: 1px 6px 0; border: 0; border-radius: 5px;
  background: none; line-height: 1.35; overflow-wrap: anywhere; text-align: center; }
.rg-list button::after { content: attr(data-weight); display: block; min-height: 1.2em; font-size: 10.5px; line-height: 1.2;
  font-variant-numeric: tabular-nums; opacity: .85; }
.rg-list button.rg-chosen { box-shadow: 0 0 0 2px var(--b, #d4600b); }
.rg-list button.rg-linked { text-decoration: underline 2px var(--gold, #c24e00); text-underline-offset: 3px; }
.rg-columns { display: grid; gap: 22px; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); align-items: start; }
.rg-columns > * { min-width: 0; }
.rg-columns.rg-narrow { grid-template-columns: minmax(0, 1fr); }
.rg-trace { display: grid; gap: 22px; grid-template-columns: auto minmax(0, 1fr); align-items: start; }
.rg-trace > * { min-width: 0; }
.rg-left { min-width: min(300px, 100%) !important; }
.rg-fit { width: 0; min-width: 100%; margin-top: 18px; }
.rg-trace.rg-narrow { grid-template-columns: minmax(0, 1fr); }
.rg-chips { display: flex; flex-wrap: wrap; gap: 8px; margin-bottom: 14px; }
.rg-chips button { font: inherit; font-size: 13px; color: var(--soft, GrayText); background: none; border-radius: 999px; padding: 3px 12px;
  border: 1px solid var(--line, rgb(128 128 128 / .4)); cursor: pointer; overflow-wrap: anywhere; }
.rg-chips button[aria-pressed=true] { color: var(--a, #0b4f8a); border-color: currentColor; font-weight: 600; }
.rg-title { font-size: 13px; font-weight: 600; letter-spacing: .08em; text-transform: uppercase; color: var(--soft, GrayText); margin: 0 0 10px; }
.rg-note { color: var(--soft, GrayText); font-size: 13px; margin: 12px 0 0; max-width: 60em; }
.rg-note:empty { display: none; }
@media (prefers-reduced-motion: reduce) { .rg-view * { transition: none !important; } }
`;

/** @type {CSSStyleSheet | undefined} */
let sheet;

/** Add the rules to an element's document or shadow tree, once.
 * @param {Element} element */
export function addStyle(element) {
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(RULES);
  }
  const root = element.getRootNode();
  const tree = root instanceof ShadowRoot ? root : document;
  if (!tree.adoptedStyleSheets.includes(sheet)) tree.adoptedStyleSheets = [...tree.adoptedStyleSheets, sheet];
}

/** @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag @param {string} name its class @param {Element} [parent] @returns {HTMLElementTagNameMap[K]} */
export function make(tag, name, parent) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  parent?.append(element);
  return element;
}

/** @param {string} text */
export function escapeXml(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}

/** Substitute values for {names}; names without a value stay.
 * @param {string} text @param {Record<string, string | number>} values */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** Format a weight: 53 %, 0.4 %; numbers above 1 as they are.
 * @param {number} weight @param {number} [largest] of its matrix */
export function shown(weight, largest = 1) {
  if (largest > 1.001) return String(Number(weight.toPrecision(3)));
  const percent = 100 * weight;
  if (percent > 0 && percent < 0.1) return "< 0.1 %";
  return `${percent.toFixed(percent < 9.95 && percent > 0 ? 1 : 0)} %`;
}

/** Render an SVG as a PNG, at twice its size.
 * @param {string} svg @param {number} width @param {number} height @returns {Promise<Blob>} */
export async function pictureOf(svg, width, height) {
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await picture.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * width;
  canvas.height = 2 * height;
  canvas.getContext("2d")?.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("views: the browser made no picture."))), "image/png");
  });
}
