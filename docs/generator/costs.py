"""Tables of time and memory: what was recorded of kernels, training steps, layers and recordings."""

from itertools import chain
from pathlib import Path
from typing import Any

from records import (
    ROOT,
    UNMEASURED,
    benchmark,
    facts,
    markdown,
    memory,
    newest,
    papers,
    place,
    recorded,
    short,
)

from regard.bench.choices import COLUMNS, choices, joined, rows
from regard.evaluate.results import Result, read_results

# Kernels ----------------------------------------------------------------------------------------------------


def choices_table(folder: Path, device: str) -> str:
    """Which kernel runs when: asked of the dispatcher while the page is made."""
    return recorded(markdown(COLUMNS, rows(joined(choices(None if device == "any" else device))), sides="l"))


RIVALS = ("reference", "compile", "flex", "entmax", "sorted", "by-hand")


def attention_table(folder: Path, device: str) -> str:
    """Every mechanism that a kernel runs, beside what else there is; then those that the reference runs."""
    found = [r for r in benchmark(folder, f"attention-{device}") if "mechanism" in r.details]
    if not found:
        return UNMEASURED
    fused = [r.details for r in found if r.details["kernel"] != "reference"]
    names = [["mechanism", "pass", "kernel"]]
    names += [[of["mechanism"], of["pass"], f"`{of['kernel']}`"] for of in fused]
    called = rival_rows(fused, "milliseconds", "times as fast")
    sizes = [["MB", "MB of the reference"]]
    sizes += [[short(of["megabytes"][name]) for name in ("fused", "reference")] for of in fused]
    if any(of.get("captured milliseconds") for of in fused):
        graphs = rival_rows(fused, "captured milliseconds", "captured times as fast")
        tables = [_beside(names, called, sizes), "", "The same as graphs, without the host:", ""]
        tables.append(_beside(names, graphs, _ceilings(fused)))
    else:
        tables = [_beside(names, called, sizes, _ceilings(fused))]
    first = found[0]
    made = (
        f"{first.details['query'][0]} × {first.details['length']} positions, {first.details['dtype']}, "
        f"{place(first)}, {first.date}."
    )
    if any("one query" in r.details["mechanism"] for r in found):
        made += " A step of one query has eight times the rows."
    others = list(dict.fromkeys(r.details["mechanism"] for r in found if r.details["kernel"] == "reference"))
    rest = f" The reference runs: {', '.join(others)}." if others else ""
    return "\n".join([*tables, "", made + rest])


def rival_rows(fused: list[dict[str, Any]], milliseconds: str, times: str) -> list[list[str]]:
    """A header, then for each: our time, how many times as fast as each rival, the share of SDPA's time."""
    rivals = [name for name in RIVALS if any(name in of.get(times, {}) for of in fused)]
    cells = [["ms", *(f"× {name}" for name in rivals), "of SDPA's time"]]
    for of in fused:
        ms, ratios = of.get(milliseconds, {}), of.get(times, {})
        share = f"{ms['fused'] / ms['SDPA']:.2f}" if {"fused", "SDPA"} <= set(ms) else ""
        won = [f"{ratios[name]:.1f}" if name in ratios else "" for name in rivals]
        cells.append([short(ms["fused"]) if "fused" in ms else "", *won, share])
    return cells


def share_of_ceiling(of: dict[str, Any]) -> float | None:
    """Of what the arithmetic alone would allow; as a graph, where that was measured."""
    share: float | None = of["share of the ceiling"]
    graph = of.get("captured milliseconds", {}).get("fused")
    return share * of["milliseconds"]["fused"] / graph if share is not None and graph else share


def _ceilings(fused: list[dict[str, Any]]) -> list[list[str]]:
    shares = [share_of_ceiling(of) for of in fused]
    if all(share is None for share in shares):
        return [[]] * (1 + len(fused))  # no such column
    return [["of the ceiling"], *(["" if share is None else f"{100 * share:.0f} %"] for share in shares)]


def _beside(*blocks: list[list[str]]) -> str:
    """Blocks of columns as one table; the first line of each is its header."""
    header, *body = [list(chain(*cells)) for cells in zip(*blocks, strict=True)]
    return recorded(markdown(header, body))


def growth_table(folder: Path, device: str) -> str:
    """Time and memory over the length: the exponents, and how far each implementation went."""
    found = benchmark(folder, f"attention-{device}")
    series: dict[tuple[str, str], dict[str, Result]] = {}
    for result in found:
        of = result.details
        if "growth of" in of:
            series.setdefault((of["growth of"], of["kernel"]), {})[of["exponent of"]] = result
    if not series:
        return UNMEASURED
    header = ["mechanism", "by", "up to", "ms there", "exponent of time", "MB there", "exponent of memory"]
    body = []
    for (mechanism, kernel), pair in series.items():
        of = next(iter(pair.values())).details
        time, space = (f"{pair[what].value:.2f}" if what in pair else "" for what in ("time", "memory"))
        ms, megabytes = (short(of[unit][-1]) for unit in ("milliseconds", "megabytes"))
        body.append([mechanism, kernel, str(of["lengths"][-1]), ms, time, megabytes, space])
    first = next(iter(next(iter(series.values())).values()))
    made = (
        f"One sequence, {first.details['features']} features, {first.details['pass']}, {place(first)}, "
        f"{first.date}; exponents through the longest lengths.{_looks(found)}"
    )
    pictures = [
        f"\n![{shown} of each mechanism over the length](../pictures/attention-{what}-{device}.png)"
        for what, shown in (("time", "Milliseconds"), ("memory", "Megabytes"))
        if (ROOT / "docs" / "pictures" / f"attention-{what}-{device}.png").exists()
    ]
    return "\n".join([recorded(markdown(header, body)), "", recorded(made), *pictures])


