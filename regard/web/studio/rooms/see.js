// See: captions with attention, pictures with self-attention, handwritten characters.
import { html, useMemo, useRef, useState } from "../lib.js";
import { readWhole } from "../address.js";
import { CAPTIONERS, characterQuestion, CHARACTERS, CLASSIFIER, LABELS, PICTURES, SAMPLES } from "../defaults.js";
import { useAnswer, useMatrices, useSvgDrawing } from "../hooks.js";
import { Card, Choice, percent, Player, Problem, rowOf, Tabs, useModels } from "../parts.js";
import { readStrokes, writeStrokes } from "../strokes.js";
import { t } from "../texts.js";

/** @typedef {import("../types.js").RoomProps} RoomProps */
/** @typedef {import("../strokes.js").Stroke} Stroke */

/** @param {RoomProps} props */
export function See(props) {
  return html`<${Tabs} name="see" pages=${{ caption: Caption, sample: Sample, characters: Characters }} ...${props} />`;
}

/**
 * A square picture, its positions lit by their weights.
 * @param {{picture: string, weights: ArrayLike<number> | null, grid: [number, number], label: string, attach?: (element: any) => void, onPlace?: (x: number, y: number) => void, spot?: {x: number, y: number, size: number} | null}} props
 */
function Lit({ picture, weights, grid, label, attach, onPlace, spot }) {
  const [rows, columns] = grid;
  const most = weights ? Math.max(...Array.from(weights), 1e-9) : 1;
  const place = (/** @type {any} */ event) => {
    const box = event.currentTarget.getBoundingClientRect();
    onPlace?.(Math.max(0, Math.min(0.999, (event.clientX - box.left) / box.width)), Math.max(0, Math.min(0.999, (event.clientY - box.top) / box.height)));
  };
  return html`<svg class="picture" viewBox="0 0 1 1" role="img" aria-label=${label} ref=${attach} onPointerMove=${onPlace && place} onPointerDown=${onPlace && place}>
    <image href=${`data:image/png;base64,${picture}`} width="1" height="1" preserveAspectRatio="none" />
    ${weights && Array.from(weights, (weight, i) => html`<rect key=${i} class="veil" x=${(i % columns) / columns} y=${Math.floor(i / columns) / rows} width=${1.004 / columns} height=${1.004 / rows}
      opacity=${(0.86 * (1 - Math.sqrt(weight / most))).toFixed(3)} />`)}
    ${spot && html`<rect class="spot" x=${spot.x} y=${spot.y} width=${spot.size} height=${spot.size} stroke-width=".012" />`}
  </svg>`;
}

const COLOURS = ["red", "green", "blue", "yellow", "purple", "white"];
const PAINT = ["#e13c32", "#3cb44b", "#4169eb", "#fadc3c", "#a54bc8", "#f5f5f5"];
const SHAPES = ["circle", "square", "triangle", "cross", "diamond"];

/**
 * A scene as text: for each thing its cell, colour and shape, one digit each.
 * @param {string | undefined} text
 * @returns {([number, number] | null)[]} nine cells
 */
export function readScene(text) {
  /** @type {([number, number] | null)[]} */
  const cells = Array(9).fill(null);
  for (const [, cell, colour, shape] of (text ?? "").matchAll(/([0-8])([0-5])([0-4])/g)) cells[Number(cell)] = [Number(colour), Number(shape)];
  return cells;
}

/** @param {([number, number] | null)[]} cells */
export function writeScene(cells) {
  return cells.map((thing, i) => (thing ? `${i}${thing[0]}${thing[1]}` : "")).filter(Boolean).join(".");
}

/** @param {CanvasRenderingContext2D} pen @param {number} shape @param {number} x @param {number} y @param {number} r */
function paintShape(pen, shape, x, y, r) {
  const line = (/** @type {number[][]} */ points) => {
    for (const [u, v] of points) pen.lineTo(x + u * r, y + v * r);
    pen.closePath();
  };
  pen.beginPath();
  if (shape === 0) pen.arc(x, y, r, 0, 7);
  if (shape === 1) pen.rect(x - 0.85 * r, y - 0.85 * r, 1.7 * r, 1.7 * r);
  if (shape === 2) line([[0, -1.05], [0.9, 0.75], [-0.9, 0.75]]);
  if (shape === 3) {
    pen.rect(x - r, y - 0.34 * r, 2 * r, 0.68 * r);
    pen.rect(x - 0.34 * r, y - r, 0.68 * r, 2 * r);
  }
  if (shape === 4) line([[0, -1.05], [1.05, 0], [0, 1.05], [-1.05, 0]]);
  pen.fill();
}

