// The hypotheses of a beam search, as a list and as a tree of everything that the search kept.
import { html } from "../lib.js";
import { useAnswer, useSvgDrawing } from "../hooks.js";
import { Card, Choice, Problem } from "../parts.js";
import { t } from "../texts.js";
import { difference, textWidth, through } from "../words.js";

/** @typedef {import("../types.js").Hypothesis} Hypothesis */
/** @typedef {import("../types.js").Tree} Tree */
/** @typedef {import("../types.js").TreeNode} TreeNode */

const END = "<eos>";
const [ROW, SIZE, GAP] = [34, 13.5, 26];

/** @param {{question: any, beam: Hypothesis[], chosen: number, onPick: (rank: number) => void, view: string, onView: (view: string) => void}} props */
export function Beam({ question, beam, chosen, onPick, view, onView }) {
  const { keep, attach } = useSvgDrawing();
  const tree = view === "tree";
  const { answer, error, busy } = useAnswer("translate", tree ? { ...question, tree: true } : null, { file: "translate", delay: 150 });
  const found = answer?.results[0].tree;
  return html`<${Card} title=${t("beam.title")} busy=${busy} keep=${keep} whole=${!tree} name=${beam[0].text}
    extra=${html`<${Choice} label=${t("beam.view")} value=${view} onChange=${onView} options=${["list", "tree"].map((name) => ({ value: name, text: t(`beam.${name}`) }))} />`}>
    <${Problem} error=${error} />
    ${!tree ? html`<${List} beam=${beam} chosen=${chosen} onPick=${onPick} />` : found && html`<${Search} tree=${found} texts=${beam.map((each) => each.text)} chosen=${chosen} onPick=${onPick} attach=${attach} />`}
    <p class="note">${t(tree ? "beam.tree.note" : "beam.note")}</p>
  <//>`;
}

/** @param {{beam: Hypothesis[], chosen: number, onPick: (rank: number) => void}} props */
function List({ beam, chosen, onPick }) {
  const [best] = beam;
  return html`<ol class="beam">${beam.map((each, rank) => html`<li key=${rank}><button aria-pressed=${rank === chosen ? "true" : "false"} onClick=${() => onPick(rank)}>
    <span><span class="bar" style=${{ width: `${Math.round(88 * Math.exp(each.score - best.score))}px` }}></span><small>${each.score.toFixed(2)}</small></span>
    <span>${rank === 0 ? each.text : difference(cut(best.text), cut(each.text)).map((part) => html`${part.kind === "new" ? html`<mark>${part.text}</mark>` : part.text}`)}</span>
  </button></li>`)}</ol>`;
}

/** Words with trailing spaces; Chinese is split by character. @param {string} text */
function cut(text) {
  return /[\u4e00-\u9fff]/.test(text) ? [...text] : (text.match(/\S+\s*/g) ?? []);
}

/**
 * One column per step, the most probable continuation on top; lines lead back to its parent.
 * @param {{tree: Tree, texts: string[], chosen: number, onPick: (rank: number) => void, attach: (element: any) => void}} props
 */
function Search({ tree, texts, chosen, onPick, attach }) {
  const { nodes, hypotheses } = tree;
  const passing = through(tree);
  const steps = Math.max(...nodes.map((node) => node.step)) + 1;
  const columns = Array.from({ length: steps }, (_, step) => nodes.filter((node) => node.step === step));
  const widths = columns.map((column) => Math.max(18, ...column.map((node) => textWidth(shown(node), SIZE))));
  const lefts = widths.map((_, step) => 6 + widths.slice(0, step).reduce((sum, width) => sum + width + GAP, 0));
  const y = (/** @type {TreeNode} */ node) => 22 + ROW * columns[node.step].indexOf(node);
  const kind = (/** @type {TreeNode} */ { id }) => (passing[id].includes(chosen) ? "chosen" : passing[id].length ? "kept" : "dropped");
  const lines = nodes.filter((node) => node.parent !== null).sort((a, b) => order(kind(a)) - order(kind(b)));
  const height = 22 + ROW * Math.max(...columns.map((column) => column.length));
  return html`<div class="tree scroller" tabindex="0" role="region" aria-label=${t("beam.tree")}>
    <svg ref=${attach} width=${lefts[steps - 1] + widths[steps - 1] + 40} height=${height} role="group" aria-label=${t("beam.tree")}>
      ${lines.map((node) => {
        const parent = nodes[/** @type {number} */ (node.parent)];
        const [from, to] = [lefts[parent.step] + textWidth(shown(parent), SIZE) + 4, lefts[node.step] - 4];
        return html`<path key=${`p${node.id}`} class=${kind(node)} d=${`M${from},${y(parent)} C${to - 10},${y(parent)} ${to - GAP},${y(node)} ${to},${y(node)}`} />`;
      })}
      ${nodes.filter((node) => node.word !== END).map((node) => html`<text key=${node.id} class=${kind(node)} x=${lefts[node.step]} y=${y(node) + 5} onClick=${() => passing[node.id].length && onPick(passing[node.id][0])}>${shown(node)}<title>${node.log_probability.toFixed(2)}</title></text>`)}
      ${hypotheses.map((way, rank) => {
        const last = nodes[way[way.length - 1]];
        const x = lefts[last.step] + (last.word === END ? 9 : textWidth(shown(last), SIZE) + 16);
        const pick = (/** @type {any} */ event) => {
          if (event.key === "Enter" || event.key === " ") {
            event.preventDefault();
            onPick(rank);
          }
        };
        return html`<g key=${`h${rank}`} class=${`end ${rank === chosen ? "chosen" : ""}`} role="button" tabindex="0" aria-pressed=${rank === chosen ? "true" : "false"}
          aria-label=${`${rank + 1}: ${texts[rank]}`} onClick=${() => onPick(rank)} onKeyDown=${pick}>
          <circle cx=${x} cy=${y(last)} r="11" /><text x=${x} y=${y(last) + 4.5} text-anchor="middle">${rank + 1}</text></g>`;
      })}
    </svg>
  </div>`;
}

/** Elements drawn last are on top. @param {string} kind */
function order(kind) {
  return ["dropped", "kept", "chosen"].indexOf(kind);
}

/** @param {TreeNode} node */
function shown({ word }) {
  return word.trim() || "␣";
}
