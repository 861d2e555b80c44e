// Remember: a Neural Turing Machine writes bits onto its tape and reads them back.
import { html, useLayoutEffect, useMemo, useRef, useState } from "../lib.js";
import { readBits, readWhole, writeBits } from "../address.js";
import { firstModel, someBits, tapeQuestion, tapeRule } from "../defaults.js";
import { useAnswer, useMatrices, useSvgDrawing, useWidth } from "../hooks.js";
import { Card, Choice, Player, Problem, rowOf } from "../parts.js";
import { t, tOr } from "../texts.js";

/** @typedef {import("../types.js").RoomProps} RoomProps */
/** @typedef {import("../types.js").Matrix} Matrix */

const STAGES = ["content", "gated", "shifted", "sharpened"];
/** @param {RoomProps} props */
export function Remember({ values, change, models, still }) {
  const choices = models.filter((model) => model.kind === "run" && model.tape);
  const model = choices.some((each) => each.name === values.model) ? values.model : firstModel(choices, "ntm-copy");
  const rule = tapeRule(choices.find((each) => each.name === model));
  const bits = useMemo(() => {
    const given = readBits(values.bits, rule.width);
    return given && given.length % rule.item === 0 && given.length / rule.item <= rule.most ? given : someBits(rule.rows * rule.item, rule.width, rule.seed);
  }, [values.bits, model, rule.item, rule.width]);
  const count = bits.length / rule.item;
  const asked = readWhole(values.ask, Math.max(0, count - 2));
  const [plays, setPlays] = useState(0);
  const body = tapeQuestion(model, rule.item, bits, asked);
  const { answer, of, error, busy } = useAnswer("run", body, { file: "run", delay: 200 });
  const set = (/** @type {number[][]} */ next, play = false) => {
    change({ bits: writeBits(next) });
    if (play) setPlays(plays + 1);
  };
  const resize = (/** @type {number} */ size) => {
    const rows = size * rule.item;
    set(rows <= bits.length ? bits.slice(0, rows) : [...bits, ...someBits(rows - bits.length, rule.width, rows * 31 + 7)]);
  };
  const flip = (/** @type {number} */ row, /** @type {number} */ bit) => set(bits.map((each, i) => (i === row ? each.map((x, j) => (j === bit ? 1 - x : x)) : each)));
  return html`<div class="stack">
    <${Card} title=${t("remember.task")}>
      <div class="row spread">
        <${Choice} label=${t("remember.task")} value=${model} onChange=${(/** @type {string} */ name) => change({ model: name, bits: null, ask: null, step: null })}
          options=${choices.map((each) => ({ value: each.name, text: tOr(`model.${each.name}`, each.name), title: each.summary }))} />
        <button class="button" onClick=${() => set(someBits(bits.length, rule.width, Math.floor(1 + 1e6 * Math.random())), true)}>${t("remember.random")}</button>
      </div>
      <div class="sliders">
        <label class="field">${t(rule.item === 1 ? "remember.length" : "remember.items")} <span class="row"><input type="range" min=${rule.least} max=${rule.most} value=${count}
          onInput=${(/** @type {any} */ event) => resize(Number(event.target.value))} /><output>${count}</output></span></label>
        ${rule.item > 1 && html`<label class="field">${t("remember.ask")} <span class="row"><input type="range" min="0" max=${count - 2} value=${asked}
          onInput=${(/** @type {any} */ event) => change({ ask: event.target.value })} /><output>${asked + 1}</output></span></label>`}
      </div>
      <p class="note">${t(count > rule.trained ? "remember.beyond" : "remember.within", { trained: rule.trained, most: rule.most })}</p>
      <${Problem} error=${error} />
    <//>
    ${answer && of.model === model && html`<${Machine} key=${model} answer=${answer} rule=${rule} bits=${bits} flip=${flip} busy=${busy} still=${still} token=${`${plays}`} />`}
  </div>`;
}

/**
 * The index of the bit vector at a step of the input; -1 if the step has none.
 * @param {number} step
 * @param {number} item vectors of an item
 * @param {number} rows number of vectors
 */
