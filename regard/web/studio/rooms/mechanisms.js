// Mechanisms: a page for each row of the catalogue, with an example that the library computes.
import { html, useRef, useState } from "../lib.js";
import { writeAddress } from "../address.js";
import { Card, Choice, HeatMap, Problem, useAnswer, useMatrices } from "../parts.js";
import { t, tOr } from "../texts.js";

/** @typedef {import("../types.js").RoomProps} RoomProps */
/** @typedef {import("../types.js").Mechanism} Mechanism */

const KINDS = ["score", "normalizer", "window", "memory", "layer"];

/** @param {RoomProps} props */
export function Mechanisms({ values, change }) {
  const { answer, error } = useAnswer("mechanisms", undefined, { file: "mechanisms" });
  if (!answer) return html`<${Problem} error=${error} />`;
  /** @type {Mechanism[]} */
  const rows = answer.mechanisms ?? answer;
  const row = rows.find((each) => each.key === values.name) ?? rows[0];
  const kinds = [...KINDS, ...new Set(rows.map((each) => each.kind ?? "").filter((kind) => !KINDS.includes(kind)))];
  return html`<div class="shelf">
    <nav class="card" aria-label=${t("room.mechanisms")}>
      ${kinds.filter((kind) => rows.some((each) => (each.kind ?? "") === kind)).map((kind) => html`<h2 key=${kind}>${tOr(`kind.${kind}`, kind)}</h2>
        ${rows.filter((each) => (each.kind ?? "") === kind).map((each) => html`<a key=${each.key} href=${writeAddress("mechanisms", { name: each.key })} aria-current=${each.key === row.key ? "page" : null}>${each.title}<small>${each.year}</small></a>`)}`)}
    </nav>
    <${One} key=${row.key} row=${row} values=${values} change=${change} />
  </div>`;
}

/** @param {{row: Mechanism, values: Record<string, string>, change: (values: Record<string, any>) => void}} props */
function One({ row, values, change }) {
  const [shown, setShown] = useState("weights");
  const map = useRef(null);
  const parameters = Object.fromEntries((row.parameters ?? []).map((each) => [each.name, values[each.name] === undefined ? each.value : Number(values[each.name])]));
  const live = (row.parameters ?? []).length > 0;
  const { answer, error, busy } = useAnswer("mechanism", live ? { name: row.key, parameters } : null, { file: "mechanisms", delay: 120 });
  const matrices = useMatrices(answer ? [answer.weights, answer.scores] : null);
  const matrix = matrices?.[shown === "scores" ? 1 : 0] ?? matrices?.[0];
  return html`<div class="stack">
    <${Card} title=${tOr(`kind.${row.kind}`, row.kind ?? "")}>
      <h3 class="big">${row.title}</h3>
      <p class="quiet">${row.authors}, ${row.year}. <a href=${row.link} rel="noreferrer noopener" target="_blank">${t("mechanisms.paper")}</a></p>
      <p class="gap">${row.sentence}</p>
      ${row.equation && html`<pre class="equation" tabindex="0">${row.equation}</pre>`}
      <p class="note">${t("mechanisms.file")} <code>${row.file}</code></p>
    <//>
    <${Card} title=${t("mechanisms.try")} keep=${matrix ? map : undefined} name=${row.title} note=${row.sentence} busy=${busy}
      extra=${answer?.scores && html`<${Choice} label=${t("mechanisms.shown")} value=${shown} onChange=${setShown} options=${["weights", "scores"].map((name) => ({ value: name, text: t(`mechanisms.${name}`) }))} />`}>
      ${live && html`<div class="sliders">${row.parameters.map((each) => html`<label class="field" key=${each.name}>${tOr(`parameter.${each.name}`, each.name.replaceAll("_", " "))}
        <span class="row"><input type="range" min=${each.min} max=${each.max} step=${each.step} value=${parameters[each.name]} onInput=${(/** @type {any} */ event) => change({ [each.name]: event.target.value })} /><output>${parameters[each.name]}</output></span></label>`)}</div>`}
      <${Problem} error=${error} />
      ${matrix && html`<div class="gap"><${HeatMap} key=${shown} matrix=${shown === "scores" ? lifted(matrix) : matrix} rows=${answer.rows} columns=${answer.columns} label=${row.title} keep=${map} /></div>`}
      <p class="note">${t(!live ? "mechanisms.noexample" : row.kind === "memory" ? "mechanisms.memory" : "mechanisms.note")}</p>
    <//>
  </div>`;
}

/** Scores may be negative, weights not: draw them from the least upwards. @param {import("../types.js").Matrix} matrix */
function lifted(matrix) {
  const finite = Array.from(matrix.values).filter(Number.isFinite);
  const least = Math.min(0, ...finite);
  return { ...matrix, values: matrix.values.map((value) => (Number.isFinite(value) ? value - least : 0)) };
}
