// Point: a pointer network answers by pointing at its inputs.
import { html, useEffect, useRef, useState } from "../lib.js";
import { readPoints, writePoints } from "../address.js";
import { firstModel, POINTING, somePoints } from "../defaults.js";
import { agreeing, area, sameCycle, triangles } from "../geometry.js";
import { useAnswer, useMatrices, useSvgDrawing } from "../hooks.js";
import { Card, Choice, HeatMap, percent, Player, Problem, rowOf } from "../parts.js";
import { t, tOr } from "../texts.js";
import { strongest } from "../../views/matrix.js";

/** @typedef {import("../types.js").RoomProps} RoomProps */

const STEP = 0.02;
const OTHER = { least: 3, most: 50, dimension: 2, seed: 7, count: 10, counts: [6, 12, 30] };

/** @param {RoomProps} props */
export function Point({ values, change, models, still }) {
  const choices = models.filter((model) => model.kind === "point");
  const model = values.model ?? firstModel(choices, "hull");
  const rule = POINTING[model] ?? OTHER;
  const given = readPoints(values.p);
  const first = given && given[0].length === rule.dimension ? given : somePoints(rule.count, rule.seed, rule.dimension);
  const [points, setPoints] = useState(first);
  const kept = useRef(values.p);
  const [plays, setPlays] = useState(0);
  useEffect(() => {
    if (values.p !== kept.current || points[0]?.length !== rule.dimension) {
      kept.current = values.p;
      setPoints(first);
    }
  }, [values.p, model]);
  const timer = useRef(/** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined));
  useEffect(() => () => clearTimeout(timer.current), []); // other rooms' addresses have no points
  const move = (/** @type {number[][]} */ next) => {
    setPoints(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      kept.current = writePoints(next);
      change({ p: kept.current });
    }, 400);
  };
  const fits = points[0]?.length === rule.dimension && points.length >= rule.least;
  const { answer, of, error, busy } = useAnswer("point", fits ? { model, points } : null, { file: "point", delay: 90 });
  const fresh = (/** @type {number} */ count) => {
    move(somePoints(Math.min(count, rule.most), Math.floor(1 + 1e6 * Math.random()), rule.dimension));
    setPlays(plays + 1);
  };
  const current = answer && of.model === model && of.points.length === points.length ? answer : null;
  return html`<div class="stack">
    <${Card} title=${t("point.what")}>
      <div class="row spread">
        <${Choice} label=${t("point.what")} value=${model} onChange=${(/** @type {string} */ name) => change({ model: name, p: null })}
          options=${choices.map((each) => ({ value: each.name, text: tOr(`model.${each.name}`, each.name), title: each.summary }))} />
        <div class="row">
          ${rule.counts.map((count) => html`<button class="button" key=${count} onClick=${() => fresh(count)}>${t("point.new", { count })}</button>`)}
          <button class="button" disabled=${points.length >= rule.most} onClick=${() => move([...points, ...somePoints(1, points.length * 977 + 13, rule.dimension)])}>${t("point.add")}</button>
        </div>
      </div>
      <p class="note">${t(rule.dimension === 1 ? "point.hint.sort" : "point.hint")} ${t("point.limit", { count: points.length, most: rule.most })}</p>
      <${Problem} error=${error} />
    <//>
    <${Solved} key=${model} model=${model} rule=${rule} points=${points} answer=${current} busy=${busy} move=${move} still=${still} token=${`${plays}`} />
  </div>`;
}