/** @param {([number, number] | null)[]} cells @returns {string} a PNG in base64 */
function paintScene(cells) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 48;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.fillStyle = "#2a2a2a";
  pen.fillRect(0, 0, 48, 48);
  cells.forEach((thing, i) => {
    if (!thing) return;
    pen.fillStyle = PAINT[thing[0]];
    paintShape(pen, thing[1], (i % 3) * 16 + 8, Math.floor(i / 3) * 16 + 8, 6.2);
  });
  return canvas.toDataURL("image/png").split(",")[1];
}

/** @param {RoomProps} props */
function Caption({ values, change, models, live, still }) {
  const others = models.filter((each) => each.kind === "caption" && !CAPTIONERS.includes(each.name));
  const beside = others.some((each) => each.name === values.model) ? [values.model] : [];
  const number = readWhole(values.number ?? "1", 999);
  const own = values.scene !== undefined;
  const cells = useMemo(() => readScene(values.scene), [values.scene]);
  const [file, setFile] = useState(/** @type {string | null} */ (null));
  const [colour, setColour] = useState(0);
  const [shape, setShape] = useState(0);
  const [problem, setProblem] = useState(false);
  const [over, setOver] = useState(false);
  const picture = file ?? (own ? paintScene(cells) : null);
  const read = (/** @type {File | undefined} */ chosen) => {
    setOver(false);
    setProblem(false);
    if (!chosen) return;
    if (!["image/png", "image/jpeg"].includes(chosen.type) || chosen.size > 5_000_000) {
      setProblem(true);
      return;
    }
    const reader = new FileReader();
    reader.onload = () => setFile(String(reader.result).split(",")[1]);
    reader.readAsDataURL(chosen);
  };
  const put = (/** @type {number} */ cell) => {
    setFile(null);
    const next = cells.map((thing, i) => (i !== cell ? thing : thing && thing[0] === colour && thing[1] === shape ? null : /** @type {[number, number]} */ ([colour, shape])));
    change({ scene: writeScene(next) || "-", number: null });
  };
  const show = (/** @type {number} */ next) => {
    setFile(null);
    change({ scene: null, number: next });
  };
  return html`<div class="grid">
    <div class="halves">${[...CAPTIONERS, ...beside].map((model) => html`<${Described} key=${model} model=${model} picture=${picture} number=${number} still=${still} />`)}</div>
    <${Card} title=${t("see.picture")}>
      <div class=${over ? "drop" : ""} onDragOver=${(/** @type {DragEvent} */ event) => {
        event.preventDefault();
        setOver(true);
      }} onDragLeave=${() => setOver(false)} onDrop=${(/** @type {DragEvent} */ event) => {
        event.preventDefault();
        read(event.dataTransfer?.files[0]);
      }}>
        <p class="small quiet">${t("see.examples")}</p>
        <div class="row gap">${Array.from({ length: PICTURES }, (_, i) => html`<button class="chip" key=${i} aria-pressed=${!picture && number === i ? "true" : "false"} onClick=${() => show(i)}>${i + 1}</button>`)}
          ${live && html`<button class="button" onClick=${() => show(Math.floor(1000 * Math.random()))}>${t("see.another")}</button>`}</div>
        <p class="small quiet gap">${t("see.draw")}</p>
        <div class="scene gap" role="group" aria-label=${t("see.draw")}>${cells.map((thing, i) => html`<button key=${i} disabled=${!live} onClick=${() => put(i)} aria-label=${t("see.cell", { cell: i + 1, thing: thing ? `${t(`colour.${COLOURS[thing[0]]}`)} ${t(`shape.${SHAPES[thing[1]]}`)}` : t("see.empty") })}>
          ${thing && html`<${Thing} colour=${thing[0]} shape=${thing[1]} />`}</button>`)}</div>
        <div class="gap"><${Choice} label=${t("see.colour")} value=${String(colour)} onChange=${(/** @type {string} */ value) => setColour(Number(value))} options=${COLOURS.map((name, i) => ({ value: String(i), text: t(`colour.${name}`), title: t(`colour.${name}`), colour: PAINT[i] }))} /></div>
        <div class="gap"><${Choice} label=${t("see.shape")} value=${String(shape)} onChange=${(/** @type {string} */ value) => setShape(Number(value))} options=${SHAPES.map((name, i) => ({ value: String(i), text: t(`shape.${name}`) }))} /></div>
        <div class="row gap"><label class="button">${t("see.file")}<input class="hidden-label" type="file" accept="image/png,image/jpeg" disabled=${!live} onChange=${(/** @type {any} */ event) => read(event.target.files[0])} /></label>
          ${picture && html`<button class="button" onClick=${() => show(1)}>${t("see.clear")}</button>`}</div>
        ${problem && html`<p class="error" role="alert">${t("see.badfile")}</p>`}
        <p class="note">${t("see.world")} ${t("see.limit")}</p>
        ${others.length > 0 && html`<div class="tries gap small"><span class="quiet">${t("translate.beside")}</span>
          <div class="chips" role="group" aria-label=${t("translate.beside")}>${others.map(({ name, summary }) => html`<button class="chip" key=${name} title=${summary}
            aria-pressed=${beside.includes(name) ? "true" : "false"} onClick=${() => change({ model: beside.includes(name) ? null : name })}>${name}</button>`)}</div></div>`}
      </div>
    <//>
  </div>`;
}

