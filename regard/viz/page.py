"""Style and script of the report page: plain, inline, and without a request to any host."""

STYLE = """
:root {
  --paper: #ffffff; --card: #f6f8fa; --ink: #1d232b; --quiet: #5d6875; --rule: #d8dee4;
  --accent: 15 74 138; --accent-ink: #0f4a8a; --gold: #c24e00; --differs: #fde5d3; --missed: #dbe9f8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #12161c; --card: #1a2028; --ink: #e6eaef; --quiet: #98a4b1; --rule: #303a45;
    --accent: 92 170 240; --accent-ink: #8cc4f8; --gold: #ff9a4d; --differs: #5a3217; --missed: #1d3f63;
  }
}
* { box-sizing: border-box; }
html { color-scheme: light dark; -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.6 "regard chinese", system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue",
    "Noto Sans", sans-serif;
}
main { max-width: 56rem; margin: 0 auto; padding: 3rem 1.25rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; letter-spacing: -0.015em; margin: 0 0 .75rem; text-wrap: balance; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 .75rem; }
p { margin: 0 0 1em; max-width: 44rem; overflow-wrap: anywhere; }
a { color: var(--accent-ink); text-underline-offset: .15em; }
.summary { font-size: 1.1rem; color: var(--quiet); }
nav { border-block: 1px solid var(--rule); margin: 2rem 0 0; padding: .7rem 0; font-size: .9rem; }
nav ol { display: flex; flex-wrap: wrap; gap: .2rem 1.5rem; list-style: none; margin: 0; padding: 0; }
nav a { text-decoration: none; }
nav a:hover { text-decoration: underline; }
section { margin-top: 3rem; }
figure { margin: 0; }
figcaption, .note { font-size: .875rem; color: var(--quiet); margin-top: .6rem; max-width: 44rem; }
.picture { background: #fff; border: 1px solid var(--rule); border-radius: 8px; padding: .75rem; }
.picture img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
.scroll { overflow-x: auto; }
@media screen and (min-width: 60rem) { .scroll { width: fit-content; max-width: calc(50vw + 25rem); } }
table { border-collapse: collapse; font-size: .95rem; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .75rem; text-align: left; border-bottom: 1px solid var(--rule); vertical-align: top; }
th:first-child, td:first-child { padding-left: 0; }
thead th { font-weight: 600; font-size: .85rem; line-height: 1.35; color: var(--quiet); }
thead th { vertical-align: bottom; }
table tr > :first-child { white-space: nowrap; position: sticky; left: 0; background: var(--paper); }
.number { text-align: right; white-space: nowrap; }
thead .number { white-space: normal; min-width: 4.2rem; }
.pair { display: grid; grid-template-columns: 6rem 1fr; gap: .1rem 1rem; margin: 0; padding: .8rem 0;
  border-bottom: 1px solid var(--rule); }
.pair:first-of-type { border-top: 1px solid var(--rule); }
.pair dt { color: var(--quiet); font-size: .85rem; line-height: 1.9; }
.pair dd { margin: 0; overflow-wrap: anywhere; }
mark { color: inherit; border-radius: 3px; padding: 0 .15em; text-decoration: underline 2px;
  text-underline-offset: .2em; }
mark.differs { background: var(--differs); text-decoration-color: var(--gold); }
mark.missed { background: var(--missed); text-decoration: underline 2px dotted var(--accent-ink); }
.alignment { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 1rem; }
.alignment { display: flex; flex-wrap: wrap; gap: .75rem 1.5rem; align-items: flex-start; }
.alignment .sides { flex: 1 1 20rem; min-width: 0; }
.alignment .side { display: grid; grid-template-columns: 4rem 1fr; align-items: start; }
.alignment .side > span { font-size: .8rem; color: var(--quiet); line-height: 1.9rem; }
.words { display: flex; flex-wrap: wrap; gap: .1rem .2rem; margin: 0 0 .5rem; font-size: .95rem; }
.words button {
  --weight: 0; font: inherit; color: inherit; cursor: default; min-width: 1.9rem; padding: .1rem .4rem .05rem;
  border: 1px solid transparent; border-radius: 5px; background: rgb(var(--accent) / var(--weight));
  line-height: 1.35; overflow-wrap: anywhere;
}
.words button::after {
  content: attr(data-number); display: block; min-height: 1.15em; font-size: .68rem; line-height: 1.15;
  font-variant-numeric: tabular-nums; opacity: .85;
}
.words button.strong { color: var(--paper); }
.words button.chosen { border-color: var(--ink); }
.words button.gold { box-shadow: 0 2px 0 var(--gold); }
.words button:focus-visible { outline: 2px solid var(--accent-ink); outline-offset: 1px; }
.alignment canvas { display: block; border: 1px solid var(--rule); border-radius: 3px;
  max-width: 100%; background: var(--paper); touch-action: pan-y; }
.alignment output { display: block; min-height: 1.5em; font-size: .875rem; color: var(--quiet);
  margin: .35rem 0 0; }
.key { white-space: nowrap; }
.key::before { content: ""; display: inline-block; width: .6rem; height: .6rem; margin-right: .35rem;
  border: 2px solid var(--gold); }
footer { margin-top: 4rem; padding-top: 1rem; border-top: 1px solid var(--rule); font-size: .8rem;
  color: var(--quiet); }
@media (max-width: 36rem) {
  main { padding: 1.75rem 1rem 3rem; }
  h1 { font-size: 1.6rem; }
  section { margin-top: 2.25rem; }
  .pair, .alignment .side { grid-template-columns: 1fr; }
  th, td { padding: .35rem .6rem; }
  table tr > :first-child { white-space: normal; }
}
@media print {
  :root {
    --paper: #fff; --card: #fff; --ink: #000; --quiet: #444; --rule: #bbb; --accent: 15 74 138;
    --accent-ink: #0f4a8a; --gold: #c24e00; --differs: #fde5d3; --missed: #dbe9f8;
  }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  nav { display: none; }
  figure, .pair, tr { break-inside: avoid; }
  h2 { break-after: avoid; }
}
"""

