"""Tables made from results/*.json: for the documentation, and for the README between its markers.

python docs/_hooks/tables.py          writes the README's table anew
python docs/_hooks/tables.py --check  fails when it is stale
"""

import math
import re
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard import catalog
from regard.evaluate.results import Result, read_results
from regard.evaluate.text import LengthScore
from regard.train.compare_report import size
from regard.train.config import recipe_names, recipe_sentence
from regard.viz.bars import draw_bars
from regard.viz.curves import draw_lengths

ROOT = Path(__file__).parents[2]


def newest(results: list[Result]) -> list[Result]:
    """Of several records of one recipe and metric, the last."""
    latest = {(result.recipe, result.metric): result for result in sorted(results, key=lambda r: r.date)}
    return sorted(latest.values(), key=lambda r: (r.recipe, r.metric))


def rows_of(folder: Path, entry: str) -> list[Result]:
    """The results that belong to one catalogue entry, `kind:key`."""
    return [result for result in newest(read_results(folder)) if entry in result.details.get("catalogue", [])]


def table(results: list[Result]) -> str:
    """Results as a Markdown table."""
    lines = ["| recipe | metric | value | paper | seconds | machine | date |"]
    lines.append("|---|---|---:|---:|---:|---|---|")
    for result in results:
        paper = "" if result.paper_value is None else f"{result.paper_value:g}"
        lines.append(
            f"| `{result.recipe}` | {result.metric} | {number(result)} | {paper} | {result.seconds:.0f} "
            f"| {result.machine} | {result.date} |"
        )
    return "\n".join(lines)


def results_page(folder: Path) -> str:
    """Everything that was measured, with what the paper has beside it."""
    found = newest(read_results(folder))
    notes = sorted({result.paper_note for result in found if result.paper_note})
    return "\n".join(
        [
            "# Results",
            "",
            "Every number was measured by the recipe or benchmark it names; the files lie in `results/`.",
            "",
            table(found),
            "",
            "Where a paper's number stands beside ours, the notes say how far the two can be compared:",
            "",
            *(f"- {note}" for note in notes),
            "",
        ]
    )


SYSTEMS: tuple[catalog.Kind, ...] = ("model",)
MECHANISMS: tuple[catalog.Kind, ...] = ("score", "normalizer", "window", "layer", "memory")


def readme_table(folder: Path, kinds: tuple[catalog.Kind, ...]) -> str:
    """Year, name, paper, file, what was measured: one line for each row of these kinds."""
    what = "system" if kinds == SYSTEMS else "mechanism"
    lines = [f"| year | {what} | paper | file | measured |", "|---|---|---|---|---|"]
    for row in sorted(catalog.rows(), key=lambda r: r.year):
        if row.kind not in kinds:
            continue
        paper = f"[{row.authors}]({row.link})"
        measured = "; ".join(headlines(rows_of(folder, f"{row.kind}:{row.key}")))
        lines.append(f"| {row.year} | {row.title} | {paper} | [`{row.file}`]({row.file}) | {measured} |")
    return "\n".join(lines)


def headlines(results: list[Result]) -> list[str]:
    """What the README says of a mechanism: the summaries of its main results, best known first."""
    return [
        str(result.details.get("summary", f"{result.metric} {number(result)}"))
        for result in sorted(
            results, key=lambda r: (r.recipe == "mechanisms", r.details.get("order", 0), r.metric)
        )
        if result.details.get("headline")
    ]


def number(result: Result) -> str:
    """A value as people write it."""
    return f"{result.value:.1f}" if abs(result.value) >= 10 else f"{result.value:.3g}"


def demo_table(folder: Path) -> str:
    """What the demo printed when its figures were recorded."""
    found = {
        r.recipe: r for r in newest(read_results(folder)) if r.metric == "BLEU" and "by_length" in r.details
    }
    if not {"seq2seq-en-fr", "rnnsearch-en-fr"} <= set(found):
        return "The figures of the demo have not been recorded yet."
    without, search = found["seq2seq-en-fr"], found["rnnsearch-en-fr"]
    lines = ["| English words | BLEU without attention | BLEU with attention |", "|---|---:|---:|"]
    pairs = zip(without.details["by_length"], search.details["by_length"], strict=True)
    for base, other in pairs:
        words = LengthScore(base["low"], base["high"], 0, 0.0).words
        lines.append(f"| {words} | {base['bleu']:.1f} | {other['bleu']:.1f} |")
    lines.append(
        f"| all {search.details['sentences']} sentences | {without.value:.1f} | {search.value:.1f} |"
    )
    error = search.details["alignment"]["error_rate"]
    close = (
        f"Alignment error rate {error:.2f}. Measured on {search.date} ({search.machine}); "
        f"training took {without.seconds:.0f} and {search.seconds:.0f} seconds, side by side."
    )
    return "\n".join([*lines, "", close])


