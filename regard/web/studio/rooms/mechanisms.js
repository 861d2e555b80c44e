// Mechanisms: a page per catalogue row, with an example computed by the library.
import { html, useRef, useState } from "../lib.js";
import { writeAddress } from "../address.js";
import { pieces } from "../equation.js";
import { useAnswer, useCurrent, useMatrices } from "../hooks.js";
import { Card, Choice, HeatMap, Problem } from "../parts.js";
import { t, titleOf, tOr } from "../texts.js";

/** @typedef {import("../types.js").RoomProps} RoomProps */
/** @typedef {import("../types.js").Mechanism} Mechanism */

const KINDS = ["score", "normalizer", "window", "memory", "layer"];

/** @param {RoomProps} props */
export function Mechanisms({ values, change, live }) {
  const { answer, error } = useAnswer("mechanisms", undefined, { file: "mechanisms" });
  if (!answer) return html`<${Problem} error=${error} />`;
  /** @type {Mechanism[]} */
  const rows = answer;
  return html`<${Shelf} rows=${rows} values=${values} change=${change} live=${live} />`;
}

/** @param {{rows: Mechanism[]} & Pick<RoomProps, "values" | "change" | "live">} props */
function Shelf({ rows, values, change, live }) {
  const row = rows.find((each) => each.key === values.name) ?? rows[0];
  const list = useCurrent(row.key);
  return html`<div class="shelf">
    <nav class="card" aria-label=${t("room.mechanisms")} ref=${list}>
      ${KINDS.map((kind) => html`<h2 key=${kind}>${t(`kind.${kind}`)}</h2>
        ${rows.filter((each) => each.kind === kind).map((each) => html`<a key=${each.key} href=${writeAddress("mechanisms", { name: each.key })} aria-current=${each.key === row.key ? "page" : null}>${titleOf(each).title}<small>${each.year}</small></a>`)}`)}
    </nav>
    <${One} key=${row.key} row=${row} values=${values} change=${change} live=${live} />
  </div>`;
}

/** @param {{row: Mechanism} & Pick<RoomProps, "values" | "change" | "live">} props */
function One({ row, values, change, live }) {
  const [shown, setShown] = useState("weights");
  const [linked, setLinked] = useState("");
  const [open, setOpen] = useState(false);
  const code = useAnswer(`mechanisms/${row.key}/file`, open ? undefined : null);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const { title, sentence } = titleOf(row);
  const follow = (/** @type {string} */ to) => {
    if (to === "scores" || to === "weights") setShown(to);
    /** @type {HTMLElement | null | undefined} */ (box.current?.querySelector(`input[name="${to}"]`))?.focus();
  };
  return html`<div class="stack" ref=${box}>
    <${Card} title=${tOr(`kind.${row.kind}`, row.kind)}>
      <h3 class="big">${title}</h3>
      <p class="quiet">${row.authors}, ${row.year}. <a href=${row.link} rel="noreferrer noopener" target="_blank">${t("mechanisms.paper")}</a></p>
      <p class="gap">${sentence}</p>
      ${row.equation && html`<${Equation} row=${row} linked=${linked} onLink=${setLinked} onFollow=${follow} />`}
      <p class="note">${t("mechanisms.file")} ${live ? html`<button class="chip" aria-expanded=${open ? "true" : "false"} onClick=${() => setOpen(!open)}><code>${row.file}</code></button>` : html`<code>${row.file}</code>`}</p>
      <${Problem} error=${code.error} />
      ${code.answer && html`<pre class="equation code" tabindex="0" lang="en">${code.answer.text}</pre>`}
    <//>
    <${Example} row=${row} title=${title} sentence=${sentence} values=${values} change=${change} shown=${shown} onShow=${setShown} linked=${linked} onLink=${setLinked} />
    <${Measured} row=${row} />
  </div>`;
}

/** What a symbol stands for, in words. @param {string} shows */
function named(shows) {
  const [kind, number] = shows.split(" ");
  if (kind === "row") return t(`stage.${["content", "gated", "shifted", "sharpened"][Number(number)]}`);
  return tOr(`shows.${shows}`, tOr(`parameter.${shows}`, shows));
}

/** A row or column of the example, `query 3` or a stage of addressing, in words. @param {string} name */
function place(name) {
  const [what, number] = name.split(" ");
  return number ? t(`place.${what}`, { number }) : t(`stage.${what}`);
}

/** @param {{row: Mechanism, linked: string, onLink: (to: string) => void, onFollow: (to: string) => void}} props symbols are highlighted together with what they stand for, and link to it */
function Equation({ row, linked, onLink, onFollow }) {
  const seen = new Set();
  return html`<pre class="equation" tabindex="0">${pieces(row.equation, row.symbols).map(({ text, shows }, i) => {
    if (!shows) return text;
    const first = !seen.has(shows);
    seen.add(shows);
    return html`<button key=${i} class=${`symbol${shows === linked ? " lit" : ""}`} tabindex=${first ? 0 : -1} title=${named(shows)} aria-label=${`${text}: ${named(shows)}`}
      onMouseEnter=${() => onLink(shows)} onMouseLeave=${() => onLink("")} onFocus=${() => onLink(shows)} onBlur=${() => onLink("")} onClick=${() => onFollow(shows)}>${text}</button>`;
  })}</pre>
  ${seen.size > 0 && html`<p class="note">${t("mechanisms.symbols")}</p>`}`;
}

