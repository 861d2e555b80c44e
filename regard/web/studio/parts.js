// Components shared by several rooms.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./lib.js";
import { curves } from "../views/curves.js";
import { heads } from "../views/heads.js";
import { heatmap } from "../views/heatmap.js";
import { firstModel } from "./defaults.js";
import { download, fileName, partDrawing, savedPage } from "./save.js";
import { currentLanguage, t, tOr, viewWords } from "./texts.js";

/** @typedef {import("./api.js").ApiError} ApiError */
/** @typedef {import("./types.js").Matrix} Matrix */
/** @typedef {import("./types.js").Drawing} Drawing */
/** @typedef {{current: Drawing | null}} DrawingRef */

/** @param {Matrix} matrix @returns {Matrix} */
export function transpose({ rows, columns, values }) {
  const turned = new Float32Array(values.length);
  for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) turned[c * rows + r] = values[r * columns + c];
  return { rows: columns, columns: rows, values: turned };
}

/** @param {Matrix} matrix @param {number} row */
export function rowOf({ columns, values }, row) {
  return values.subarray(row * columns, (row + 1) * columns);
}

/**
 * A view of regard/web/views as a component; it is passed only what has changed.
 * @param {{draw: (element: HTMLElement, data: any) => any, data: Record<string, any>, hot?: Hot, keep?: DrawingRef, className?: string}} props
 */
export function View({ draw, data, hot, keep, className }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const view = useRef(/** @type {any} */ (null));
  const latest = useRef(data);
  const told = useRef(/** @type {Record<string, any>} */ ({}));
  latest.current = data;
  useLayoutEffect(() => {
    if (!place.current) return;
    const plain = Object.fromEntries(Object.entries(data).filter(([, value]) => typeof value !== "function"));
    const changed = Object.fromEntries(Object.entries(plain).filter(([key, value]) => !same(value, told.current[key])));
    told.current = plain;
    if (!view.current) {
      const acts = Object.keys(data).filter((key) => typeof data[key] === "function");
      const follow = Object.fromEntries(acts.map((key) => [key, (/** @type {any[]} */ ...given) => latest.current[key](...given)]));
      view.current = draw(place.current, { ...plain, ...follow });
    } else if (Object.keys(changed).length) view.current.update(changed);
    if (keep) keep.current = view.current;
  });
  useLayoutEffect(() => view.current?.highlight?.(hot?.row ?? -1, hot?.column ?? -1), [hot?.row, hot?.column]);
  useEffect(() => () => {
    view.current?.destroy();
    view.current = null;
    if (keep) keep.current = null;
  }, []);
  return html`<div class=${className} ref=${place}></div>`;
}

/** @param {any} a @param {any} b */
function same(a, b) {
  if (!Array.isArray(a) || !Array.isArray(b)) return a === b;
  return a.length === b.length && a.every((each, i) => each === b[i]);
}

/** @typedef {{row: number, column: number}} Hot the cell pointed at; -1: none */

/** @param {{matrix: Matrix, rows: string[], columns: string[], label: string, hot?: Hot, keep?: DrawingRef, selected?: number, onHover?: (row: number, column: number) => void, onSelect?: (row: number) => void, say?: (row: number, column: number) => string, largest?: number, least?: number, maxHeight?: number}} props */
export function HeatMap({ keep, hot, ...data }) {
  return html`<${View} draw=${heatmap} data=${{ ...data, words: viewWords() }} hot=${hot} keep=${keep} className="map" />`;
}

/** @param {{matrix: Matrix, rows: string[], columns: string[], label: string, hot?: Hot, keep?: DrawingRef, selected?: number, onHover?: (row: number, column: number) => void, height?: number}} props */
export function Curves({ keep, hot, ...data }) {
  return html`<${View} draw=${curves} data=${{ ...data, words: viewWords() }} hot=${hot} keep=${keep} className="flow" />`;
}

/** @param {{layers: number, heads: number, thumbnail: (layer: number, head: number) => Promise<Matrix | null>, onSelect: (layer: number, head: number) => void, selected: [number, number], size?: number, keep?: DrawingRef}} props */
export function HeadGrid({ keep, ...data }) {
  return html`<${View} draw=${heads} data=${{ ...data, words: viewWords() }} keep=${keep} />`;
}

