// Read: whether one sentence follows from another, and a language model that looks back.
import { html, useRef, useState } from "../lib.js";
import { PAIRS, READERS, SCORED } from "../defaults.js";
import { useAnswer, useMatrices, useTyped } from "../hooks.js";
import { Card, Curves, HeatMap, Limit, percent, Problem, Tabs, useModels } from "../parts.js";
import { t, tOr } from "../texts.js";

/** @typedef {import("../types.js").RoomProps} RoomProps */

const NOTHING = { row: -1, column: -1 };
const START = "∅";

/** @param {RoomProps} props */
export function Read(props) {
  return html`<${Tabs} name="read" pages=${{ entail: Entail, score: Score }} ...${props} />`;
}

/** @param {RoomProps} props */
function Entail(props) {
  const { values, change } = props;
  const { model, limits, choice } = useModels({ ...props, kind: "entail", first: READERS.entail });
  const premise = values.premise ?? PAIRS[0].premise;
  const hypothesis = values.hypothesis ?? PAIRS[0].hypothesis;
  const [told, tell] = useTyped(premise, (text) => change({ premise: text || " " }));
  const [said, say] = useTyped(hypothesis, (text) => change({ hypothesis: text || " " }));
  const body = premise.trim() && hypothesis.trim() ? { model, premise, hypothesis } : null;
  const { answer, error, busy } = useAnswer("entail", body, { file: "read", delay: 200 });
  const line = (/** @type {string} */ label, /** @type {string} */ value, /** @type {(text: string) => void} */ type) => html`<label class="field gap">${label}<input class="lines" value=${value} maxlength=${limits.characters ?? 2000} spellcheck=${false}
    onInput=${(/** @type {any} */ event) => type(event.target.value)} /><${Limit} used=${value.length} most=${limits.characters} /></label>`;
  return html`<div class="stack">
    <${Card} title=${t("read.pair")}>
      ${line(t("read.premise"), told, tell)}${line(t("read.hypothesis"), said, say)}
      ${choice}
      <${Problem} error=${error} />
      ${!body && html`<p class="error" role="alert">${t("read.empty")}</p>`}
      <div class="tries gap small"><span class="quiet">${t("try")}</span><div class="chips">${PAIRS.map((pair) => html`<button class="chip" key=${pair.label} onClick=${() => change({ premise: pair.premise, hypothesis: pair.hypothesis })}>${t(`label.${pair.label}`)}</button>`)}</div></div>
      <p class="note">${model === READERS.entail ? t("read.toy") : ""}</p>
    <//>
    ${answer && html`<${Aligned} answer=${answer} busy=${busy} />`}
  </div>`;
}

