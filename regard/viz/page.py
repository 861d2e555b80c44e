"""Style and script of the report page: plain, inline, and without a request to any host."""

from regard.web.bundle import bundle

STYLE = """
:root {
  --paper: #ffffff; --card: #f6f8fa; --ink: #1d232b; --quiet: #5d6875; --rule: #d8dee4;
  --accent: 15 74 138; --accent-ink: #0f4a8a; --gold: #c24e00; --differs: #fde5d3; --missed: #dbe9f8;
}
@media (prefers-color-scheme: dark) {
  :root:not([data-theme=light]) {
    --paper: #12161c; --card: #1a2028; --ink: #e6eaef; --quiet: #98a4b1; --rule: #303a45;
    --accent: 92 170 240; --accent-ink: #8cc4f8; --gold: #ff9a4d; --differs: #5a3217; --missed: #1d3f63;
  }
}
:root[data-theme=dark] {
  --paper: #12161c; --card: #1a2028; --ink: #e6eaef; --quiet: #98a4b1; --rule: #303a45;
  --accent: 92 170 240; --accent-ink: #8cc4f8; --gold: #ff9a4d; --differs: #5a3217; --missed: #1d3f63;
}
:root { --soft: var(--quiet); --line: var(--rule); --a: var(--accent-ink); --b: var(--gold); }
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
.key { white-space: nowrap; }
.key::before { content: ""; display: inline-block; width: .6rem; height: .6rem; margin-right: .35rem;
  border: 2px solid var(--gold); }
footer { margin-top: 4rem; padding-top: 1rem; border-top: 1px solid var(--rule); font-size: .8rem;
  color: var(--quiet); }
@media (max-width: 36rem) {
  main { padding: 1.75rem 1rem 3rem; }
  h1 { font-size: 1.6rem; }
  section { margin-top: 2.25rem; }
  .pair { grid-template-columns: 1fr; }
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


def script() -> str:
    """The views of `regard/web`, one for each alignment of the page."""
    return f"{{\n{bundle('report')}\nviews.report.start(document);\n}}"