/**
 * @param {{title: string, children?: any, keep?: DrawingRef, whole?: boolean, file?: boolean, name?: string, note?: string, wide?: boolean, extra?: any, busy?: boolean}} props
 * `keep`: a drawing to save; `whole`: save the whole card; `file`: the title is a file name
 */
export function Card({ title, children, keep, whole, file, name, note, wide, extra, busy }) {
  const all = useRef(/** @type {Drawing | null} */ (null));
  const saved = whole ? all : keep;
  return html`<section class=${`card${wide ? " wide" : ""}`} aria-label=${title} aria-busy=${busy ? "true" : "false"}>
    <div class="head"><h2 class=${file ? "file" : null}>${title}</h2>${extra}${saved && html`<${SaveMenu} keep=${saved} title=${name ?? title} note=${note ?? ""} />`}</div>
    <div class=${busy ? "busy" : ""} ref=${(/** @type {Element | null} */ element) => {
      all.current = element && partDrawing(element);
    }}>${children}</div>
  </section>`;
}

/** @param {{keep: DrawingRef, title: string, note: string}} props */
export function SaveMenu({ keep, title, note }) {
  const [open, setOpen] = useState(false);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!open) return undefined;
    /** @type {HTMLElement | null | undefined} */ (box.current?.querySelector("li button"))?.focus();
    const leave = (/** @type {Event} */ event) => {
      if (!box.current?.contains(/** @type {Node} */ (event.target))) setOpen(false);
    };
    document.addEventListener("pointerdown", leave);
    return () => document.removeEventListener("pointerdown", leave);
  }, [open]);
  const close = () => {
    setOpen(false);
    /** @type {HTMLElement | null | undefined} */ (box.current?.querySelector("button"))?.focus();
  };
  const save = async (/** @type {"png" | "svg" | "html"} */ kind) => {
    close();
    const drawing = keep.current;
    if (!drawing) return;
    const name = `${fileName(title)}.${kind}`;
    if (kind === "png") return download(await drawing.toPNG(), name);
    const svg = drawing.toSVG();
    if (kind === "svg") return download(new Blob([svg], { type: "image/svg+xml" }), name);
    const dark = document.documentElement.dataset.theme === "dark";
    const page = savedPage({ title, note, svg, address: location.href, dark, lang: currentLanguage() });
    return download(new Blob([page], { type: "text/html" }), name);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const items = [...(box.current?.querySelectorAll("li button") ?? [])];
    const at = items.indexOf(/** @type {Element} */ (document.activeElement));
    if (event.key === "Escape") close();
    else if (event.key === "Tab") setOpen(false);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : items.length - 1;
      /** @type {HTMLElement} */ (items[(at + step) % items.length])?.focus();
    }
  };
  return html`<div class="menu" ref=${box} onKeyDown=${open ? keys : null}>
    <button class="button" aria-expanded=${open ? "true" : "false"} onClick=${() => setOpen(!open)}>${t("save")}</button>
    ${open && html`<ul>
      <li><button onClick=${() => save("png")}>${t("save.png")}</button></li>
      <li><button onClick=${() => save("svg")}>${t("save.svg")}</button></li>
      <li><button onClick=${() => save("html")}>${t("save.page")}</button></li>
    </ul>`}
  </div>`;
}

/**
 * A choice of one option, as a row of chips or colours; arrow keys move.
 * @param {{label: string, options: {value: string, text: string, title?: string, colour?: string}[], value: string, onChange: (value: string) => void}} props
 */
export function Choice({ label, options, value, onChange }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const at = Math.max(0, options.findIndex((each) => each.value === value));
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (at + step + options.length) % options.length;
    onChange(options[next].value);
    /** @type {HTMLElement | undefined} */ (box.current?.children[next])?.focus();
  };
  return html`<div class="chips" role="radiogroup" aria-label=${label} ref=${box} onKeyDown=${keys}>
    ${options.map((each, i) => html`<button class=${each.colour ? "swatch" : "chip"} role="radio" key=${each.value} title=${each.title ?? ""} aria-label=${each.text}
      style=${{ backgroundColor: each.colour }} aria-checked=${each.value === value ? "true" : "false"} tabindex=${i === at ? 0 : -1}
      onClick=${() => onChange(each.value)}>${each.colour ? "" : each.text}</button>`)}
  </div>`;
}