/** @param {{colour: number, shape: number}} props */
function Thing({ colour, shape }) {
  const fill = PAINT[colour];
  return html`<svg viewBox="-1.2 -1.2 2.4 2.4" aria-hidden="true">${[
    html`<circle r="1" fill=${fill} />`, html`<rect x="-.85" y="-.85" width="1.7" height="1.7" fill=${fill} />`, html`<path d="M0,-1.05 L.9,.75 L-.9,.75Z" fill=${fill} />`,
    html`<path d="M-1,-.34H-.34V-1H.34V-.34H1V.34H.34V1H-.34V.34H-1Z" fill=${fill} />`, html`<path d="M0,-1.05 L1.05,0 L0,1.05 L-1.05,0Z" fill=${fill} />`,
  ][shape]}</svg>`;
}

/** @param {any} props a captioner's words for a picture */
function Described({ model, picture, number, still }) {
  const own = useAnswer("caption", picture ? { model, picture } : null, { delay: 150 });
  const kept = useAnswer(picture ? "" : `caption/example?model=${model}&number=${number}`, picture ? null : undefined, { file: "caption" });
  const { answer, error, busy } = picture ? own : kept;
  const [at, setAt] = useState(0);
  const { keep, attach } = useSvgDrawing();
  const maps = useMatrices(answer ? answer.maps : null);
  const words = answer?.words ?? [];
  const word = Math.min(at, Math.max(0, words.length - 1));
  const kind = ["see.soft", "see.hard"][CAPTIONERS.indexOf(model)];
  return html`<${Card} title=${kind ? t(kind) : model} keep=${keep} name=${answer?.text ?? model} note=${kind ? model : ""} busy=${busy}>
    <${Problem} error=${error} />
    ${answer && html`<${Lit} picture=${answer.picture ?? picture} weights=${maps?.[word]?.values ?? null} grid=${answer.grid} attach=${attach} label=${t("see.map", { word: words[word] ?? "" })} />
    <div class="caption-words" role="group" aria-label=${t("see.words")}>${words.map((/** @type {string} */ each, /** @type {number} */ i) => html`<button key=${i} aria-pressed=${i === word ? "true" : "false"}
      onMouseEnter=${() => setAt(i)} onFocus=${() => setAt(i)} onClick=${() => setAt(i)}>${each}</button>`)}</div>
    ${words.length > 1 && html`<${Player} length=${words.length} at=${word} onChange=${setAt} autoplay=${true} token=${`${number} ${picture ?? ""} ${still}`} still=${still} pace=${650} label=${t("see.play")} />`}`}
    ${kind && html`<p class="note">${t(`${kind}.note`)}</p>`}
  <//>`;
}

