// Translate: a sentence, its translation, and the attention of each word.
import { html, useMemo, useRef, useEffect, useState } from "../lib.js";
import { readWhole } from "../address.js";
import { BEAM, firstModel, SENTENCES, TRANSLATORS } from "../defaults.js";
import { decodeMatrix } from "../../views/matrix.js";
import { useAnswer, useMatrices, useTyped } from "../hooks.js";
import { Card, Choice, Curves, HeadGrid, HeatMap, Limit, Player, Problem } from "../parts.js";
import { t, tOr } from "../texts.js";
import { placeWords } from "../words.js";
import { Beam } from "./beam.js";

/** @typedef {import("../types.js").Translated} Translated */
/** @typedef {import("../types.js").Matrix} Matrix */
/** @typedef {import("../types.js").RoomProps} RoomProps */

const MOST = 3; // additional models
const PARTS = ["cross", "encoder", "decoder"];
const NOTHING = { row: -1, column: -1 };

/** @param {RoomProps} props */
export function Translate({ values, change, models, still, live }) {
  const choices = models.filter((model) => model.kind === "translate").sort((a, b) => rank(a.name) - rank(b.name));
  const options = choices.map((model) => ({ value: model.name, text: tOr(`model.${model.name}`, model.name), title: model.summary }));
  const model = values.model ?? firstModel(choices, TRANSLATORS[0]);
  const others = (values.with ?? "").split(",").filter((name) => name !== model && choices.some((each) => each.name === name)).slice(0, MOST);
  const [text, type] = useTyped(values.text ?? SENTENCES[0].text, (typed) => change({ text: typed || " ", target: null, hypothesis: null }));
  const [plays, setPlays] = useState(0);
  const limits = choices.find((each) => each.name === model)?.limits ?? {};
  const choose = (/** @type {{text: string, model?: string, with?: string}} */ example) => {
    change({ target: null, hypothesis: null, with: null, ...example });
    setPlays(plays + 1);
  };
  const toggle = (/** @type {string} */ name) => {
    const next = others.includes(name) ? others.filter((each) => each !== name) : [...others, name].slice(-MOST);
    change({ with: next.join(","), target: null, hypothesis: null });
  };
  const side = (/** @type {string} */ name) => html`<${Side} key=${name} model=${name} text=${values.text ?? SENTENCES[0].text}
    values=${values} change=${change} still=${still} live=${live} plays=${plays} pair=${others.length > 0} pieces=${limits.pieces} />`;
  return html`<div class="stack">
    <${Card} title=${t("translate.source")}>
      <textarea class="big" rows="1" value=${text} aria-label=${t("translate.source")} maxlength=${limits.characters ?? 2000} spellcheck=${false}
        onInput=${(/** @type {any} */ event) => type(event.target.value.replace(/\n/g, " "))}></textarea>
      <${Limit} used=${text.length} most=${limits.characters} />
      ${options.length > 0 && html`<div class="tries gap small"><span class="quiet">${t("translate.model")}</span>
        <${Choice} label=${t("translate.model")} options=${options} value=${model} onChange=${(/** @type {string} */ name) => change({ model: name, target: null, hypothesis: null, layer: null, head: null })} /></div>`}
      ${options.length > 1 && html`<div class="tries gap small"><span class="quiet">${t("translate.beside")}</span>
        <div class="chips" role="group" aria-label=${t("translate.beside")}>${options.filter(({ value }) => value !== model).map(({ value, text: name, title }) => html`<button class="chip" key=${value} title=${title}
          aria-pressed=${others.includes(value) ? "true" : "false"} onClick=${() => toggle(value)}>${name}</button>`)}</div>
      </div>`}
      <div class="tries gap small"><span class="quiet">${t("try")}</span>
        <div class="chips">${SENTENCES.map((sentence) => html`<button class="chip" key=${sentence.text} onClick=${() => choose(sentence)}>${sentence.with ? t("translate.without") : short(sentence.text)}</button>`)}</div>
      </div>
    <//>
    ${others.length ? html`<div class="halves">${[model, ...others].map(side)}</div>` : side(model)}
  </div>`;
}

/** @param {string} name */
function rank(name) {
  const place = TRANSLATORS.indexOf(name);
  return place < 0 ? TRANSLATORS.length : place;
}