def recipes_page() -> str:
    """All recipes, and how to use one."""
    about = (
        "`regard train NAME` trains one; each file says the paper, what to expect and how long it takes. "
        "`--set model.hidden=64` changes a setting, your own `.toml` file takes the place of a name."
    )
    return f"# Recipes\n\n{about}\n\n{recipes_table()}\n"


def recipes_table() -> str:
    """Name, what it does, how long it takes: from the recipes' own first lines."""
    lines = ["| recipe | what | time |", "|---|---|---|"]
    for name in recipe_names():
        text = (ROOT / "regard" / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
        [duration] = [
            line.removeprefix("# time").strip() for line in text.splitlines() if line.startswith("# time")
        ]
        lines.append(f"| `{name}` | {recipe_sentence(name)} | {duration} |")
    return "\n".join(lines)


# Markers in the pages: <!-- comparison: NAME -->, <!-- lengths: NAME -->, <!-- bars: NAME -->,
# <!-- corpus: NAME -->; by device, cpu or cuda: <!-- layers: DEVICE -->, <!-- attention: DEVICE -->,
# <!-- growth: DEVICE -->, <!-- steps: DEVICE -->, <!-- choices: any --> -------------------------------------

UNMEASURED = "*Not measured yet: `results/` has no record of it. The command above writes one.*"


def filled(markdown: str, folder: Path) -> str:
    """The page with a table from the results in the place of each marker."""
    makers: dict[str, Callable[[Path, str], str]] = {
        "comparison": comparison_table,
        "lengths": lengths_table,
        "bars": bars_picture,
        "corpus": corpus_table,
        "layers": layers_table,
        "attention": attention_table,
        "growth": growth_table,
        "steps": steps_table,
        "choices": choices_table,
    }
    marker = re.compile(rf"<!-- ({'|'.join(makers)}): ([\w.-]+) -->")
    return marker.sub(lambda found: makers[found[1]](folder, found[2]), markdown)


def comparison(folder: Path, name: str) -> list[Result]:
    """The variants that `regard compare` recorded under a name, in their order."""
    own = [result for result in read_results(folder) if result.details.get("comparison") == name]
    return sorted(newest(own), key=lambda result: result.details["order"])


def comparison_table(folder: Path, name: str) -> str:
    """A row for each variant: what was measured, beside the paper, and what it cost."""
    found = comparison(folder, name)
    if not found:
        return UNMEASURED
    measures = list(dict.fromkeys(name for result in found for name, _ in result.details["measures"]))
    paper = ["the paper's"] if any(result.paper_value is not None for result in found) else []
    header = [
        "variant",
        *measures,
        *paper,
        "valid loss",
        "parameters",
        "tokens/s",
        "seconds",
        "memory",
        "seeds",
    ]
    body = []
    for result in found:
        details = result.details
        shown = dict(details["measures"])
        loss = details["valid_loss"]
        body.append(
            [
                details["variant"],
                *(shown.get(measure, "") for measure in measures),
                *(["" if result.paper_value is None else f"{result.paper_value:g}"] if paper else []),
                "" if loss is None else f"{loss:.3f}",
                f"{details['parameters']:,}".replace(",", " "),
                f"{details['tokens_per_second']:.0f}",
                f"{result.seconds:.0f}",
                size(details["memory"]) if details.get("memory") else "",
                str(len(result.seeds)),
            ]
        )
    first = found[0]
    notes = sorted({result.paper_note for result in found if result.paper_note})
    split = first.details["split"]
    updates = sorted({result.details["steps"] for result in found})
    budget = f"{updates[0]} updates" if len(updates) == 1 else f"{updates[0]} to {updates[-1]} updates"
    made = f"{budget} each, measured on the {split} split on {first.date} ({first.machine})."
    spread = " Values are means over the seeds with the standard deviation." if len(first.seeds) > 1 else ""
    return "\n".join([_markdown(header, body), "", made + spread, *(f" Paper: {note}." for note in notes)])


MOSES = "BLEU, lower-cased, Moses tokens"


def corpus_table(folder: Path, name: str) -> str:
    """All recipes for a corpus, best first: BLEU in the two forms that are compared, and their signatures."""
    every = newest(read_results(folder))
    found = [r for r in every if r.recipe.endswith(f"-{name}") and r.metric == "BLEU"]
    if not found:
        return UNMEASURED
    published = {r.recipe: r.paper_value for r in every if r.metric == MOSES and r.paper_value is not None}
    header = [
        "recipe",
        MOSES,
        "BLEU",
        *(["published"] if published.keys() & {r.recipe for r in found} else []),
    ]
    body = []
    for result in sorted(found, key=lambda r: -r.value):
        shown, details = dict(result.details["measures"]), result.details
        row = [f"`{result.recipe}`", shown.get(MOSES, ""), shown["BLEU"]]
        row += [f"{published[result.recipe]:g}" if result.recipe in published else ""] * (len(header) - 3)
        row += [
            f"{details['parameters']:,}".replace(",", " "),
            f"{result.seconds:.0f}",
            str(len(result.seeds)),
        ]
        body.append(row)
    note = found[0].details["note"].splitlines()
    signatures = [line.removeprefix("signature: ") for line in note[1:]]
    marks = {MOSES: "moses", "BLEU": "case:mixed"}
    kept = [(form, line) for form, mark in marks.items() for line in signatures if mark in line]
    made = f"Means over the seeds with the standard deviation, {note[0]}. Seconds are those of one training."
    return "\n".join(
        [_markdown([*header, "parameters", "seconds", "seeds"], body), "", made]
        + [f"Signature of {form}: `{line}`." for form, line in kept]
    )


def lengths_table(folder: Path, name: str) -> str:
    """The headline by length, a column for each variant."""
    found = [result for result in comparison(folder, name) if result.details["by_length"]]
    if not found:
        return UNMEASURED
    bins = found[0].details["by_length"]
    header = ["source words", *(result.details["variant"] for result in found)]
    columns = [
        {(b["low"], b["high"]): f"{b['value']:.1f}" for b in result.details["by_length"]} for result in found
    ]
    body = [
        [LengthScore(b["low"], b["high"], 0, 0.0).words, *(c.get((b["low"], b["high"]), "") for c in columns)]
        for b in bins
    ]
    headline = _headline(found[0].details)
    drawn = f"![{headline} by length, a line for each variant](../pictures/lengths-{name}.svg)"
    return "\n".join([_markdown(header, body), "", drawn])


def bars_picture(folder: Path, name: str) -> str:
    """The headline of each variant as bars."""
    found = comparison(folder, name)
    if not found:
        return UNMEASURED
    return f"![{_headline(found[0].details)} of each variant as bars](../pictures/bars-{name}.svg)"


def pictures(markdown: str, folder: Path) -> dict[str, bytes]:
    """What the `lengths` and `bars` of a page show, by the names that the page has for them."""
    made: dict[str, bytes] = {}
    for kind, name in re.findall(r"<!-- (lengths|bars): ([\w.-]+) -->", markdown):
        found = comparison(folder, name)
        if kind == "lengths":
            found = [result for result in found if result.details["by_length"]]
        if found:
            made[f"{kind}-{name}.svg"] = _drawn(kind, [result.details for result in found])
    return made


def _drawn(kind: str, found: list[dict[str, Any]]) -> bytes:
    """Bars, or lines by length, of the headline of each variant."""
    headline = _headline(found[0])
    with TemporaryDirectory() as aside:
        path = Path(aside) / "picture.svg"
        if kind == "bars":
            draw_bars({of["variant"]: list(of["values"].values()) for of in found}, path, xlabel=headline)
        else:
            bins = {
                of["variant"]: [(b["low"] or 0, b["high"] or math.inf, b["value"]) for b in of["by_length"]]
                for of in found
            }
            draw_lengths(bins, path, xlabel="length of the source", ylabel=headline)
        return path.read_bytes()


def _headline(of: dict[str, Any]) -> str:
    return str(of["measures"][0][0])


def layers_table(folder: Path, device: str) -> str:
    """What each layer costs at the longest length, and how that grows."""
    found: dict[str, dict[str, Result]] = {}
    own = newest([result for result in read_results(folder) if result.recipe == "layers"])
    for result in sorted(own, key=lambda result: result.details["order"]):
        if result.details["device"] == device:
            what = "time" if " in time" in result.metric else "memory"
            found.setdefault(result.details["layer"], {})[what] = result
    if not found:
        return UNMEASURED
    one = next(iter(found.values()))["time"]
    longest = one.details["lengths"][-1]
    header = ["layer", f"ms at {longest}", "exponent", "theory", f"MB at {longest}", "exponent", "theory"]
    body = []
    for layer, pair in found.items():
        row = [layer]
        for what, unit in (("time", "milliseconds"), ("memory", "megabytes")):
            result = pair[what]
            row += [f"{result.details[unit][-1]:.3g}", f"{result.value:.2f}", f"{result.paper_value:g}"]
        body.append(row)
    of = one.details
    made = (
        f"Forward and backward, {of['batch']} × {longest} positions of {of['features']} features, "
        f"{'one thread' if device == 'cpu' else device}, {one.date} ({one.machine})."
    )
    return "\n".join([_markdown(header, body), "", made])


# Kernels: what `regard bench` wrote -------------------------------------------------------------------------


def choices_table(folder: Path, device: str) -> str:
    """Which kernel runs when: asked of the dispatcher while the page is made."""
    from regard.bench.choices import COLUMNS, choices, joined, rows

    found = rows(joined(choices(None if device == "any" else device)))
    return _markdown(list(COLUMNS), [list(row) for row in found], numeric=False)


def benchmark(folder: Path, recipe: str) -> list[Result]:
    """The newest records of a benchmark, in its order."""
    own = [result for result in read_results(folder) if result.recipe == recipe]
    return sorted(newest(own), key=lambda result: result.details["order"])


RIVALS = ("reference", "compile", "flex", "entmax", "sorted", "by-hand")


def attention_table(folder: Path, device: str) -> str:
    """Every mechanism that a kernel runs, beside what else there is; then those that the reference runs."""
    found = [r for r in benchmark(folder, f"attention-{device}") if "mechanism" in r.details]
    if not found:
        return UNMEASURED
    fused = [r.details for r in found if r.details["kernel"] != "reference"]
    header = ["mechanism", "pass", "kernel", "ms"]
    head = [[of["mechanism"], of["pass"], f"`{of['kernel']}`"] for of in fused]
    memory = [["MB", "MB of the reference"]]
    memory += [[short(of["megabytes"][name]) for name in ("fused", "reference")] for of in fused]
    shares = [share_of_ceiling(of) for of in fused]
    ceiling = [["of the ceiling"], *([("" if x is None else f"{100 * x:.0f} %")] for x in shares)]
    ceiling = ceiling if any(x is not None for x in shares) else [[] for _ in ceiling]

    def joined(*columns: list[list[str]]) -> str:
        first, *rows = [list(chain(*cells)) for cells in zip([header, *head], *columns, strict=True)]
        return _markdown(first, rows)

    called = duels(fused, "milliseconds", "times as fast")
    if any(of.get("captured milliseconds") for of in fused):
        graphs = duels(fused, "captured milliseconds", "captured times as fast")
        lines = [joined(called, memory), "", "The same as graphs, without the host:", ""]
        lines.append(joined(graphs, ceiling))
    else:
        lines = [joined(called, memory, ceiling)]
    first = found[0]
    others = list(dict.fromkeys(r.details["mechanism"] for r in found if r.details["kernel"] == "reference"))
    of = first.details
    made = (
        f"{of['query'][0]} × {of['length']} positions, {of['dtype']}, {_place(first)}, {first.date}. "
        "A step of one query has eight times the rows."
    )
    rest = f" The reference runs: {', '.join(others)}." if others else ""
    return "\n".join([*lines, "", made + rest])


def duels(fused: list[dict[str, Any]], milliseconds: str, times: str) -> list[list[str]]:
    """The columns after the first, and their cells: times of all rivals that were measured, and of SDPA's."""
    rivals = [name for name in RIVALS if any(name in of.get(times, {}) for of in fused)]
    rows = [[*(f"× {name}" for name in rivals), "of SDPA's time"]]
    for of in fused:
        ms, ratios = of.get(milliseconds, {}), of.get(times, {})
        share = f"{ms['fused'] / ms['SDPA']:.2f}" if {"fused", "SDPA"} <= set(ms) else ""
        cells = ["" if name not in ratios else f"{ratios[name]:.1f}" for name in rivals]
        rows.append([short(ms["fused"]) if "fused" in ms else "", *cells, share])
    return rows


def share_of_ceiling(of: dict[str, Any]) -> float | None:
    """Of what the arithmetic alone would allow; as a graph, where that was measured."""
    share: float | None = of["share of the ceiling"]
    graph = of.get("captured milliseconds", {}).get("fused")
    return share * of["milliseconds"]["fused"] / graph if share is not None and graph else share


def growth_table(folder: Path, device: str) -> str:
    """Time and memory over the length: the exponents, and how far each implementation went."""
    series: dict[tuple[str, str], dict[str, Result]] = {}
    for result in benchmark(folder, f"attention-{device}"):
        if "growth of" in result.details:
            key = (result.details["growth of"], result.details["kernel"])
            series.setdefault(key, {})[result.details["exponent of"]] = result
    if not series:
        return UNMEASURED
    header = ["mechanism", "by", "up to", "ms there", "exponent of time", "MB there", "exponent of memory"]
    body = []
    for (mechanism, kernel), pair in series.items():
        one = next(iter(pair.values())).details
        exponents = [f"{pair[what].value:.2f}" if what in pair else "" for what in ("time", "memory")]
        last = [short(one[unit][-1]) for unit in ("milliseconds", "megabytes")]
        body.append(
            [mechanism, kernel, str(one["lengths"][-1]), last[0], exponents[0], last[1], exponents[1]]
        )
    first = next(iter(next(iter(series.values())).values()))
    looks = [r for r in benchmark(folder, f"attention-{device}") if "look at" in r.details]
    seen = [
        f"{r.details['look at']} at {r.details['length']} positions in {_size(r.value)}, where all weights "
        f"have {_size(r.details['megabytes of all weights'])}"
        for r in looks
    ]
    asked = (
        f" The eight largest weights of each query, asked for afterwards: {'; '.join(seen)}." if seen else ""
    )
    made = (
        f"One sequence, {first.details['features']} features, {first.details['pass']}, {_place(first)}, "
        f"{first.date}; exponents through the longest lengths.{asked}"
    )
    drawn = [f"attention-{what}-{device}.png" for what in ("time", "memory")]
    pictures = [
        f"![{name.split('-')[1]} over the length](pictures/{name})"
        for name in drawn
        if (ROOT / "docs" / "pictures" / name).exists()
    ]
    return "\n".join([_markdown(header, body), "", made, *(f"\n{picture}" for picture in pictures)])


def steps_table(folder: Path, device: str) -> str:
    """Training steps before and after."""
    found = benchmark(folder, f"training-steps-{device}")
    if not found:
        return UNMEASURED
    header = ["model", "step", "kernel", "ms by the reference", "ms", "times as fast"]
    body = []
    for result in found:
        ms = result.details["milliseconds"]
        fused = "fused" in ms
        row = [result.details["model"], result.details["way"], ", ".join(result.details["kernels"])]
        row += [short(ms["reference"]), short(ms["fused"]) if fused else ""]
        body.append([*row, f"{result.value:.2f}" if fused else ""])
    made = f"Forward and backward of one batch, {_place(found[0])}, {found[0].date}."
    return "\n".join([_markdown(header, body), "", made])


MOST = 14  # rows of the README's table


def performance_table(folder: Path) -> str:
    """The README's: what runs how many times as fast as what, where."""
    rows = [row for device in ("cuda", "cpu") for row in _fused_rows(folder, device)]
    rows += _other_rows(folder) + _step_rows(folder)
    lines = ["| what | measured | where |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows[:MOST])])


BOTH = "forward and backward"
SHOWN = {
    "cpu": (("additive", "forward"), ("additive", BOTH), ("scaled-dot, sparsemax", BOTH)),
    "cuda": (
        *(("additive", "forward"), ("additive", BOTH), ("additive, one query", BOTH)),
        *(("scaled-dot, sparsemax", BOTH), ("general, local-monotonic", BOTH)),
    ),
}


def _fused_rows(folder: Path, device: str) -> list[tuple[str, str, str]]:
    rows = []
    for result in benchmark(folder, f"attention-{device}"):
        of = result.details
        if (of.get("mechanism"), of.get("pass")) not in SHOWN[device] or of["kernel"] == "reference":
            continue
        called, graphs = of["times as fast"], of.get("captured times as fast")
        times, megabytes = graphs or called, of["megabytes"]
        said = [f"{times['reference']:.1f} times as fast as the formula in plain PyTorch"]
        said[0] += f", both as graphs ({called['reference']:.1f} as called)" if graphs else ""
        said += [f"{times['compile']:.1f} times torch.compile"] if "compile" in times else []
        said += [f"{times['entmax']:.1f} times entmax"] if "entmax" in times else []
        said += [f"{_size(megabytes['fused'])} where that needs {_size(megabytes['reference'])}"]
        share = share_of_ceiling(of)
        said += [f"{100 * share:.0f} % of the arithmetic's ceiling"] if share is not None else []
        what = f"{of['mechanism']}, {of['pass']}, {of['query'][0]} × {of['length']} positions, {of['dtype']}"
        rows.append((what, "; ".join(said), _place(result)))
    return rows


def _step_rows(folder: Path) -> list[tuple[str, str, str]]:
    """Each model once: captured on a GPU, else as it is measured on a CPU."""
    found: dict[str, tuple[str, str, str]] = {}
    for device in ("cuda", "cpu"):
        for result in benchmark(folder, f"training-steps-{device}"):
            of = result.details
            if "fused" not in of["milliseconds"] or (device == "cuda" and of["way"] != "captured"):
                continue
            what = f"training step of {of['model']}, {of['way']}"
            said = f"{result.value:.2f} times as fast as with the attention in plain PyTorch"
            found.setdefault(of["model"], (what, said, _place(result)))
    return list(found.values())


OTHERS = {
    ("training", "rnnsearch: captured training step, times as fast as the plain loop, bf16"): (
        "training step of RNNsearch, captured, bf16",
        "{:.1f} times as fast as the plain loop",
    ),
    ("training", "transformer: captured step in bf16, times as fast as torch.nn.Transformer in bf16"): (
        "training step of the Transformer, captured, bf16",
        "{:.1f} times as fast as torch.nn.Transformer",
    ),
    ("decoding", "greedy: share of CTranslate2's speed"): (
        "greedy translation with a Transformer",
        "{:.0%} of CTranslate2's speed",
    ),
    ("decoding", "beam 5: share of CTranslate2's speed"): (
        "the same with a beam of 5",
        "{:.0%} of CTranslate2's speed",
    ),
}


def _other_rows(folder: Path) -> list[tuple[str, str, str]]:
    found = {(result.recipe, result.metric): result for result in newest(read_results(folder))}
    return [
        (what, said.format(found[key].value).replace("%", " %"), _place(found[key]))
        for key, (what, said) in OTHERS.items()
        if key in found
    ]


def short(value: float) -> str:
    """Three digits, or all that stand before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _size(megabytes: float) -> str:
    return f"{megabytes / 1000:.1f} GB" if megabytes >= 1000 else f"{megabytes:.3g} MB"


def _place(result: Result) -> str:
    """The GPU where there is one, else the processor, with the threads that were used."""
    parts = result.machine.split(", ")
    gpu = [part for part in parts if part.startswith("NVIDIA")]
    threads = result.details.get("threads")
    count = "" if gpu or threads is None else f", {threads} thread{'s' if threads > 1 else ''}"
    return f"{gpu[0] if gpu else parts[0]}{count}"


def _markdown(header: list[str], body: list[list[str]], *, numeric: bool = True) -> str:
    lines = [header, ["---", *["---:" if numeric else "---"] * (len(header) - 1)], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def renewed(readme: str, folder: Path) -> str:
    """The README with its tables made anew."""
    tables = {
        "demo": demo_table(folder),
        "systems": readme_table(folder, SYSTEMS),
        "mechanisms": readme_table(folder, MECHANISMS),
        "performance": performance_table(folder),
    }
    for name, table_ in tables.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, _, rest = readme.partition(begin)
        _, _, after = rest.partition(end)
        readme = f"{before}{begin}\n{table_}\n{end}{after}"
    return readme


def main() -> None:
    """Write or check the README."""
    path = ROOT / "README.md"
    old = path.read_text(encoding="utf-8")
    new = renewed(old, ROOT / "results")
    if "--check" in sys.argv and old != new:
        sys.exit("README.md: a table is stale; run python docs/_hooks/tables.py.")
    path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