/** @param {{answer: any, busy: boolean}} props */
function Aligned({ answer, busy }) {
  const [hot, setHot] = useState(NOTHING);
  const flow = useRef(null);
  const map = useRef(null);
  const back = useMatrices(answer.back ? [answer.back] : null)?.[0];
  const [columns, rows] = [answer.premise, answer.hypothesis].map((words) => words.map((/** @type {string} */ word) => word || START));
  const point = (/** @type {number} */ row, /** @type {number} */ column) => setHot({ row, column });
  const fits = back && back.rows === rows.length && back.columns === columns.length;
  const label = tOr(`label.${answer.label}`, answer.label);
  return html`<div class="grid">
    <${Card} title=${t("read.looked")} keep=${fits ? flow : undefined} name=${label} note=${rows.slice(1).join(" ")} busy=${busy}>
      ${fits ? html`<${Curves} matrix=${back} rows=${rows} columns=${columns} hot=${hot} onHover=${point} label=${t("read.looked")} height=${280} keep=${flow} />`
      : html`<div class="nomap">${t("read.nothing")}</div>`}
      <p class="note">${t("read.null")}</p>
    <//>
    <div class="stack">
      <${Card} title=${t("read.label")} whole busy=${busy}>
        <p class="answer-line" aria-live="polite">${label}</p>
        <${Shares} rows=${Object.entries(answer.probabilities).map(([name, share]) => ({ name: tOr(`label.${name}`, name), share }))} />
      <//>
      ${fits && html`<${Card} title=${t("read.map")} keep=${map} name=${label} busy=${busy}>
        <${HeatMap} matrix=${back} rows=${rows} columns=${columns} hot=${hot} onHover=${point} label=${t("read.map")} keep=${map} />
        <p class="note">${t("read.axes")}</p>
      <//>`}
    </div>
  </div>`;
}

/** @param {{rows: {name: string, share: any}[]}} props */
function Shares({ rows }) {
  return html`<table class="shares"><tbody>${rows.map(({ name, share }) => html`<tr key=${name}><th scope="row">${name}</th><td><span class="bar" style=${{ width: `${Math.round(120 * share)}px` }}></span></td><td>${percent(share)}</td></tr>`)}</tbody></table>`;
}

/** @param {RoomProps} props */
function Score(props) {
  const { values, change } = props;
  const { model, limits, choice } = useModels({ ...props, kind: "score", first: READERS.score });
  const sentence = values.text ?? SCORED[0];
  const [text, type] = useTyped(sentence, (typed) => change({ text: typed || " " }));
  const { answer, error, busy } = useAnswer("score", sentence.trim() ? { model, text: sentence } : null, { file: "read", delay: 200 });
  return html`<div class="stack">
    <${Card} title=${t("read.sentence")}>
      <textarea class="big" rows="1" value=${text} aria-label=${t("read.sentence")} maxlength=${limits.characters ?? 2000} spellcheck=${false}
        onInput=${(/** @type {any} */ event) => type(event.target.value.replace(/\n/g, " "))}></textarea>
      <${Limit} used=${text.length} most=${limits.characters} />
      ${choice}
      <${Problem} error=${error} />
      <div class="tries gap small"><span class="quiet">${t("try")}</span><div class="chips">${SCORED.map((each) => html`<button class="chip" key=${each} onClick=${() => change({ text: each })}>${each}</button>`)}</div></div>
      <p class="note">${t("read.world")}</p>
    <//>
    ${answer && html`<${Looked} answer=${answer} busy=${busy} />`}
  </div>`;
}

/** @param {{answer: any, busy: boolean}} props */
function Looked({ answer, busy }) {
  const [hot, setHot] = useState(NOTHING);
  const flow = useRef(null);
  const map = useRef(null);
  const weights = useMatrices(answer.weights ? [answer.weights] : null)?.[0];
  const words = [START, ...answer.words];
  const bits = answer.log_probabilities.map((/** @type {number} */ each) => -each / Math.LN2);
  const most = Math.max(8, ...bits);
  const point = (/** @type {number} */ row, /** @type {number} */ column) => setHot({ row, column });
  const fits = weights && weights.rows === words.length && weights.columns === words.length;
  return html`<div class="grid">
    <div class="stack">
      <${Card} title=${t("read.surprise")} whole name=${answer.words.join(" ")} busy=${busy}>
        <ol class="surprise">${[...answer.words, t("read.end")].map((word, i) => html`<li key=${i} class=${hot.row === i + 1 ? "on" : ""} onMouseEnter=${() => i < answer.words.length && point(i + 1, -1)} onMouseLeave=${() => setHot(NOTHING)}>
          <span class="bar" style=${{ height: `${Math.round((64 * bits[i]) / most)}px` }}></span><span>${word}</span><small>${bits[i].toFixed(1)}</small></li>`)}</ol>
        <p class="note">${t("read.bits", { perplexity: answer.perplexity.toFixed(1) })}</p>
      <//>
      ${fits && html`<${Card} title=${t("read.back")} keep=${flow} name=${answer.words.join(" ")} busy=${busy}>
        <${Curves} matrix=${weights} rows=${words} columns=${words} hot=${hot} onHover=${point} label=${t("read.back")} height=${260} keep=${flow} />
      <//>`}
    </div>
    <div class="stack">
      <${Card} title=${t("read.next")} whole busy=${busy}>
        <${Shares} rows=${answer.next.map((/** @type {{word: string, probability: number}} */ each) => ({ name: each.word === "<eos>" ? t("read.end") : each.word, share: each.probability }))} />
      <//>
      ${fits && html`<${Card} title=${t("read.map")} keep=${map} name=${answer.words.join(" ")} busy=${busy}>
        <${HeatMap} matrix=${weights} rows=${words} columns=${words} hot=${hot} onHover=${point} label=${t("read.map")} keep=${map} />
        <p class="note">${t("read.back.note")}</p>
      <//>`}
    </div>
  </div>`;
}