export function rowOfStep(step, item, rows) {
  if (item === 1) return step < rows ? step : -1;
  const place = step % (item + 1);
  const row = Math.floor(step / (item + 1)) * item + place - 1;
  return place > 0 && row < rows ? row : -1;
}

/** @param {any} props */
function Machine({ answer, rule, bits, flip, busy, still, token }) {
  const [at, setAt] = useState(0);
  const [picked, setPicked] = useState("");
  const [place, setPlace] = useState(0);
  const steps = answer.inputs.length;
  const step = Math.min(at, steps - 1);
  const chosen = picked || (step < steps - answer.right.length - 1 ? "write" : "read");
  const tape = useSvgDrawing();
  const kinds = ["write", "read"].map((kind) => answer.heads.filter((/** @type {any} */ head) => head.kind === kind));
  const most = Math.max(...kinds.map((each) => each.length));
  const heads = kinds.map((each) => each[Math.min(place, each.length - 1)]);
  const weights = useMatrices(heads.map((head) => head.weights));
  const parts = useMatrices(STAGES.map((name) => heads[chosen === "write" ? 0 : 1].stages[name]));
  const range = useMemo(() => (weights ? used(/** @type {Matrix[]} */ (weights)) : null), [weights]);
  const high = parts ? Math.max(0.2, ...parts.map((each) => (each ? Math.max(...rowOf(each, Math.min(step, each.rows - 1))) : 0))) : 1;
  const verdict = answer.wrong === 0 ? t("remember.right", { bits: answer.right.length * answer.right[0].length })
    : t("remember.wrong", { wrong: answer.wrong, bits: answer.right.length * answer.right[0].length });
  return html`<div class=${steps > 44 ? "stack long" : "grid"}>
    <${Card} title=${t("remember.tape")} keep=${tape.keep} name=${t("remember.tape")} note=${verdict} busy=${busy}>
      ${weights && range && html`<${Tape} answer=${answer} heads=${heads.map((head, i) => ({ kind: head.kind, matrix: weights[i] }))} weights=${weights} range=${range} step=${step} onStep=${setAt} attach=${tape.attach} rule=${rule} rows=${bits.length} flip=${flip} />`}
      <${Player} length=${steps} at=${step} onChange=${setAt} autoplay=${true} token=${`${token} ${still}`} still=${still} pace=${Math.max(60, Math.min(300, 6000 / steps))} label=${t("remember.play")} />
      <p class=${`note ${answer.wrong ? "bad" : "good"}`} aria-live="polite">${verdict}</p>
      <p class="note">${t("remember.hint")}</p>
    <//>
    <${Card} title=${t("remember.addressing", { step: step + 1 })} whole>
      <div class="row small heads-row"><${Choice} label=${t("remember.head")} value=${chosen} onChange=${setPicked}
        options=${["write", "read"].map((kind) => ({ value: kind, text: t(`remember.${kind}`) }))} /></div>
      ${most > 1 && html`<div class="row small heads-row"><span class="quiet">${t("remember.number")}</span><${Choice} label=${t("remember.number")} value=${String(place)} onChange=${(/** @type {string} */ value) => setPlace(Number(value))}
        options=${Array.from({ length: most }, (_, i) => ({ value: String(i), text: String(i + 1) }))} /></div>`}
      ${parts && range && html`<div class="stages">${STAGES.map((name, i) => html`<figure key=${name}>
        <figcaption><b>${i + 1}. ${t(`stage.${name}`)}</b>${t(`stage.${name}.note`)}</figcaption>
        <${Bars} matrix=${parts[i]} top=${high} step=${step} range=${range} kind=${chosen} label=${t(`stage.${name}`)} />
      </figure>`)}</div>`}
      <p class="note">${t("remember.stages.note")}</p>
    <//>
  </div>`;
}

/**
 * The tape rows that a head visited, with one on either side. The tape is a ring: they start after its
 * longest unused stretch.
 * @param {Matrix[]} heads
 * @returns {number[]}
 */
