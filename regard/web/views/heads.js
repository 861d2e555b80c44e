// All heads at a glance: one row per layer, one thumbnail per head.

import { largest } from "./matrix.js";
import { levelOf, onThemeChange, themeOf } from "./palette.js";
import { addStyle, escapeXml, make } from "./style.js";

/** @typedef {import("./matrix.js").Matrix} Matrix */
/**
 * @typedef {object} HeadsOptions
 * @property {number} layers
 * @property {number} heads the largest number in a layer
 * @property {(layer: number, head: number) => Matrix | null | Promise<Matrix | null>} thumbnail null if the layer has no such head
 * @property {(layer: number, head: number) => void} [onSelect]
 * @property {[number, number]} [selected] layer and head
 * @property {string} [label]
 * @property {number} [size] of a picture, in pixels
 * @property {string[]} [names] of the layers; default: their numbers
 * @property {Partial<typeof WORDS>} [words]
 */

const WORDS = { layer: "Layer", head: "head", heads: "Heads" };

/** @param {HTMLElement} element @param {HeadsOptions} given */
export function heads(element, given) {
  let options = { ...given };
  let words = { ...WORDS, ...options.words };
  addStyle(element);
  const view = make("div", "rg-view", element);
  const box = make("div", "rg-heads", view);
  /** @type {Map<Element, [number, number]>} */
  const places = new Map();
  /** @type {Map<string, HTMLButtonElement>} */
  const buttons = new Map();
  /** @type {Map<string, Matrix>} */
  const drawn = new Map();
  let selected = options.selected ?? /** @type {[number, number]} */ ([0, 0]);
  let theme = themeOf(element);
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const place = places.get(entry.target);
      if (!entry.isIntersecting || !place) continue;
      seen.unobserve(entry.target);
      void show(...place);
    }
  }, { rootMargin: "200px" });

  function build() {
    seen.disconnect();
    places.clear();
    buttons.clear();
    drawn.clear();
    const { layers, heads: count, size = 34 } = options;
    const table = document.createElement("table");
    table.setAttribute("role", "grid");
    table.setAttribute("aria-label", options.label ?? `${words.heads}: ${layers} × ${count}`);
    const top = make("tr", "", make("thead", "", table));
    make("th", "", top);
    for (let head = 0; head < count; head++) make("th", "", top).textContent = String(head);
    const body = make("tbody", "", table);
    for (let layer = 0; layer < layers; layer++) {
      const row = make("tr", "", body);
      const title = make("th", "", row);
      title.scope = "row";
      title.textContent = options.names?.[layer] ?? String(layer);
      for (let head = 0; head < count; head++) {
        const button = make("button", "", make("td", "", row));
        button.type = "button";
        button.style.width = button.style.height = `${size}px`;
        button.tabIndex = -1;
        button.title = `${words.layer} ${options.names?.[layer] ?? layer}, ${words.head} ${head}`;
        button.setAttribute("aria-label", button.title);
        make("canvas", "", button);
        button.addEventListener("click", () => choose(layer, head));
        button.addEventListener("keydown", (event) => move(event, layer, head));
        places.set(button, [layer, head]);
        buttons.set(`${layer} ${head}`, button);
        seen.observe(button);
      }
    }
    box.replaceChildren(table);
    press();
  }

  /** @param {number} layer @param {number} head */
  async function show(layer, head) {
    const key = `${layer} ${head}`, button = buttons.get(key), matrix = await options.thumbnail(layer, head);
    if (!button || button !== buttons.get(key)) return; // the grid has changed meanwhile
    if (!matrix) {
      button.style.visibility = "hidden";
      button.disabled = true;
      return;
    }
    drawn.set(key, matrix);
    paint(button, matrix);
  }

  /** @param {HTMLButtonElement} button @param {Matrix} matrix */
  function paint(button, matrix) {
    const canvas = /** @type {HTMLCanvasElement} */ (button.firstElementChild);
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const { rows, columns, values } = matrix, end = largest(matrix);
    canvas.width = Math.max(1, columns);
    canvas.height = Math.max(1, rows);
    canvas.style.imageRendering = "pixelated";
    const image = pen.createImageData(canvas.width, canvas.height), pixels = new Uint32Array(image.data.buffer);
    for (let i = 0; i < values.length; i++) pixels[i] = theme.scale[levelOf(values[i], end)];
    pen.putImageData(image, 0, 0);
  }

  function press() {
    for (const [button, [layer, head]] of places) {
      const on = layer === selected[0] && head === selected[1];
      button.setAttribute("aria-pressed", String(on));
      /** @type {HTMLButtonElement} */ (button).tabIndex = on ? 0 : -1;
      if (on && box.matches(":focus-within")) /** @type {HTMLButtonElement} */ (button).focus();
    }
  }

  /** @param {number} layer @param {number} head */
  function choose(layer, head) {
    selected = [layer, head];
    press();
    options.onSelect?.(layer, head);
  }

  /** @param {KeyboardEvent} event @param {number} layer @param {number} head */
  function move(event, layer, head) {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [0, 0];
    const next = buttons.get(`${layer + down} ${head + right}`);
    if (!(down || right) || !next || next.disabled) return;
    event.preventDefault();
    choose(layer + down, head + right);
  }

  build();
  const endTheme = onThemeChange(() => {
    theme = themeOf(element);
    for (const [key, matrix] of drawn) {
      const button = buttons.get(key);
      if (button) paint(button, matrix);
    }
  });

  /** The whole grid as one canvas. */
  function picture() {
    const { layers, heads: count, size = 34 } = options, step = size + 4, ratio = 2, margin = 28;
    const canvas = document.createElement("canvas");
    canvas.width = (margin + count * step) * ratio;
    canvas.height = (margin + layers * step) * ratio;
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    pen.scale(ratio, ratio);
    pen.fillStyle = theme.colours.paper;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.fillStyle = theme.colours.soft;
    pen.font = `12px ${getComputedStyle(view).fontFamily || "sans-serif"}`;
    pen.textAlign = "center";
    pen.imageSmoothingEnabled = false;
    for (let head = 0; head < count; head++) pen.fillText(String(head), margin + head * step + size / 2, 18);
    for (let layer = 0; layer < layers; layer++) {
      pen.fillText(options.names?.[layer] ?? String(layer), margin / 2, margin + layer * step + size / 2 + 4);
      for (let head = 0; head < count; head++) {
        const canvas = buttons.get(`${layer} ${head}`)?.firstElementChild;
        if (drawn.has(`${layer} ${head}`)) pen.drawImage(/** @type {HTMLCanvasElement} */ (canvas), margin + head * step, margin + layer * step, size, size);
      }
    }
    return canvas;
  }

  async function all() {
    for (let layer = 0; layer < options.layers; layer++) {
      for (let head = 0; head < options.heads; head++) if (!drawn.has(`${layer} ${head}`)) await show(layer, head);
    }
  }

  return {
    /** The size of the whole grid in pixels. */
    width: () => box.firstElementChild?.clientWidth ?? 0,
    /** @param {Partial<HeadsOptions>} data */
    update(data) {
      options = { ...options, ...data };
      words = { ...WORDS, ...options.words };
      if (data.selected) selected = data.selected;
      if (Object.keys(data).every((key) => key === "selected")) return press();
      return build();
    },
    destroy() {
      seen.disconnect();
      endTheme();
      view.remove();
    },
    /** @returns {Promise<Blob>} */
    async toPNG() {
      await all();
      return new Promise((resolve, reject) => {
        picture().toBlob((blob) => (blob ? resolve(blob) : reject(new Error("heads: the browser made no picture."))), "image/png");
      });
    },
    /** The thumbnails drawn so far. */
    toSVG() {
      const canvas = picture(), label = escapeXml(options.label ?? words.heads);
      return `<svg xmlns="http://www.w3.org/2000/svg" width="${canvas.width / 2}" height="${canvas.height / 2}"><title>${label}</title>` +
        `<image width="${canvas.width / 2}" height="${canvas.height / 2}" href="${canvas.toDataURL()}"/></svg>\n`;
    },
  };
}
