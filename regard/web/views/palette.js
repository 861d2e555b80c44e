// Colours of weights: a sequential scale of monotonic lightness, so that it reads the
// same with any colour vision and in print. Colours of the page come from its CSS variables.

/** @typedef {[number, number, number]} Rgb */
/** @typedef {{paper: string, ink: string, soft: string, line: string, accent: string, strong: string, gold: string}} Colours */
/** @typedef {{dark: boolean, colours: Colours, scale: Uint32Array, marked: Uint32Array}} Theme */

const LIGHT = ["#ffffff", "#dbe8f4", "#a9cbe6", "#5b9ac9", "#1f6aa8", "#0b4f8a", "#07305c"];
const DARK = ["#1a1f28", "#1d3450", "#22507f", "#2f76b5", "#5ca5e6", "#9accf8", "#e8f4ff"];
const LIGHT_MARKED = ["#fff4e6", "#ffdfbd", "#fbb877", "#ea8a35", "#d4600b", "#a84405", "#6b2a02"];
const DARK_MARKED = ["#2d2416", "#4d3318", "#85501a", "#c4741f", "#ff9d4d", "#ffc48f", "#fff0e0"];

/** @type {Record<"light" | "dark", Colours>} */
const FALLBACK = {
  light: {
    paper: "#ffffff", ink: "#1c2430", soft: "#667085", line: "#e6e3dc", accent: "#0b4f8a", strong: "#d4600b",
    gold: "#c24e00",
  },
  dark: {
    paper: "#1a1f28", ink: "#e9edf3", soft: "#98a2b3", line: "#2a313d", accent: "#7ab8f5", strong: "#ff9d4d",
    gold: "#ff9a4d",
  },
};
const VARIABLES = /** @type {[keyof Colours, string][]} */ ([
  ["paper", "--card"], ["ink", "--ink"], ["soft", "--soft"], ["line", "--line"], ["accent", "--a"],
  ["strong", "--b"], ["gold", "--gold"],
]);

/** "#1a2b3c" -> [26, 43, 60]
 * @param {string} colour @returns {Rgb} */
export function parseHex(colour) {
  const number = parseInt(colour.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

/** The stops of the scale, from zero to the largest weight.
 * @param {boolean} dark @param {boolean} [marked] */
export function stops(dark, marked = false) {
  if (marked) return dark ? DARK_MARKED : LIGHT_MARKED;
  return dark ? DARK : LIGHT;
}

/** The colour of a weight, as a share of the largest from 0 to 1.
 * @param {number} share @param {boolean} dark @param {boolean} [marked] @returns {Rgb} */
export function colourOf(share, dark, marked = false) {
  const colours = stops(dark, marked);
  const place = Math.min(1, Math.max(0, share)) * (colours.length - 1);
  const first = Math.min(colours.length - 2, Math.floor(place));
  const low = parseHex(colours[first]), high = parseHex(colours[first + 1]);
  const mix = (/** @type {number} */ i) => Math.round(low[i] + (high[i] - low[i]) * (place - first));
  return [mix(0), mix(1), mix(2)];
}

/** 256 colours as numbers for a Uint32Array over ImageData.
 * @param {boolean} dark @param {boolean} [marked] */
export function table(dark, marked = false) {
  const colours = new Uint32Array(256);
  const bytes = new Uint8ClampedArray(colours.buffer);
  for (let level = 0; level < 256; level++) bytes.set([...colourOf(level / 255, dark, marked), 255], 4 * level);
  return colours;
}

/** The level of a weight on the scale; the square root makes small weights visible.
 * @param {number} weight @param {number} largest */
export function levelOf(weight, largest) {
  if (!(weight > 0) || !(largest > 0)) return 0;
  return Math.round(255 * Math.sqrt(Math.min(1, weight / largest)));
}

/** Relative luminance of a colour, 0 to 1.
 * @param {Rgb} colour */
export function luminance(colour) {
  const linear = colour.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

/** The theme of the page around the element, with a matching scale.
 * @param {Element} element @returns {Theme} */
export function themeOf(element) {
  const style = getComputedStyle(element);
  const card = style.getPropertyValue("--card").trim();
  const dark = card ? isDark(card) : matchMedia("(prefers-color-scheme: dark)").matches;
  const colours = { ...FALLBACK[dark ? "dark" : "light"] };
  for (const [name, variable] of VARIABLES) colours[name] = style.getPropertyValue(variable).trim() || colours[name];
  return { dark, colours, scale: table(dark), marked: table(dark, true) };
}

/** @param {string} colour any CSS colour */
function isDark(colour) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d");
  if (!pen) return false;
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
  return luminance([red, green, blue]) < 0.2;
}

/** Call `changed` when the page switches between light and dark; returns a function that stops it.
 * @param {() => void} changed */
export function onThemeChange(changed) {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const observer = new MutationObserver(changed);
  query.addEventListener("change", changed);
  for (const root of [document.documentElement, document.body]) {
    observer.observe(root, { attributes: true, attributeFilter: ["data-theme", "data-jp-theme-light", "class", "style"] });
  }
  return () => {
    query.removeEventListener("change", changed);
    observer.disconnect();
  };
}