export function used(heads) {
  const size = heads[0].columns;
  const visited = new Set();
  for (const { rows, columns, values } of heads) {
    for (let row = 0; row < rows; row++) {
      for (let slot = 0; slot < columns; slot++) if (values[row * columns + slot] > 0.1) visited.add(slot);
    }
  }
  let start = 0;
  let longest = -1;
  for (let slot = 0; slot < size; slot++) {
    if (!visited.has(slot)) continue;
    let gap = 0;
    while (gap < size && !visited.has((slot + size - gap - 1) % size)) gap++;
    if (gap > longest) [start, longest] = [slot, gap];
  }
  const count = Math.min(size, size - Math.max(0, longest) + 2);
  return Array.from({ length: count }, (_, i) => (start - (longest > 0 ? 1 : 0) + i + size) % size);
}

/** @param {any} props */
function Bars({ matrix, top: high, step, range, kind, label }) {
  const row = rowOf(matrix, Math.min(step, matrix.rows - 1));
  const shown = range.map((/** @type {number} */ slot) => row[slot]);
  const top = shown.reduce((/** @type {number} */ best, /** @type {number} */ weight, /** @type {number} */ i) => (weight > shown[best] ? i : best), 0);
  return html`<svg viewBox=${`0 0 ${shown.length} 1`} preserveAspectRatio="none" role="img" aria-label=${t("stage.said", { stage: label, slot: range[top], weight: shown[top].toFixed(2) })}>
    ${shown.map((/** @type {number} */ weight, /** @type {number} */ i) => weight > 0.003 && html`<rect key=${i} class=${kind} x=${i + 0.12} width=".76" y=${1 - weight / high} height=${weight / high}><title>${range[i]}: ${weight.toFixed(3)}</title></rect>`)}
  </svg>`;
}

