"""A report as tables to read, as records for results/, and as pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.bench.attention import Report
from regard.bench.growth import TOP, Growth, Look
from regard.bench.problems import MECHANISMS, Mechanism
from regard.bench.records import common, measured, megabytes, short
from regard.bench.row import Row
from regard.evaluate.results import Result

COLUMNS = (
    *("mechanism", "pass", "kernel"),
    *("ms", "× reference", "× compile", "× flex", "× entmax", "× sorted", "× by-hand", "of SDPA's time"),
    *("captured ms", "captured × reference", "captured × compile", "captured × by-hand"),
    "of SDPA's captured",
    *("MB", "reference MB", "of ceiling"),
)
GROWTH = (
    *("mechanism", "kernel", "to length", "ms", "exponent of time", "MB", "exponent of memory"),
    "went no further",
)


def table(report: Report) -> list[tuple[str, ...]]:
    """A line for each mechanism and pass; cells are empty if there is nothing to compare with."""
    return [_cells(report, row) for row in report.rows]


def _cells(report: Report, row: Row) -> tuple[str, ...]:
    share = report.share(row)
    rivals = ("reference", "compile", "flex", "entmax", "sorted", "by-hand")
    times = [_times(row.against.get(name)) for name in rivals]
    captured = [_times(row.captured_against.get(name)) for name in ("reference", "compile", "by-hand")]
    return (
        row.mechanism.name,
        row.what,
        row.missing.get("fused") or row.kernel or "reference",
        short(row.ms.get(row.ours)),
        *times,
        _share(row.against.get("SDPA")),
        short(row.captured.get(row.ours)),
        *captured,
        _share(row.captured_against.get("SDPA")),
        megabytes(row.bytes.get(row.ours)),
        megabytes(row.bytes.get("reference")),
        "" if share is None else f"{100 * share:.0f} %",
    )


def growth_table(report: Report) -> list[tuple[str, ...]]:
    """A line for each mechanism and implementation that was measured over the length."""
    return [
        (
            series.mechanism.name,
            series.path,
            str(series.lengths[-1]),
            short(series.ms[-1]),
            "" if series.in_time is None else f"{series.in_time:.2f}",
            megabytes(series.bytes[-1]),
            "" if series.in_memory is None else f"{series.in_memory:.2f}",
            series.stopped,
        )
        for series in report.growth
    ]


def not_run(report: Report) -> list[str]:
    """Which rivals were not measured, and why: one line per reason."""
    reasons: dict[str, list[str]] = {}
    for row in report.rows:
        for rival, reason in row.missing.items():
            reasons.setdefault(f"{rival}: {reason}", []).append(f"{row.mechanism.name} ({row.what})")
    return [f"{reason}: {'; '.join(names)}" for reason, names in reasons.items()]


def records(report: Report) -> list[Result]:
    """Rows and growth for results/attention-DEVICE.json, or attention-DEVICE-LENGTH.json with a length."""
    plan = report.plan
    shared = common(plan.device) | {"dtype": str(plan.dtype).removeprefix("torch.")}
    recipe = f"attention-{plan.device}{plan.apart}"
    found = []
    for row in report.rows:
        ratio = row.against.get("reference", 1.0)
        if "fused" in row.missing:
            continue
        share = report.share(row)
        details = shared | {
            "catalogue": [*row.mechanism.catalogue, f"kernel:{row.kernel}"] if row.kernel else [],
            "order": _place(row.mechanism, second=row.training),
            "mechanism": row.mechanism.name,
            "pass": row.what,
            "kernel": row.kernel or "reference",
            "why": row.why,
            "query": list(row.shape),
            "length": row.size.N,
            "features": row.features,
            "milliseconds": {name: round(value, 4) for name, value in row.ms.items()},
            "times as fast": {name: round(value, 2) for name, value in row.against.items()},
            "captured milliseconds": {name: round(value, 4) for name, value in row.captured.items()},
            "captured times as fast": {name: round(value, 2) for name, value in row.captured_against.items()},
            "megabytes": {name: round(value / 1e6, 3) for name, value in row.bytes.items()},
            "error": None if row.parity is None else round(row.parity.largest, 2),
            "elements a second": row.elements,
            "share of the ceiling": None if share is None else round(share, 3),
            "ceiling": None
            if share is None
            else {"elements a second": report.ceiling, "from": report.ceiling_from},
            "not run": row.missing,
        }
        metric = f"{row.mechanism.name}: times as fast as the reference, {row.what}"
        seconds = sum(row.ms.values()) / 1000
        found.append(measured(recipe, metric, round(ratio, 2), seconds=seconds, details=details))
    for series in report.growth:
        found += _growth_records(recipe, series, shared)
    found += [_look_records(recipe, look, shared) for look in report.looks]
    return found


def _place(mechanism: Mechanism, *, second: bool = False) -> int:
    """The mechanism's rank, so that records of several runs sort alike."""
    names = [known.name for known in MECHANISMS]
    place = names.index(mechanism.name) if mechanism.name in names else len(names)
    return 2 * place + second