/** @param {string} sentence */
function short(sentence) {
  return sentence.length > 32 ? `${sentence.slice(0, 30).replace(/\s+\S*$/, "")} …` : sentence;
}

/** @param {any} props */
function Side({ model, text, values, change, still, live, plays, pair, pieces }) {
  const target = pair ? undefined : values.target;
  const body = text.trim() ? { model, text, beam: BEAM } : null;
  const best = useAnswer("translate", body, { file: "translate", delay: 150 });
  const [answered, setAnswered] = useState(text);  // heads are requested only for translated texts
  useEffect(() => { if (best.answer) setAnswered(text); }, [best.answer]);
  const forced = useAnswer("align", body && target?.trim() ? { model, text, target } : null, { delay: 400 });
  /** @type {Translated | null} */
  const result = best.answer?.results?.[0] ?? null;
  /** @type {Translated | null} */
  const given = target ? (forced.answer?.results?.[0] ?? null) : null;
  const [own, setOwn] = useState(0);
  const chosen = pair ? own : readWhole(values.hypothesis, BEAM);
  const beam = result?.beam ?? [];
  const shown = given
    ? { text: given.text, words: given.target_words, alignment: given.alignment, score: 0 }
    : beam[chosen] ?? (result ? { text: result.text, words: result.target_words, alignment: result.alignment, score: 0 } : null);
  const columns = (given ?? result)?.source_words ?? [];
  const error = (target ? forced.error : null) ?? best.error;
  const busy = best.busy || (Boolean(target) && forced.busy);
  const name = tOr(`model.${model}`, model);
  const token = `${plays}`;
  const pick = (/** @type {number} */ i) => (pair ? setOwn(i) : change({ hypothesis: i || null, target: null }));
  const cards = html`<${Looked} key=${model} shown=${shown} columns=${columns} name=${name} busy=${busy} error=${error} still=${still} token=${token} pair=${pair} pieces=${pieces}
    target=${target} edit=${pair || !live ? null : (/** @type {string | null} */ words) => change({ target: words, hypothesis: null })} />`;
  return html`<div class="stack">
    ${cards}
    ${beam.length > 1 && html`<${Beam} question=${{ ...body, text: answered }} beam=${beam} chosen=${given ? -1 : chosen} onPick=${pick} view=${values.beam ?? "list"} onView=${(/** @type {string} */ view) => change({ beam: view === "tree" ? view : null })} />`}
    ${!pair && result?.layers && html`<${Heads} model=${model} text=${answered} target=${target} values=${values} change=${change} />`}
  </div>`;
}