/** @param {any} props */
function Solved({ model, rule, points, answer, busy, move, still, token }) {
  const [at, setAt] = useState(0);
  const order = answer?.order ?? [];
  const steps = order.length;
  const step = Math.min(at, Math.max(0, steps - 1));
  const before = useRef(steps);
  useEffect(() => {
    if (at === before.current - 1 && steps) setAt(steps - 1); // if the whole answer was visible, show all of the next one
    before.current = steps;
  }, [steps]);
  const matrices = useMatrices(answer?.weights ? [answer.weights] : null);
  const weights = matrices?.[0] ?? null;
  const halo = weights && step < weights.rows && weights.columns === points.length + 1 ? Array.from(rowOf(weights, step)).slice(1) : [];
  const said = (/** @type {number} */ row) => {
    if (row < 0 || !weights) return t("view.point");
    const list = strongest(weights, row, 3).filter(({ weight }) => weight >= 0.005).map(({ index, weight }) => t(index ? "point.on" : "point.on.end", { share: percent(weight), number: index }));
    return t("point.said", { step: row + 1, list: list.join(t("list")) });
  };
  const own = useSvgDrawing();
  const exact = useSvgDrawing();
  const map = useRef(null);
  const Plane = rule.dimension === 1 ? Bars : Flat;
  const verdict = answer && step === steps - 1 ? judge(points, answer) : null;
  const known = order.every((/** @type {number} */ each) => each < points.length) && (answer?.exact ?? []).every((/** @type {number} */ each) => each < points.length);
  return html`<div class="halves">
    <${Card} title=${t("point.network")} keep=${own.keep} name=${`${model} ${t("point.network")}`} busy=${busy && !answer}>
      <${Plane} attach=${own.attach} points=${points} order=${known ? order.slice(0, step + 1) : []} closed=${step === steps - 1} question=${answer?.question} halo=${halo} move=${move} rule=${rule} kind="answer" label=${t("point.network")} />
      ${steps > 1 && html`<${Player} length=${steps} at=${step} onChange=${setAt} autoplay=${true} token=${`${token} ${still}`} still=${still} pace=${520} label=${t("point.play")} />`}
    <//>
    <${Card} title=${t("point.exact")} keep=${exact.keep} name=${`${model} ${t("point.exact")}`}>
      <${Plane} attach=${exact.attach} points=${points} order=${known ? (answer?.exact ?? []) : []} closed=${true} question=${answer?.question} halo=${[]} rule=${rule} kind="exact" label=${t("point.exact")} />
      <p class=${`note ${verdict ? (verdict.right ? "good" : "bad") : ""}`} aria-live="polite">${verdict ? verdict.text : "\u00a0"}</p>
    <//>
    ${weights && weights.columns === points.length + 1 && html`<${Card} wide title=${t("point.weights")} keep=${map} name=${`${model} ${t("point.weights")}`}>
      <${HeatMap} matrix=${weights} rows=${Array.from({ length: weights.rows }, (_, i) => `${i + 1}.`)}
        columns=${[t("point.end"), ...points.map((/** @type {number[]} */ _, /** @type {number} */ i) => String(i + 1))]} label=${t("point.weights")} selected=${step} say=${said} onSelect=${(/** @type {number} */ row) => setAt(Math.min(row, steps - 1))} keep=${map} maxHeight=${360} />
      <p class="note">${t("point.weights.note")}</p>
    <//>`}
  </div>`;
}

/** @param {number[][]} points @param {import("../types.js").Pointed} answer */
function judge(points, { question, order, exact, length, exact_length }) {
  if (points[0].length === 1) {
    const good = agreeing(order, exact);
    return { right: good === exact.length, text: t("point.sorted", { good, all: exact.length }) };
  }
  if (question === "delaunay") {
    const sets = (/** @type {number[]} */ list) => triangles(list).map((each) => [...each].sort((a, c) => a - c).join(" "));
    const found = new Set(sets(order));
    const good = sets(exact).filter((each) => found.has(each)).length;
    return { right: good === exact.length / 3, text: t("point.triangles", { good, all: exact.length / 3 }) };
  }
  if (question === "tsp") {
    const more = Number(length) / Math.max(Number(exact_length), 1e-9) - 1;
    return { right: more < 0.0005, text: more < 0.0005 ? t("point.shortest") : t("point.longer", { share: `${(100 * more).toFixed(1)} %` }) };
  }
  if (sameCycle(order, exact)) return { right: true, text: t("point.same", { corners: exact.length }) };
  const share = area(points, order) / Math.max(area(points, exact), 1e-9);
  const missed = exact.filter((each) => !order.includes(each)).length;
  return { right: false, text: t("point.differs", { missed, corners: exact.length, area: percent(share) }) };
}

/** @param {any} props points in a square */
function Flat({ attach, points, order, closed, question, halo, move, rule, kind, label }) {
  const plane = useRef(/** @type {SVGSVGElement | null} */ (null));
  const held = useRef(-1);
  const where = (/** @type {PointerEvent} */ event) => {
    const box = /** @type {SVGSVGElement} */ (plane.current).getBoundingClientRect();
    const inside = (/** @type {number} */ x) => Math.round(1000 * Math.max(0.01, Math.min(0.99, x))) / 1000;
    return [inside((event.clientX - box.left) / box.width), inside(1 - (event.clientY - box.top) / box.height)];
  };
  const down = (/** @type {any} */ event) => {
    if (!move || event.button > 0) return;
    const dot = event.target.dataset?.i;
    plane.current?.setPointerCapture(event.pointerId);
    if (dot !== undefined) held.current = Number(dot);
    else if (points.length < rule.most) {
      held.current = points.length;
      move([...points, where(event)]);
    }
  };
  const drag = (/** @type {PointerEvent} */ event) => {
    if (held.current >= 0) move(points.map((/** @type {number[]} */ point, /** @type {number} */ i) => (i === held.current ? where(event) : point)));
  };
  const up = () => {
    held.current = -1;
  };
  const keys = (/** @type {KeyboardEvent} */ event, /** @type {number} */ i) => {
    const shift = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] }[event.key];
    if (shift) {
      event.preventDefault();
      const limit = (/** @type {number} */ x) => Math.round(1000 * Math.max(0.01, Math.min(0.99, x))) / 1000;
      move(points.map((/** @type {number[]} */ point, /** @type {number} */ j) => (i === j ? point.map((x, axis) => limit(x + shift[axis])) : point)));
    } else if ((event.key === "Delete" || event.key === "Backspace") && points.length > rule.least) {
      event.preventDefault();
      move(points.filter((/** @type {number[]} */ _, /** @type {number} */ j) => j !== i));
    }
  };
  const line = (/** @type {number[]} */ way) => way.map((i) => `${points[i][0]},${1 - points[i][1]}`).join(" ");
  const last = order[order.length - 1];
  const Shape = closed ? "polygon" : "polyline";
  return html`<svg class="plane" viewBox="0 0 1 1" role=${move ? "application" : "img"} aria-label=${label}
    ref=${(/** @type {SVGSVGElement | null} */ element) => {
      plane.current = element;
      attach(element);
    }} onPointerDown=${down} onPointerMove=${drag} onPointerUp=${up} onPointerCancel=${up}>
    ${[0.25, 0.5, 0.75].map((x) => html`<line class="gridline" x1=${x} x2=${x} y1="0" y2="1" /><line class="gridline" y1=${x} y2=${x} x1="0" x2="1" />`)}
    ${question === "delaunay" ? triangles(order).map((way, i) => html`<polygon key=${`t${i}`} class=${kind} points=${line(way)} />`)
    : order.length > 0 && html`<${Shape} class=${`${kind}${closed && question !== "tsp" ? " fill" : " open"}`} points=${line(order)} />`}
    ${halo.map((/** @type {number} */ weight, /** @type {number} */ i) => weight > 0.01 && html`<circle class="halo" key=${`h${i}`} cx=${points[i][0]} cy=${1 - points[i][1]} r=${0.016 + 0.055 * Math.sqrt(weight)} />`)}
    ${points.map((/** @type {number[]} */ [x, y], /** @type {number} */ i) => html`<circle key=${i} data-i=${i} cx=${x} cy=${1 - y} r=".014"
      class=${`dot${order.includes(i) ? " on" : ""}${move && i === last && !closed ? " now" : ""}`} tabindex=${move ? 0 : null} role=${move ? "button" : null}
      aria-label=${move ? t("point.dot", { number: i + 1, x: x.toFixed(2), y: y.toFixed(2) }) : null} onKeyDown=${move && ((/** @type {KeyboardEvent} */ event) => keys(event, i))} />
      <text key=${`n${i}`} x=${x + 0.02} y=${0.985 - y} aria-hidden="true">${i + 1}</text>`)}
  </svg>`;
}

/** @param {any} props numbers as bars; the network's panel shows them in input order, with the output below */
function Bars({ attach, points, order, closed, halo, move, rule, kind, label }) {
  const plane = useRef(/** @type {SVGSVGElement | null} */ (null));
  const held = useRef(-1);
  const slot = 1 / Math.max(points.length, 4);
  const limit = (/** @type {number} */ x) => Math.round(1000 * Math.max(0.02, Math.min(0.99, x))) / 1000;
  const set = (/** @type {number} */ i, /** @type {number} */ value) => move(points.map((/** @type {number[]} */ point, /** @type {number} */ j) => (i === j ? [limit(value)] : point)));
  const value = (/** @type {PointerEvent} */ event) => {
    const box = /** @type {SVGSVGElement} */ (plane.current).getBoundingClientRect();
    return (0.46 - (event.clientY - box.top) / box.height) / 0.44;
  };
  const down = (/** @type {any} */ event) => {
    const bar = event.target.dataset?.i;
    if (!move || bar === undefined) return;
    plane.current?.setPointerCapture(event.pointerId);
    held.current = Number(bar);
  };
  const up = () => {
    held.current = -1;
  };
  const keys = (/** @type {KeyboardEvent} */ event, /** @type {number} */ i) => {
    const shift = { ArrowUp: STEP, ArrowDown: -STEP }[event.key];
    if (shift) {
      event.preventDefault();
      set(i, points[i][0] + shift);
    } else if ((event.key === "Delete" || event.key === "Backspace") && points.length > rule.least) {
      event.preventDefault();
      move(points.filter((/** @type {number[]} */ _, /** @type {number} */ j) => j !== i));
    }
  };
  const last = closed ? -1 : order[order.length - 1];
  return html`<svg class="plane bars" viewBox="0 0 1 1" role=${move ? "application" : "img"} aria-label=${label}
    ref=${(/** @type {SVGSVGElement | null} */ element) => {
      plane.current = element;
      attach(element);
    }} onPointerDown=${down} onPointerMove=${(/** @type {PointerEvent} */ event) => held.current >= 0 && set(held.current, value(event))}
    onPointerUp=${up} onPointerCancel=${up}>
    ${points.map((/** @type {number[]} */ [x], /** @type {number} */ i) => html`<rect key=${`g${i}`} data-i=${i} class=${`dot given${i === last ? " now" : order.includes(i) ? " on" : ""}`}
      x=${slot * (i + 0.18)} width=${slot * 0.64} y=${0.46 - 0.44 * x} height=${0.44 * x} rx=".008" tabindex=${move ? 0 : null} role=${move ? "button" : null}
      aria-label=${move ? t("point.bar", { number: i + 1, value: x.toFixed(2) }) : null} onKeyDown=${move && ((/** @type {KeyboardEvent} */ event) => keys(event, i))} />`)}
    ${halo.map((/** @type {number} */ weight, /** @type {number} */ i) => weight > 0.01 && html`<circle class="halo" key=${`h${i}`} cx=${slot * (i + 0.5)} cy=".49" r=${0.025 * Math.sqrt(weight)} />`)}
    <line class="gridline" x1="0" x2="1" y1=".5" y2=".5" />
    ${order.map((/** @type {number} */ i, /** @type {number} */ place) => html`<rect key=${`s${place}`} class=${kind} x=${slot * (place + 0.18)} width=${slot * 0.64} y=${0.97 - 0.44 * points[i][0]} height=${0.44 * points[i][0]} rx=".008" />`)}
  </svg>`;
}