/** @param {any} props */
function Example({ row, title, sentence, values, change, shown, onShow, linked, onLink }) {
  const map = useRef(null);
  const live = row.parameters.length > 0;
  const parameters = Object.fromEntries(row.parameters.map((/** @type {import("../types.js").Parameter} */ each) => [each.name, values[each.name] === undefined ? each.value : Number(values[each.name])]));
  const { answer, error, busy } = useAnswer("mechanism", live ? { name: row.key, parameters } : null, { file: "mechanisms", delay: 120 });
  const matrices = useMatrices(answer ? [answer.weights, answer.scores] : null);
  const matrix = matrices?.[shown === "scores" ? 1 : 0];
  const scale = matrix && scaleOf(matrix, shown === "scores");
  const said = (/** @type {number} */ row, /** @type {number} */ column) => {
    if (!matrix || row < 0 || column < 0) return t("view.point");
    const value = matrix.values[row * matrix.columns + column];
    return t(Number.isFinite(value) ? "mechanisms.said" : "mechanisms.hidden", { row: place(answer.rows[row]), column: place(answer.columns[column]), value: value.toPrecision(3) });
  };
  const hot = { row: linked.startsWith("row ") ? Number(linked.slice(4)) : -1, column: -1 };
  const axis = (/** @type {string} */ name) => html`<span class=${`axis-name${linked === name ? " lit" : ""}`}>${t(`axis.${row.kind === "memory" ? "memory" : "attention"}.${name}`)}</span>`;
  return html`<${Card} title=${t("mechanisms.try")} keep=${matrix ? map : undefined} name=${title} note=${sentence} busy=${busy}
    extra=${answer && html`<${Choice} label=${t("mechanisms.shown")} value=${shown} onChange=${onShow} options=${["weights", "scores"].map((name) => ({ value: name, text: t(`mechanisms.${name}`) }))} />`}>
    ${live && html`<div class="sliders">${row.parameters.map((/** @type {import("../types.js").Parameter} */ each) => html`<label class=${`field${linked === each.name ? " lit" : ""}`} key=${each.name} onMouseEnter=${() => onLink(each.name)} onMouseLeave=${() => onLink("")}>${tOr(`parameter.${each.name}`, each.name)}
      <span class="row"><input type="range" name=${each.name} min=${each.min} max=${each.max} step=${each.step} value=${parameters[each.name]} onInput=${(/** @type {any} */ event) => change({ [each.name]: event.target.value })} /><output>${parameters[each.name]}</output></span></label>`)}</div>`}
    <${Problem} error=${error} />
    ${matrix && html`<div class="gap"><${HeatMap} key=${`${shown} ${Boolean(scale)}`} matrix=${matrix} ...${scale && { ...scale, say: said }} rows=${answer.rows.map(place)} columns=${answer.columns.map(place)} label=${title} hot=${hot} keep=${map} /></div>
      <p class="note">${axis("rows")} ${axis("columns")}</p>`}
    <p class="note">${t(!live ? "mechanisms.noexample" : row.kind === "memory" ? "mechanisms.memory" : "mechanisms.note")}</p>
  <//>`;
}

/** @param {{row: Mechanism}} props */
function Measured({ row }) {
  return html`<${Card} title=${t("mechanisms.measured")}>
    ${row.measured.length ? html`<div class="scroller" tabindex="0" role="group" aria-label=${t("mechanisms.measured")}><table class="runs results"><thead><tr>${["recipe", "metric", "value", "paper", "where"].map((name) => html`<th scope="col" key=${name}>${t(`measured.${name}`)}</th>`)}</tr></thead>
      <tbody>${row.measured.map((each) => html`<tr key=${`${each.recipe} ${each.metric}`}><td><code>${each.recipe}</code></td><td>${each.metric}</td><td>${Number(each.value.toPrecision(4))}</td><td>${each.paper ?? ""}</td><td class="small quiet">${each.machine}, ${each.date}</td></tr>`)}</tbody></table></div>`
    : html`<p>${t("mechanisms.unmeasured")}</p>`}
  <//>`;
}

/**
 * The range of the map's colour scale; null for weights.
 * @param {import("../types.js").Matrix} matrix
 * @param {boolean} scores
 */
export function scaleOf({ values }, scores) {
  const finite = Array.from(values).filter(Number.isFinite);
  const least = Math.min(...finite);
  return scores || least < 0 ? { least, largest: Math.max(...finite) } : null;
}