/** @param {RoomProps} props */
function Sample(props) {
  const { values, change } = props;
  const { model, choice } = useModels({ ...props, kind: "sample", first: SAMPLES.model });
  const seed = readWhole(values.seed ?? String(SAMPLES.seed), 2 ** 31 - 1);
  const chosen = readWhole(values.picture, SAMPLES.count - 1);
  const { answer, error, busy } = useAnswer("sample", { ...SAMPLES, model, seed }, { file: "sample" });
  const [place, setPlace] = useState({ x: 0.3, y: 0.35 });
  const { keep, attach } = useSvgDrawing();
  const map = answer?.maps?.[chosen] ?? null;
  const matrices = useMatrices(map ? [map] : null);
  const matrix = matrices?.[0] ?? null;
  const side = matrix ? Math.round(Math.sqrt(matrix.rows)) : 1;
  const keys = matrix ? Math.round(Math.sqrt(matrix.columns)) : 1;
  const cell = { x: Math.floor(place.x * side), y: Math.floor(place.y * side) };
  const weights = matrix ? rowOf(matrix, cell.y * side + cell.x) : null;
  const steer = (/** @type {KeyboardEvent} */ event) => {
    const shift = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!shift) return;
    event.preventDefault();
    const step = (/** @type {number} */ x, /** @type {number} */ by) => Math.max(0, Math.min(side - 1, x + by));
    setPlace({ x: (step(cell.x, shift[0]) + 0.5) / side, y: (step(cell.y, shift[1]) + 0.5) / side });
  };
  return html`<div class="grid">
    <${Card} title=${t("see.samples")} whole busy=${busy} extra=${html`<button class="button" onClick=${() => change({ seed: Math.floor(1 + 1e6 * Math.random()) })}>${t("see.draw.new")}</button>`}>
      <${Problem} error=${error} />
      ${answer && html`<div class="samples">${answer.pictures.map((/** @type {string} */ picture, /** @type {number} */ i) => html`<button key=${i} aria-pressed=${i === chosen ? "true" : "false"} onClick=${() => change({ picture: i || null })}>
        <img src=${`data:image/png;base64,${picture}`} alt=${t("see.sample", { number: i + 1, label: answer.labels[i] })} /></button>`)}</div>`}
      ${choice}
      ${model === SAMPLES.model && html`<p class="note">${t("see.samples.note")}</p>`}
    <//>
    ${answer && html`<${Card} title=${t("see.looks")} keep=${keep} name=${t("see.looks")}>
      <div tabindex="0" role="application" aria-label=${t("see.looks.label")} onKeyDown=${steer}>
        <${Lit} picture=${answer.pictures[chosen] ?? answer.pictures[0]} weights=${weights} grid=${[keys, keys]} attach=${attach} label=${t("see.looks")}
          onPlace=${(/** @type {number} */ x, /** @type {number} */ y) => setPlace({ x, y })} spot=${matrix && { x: cell.x / side, y: cell.y / side, size: 1 / side }} />
      </div>
      <p class="note">${matrix ? t("see.looks.note") : t("see.nomaps")}</p>
    <//>`}
  </div>`;
}

/** @param {RoomProps} props */
function Characters(props) {
  const { values, change, live } = props;
  const { model, choice } = useModels({ ...props, kind: "classify", first: CLASSIFIER });
  const given = (values.d ?? "").split("_");
  const drawn = given.length === 6 ? given : CHARACTERS;
  const enough = drawn.every((each) => each.length > 1);
  const { answer, error, busy } = useAnswer("classify", enough ? characterQuestion(model, drawn) : null, { file: "classify", delay: 350 });
  const matrices = useMatrices(answer ? [answer.weights] : null);
  const weights = matrices?.[0] ?? null;
  const put = (/** @type {number} */ i, /** @type {string} */ strokes) => change({ d: drawn.map((each, j) => (i === j ? strokes : each)).join("_") });
  const looked = weights ? LABELS.map((_, i) => {
    let most = 0;
    for (let block = 0; block < weights.rows; block++) most = Math.max(most, weights.values[block * weights.columns + i]);
    return most;
  }) : null;
  return html`<div class="stack">
    <${Card} title=${t("see.five")} whole extra=${html`<button class="button" onClick=${() => change({ d: null })}>${t("see.restore")}</button>`}>
      <div class="pads">${LABELS.map((label, i) => html`<div class="pad-box" key=${label}>
        <${Pad} strokes=${drawn[i]} onChange=${(/** @type {string} */ strokes) => put(i, strokes)} label=${t("see.pad", { label })} strong=${answer?.label === label} live=${live} />
        <span class="row spread small"><b>${label}</b><span class=${answer?.label === label ? "good" : "quiet"}>${answer ? percent(answer.probabilities[label]) : ""}</span></span>
        <span class="bar" style=${{ width: `${answer ? Math.round(100 * answer.probabilities[label]) : 0}%` }}></span>
        ${looked && html`<span class="quiet small">${t("see.attended", { share: percent(looked[i]) })}</span>`}
      </div>`)}</div>
    <//>
    <${Card} title=${t("see.sixth")} whole busy=${busy}>
      <div class="row"><div class="pad-box query"><${Pad} strokes=${drawn[5]} onChange=${(/** @type {string} */ strokes) => put(5, strokes)} label=${t("see.sixth")} live=${live} /></div>
      <div class="grow"><p class="answer-line" aria-live="polite">${enough && answer ? t("see.named", { label: answer.label, share: percent(answer.probabilities[answer.label]) }) : t("see.drawall")}</p>
        ${choice}<p class="note">${t("see.snail")} ${live && t("see.pad.keys")}</p><${Problem} error=${error} /></div></div>
    <//>
  </div>`;
}

/** @param {any} props a square to draw into */
function Pad({ strokes, onChange, label, strong, live }) {
  const [line, setLine] = useState(/** @type {Stroke | null} */ (null));
  const [pen, setPen] = useState(/** @type {[number, number] | null} */ (null)); // where the keys have it
  const held = useRef(/** @type {Stroke | null} */ (null));
  const lines = useMemo(() => readStrokes(strokes), [strokes]);
  const where = (/** @type {any} */ event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const on = (/** @type {number} */ x) => Math.max(0, Math.min(35, Math.floor(36 * x)));
    return /** @type {[number, number]} */ ([on((event.clientX - box.left) / box.width), on((event.clientY - box.top) / box.height)]);
  };
  const down = (/** @type {any} */ event) => {
    if (!live) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    held.current = [where(event)];
    setLine(held.current);
  };
  const move = (/** @type {any} */ event) => {
    if (!held.current) return;
    const point = where(event);
    const last = held.current[held.current.length - 1];
    if (Math.abs(point[0] - last[0]) + Math.abs(point[1] - last[1]) < 2) return;
    held.current = [...held.current, point];
    setLine(held.current);
  };
  const up = () => {
    if (held.current) onChange(writeStrokes([...lines, held.current]));
    held.current = null;
    setLine(null);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const shift = { ArrowLeft: [-2, 0], ArrowRight: [2, 0], ArrowUp: [0, -2], ArrowDown: [0, 2] }[event.key];
    if (!shift && event.key !== " ") return;
    event.preventDefault();
    const [x, y] = pen ?? [17, 17];
    const on = (/** @type {number} */ place) => Math.max(0, Math.min(35, place));
    const to = /** @type {[number, number]} */ (shift ? [on(x + shift[0]), on(y + shift[1])] : [x, y]);
    setPen(to);
    if (!shift && held.current) return up();
    if (!shift || held.current) held.current = [...(held.current ?? []), to];
    return setLine(held.current);
  };
  const leave = () => {
    up();
    setPen(null);
  };
  const draw = (/** @type {Stroke} */ stroke, /** @type {number} */ i) => html`<polyline key=${i} points=${[...stroke, stroke[stroke.length - 1]].map(([x, y]) => `${x + 0.5},${y + 0.5}`).join(" ")} />`;
  return html`<svg class=${`pad${strong ? " chosen" : ""}`} viewBox="0 0 36 36" role=${live ? "application" : "img"} tabindex=${live ? 0 : null} aria-label=${label}
    onPointerDown=${down} onPointerMove=${move} onPointerUp=${up} onPointerCancel=${up} onKeyDown=${live && keys} onBlur=${leave}>
    ${[...lines, ...(line ? [line] : [])].map(draw)}
    ${pen && html`<circle class=${line ? "pen down" : "pen"} cx=${pen[0] + 0.5} cy=${pen[1] + 0.5} r="1.6" />`}
  </svg>
  ${live && html`<button class="chip" onClick=${() => onChange("")} aria-label=${t("see.erase.of", { label })}>${t("see.erase")}</button>`}`;
}
