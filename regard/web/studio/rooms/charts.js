// The plots of the Compare room: losses by step, and results.
import { html } from "../lib.js";
import { useSvgDrawing, useWidth } from "../hooks.js";
import { Card } from "../parts.js";
import { ticks } from "../scales.js";
import { t } from "../texts.js";

/** @typedef {import("../types.js").Run} Run */

export const STYLES = ["first", "second", "third", "fourth", "fifth", "sixth"];
const [HIGH, LEFT, BOTTOM] = [320, 56, 34];

/** The data of a run's curve: validation loss if there is any. @param {Run} run */
export function lossesOf({ curve }) {
  return (curve?.valid.length ?? 0) > 1 ? (curve?.valid ?? []) : (curve?.train ?? []);
}

/** The group drawn in one colour: the seeds of a variant, or a single run. @param {Run} run */
function kindOf({ variant, id }) {
  return variant ?? id;
}

/** @param {{runs: Run[]}} props the losses of all runs in one plot */
export function Losses({ runs }) {
  const { keep, attach } = useSvgDrawing();
  const [wide, measure] = useWidth(900);
  const drawn = runs.filter((run) => lossesOf(run).length > 0);
  const points = drawn.flatMap(lossesOf);
  if (!points.length) return null;
  const kinds = [...new Set(drawn.map(kindOf))];
  const style = (/** @type {string} */ kind) => STYLES[kinds.indexOf(kind) % STYLES.length];
  const right = Math.max(...points.map(([step]) => step), 1);
  const high = Math.max(...points.map(([, loss]) => loss));
  const low = Math.min(0, ...points.map(([, loss]) => loss));
  const x = (/** @type {number} */ step) => LEFT + ((wide - LEFT - 12) * step) / right;
  const y = (/** @type {number} */ loss) => 8 + (HIGH - BOTTOM - 8) * (1 - (loss - low) / Math.max(high - low, 1e-9));
  return html`<${Card} title=${t("compare.loss")} keep=${keep} name=${drawn.map((run) => run.id).join(" ")}>
    <div ref=${measure}><svg class="chart" viewBox=${`0 0 ${wide} ${HIGH}`} ref=${attach} role="img" aria-label=${drawn.map((run) => `${run.id}: ${run.valid_loss ?? run.loss}`).join("; ")}>
      ${ticks(low, high).map((value) => html`<line key=${`y${value}`} class="axis" x1=${LEFT} x2=${wide - 12} y1=${y(value)} y2=${y(value)} /><text x=${LEFT - 8} y=${y(value) + 4} text-anchor="end">${value}</text>`)}
      ${ticks(0, right).map((value) => html`<text key=${`x${value}`} x=${x(value)} y=${HIGH - 10} text-anchor="middle">${value}</text>`)}
      ${drawn.map((run) => html`<polyline key=${run.id} class=${`curve ${style(kindOf(run))}`} points=${lossesOf(run).map(([step, loss]) => `${x(step).toFixed(1)},${y(loss).toFixed(1)}`).join(" ")} />`)}
    </svg></div>
    <p class="legend">${kinds.map((kind) => html`<span key=${kind} class=${`key ${style(kind)}`}>${kind}</span>`)}</p>
    <p class="note">${t("compare.note")}</p>
  <//>`;
}

/**
 * The results of each variant: its values, one per seed.
 * @param {Run[]} runs
 * @returns {{variant: string, values: number[], mean: number}[]} variants with results
 */
export function measuredOf(runs) {
  /** @type {Map<string, number[]>} */
  const groups = new Map();
  for (const { variant, value } of runs) {
    if (typeof value === "number") groups.set(variant ?? "", [...(groups.get(variant ?? "") ?? []), value]);
  }
  return [...groups].map(([variant, values]) => ({ variant, values, mean: values.reduce((sum, value) => sum + value, 0) / values.length }));
}

/** @param {{id: string, runs: Run[]}} props a bar per variant, a point per seed */
export function Bars({ id, runs }) {
  const { keep, attach } = useSvgDrawing();
  const [wide, measure] = useWidth(900);
  const groups = measuredOf(runs);
  if (!groups.length) return null;
  const metric = runs.find((run) => run.metric)?.metric ?? "";
  const low = Math.min(0, ...groups.flatMap((group) => group.values));
  const high = Math.max(low + 1e-9, ...groups.flatMap((group) => group.values));
  const [row, left] = [34, Math.min(240, wide / 3)];
  const x = (/** @type {number} */ value) => left + ((wide - left - 70) * (value - low)) / (high - low);
  return html`<${Card} title=${metric} keep=${keep} name=${`${id} ${metric}`}>
    <div ref=${measure}><svg class="chart" viewBox=${`0 0 ${wide} ${row * groups.length + 6}`} ref=${attach} role="img" aria-label=${groups.map((group) => `${group.variant}: ${group.mean.toPrecision(4)}`).join("; ")}>
      ${groups.map(({ variant, values, mean }, i) => html`<g key=${variant}>
        <text x=${left - 12} y=${row * i + 22} text-anchor="end">${variant}</text>
        <rect class="measured" x=${x(Math.min(0, mean))} y=${row * i + 8} width=${Math.abs(x(mean) - x(0))} height="20" rx="3" />
        ${values.length > 1 && values.map((value, k) => html`<circle key=${k} class="seed" cx=${x(value)} cy=${row * i + 18} r="4" />`)}
        <text x=${Math.max(...values.map(x)) + 10} y=${row * i + 22}>${mean.toPrecision(4)}</text>
      </g>`)}
    </svg></div>
  <//>`;
}
