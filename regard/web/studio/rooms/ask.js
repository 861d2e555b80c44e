// Ask: a memory network reads a story and answers in several hops of attention.
import { html, useState } from "../lib.js";
import { firstModel, STORIES } from "../defaults.js";
import { useAnswer, useMatrices, useSvgDrawing, useTyped, useWidth } from "../hooks.js";
import { Card, Choice, percent, Player, Problem, rowOf } from "../parts.js";
import { t } from "../texts.js";
import { textWidth } from "../words.js";

/** @typedef {import("../types.js").RoomProps} RoomProps */

const MODEL = "stories";

/** @param {RoomProps} props */
export function Ask({ values, change, models, still }) {
  const first = STORIES[0];
  const choices = models.filter((each) => each.kind === "ask");
  const model = values.model ?? firstModel(choices, MODEL);
  const limits = choices.find((each) => each.name === model)?.limits ?? {};
  const story = values.story ?? first.story.join("\n");
  const question = values.question ?? first.question;
  const [told, tell] = useTyped(story, (text) => change({ story: text || " " }));
  const [asked, ask] = useTyped(question, (text) => change({ question: text || " " }));
  const [plays, setPlays] = useState(0);
  const sentences = story.split("\n").map((line) => line.trim()).filter(Boolean);
  const body = sentences.length && question.trim() ? { model, story: sentences, question } : null;
  const { answer, error, busy } = useAnswer("ask", body, { file: "ask", delay: 200 });
  const choose = (/** @type {{story: string[], question: string}} */ example) => {
    change({ story: example.story.join("\n"), question: example.question });
    setPlays(plays + 1);
  };
  return html`<div class="grid">
    <div class="stack">
      ${answer ? html`<${Hops} answer=${answer} question=${question} busy=${busy} still=${still} token=${`${plays}`} />` : html`<${Card} title=${t("ask.looked")}><div class="nomap"> </div><//>`}
    </div>
    <${Card} title=${t("ask.story")}>
      ${choices.length > 1 && html`<${Choice} label=${t("translate.model")} value=${model} onChange=${(/** @type {string} */ name) => change({ model: name })} options=${choices.map((each) => ({ value: each.name, text: each.name, title: each.summary }))} />`}
      <textarea class="lines" rows="7" value=${told} aria-label=${t("ask.story")} spellcheck=${false} onInput=${(/** @type {any} */ event) => tell(event.target.value)}></textarea>
      <label class="field gap"><span class="hidden-label">${t("ask.question")}</span><input class="lines" value=${asked} aria-label=${t("ask.question")} maxlength=${limits.characters ?? 2000} spellcheck=${false}
        onInput=${(/** @type {any} */ event) => ask(event.target.value)} /></label>
      <${Problem} error=${error} />
      ${!body && html`<p class="error" role="alert">${t("ask.empty")}</p>`}
      <div class="tries gap small"><span class="quiet">${t("try")}</span><div class="chips">${STORIES.map((each) => html`<button class="chip" key=${each.question} onClick=${() => choose(each)}>${each.question}</button>`)}</div></div>
      ${answer?.unknown.length > 0 && html`<p class="note bad" role="status">${t("ask.unknown", { words: answer.unknown.join(", ") })}</p>`}
      <p class="note">${model === MODEL ? t("ask.world") : ""} ${t("ask.limit", { most: limits.sentences ?? 200 })}</p>
    <//>
  </div>`;
}

/** @param {any} props */
function Hops({ answer, question, busy, still, token }) {
  const [at, setAt] = useState(0);
  const { keep, attach } = useSvgDrawing();
  const [room, measure] = useWidth(700);
  const matrices = useMatrices([answer.hops]);
  const hops = matrices?.[0];
  if (!hops || hops.columns !== answer.sentences.length) return null;
  const hop = Math.min(at, hops.rows - 1);
  const narrow = room < 520;
  const [step, size, gap] = narrow ? [40, 14, 31] : [46, 17, 84];
  const wide = Math.max(...answer.sentences.map((/** @type {string} */ each) => textWidth(each, size))) + (narrow ? 12 : 24);
  const width = Math.max(room, wide + hops.rows * gap);
  const height = 34 + answer.sentences.length * step;
  const x = (/** @type {number} */ k) => width - (hops.rows - k) * gap + gap / 2;
  const row = rowOf(hops, hop);
  const best = row.reduce((top, weight, i) => (weight > row[top] ? i : top), 0);
  const done = hop === hops.rows - 1;
  return html`<${Card} title=${t("ask.looked")} keep=${keep} name=${question} note=${answer.answer} busy=${busy}>
    <p class="quiet">${question}</p>
    <p class="answer-line" aria-live="polite">${done ? answer.answer : "…"} ${done && html`<span class="quiet small">${percent(answer.probability)}</span>`}</p>
    <div class="scroller gap" ref=${measure}><svg class="hopmap" viewBox=${`0 0 ${width} ${height}`} width=${width} height=${height} role="img" aria-label=${t("ask.label", { sentence: answer.sentences[best], hop: hop + 1 })} ref=${attach}>
      ${Array.from({ length: hops.rows }, (_, k) => html`<text key=${k} class=${k === hop ? "on" : "soft"} x=${x(k)} y="16" text-anchor="middle">${narrow ? k + 1 : t("ask.hop", { hop: k + 1 })}</text>`)}
      ${answer.sentences.map((/** @type {string} */ sentence, /** @type {number} */ i) => {
        const y = 34 + i * step;
        const look = row[i];
        return html`<g key=${i}>
          <rect class="behind" x="0" y=${y + 2} width=${width} height=${step - 4} rx="9" opacity=${Math.min(1, look * 1.2).toFixed(2)} />
          <text class="sentence" x=${narrow ? 6 : 12} y=${y + step / 2 + 6} font-size=${size}>${sentence}</text>
          ${Array.from({ length: hops.rows }, (_, k) => {
            const weight = hops.values[k * hops.columns + i];
            return k <= hop && html`<circle key=${k} class=${k === hop ? "disc now" : "disc"} cx=${x(k)} cy=${y + step / 2} r=${((narrow ? 14 : 19) * Math.sqrt(weight)).toFixed(1)}><title>${percent(weight)}</title></circle>`;
          })}
        </g>`;
      })}
    </svg></div>
    <${Player} length=${hops.rows} at=${hop} onChange=${setAt} autoplay=${true} token=${`${token} ${still}`} still=${still} pace=${1200} label=${t("ask.play")} />
    <p class="note" aria-live="polite">${t("ask.said", { hop: hop + 1, sentence: answer.sentences[best], share: percent(row[best]) })}</p>
  <//>`;
}