def _growth_records(recipe: str, series: Growth, shared: dict[str, Any]) -> list[Result]:
    details = shared | {
        "catalogue": [],
        "order": _place(series.mechanism, second=series.path != "reference"),
        "growth of": series.mechanism.name,
        "kernel": series.path,
        "pass": "forward and backward" if series.training else "forward",
        "batch": series.size.B,
        "features": series.size.D,
        "lengths": series.lengths,
        "milliseconds": [round(value, 3) for value in series.ms],
        "megabytes": [round(value / 1e6, 4) for value in series.bytes],
        "went no further": series.stopped,
    }
    return [
        measured(
            recipe,
            f"{series.mechanism.name}, {series.path}: exponent of the length in {what}",
            round(value, 2),
            seconds=sum(series.ms) / 1000,
            details=details | {"exponent of": what},
            note="the slope through the longest lengths in log-log scale",
        )
        for what, value in (("time", series.in_time), ("memory", series.in_memory))
        if value is not None
    ]


def look_lines(report: Report) -> list[str]:
    """The cost of the largest weights on demand, in sentences."""
    return [
        f"{look.mechanism.name}, {look.length} positions: the {TOP} largest weights of each query in "
        f"{look.ms:.0f} ms and {megabytes(look.bytes)} MB; all weights have "
        f"{megabytes(look.whole)} MB"
        for look in report.looks
    ]


def _look_records(recipe: str, look: Look, shared: dict[str, Any]) -> Result:
    return measured(
        recipe,
        f"{look.mechanism.name}: megabytes in use for the {TOP} largest weights of each query on demand",
        round(look.bytes / 1e6, 2),
        seconds=look.ms / 1000,
        details=shared
        | {
            "catalogue": [],
            "order": _place(look.mechanism),
            "look at": look.mechanism.name,
            "kernel": look.kernel,
            "length": look.length,
            "milliseconds": round(look.ms, 2),
            "megabytes of all weights": round(look.whole / 1e6, 2),
        },
        note="the peak beyond what the call itself left",
    )


def draw(found: Sequence[Result], folder: Path) -> list[Path]:
    """For each device in the records: ratios to the reference, and time and memory over the length."""
    from regard.viz.bars import draw_bars
    from regard.viz.curves import draw_growth

    written = []
    for device in sorted({result.details["device"] for result in found}):
        own = sorted(
            (result for result in found if result.details["device"] == device),
            key=lambda result: result.details["order"],
        )
        fused = [r for r in own if "mechanism" in r.details and r.details["kernel"] != "reference"]
        what = max((r.details["pass"] for r in fused), key=len, default="")  # the one with backward, if any
        ratios = {r.details["mechanism"]: [r.value] for r in fused if r.details["pass"] == what}
        if ratios:
            path = folder / f"attention-ratios-{device}.png"
            label = f"times as fast as the reference, {what}"
            written.append(draw_bars(ratios, path, xlabel=label, decimals=1))
        for name, key, unit in (
            ("time", "milliseconds", "milliseconds"),
            ("memory", "megabytes", "megabytes in use at once"),
        ):
            curves = {
                _curve(r): (r.details["lengths"], r.details[key])
                for r in own
                if r.details.get("exponent of") == name and min(r.details[key]) > 0
            }
            if curves:
                path = folder / f"attention-{name}-{device}.png"
                written.append(draw_growth(curves, path, ylabel=unit))
    return written


def _curve(result: Result) -> str:
    path = "reference" if result.details["kernel"] == "reference" else "fused"
    return f"{result.details['growth of']}, {path}"


def _share(of_ours: float | None) -> str:
    """Our time as a share of another's."""
    return "" if of_ours is None else f"{1 / of_ours:.2f}"


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"