def _looks(found: list[Result]) -> str:
    """What it took to look at weights that no kernel keeps."""
    seen = [
        f"{r.details['look at']} at {r.details['length']} positions in {memory(r.value)}, where all weights "
        f"have {memory(r.details['megabytes of all weights'])}"
        for r in found
        if "look at" in r.details
    ]
    said = "The eight largest weights of each query, asked for afterwards"
    return f" {said}: {'; '.join(seen)}." if seen else ""


# Models and layers ------------------------------------------------------------------------------------------


def steps_table(folder: Path, device: str) -> str:
    """Training steps before and after."""
    found = benchmark(folder, f"training-steps-{device}")
    if not found:
        return UNMEASURED
    header = ["model", "step", "kernel", "ms by the reference", "ms", "times as fast"]
    body = []
    for result in found:
        ms = result.details["milliseconds"]
        row = [result.details["model"], result.details["way"], ", ".join(result.details["kernels"])]
        ours = [short(ms["fused"]), f"{result.value:.2f}"] if "fused" in ms else ["", ""]
        body.append([*row, short(ms["reference"]), *ours])
    made = f"Forward and backward of one batch, {place(found[0])}, {found[0].date}."
    return "\n".join([recorded(markdown(header, body)), "", recorded(made)])


def calls_table(folder: Path, device: str) -> str:
    """One call of ours beside one of a module written by hand, and beside the same compiled."""
    found = benchmark(folder, f"calls-{device}")
    if not found:
        return UNMEASURED
    compiled = any("compiled" in result.details["microseconds"] for result in found)
    sides = {"by hand": "µs by hand"} | ({"compiled": "µs compiled"} if compiled else {}) | {"ours": "µs"}
    header = ["call", "pass", "B × T × S × D", "kernel", *sides.values(), "ratio"]
    body = []
    for result in found:
        of = result.details
        us = {side: short(value) for side, value in of["microseconds"].items()}
        share = f"{result.value:.2f}" if "by hand" in us else ""
        size = " × ".join(map(str, of["size"]))
        times = (us.get(side, "") for side in sides)
        body.append([of["call"], of["pass"], size, f"`{of['kernel']}`", *times, share])
    made = f"{found[0].details['dtype']}, {place(found[0])}, {found[0].date}."
    return "\n".join([recorded(markdown(header, body, sides="llllr")), "", recorded(made)])


def layers_table(folder: Path, device: str) -> str:
    """What each layer costs at the longest length, and how that grows."""
    found: dict[str, dict[str, Result]] = {}
    for result in benchmark(folder, "layers"):
        if result.details["device"] == device:
            what = "time" if " in time" in result.metric else "memory"
            found.setdefault(result.details["layer"], {})[what] = result
    if not found:
        return UNMEASURED
    one = next(iter(found.values()))["time"]
    header = ["layer", "ms", "exponent", "theory", "MB", "exponent", "theory"]
    body = []
    for layer, pair in found.items():
        row = [layer]
        for what, unit in (("time", "milliseconds"), ("memory", "megabytes")):
            result = pair[what]
            row += [short(result.details[unit][-1]), f"{result.value:.2f}", papers(result)]
        body.append(row)
    made = {
        "sequences": str(one.details["batch"]),
        "positions": str(one.details["lengths"][-1]),
        "features": str(one.details["features"]),
        "date": one.date,
        "machine": f"{one.machine}{', one thread' if device == 'cpu' else ''}",
    }
    return "\n\n".join([recorded(markdown(header, body)), facts(made)])


# Recording any model, by benchmarks/any_model.py ------------------------------------------------------------

RECORDINGS = {  # in the records, in the table
    "sdpa": "sdpa",
    "record": "record",
    "one layer": "+ one layer",
    "top 8": "+ top 8",
    "eager": "eager",
}
BATCH = 4  # of the records that are compared; longer texts are measured one at a time


def any_model_records(folder: Path, shape: str) -> list[Result]:
    """What benchmarks/any_model.py recorded on a GPU, shortest text first."""
    found = [r for r in newest(read_results(folder)) if r.recipe.startswith(f"any-model-{shape}-")]
    return sorted((r for r in found if r.details["device"] == "cuda"), key=lambda r: r.details["T"])


def any_model_batches(folder: Path, shape: str) -> list[Result]:
    """Those of them that have one size of batch."""
    return [r for r in any_model_records(folder, shape) if r.details["batch"] == BATCH]


def any_model_table(folder: Path, shape: str) -> str:
    """Milliseconds and memory of every way to run, by length."""

    def cell(of: dict[str, Any], run: str) -> str:
        return f"{of['ms'][run]:,.1f} / {of['MiB'][run]:,.0f}" if run in of["ms"] else "–"

    found = [result.details for result in any_model_records(folder, shape)]
    body = [[_tokens(of), *(cell(of, run) for run in RECORDINGS)] for of in found]
    return recorded(markdown(["tokens", *RECORDINGS.values()], body, sides="r"))


def _tokens(of: dict[str, Any]) -> str:
    return f"{of['T']:,}" if of["batch"] == BATCH else f"{of['T']:,} (batch {of['batch']})"