/** @param {any} props */
function Looked({ shown, columns, name, busy, error, still, token, pair, pieces, target, edit }) {
  const [at, setAt] = useState(0);
  const [hot, setHot] = useState(NOTHING);
  const flow = useRef(null);
  const map = useRef(null);
  const matrices = useMatrices(shown?.alignment ? [shown.alignment] : null);
  const matrix = matrices?.[0] ?? null;
  const [draft, setDraft] = useTyped(target ?? "", (words) => edit?.(words || " "));
  const words = (shown?.words ?? []).map((/** @type {string} */ word) => word.trim() || "␣");
  const sources = columns.map((/** @type {string} */ word) => word.trim() || "␣");
  const step = Math.min(at, Math.max(0, words.length - 1));
  const done = !shown?.alignment || step >= words.length - 1;
  const fits = matrix && matrix.rows === words.length && matrix.columns === sources.length;
  const partial = useMemo(() => (fits && !done ? upTo(matrix, step) : matrix), [matrix, fits, done, step]);
  const lit = hot.row >= 0 ? hot.row : done ? -1 : step;
  const point = (/** @type {number} */ row, /** @type {number} */ column) => setHot({ row, column });
  const title = pair ? name : t("translate.looked");
  const line = html`<p class="big out" aria-live="polite">${shown ? placeWords(shown.text, words).map((each, i) => html`<span key=${i}
    class=${each.word === null ? "" : `word${!done && each.word > step ? " coming" : ""}${each.word === lit ? " on" : ""}`}
    onMouseEnter=${() => each.word !== null && point(each.word, -1)} onMouseLeave=${() => setHot(NOTHING)}>${each.text}</span>`) : "\u00a0"}</p>`;
  const drawn = matrix === null
    ? html`<div class="nomap">${shown && !shown.alignment ? t("translate.nothing") : "\u00a0"}</div>`
    : fits && html`<${Curves} matrix=${partial} rows=${words} columns=${sources} selected=${done ? -1 : step} hot=${hot} onHover=${point} label=${t("translate.curves.label")} height=${pair ? 240 : 310} keep=${flow} />`;
  const editing = target !== undefined && edit;
  const first = html`<${Card} title=${title} keep=${matrix ? flow : undefined} name=${shown?.text} note=${name} busy=${busy}
    extra=${edit && shown && html`<button class="button" aria-pressed=${editing ? "true" : "false"} onClick=${() => edit(editing ? null : shown.text)}>${t("translate.edit")}</button>`}>
    ${editing ? html`<textarea class="big out" rows="1" value=${draft} aria-label=${t("translate.edit")} spellcheck=${false} maxlength="2000"
      onInput=${(/** @type {any} */ event) => setDraft(event.target.value.replace(/\n/g, " "))}></textarea><p class="note">${t("translate.forced")}</p>` : line}
    <${Limit} used=${Math.max(columns.length, editing ? words.length : 0)} most=${pieces} what="pieces" />
    <${Problem} error=${error} />
    ${drawn}
    ${fits && html`<${Player} length=${words.length} at=${step} onChange=${setAt} autoplay=${true} token=${`${token} ${editing ? "edit" : ""} ${still}`} still=${still || Boolean(editing)} pace=${420} label=${t("translate.play")} />`}
  <//>`;
  const second = fits && html`<${Card} title=${t("translate.alignment")} keep=${map} name=${shown?.text} note=${name} busy=${busy}>
    <${HeatMap} matrix=${partial} rows=${words} columns=${sources} hot=${hot} onHover=${point} label=${t("translate.map.label")} selected=${done ? -1 : step} keep=${map} />
    <p class="note">${t("translate.axes")}</p>
  <//>`;
  return pair ? html`${first}${second}` : html`<div class=${second ? "grid" : "stack"}>${first}${second}</div>`;
}

/** @param {Matrix} matrix @param {number} last @returns {Matrix} */
function upTo(matrix, last) {
  const values = new Float32Array(matrix.values.length);
  values.set(matrix.values.subarray(0, (last + 1) * matrix.columns));
  return { ...matrix, values };
}

/** @param {any} props every head of a Transformer, one of them enlarged */
function Heads({ model, text, target, values, change }) {
  const part = PARTS.includes(values.part) ? values.part : PARTS[0];
  const body = { model, text, part, ...(target ? { target } : {}) };
  const { answer, error, busy } = useAnswer("attention", body, { file: "attention", delay: 500 });
  const map = useRef(null);
  const layers = answer?.heads.length ?? 0;
  const heads = answer?.heads[0].length ?? 0;
  const layer = readWhole(values.layer, Math.max(0, layers - 1));
  const head = readWhole(values.head, Math.max(0, heads - 1));
  const matrices = useMatrices(answer ? [answer.heads[layer][head]] : null);
  const thumbnail = (/** @type {number} */ l, /** @type {number} */ h) => decodeMatrix(answer.heads[l][h]);
  const trim = (/** @type {string[]} */ words) => words.map((word) => word.trim() || "␣");
  return html`<${Card} title=${t("heads.title")} busy=${busy} keep=${map} name=${`${text} ${part} ${layer} ${head}`} extra=${html`<${Choice} label=${t("heads.part")} value=${part}
    onChange=${(/** @type {string} */ name) => change({ part: name === PARTS[0] ? null : name })} options=${PARTS.map((name) => ({ value: name, text: t(`heads.${name}`) }))} />`}>
    <${Problem} error=${error} />
    ${answer && html`<div class="heads">
      <${HeadGrid} key=${`${part} ${answer.rows.join(" ")}`} layers=${layers} heads=${heads} thumbnail=${thumbnail} size=${64} selected=${[layer, head]}
        onSelect=${(/** @type {number} */ l, /** @type {number} */ h) => change({ layer: l || null, head: h || null })} />
      <div>${matrices?.[0] && html`<${HeatMap} matrix=${matrices[0]} rows=${trim(answer.rows)} columns=${trim(answer.columns)} keep=${map} maxHeight=${380}
        label=${t("heads.label", { layer, head })} />`}
        <p class="note">${t(`heads.${part}.note`)}</p></div>
    </div>`}
  <//>`;
}