/** @param {any} props `heads` with kind and matrix; inputs, outputs and head positions over time */
function Tape({ answer, heads, weights, range, step, onStep, attach, rule, rows, flip }) {
  const steps = answer.inputs.length;
  const [room, measure] = useWidth(1100);
  const LEFT = room < 520 ? 66 : 92;
  const cell = Math.max(7, Math.min(26, Math.floor((room - LEFT - 10) / steps)));
  const slots = range.length;
  const slot = Math.max(4, Math.min(12, Math.floor(200 / slots)));
  const inputs = answer.inputs[0].length;
  const outputs = answer.right[0].length;
  const first = steps - answer.right.length;
  const tall = Math.min(cell, 14);
  const yOut = 22 + inputs * tall + 22;
  const yHead = (/** @type {number} */ i) => yOut + outputs * tall + 22 + i * (slots * slot + 20);
  const height = yHead(heads.length) - 20;
  const width = LEFT + steps * cell + 8;
  const [focus, setFocus] = useState([0, 0]);
  const box = useRef(/** @type {SVGSVGElement | null} */ (null));
  const wanted = useRef(false);
  useLayoutEffect(() => {
    if (wanted.current) /** @type {any} */ (box.current?.querySelector('[data-focus="yes"]'))?.focus();
    wanted.current = false;
  }, [focus]);
  useLayoutEffect(() => { // a long tape scrolls: keep the current step in view
    const scroller = box.current?.parentElement;
    const left = LEFT + step * cell;
    if (scroller && left < scroller.scrollLeft + LEFT) scroller.scrollLeft = left - LEFT;
    else if (scroller && left + 3 * cell > scroller.scrollLeft + scroller.clientWidth) scroller.scrollLeft = left + 3 * cell - scroller.clientWidth;
  }, [step, cell, LEFT]);
  const keys = (/** @type {KeyboardEvent} */ event, /** @type {number} */ row, /** @type {number} */ bit) => {
    const shift = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === " " || event.key === "Enter") flip(row, bit);
    else if (shift) {
      wanted.current = true;
      setFocus([Math.max(0, Math.min(rows - 1, row + shift[0])), Math.max(0, Math.min(rule.width - 1, bit + shift[1]))]);
    } else return;
    event.preventDefault();
  };
  const click = (/** @type {any} */ event) => {
    const at = event.target.dataset?.step;
    if (at !== undefined) onStep(Number(at));
  };
  const cells = useMemo(() => html`
    ${answer.inputs.map((/** @type {number[]} */ vector, /** @type {number} */ s) => vector.map((bit, channel) => {
      const row = channel < rule.width ? rowOfStep(s, rule.item, rows) : -1;
      const here = row === focus[0] && channel === focus[1];
      return html`<rect key=${`i${s} ${channel}`} class=${`cell ${bit ? (channel < rule.width ? "one" : "mark-bit") : "zero"}`} x=${LEFT + s * cell + 0.5} y=${22 + channel * tall + 0.5} width=${cell - 1.5} height=${tall - 1.5} rx="2"
        data-step=${row < 0 ? s : null} data-focus=${here ? "yes" : null} tabindex=${row < 0 ? null : here ? 0 : -1} role=${row < 0 ? null : "checkbox"} aria-checked=${row < 0 ? null : bit ? "true" : "false"}
        aria-label=${row < 0 ? null : t("remember.bit", { row: row + 1, bit: channel + 1 })}
        onClick=${row < 0 ? null : () => flip(row, channel)} onKeyDown=${row < 0 ? null : (/** @type {KeyboardEvent} */ event) => keys(event, row, channel)} />`;
    }))}
    ${heads.map((/** @type {{kind: string, matrix: Matrix}} */ { kind, matrix }, /** @type {number} */ i) => html`<rect key=${`l${i}`} class="lane" x=${LEFT} y=${yHead(i)} width=${steps * cell} height=${slots * slot} rx="3" />
      ${sparse(matrix, range).map(([s, place, weight]) => html`<rect key=${`w${i} ${s} ${place}`} class=${`cell ${kind}`} data-step=${s} x=${LEFT + s * cell + 0.5} y=${yHead(i) + place * slot} width=${cell - 1} height=${slot} opacity=${Math.sqrt(weight).toFixed(2)} />`)}`)}
  `, [answer, weights, focus, cell, slot, rows]);
  return html`<div class="scroller" tabindex="0" role="group" aria-label=${t("remember.tape")} ref=${measure}>
    <svg class="tape" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="group" aria-label=${t("remember.tape")}
      ref=${(/** @type {SVGSVGElement | null} */ element) => {
        box.current = element;
        attach(element);
      }} onClick=${click}>
      <text x="0" y=${22 + (inputs * tall) / 2 + 4}>${t("remember.input")}</text>
      <text x="0" y=${yOut + (outputs * tall) / 2 + 4}>${t("remember.output")}</text>
      ${heads.map((/** @type {{kind: string}} */ { kind }, /** @type {number} */ i) => html`<text key=${i} x="0" y=${yHead(i) + (slots * slot) / 2 + 4}>${t(`remember.${kind}`)}</text>`)}
      ${cells}
      <rect class="lane" x=${LEFT + first * cell} y=${yOut} width=${answer.right.length * cell} height=${outputs * tall} rx="3" pointer-events="none" />
      ${answer.outputs.map((/** @type {number[]} */ vector, /** @type {number} */ row) => vector.map((bit, channel) => first + row <= step && html`<rect key=${`o${row} ${channel}`} data-step=${first + row}
        class=${`cell ${bit > 0.5 ? "one" : "zero"}${(bit > 0.5 ? 1 : 0) === answer.right[row][channel] ? "" : " wrong"}`} x=${LEFT + (first + row) * cell + 0.5} y=${yOut + channel * tall + 0.5} width=${cell - 1.5} height=${tall - 1.5} rx="2" />`))}
      <rect class="now" x=${LEFT + step * cell - 0.5} y="8" width=${cell + 0.5} height=${height - 12} rx="4" pointer-events="none" />
    </svg>
  </div>`;
}

/**
 * The weights large enough to draw: [step, index in the range, weight].
 * @param {Matrix} matrix
 * @param {number[]} range
 * @returns {[number, number, number][]}
 */
function sparse({ rows, columns, values }, range) {
  /** @type {[number, number, number][]} */
  const found = [];
  for (let row = 0; row < rows; row++) {
    range.forEach((slot, place) => {
      const weight = values[row * columns + slot];
      if (weight > 0.02) found.push([row, place, weight]);
    });
  }
  return found;
}
