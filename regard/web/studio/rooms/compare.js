// Compare: the reader's own runs and comparisons, also while they train.
import { html, useRef } from "../lib.js";
import { useLive, useMatrices } from "../hooks.js";
import { Card, Choice, HeatMap, Problem, Tabs } from "../parts.js";
import { t, tOr } from "../texts.js";
import { Bars, Losses, STYLES } from "./charts.js";

/** @typedef {import("../types.js").RoomProps} RoomProps */
/** @typedef {import("../types.js").Run} Run */

const MOST = STYLES.length;

/** @param {RoomProps} props */
export function Compare(props) {
  if (!props.live) return html`<p class="error">${t("error.static")}</p>`;
  return html`<${Tabs} name="compare" pages=${{ runs: Runs, comparisons: Comparisons }} ...${props} />`;
}

/** @param {any[]} answers lists of runs */
function training(answers) {
  return answers.flat().some((each) => each.status === "training" || each.training > 0);
}

/** @param {RoomProps} props */
function Runs({ values, change }) {
  const { answers: [list], error } = useLive(["runs"], training);
  /** @type {Run[]} */
  const runs = list ?? [];
  const chosen = (values.runs ?? "").split(",").filter((id) => runs.some((run) => run.id === id));
  const shown = chosen.length ? chosen : runs.slice(0, 2).map((run) => run.id);
  const toggle = (/** @type {string} */ id) => {
    const next = shown.includes(id) ? shown.filter((each) => each !== id) : [...shown, id].slice(-MOST);
    change({ runs: next.join(",") });
  };
  return html`<div class="stack">
    <${Problem} error=${error} />
    ${shown.length > 0 && html`<${Shown} ids=${shown} />`}
    <${Card} title=${t("compare.runs")}>
      ${list && !runs.length && html`<p>${t("compare.none")} <code>regard studio --runs DIR</code></p>`}
      ${runs.length > 0 && html`<${Table} label=${t("compare.runs")} head=${["show", "run", "model", "task", "status", "step", "loss.last", "valid"]} rows=${runs.map((run) => [
        html`<input type="checkbox" checked=${shown.includes(run.id)} aria-label=${t("compare.show.run", { run: run.id })} onChange=${() => toggle(run.id)} />`,
        run.id, run.model, run.task, tOr(`status.${run.status}`, run.status), `${run.step} / ${run.steps}`, loss(run.loss), loss(run.valid_loss),
      ])} />`}
    <//>
  </div>`;
}

/** @param {{ids: string[]}} props losses of some runs, and the latest alignment of each */
function Shown({ ids }) {
  const { answers } = useLive(ids.map((id) => `runs/${encodeURIComponent(id)}`), training);
  /** @type {Run[]} */
  const runs = answers;
  const aligned = runs.filter((run) => run.alignment?.alignment);
  return html`<${Losses} runs=${runs} />
    ${aligned.length > 0 && html`<div class="halves">${aligned.map((run) => html`<${Latest} key=${run.id} run=${run} />`)}</div>`}`;
}

/** @param {{run: Run}} props */
function Latest({ run }) {
  const map = useRef(null);
  const { alignment, source_words, target_words, text, step } = /** @type {NonNullable<Run["alignment"]>} */ (run.alignment);
  const matrix = useMatrices([alignment])?.[0];
  const fits = matrix && matrix.rows === target_words.length && matrix.columns === source_words.length && matrix.rows > 0;
  return html`<${Card} title=${run.id} file keep=${fits ? map : undefined} name=${`${run.id} ${step}`} note=${text}>
    <p class="quiet small" aria-live="polite">${t("compare.latest", { step })}</p>
    <p class="gap">${text}</p>
    ${fits && html`<div class="gap"><${HeatMap} matrix=${matrix} rows=${target_words} columns=${source_words} label=${t("compare.latest", { step })} keep=${map} maxHeight=${420} /></div>`}
  <//>`;
}

/** @param {RoomProps} props */
function Comparisons({ values, change }) {
  const { answers: [list], error } = useLive(["comparisons"], training);
  const ids = (list ?? []).map((/** @type {{id: string}} */ each) => each.id);
  const id = ids.includes(values.id) ? values.id : ids[0];
  return html`<div class="stack">
    <${Problem} error=${error} />
    ${ids.length > 1 && html`<${Card} title=${t("compare.tab.comparisons")}><${Choice} label=${t("compare.tab.comparisons")} value=${id} onChange=${(/** @type {string} */ name) => change({ id: name })} options=${ids.map((/** @type {string} */ name) => ({ value: name, text: name }))} /><//>`}
    ${id ? html`<${Comparison} key=${id} id=${id} />` : list && html`<${Card} title=${t("compare.tab.comparisons")}><p>${t("compare.nocomparison")} <code>regard compare rnnsearch-reverse --scores dot,additive</code></p><//>`}
  </div>`;
}

/** @param {{id: string}} props */
function Comparison({ id }) {
  const { answers: [found] } = useLive([`comparisons/${encodeURIComponent(id)}`], training);
  if (!found) return null;
  /** @type {Run[]} */
  const runs = found.runs;
  const value = (/** @type {Run} */ run) => (run.value === null || run.value === undefined ? (run.reason ?? "") : `${round(run.value)} ${run.metric}`);
  return html`<${Bars} id=${id} runs=${runs} />
    <${Losses} runs=${runs} />
    <${Card} title=${id} file whole>
      <p class="quiet" aria-live="polite">${t("compare.progress", { finished: found.finished, trainings: found.trainings })}</p>
      <${Table} label=${id} head=${["variant", "seed", "status", "step", "loss.last", "valid", "measured"]} rows=${runs.map((run) => [
        run.variant, run.seed ?? "", tOr(`status.${run.status}`, run.status), `${run.step} / ${run.steps}`, loss(run.loss), loss(run.valid_loss), value(run),
      ])} />
    <//>`;
}

/** @param {number} value */
function round(value) {
  return Number(value.toPrecision(4));
}

/** @param {number | null} value */
function loss(value) {
  return value === null ? "" : value && Math.abs(value) < 0.01 ? value.toExponential(1) : value.toFixed(3);
}

/** @param {{label: string, head: string[], rows: any[][]}} props */
function Table({ label, head, rows }) {
  return html`<div class="scroller" tabindex="0" role="group" aria-label=${label}><table class="runs">
    <thead><tr>${head.map((name) => html`<th scope="col" key=${name}>${t(`compare.${name}`)}</th>`)}</tr></thead>
    <tbody>${rows.map((cells, i) => html`<tr key=${i}>${cells.map((cell, j) => html`<td key=${j}>${cell}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}