SCRIPT = """
"use strict";
function start(view) {
  const sources = [...view.querySelectorAll(".source button")];
  const targets = [...view.querySelectorAll(".target button")];
  const canvas = view.querySelector("canvas");
  const output = view.querySelector("output");
  const S = sources.length, T = targets.length, scale = Number(view.dataset.scale);
  const bytes = Uint8Array.from(atob(view.dataset.weights), (letter) => letter.charCodeAt(0));
  const weight = (t, s) => bytes[t * S + s] / 255 * scale;
  const gold = new Set(view.dataset.gold.split(" ").filter(Boolean));
  let chosen = { target: 0, source: -1 };

  const number = (value) => value < 0.005 ? "" : value.toFixed(2).replace(/^0/, "");
  const shade = (button, value, linked) => {
    button.style.setProperty("--weight", (value / scale).toFixed(3));
    button.dataset.number = number(value);
    button.classList.toggle("strong", value / scale > 0.66);
    button.classList.toggle("gold", linked);
  };
  const clear = (button) => shade(button, 0, false);

  function describe(button, others, values, arrow) {
    const best = values.map((value, i) => [value, i]).sort((a, b) => b[0] - a[0]).slice(0, 3);
    const parts = best.filter(([value]) => value >= 0.005)
      .map(([value, i]) => others[i].dataset.word + " " + value.toFixed(2));
    output.textContent = button.dataset.word + " " + arrow + " " + (parts.join(", ") || "nothing");
  }

  function draw() {
    const room = Math.min(view.clientWidth - 34, 240);
    const cell = Math.max(1, Math.min(14, Math.floor(room / S), Math.floor(480 / T)));
    const ratio = window.devicePixelRatio || 1;
    canvas.style.width = cell * S + 2 + "px";
    canvas.width = cell * S * ratio;
    canvas.height = cell * T * ratio;
    const style = getComputedStyle(view), pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    for (let t = 0; t < T; t++) {
      for (let s = 0; s < S; s++) {
        pen.fillStyle = `rgb(${style.getPropertyValue("--accent")} / ${bytes[t * S + s] / 255})`;
        pen.fillRect(s * cell, t * cell, cell, cell);
        if (gold.has(s + "-" + t) && cell > 4) {
          pen.strokeStyle = style.getPropertyValue("--gold");
          pen.lineWidth = 1.5;
          pen.strokeRect(s * cell + 2, t * cell + 2, cell - 4, cell - 4);
        }
      }
    }
    pen.strokeStyle = style.getPropertyValue("--ink");
    pen.lineWidth = 1;
    if (chosen.target >= 0) pen.strokeRect(0.5, chosen.target * cell + 0.5, S * cell - 1, cell - 1);
    if (chosen.source >= 0) pen.strokeRect(chosen.source * cell + 0.5, 0.5, cell - 1, T * cell - 1);
  }

  function choose(target, source) {
    chosen = { target, source };
    sources.forEach((button, s) => button.classList.toggle("chosen", s === source));
    targets.forEach((button, t) => button.classList.toggle("chosen", t === target));
    if (target >= 0) {
      targets.forEach(clear);
      sources.forEach((button, s) => shade(button, weight(target, s), gold.has(s + "-" + target)));
      describe(targets[target], sources, sources.map((_, s) => weight(target, s)), "\\u2190");
    } else {
      sources.forEach(clear);
      targets.forEach((button, t) => shade(button, weight(t, source), gold.has(source + "-" + t)));
      describe(sources[source], targets, targets.map((_, t) => weight(t, source)), "\\u2192");
    }
    draw();
  }

  function listen(buttons, pick) {
    buttons.forEach((button, i) => {
      button.tabIndex = i ? -1 : 0;
      for (const event of ["pointerenter", "focus", "click"]) button.addEventListener(event, () => pick(i));
      button.addEventListener("focus", () => {
        buttons.forEach((other, j) => { other.tabIndex = i === j ? 0 : -1; });
      });
      button.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        const next = { Home: 0, End: buttons.length - 1 }[event.key] ?? (step ? i + step : -1);
        if (!buttons[next]) return;
        event.preventDefault();
        buttons[next].focus();
      });
    });
  }

  listen(targets, (t) => choose(t, -1));
  listen(sources, (s) => choose(-1, s));
  const point = (event) => {
    const t = Math.floor(event.offsetY / canvas.clientHeight * T);
    if (t >= 0 && t < T && t !== chosen.target) choose(t, -1);
  };
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  new ResizeObserver(draw).observe(view);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  choose(Math.min(Number(view.dataset.first), T - 1), -1);
}
document.querySelectorAll(".alignment").forEach(start);
"""
