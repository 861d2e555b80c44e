// The view as a widget: exact rows come from the Jupyter kernel.

import { themeOfHost } from "./host.js";
import { onThemeChange } from "./palette.js";
import { trace } from "./trace.js";

/**
 * @typedef {object} WidgetModel
 * @property {(name: string) => any} get
 * @property {(message: object) => void} send
 * @property {(event: string, act: (message: any, buffers: DataView[]) => void) => void} on
 * @property {(event: string, act: (message: any, buffers: DataView[]) => void) => void} off
 */

const THEMES = {
  light: "--card: #ffffff; --ink: #1c2430; --soft: #667085; --line: #e6e3dc; --a: #0b4f8a; --b: #d4600b; --gold: #c24e00",
  dark: "--card: #1a1f28; --ink: #e9edf3; --soft: #98a2b3; --line: #2a313d; --a: #7ab8f5; --b: #ff9d4d; --gold: #ff9a4d",
};

/** @param {{model: WidgetModel, el: HTMLElement}} given */
export function render({ model, el }) {
  const dress = () => {
    const theme = themeOfHost(document) ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    el.style.cssText = `${THEMES[theme]}; background: var(--card); color: var(--ink); padding: 16px; border-radius: 14px`;
  };
  dress();
  const undress = onThemeChange(dress); // register before the drawings, which read the colours set here
  /** @type {Map<number, {resolve: (values: Float32Array) => void, reject: (reason: Error) => void}>} */
  const waiting = new Map();
  let last = 0;

  /** @param {{id: number, error?: string}} message @param {DataView[]} buffers */
  function received(message, buffers) {
    const found = waiting.get(message.id);
    if (!found) return;
    waiting.delete(message.id);
    if (message.error) return found.reject(new Error(message.error));
    const { buffer, byteOffset, byteLength } = buffers[0];
    found.resolve(new Float32Array(buffer.slice(byteOffset, byteOffset + byteLength)));
  }

  /** @param {string} path @param {number} head @param {number} first @param {number} count @returns {Promise<Float32Array>} */
  function fetchRows(path, head, first, count) {
    return new Promise((resolve, reject) => {
      waiting.set(++last, { resolve, reject });
      model.send({ id: last, path, head, first, count });
    });
  }

  model.on("msg:custom", received);
  const view = trace(el, { data: model.get("data"), fetchRows });
  return () => {
    undress();
    model.off("msg:custom", received);
    view.destroy();
  };
}
