// Compare: the reader's own runs, their loss curves over one another.
import { html, useEffect, useState } from "../lib.js";
import { ask } from "../api.js";
import { Card, Problem, useAnswer, useSvgDrawing } from "../parts.js";
import { ticks } from "../scales.js";
import { t, tOr } from "../texts.js";

/** @typedef {import("../types.js").RoomProps} RoomProps */
/** @typedef {{id: string, status: string, model: string, task: string, step: number, steps: number, loss: number | null, valid_loss: number | null, curve?: {train: number[][], valid: number[][]}}} Run */

const MOST = 4;
const STYLES = ["", "second", "third", "more"];

/** @param {RoomProps} props */
export function Compare({ values, change, live }) {
  const { answer, error } = useAnswer("runs", live ? undefined : null);
  /** @type {Run[]} */
  const runs = answer?.runs ?? answer ?? [];
  const chosen = (values.runs ?? "").split(",").filter(Boolean);
  const shown = chosen.length ? chosen : runs.slice(0, 2).map((run) => run.id);
  const toggle = (/** @type {string} */ id) => {
    const next = shown.includes(id) ? shown.filter((each) => each !== id) : [...shown, id].slice(-MOST);
    change({ runs: next.join(",") });
  };
  if (!live) return html`<p class="error">${t("error.static")}</p>`;
  return html`<div class="stack">
    <${Problem} error=${error} />
    ${shown.length > 0 && html`<${Curve} ids=${shown} />`}
    <${Card} title=${t("compare.runs")}>
      ${answer && !runs.length && html`<p>${t("compare.none")} <code>regard studio --runs DIR</code></p>`}
      ${runs.length > 0 && html`<div class="scroller" tabindex="0" role="group" aria-label=${t("compare.runs")}><table class="runs"><thead><tr>
        <th scope="col">${t("compare.show")}</th><th scope="col">${t("compare.run")}</th><th scope="col">${t("compare.model")}</th><th scope="col">${t("compare.task")}</th><th scope="col">${t("compare.status")}</th><th scope="col">${t("compare.step")}</th><th scope="col">${t("compare.valid")}</th>
      </tr></thead><tbody>${runs.map((run) => html`<tr key=${run.id}>
        <td><input type="checkbox" checked=${shown.includes(run.id)} aria-label=${t("compare.show.run", { run: run.id })} onChange=${() => toggle(run.id)} /></td>
        <th scope="row">${run.id}</th><td>${run.model}</td><td>${run.task}</td><td>${tOr(`status.${run.status}`, run.status)}</td><td>${run.step} / ${run.steps}</td><td>${run.valid_loss?.toFixed(3) ?? ""}</td>
      </tr>`)}</tbody></table></div>`}
    <//>
  </div>`;
}

/** @param {{ids: string[]}} props */
function Curve({ ids }) {
  const [runs, setRuns] = useState(/** @type {Run[]} */ ([]));
  const { keep, attach } = useSvgDrawing();
  useEffect(() => {
    let current = true;
    Promise.all(ids.map((id) => ask(`runs/${encodeURIComponent(id)}`, undefined).catch(() => null))).then((found) => {
      if (current) setRuns(found.filter(Boolean));
    });
    return () => {
      current = false;
    };
  }, [ids.join(",")]);
  const lines = runs.map((run) => (run.curve?.valid.length ?? 0) > 1 ? run.curve?.valid : run.curve?.train);
  const points = lines.flatMap((line) => line ?? []);
  if (!points.length) return null;
  const [W, H, LEFT, BOTTOM] = [900, 320, 56, 34];
  const right = Math.max(...points.map(([step]) => step), 1);
  const high = Math.max(...points.map(([, loss]) => loss));
  const low = Math.min(0, ...points.map(([, loss]) => loss));
  const x = (/** @type {number} */ step) => LEFT + ((W - LEFT - 12) * step) / right;
  const y = (/** @type {number} */ loss) => 8 + (H - BOTTOM - 8) * (1 - (loss - low) / Math.max(high - low, 1e-9));
  return html`<${Card} title=${t("compare.loss")} keep=${keep} name=${runs.map((run) => run.id).join(" ")}>
    <svg class="chart" viewBox=${`0 0 ${W} ${H}`} ref=${attach} role="img" aria-label=${runs.map((run) => `${run.id}: ${run.valid_loss ?? run.loss}`).join("; ")}>
      ${ticks(low, high).map((value) => html`<line key=${`y${value}`} class="axis" x1=${LEFT} x2=${W - 12} y1=${y(value)} y2=${y(value)} /><text x=${LEFT - 8} y=${y(value) + 4} text-anchor="end">${value}</text>`)}
      ${ticks(0, right).map((value) => html`<text key=${`x${value}`} x=${x(value)} y=${H - 10} text-anchor="middle">${value}</text>`)}
      ${lines.map((line, i) => line && html`<polyline key=${runs[i].id} class=${`curve ${STYLES[i] ?? "more"}`} points=${line.map(([step, loss]) => `${x(step).toFixed(1)},${y(loss).toFixed(1)}`).join(" ")} />`)}
    </svg>
    <p class="legend">${runs.map((run, i) => html`<span key=${run.id} class=${`key ${STYLES[i] ?? "more"}`}>${run.id}</span>`)}</p>
    <p class="note">${t("compare.note")}</p>
  <//>`;
}