/**
 * The tabs of a room; the first one has no address of its own.
 * @param {import("./types.js").RoomProps & {name: string, pages: Record<string, any>}} props
 */
export function Tabs({ name, pages, ...props }) {
  const { values, change } = props;
  const tabs = Object.keys(pages);
  const tab = tabs.includes(values.tab) ? values.tab : tabs[0];
  const go = (/** @type {string} */ next) => change({ tab: next === tabs[0] ? null : next, model: null });
  return html`<div class="tabs"><${Choice} label=${t("tabs")} value=${tab} onChange=${go} options=${tabs.map((each) => ({ value: each, text: t(`${name}.tab.${each}`) }))} /></div>
    <${pages[tab]} key=${tab} ...${props} />`;
}

/**
 * A choice of models if there are several; `first` is the one that the room is made for.
 * @param {import("./types.js").RoomProps & {kind: string, first: string}} props
 */
export function useModels({ values, change, models, kind, first }) {
  const choices = models.filter((each) => each.kind === kind);
  const model = values.model ?? firstModel(choices, first);
  const limits = choices.find((each) => each.name === model)?.limits ?? {};
  const choice = choices.length > 1 && html`<div class="gap"><${Choice} label=${t("translate.model")} value=${model} onChange=${(/** @type {string} */ name) => change({ model: name })}
    options=${choices.map((each) => ({ value: each.name, text: each.name, title: each.summary }))} /></div>`;
  return { model, limits, choice };
}

/** @param {{error: ApiError | null}} props */
export function Problem({ error }) {
  if (!error) return null;
  const said = tOr(`error.${error.code}`, "");
  return html`<p class="error" role="alert">${said || (error.message ? "" : t("error.unknown"))} ${error.message && html`<span lang="en">${error.message}</span>`}</p>`;
}

/**
 * Play, pause, step and scrub through `length` steps.
 * @param {{length: number, at: number, onChange: (at: number) => void, autoplay?: boolean, pace?: number, still: boolean, label: string, token?: string}} props
 * `token`: restart when it changes
 */
export function Player({ length, at, onChange, autoplay, pace = 450, still, label, token }) {
  const [playing, setPlaying] = useState(false);
  const place = useRef(at);
  place.current = at;
  useEffect(() => {
    if (!autoplay || length < 2) return;
    if (still) onChange(length - 1);
    else {
      onChange(0);
      setPlaying(true);
    }
  }, [token]);
  useEffect(() => {
    if (!playing) return undefined;
    const timer = setInterval(() => {
      if (place.current >= length - 1) setPlaying(false);
      else onChange(place.current + 1);
    }, pace);
    return () => clearInterval(timer);
  }, [playing, length, pace]);
  const go = (/** @type {number} */ to) => {
    setPlaying(false);
    onChange(Math.max(0, Math.min(length - 1, to)));
  };
  const toggle = () => {
    if (!playing && at >= length - 1) onChange(0);
    setPlaying(!playing);
  };
  return html`<div class="player" role="group" aria-label=${label}>
    <button class="button" onClick=${toggle} aria-label=${playing ? t("pause") : t("play")}>${playing ? "❚❚" : "▶"}</button>
    <button class="button" onClick=${() => go(at - 1)} disabled=${at <= 0} aria-label=${t("step.back")}>‹</button>
    <button class="button" onClick=${() => go(at + 1)} disabled=${at >= length - 1} aria-label=${t("step.on")}>›</button>
    <input type="range" min="0" max=${Math.max(0, length - 1)} value=${at} aria-label=${label}
      onInput=${(/** @type {any} */ event) => go(Number(event.target.value))} />
    <span class="count">${t("step.of", { step: Math.min(at + 1, length), steps: length })}</span>
  </div>`;
}

/** @param {{used: number, most: number | undefined, what?: string}} props usage of a limit, displayed when close to it */
export function Limit({ used, most, what = "characters" }) {
  if (!most || used < 0.8 * most) return null;
  return html`<p class=${`note ${used > most ? "bad" : ""}`}>${t(`limit.${what}`, { used, most })}</p>`;
}

/** @param {number} share */
export function percent(share) {
  return `${Math.round(100 * share)} %`;
}
