"""The report of a comparison: a table in four forms, plots, and a page.

table.json      everything: a summary of each variant, and every training
table.csv       one line per training
table.md        one line per variant, means over the seeds
quality.png     bars with a point per seed; alignment.png: the same for the alignment error rate
training.png    training loss by step; lengths.png: quality by length, if the evaluation has it
report.html     all of the above
"""

import csv
import io
import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.compare.comparison import Comparison, Outcome
from regard.compare.table import Table, flattened, summarize
from regard.train import durable
from regard.train.metrics import read_metrics
from regard.viz.bars import draw_bars
from regard.viz.curves import draw_lengths, draw_training
from regard.viz.report import FigureSection, Section, TableSection, TextSection, write_report

ALIGNMENT = "alignment error rate"  # its name in the evaluation of translations


def write(
    comparison: Comparison, outcomes: Sequence[Outcome], folder: Path, *, runs: Path | None = None
) -> list[Path]:
    """Write tables, plots and the page; returns the files, the page last. `runs` is the folder of runs."""
    folder.mkdir(parents=True, exist_ok=True)
    table = summarize(comparison, outcomes)
    texts = {
        "table.json": json.dumps(table, ensure_ascii=False, indent=1) + "\n",
        "table.csv": _csv(comparison, outcomes),
        "table.md": markdown(table),
    }
    for name, text in texts.items():
        durable.replace(folder / name, text)
    figures = list(_figures(comparison, table, folder, runs or folder / "runs"))
    page = write_report(
        folder / "report.html",
        title=f"Comparison: {comparison.name}",
        summary=_sentences(table),
        sections=[*_sections(table), *figures, *_trainings(outcomes)],
    )
    return [*(folder / name for name in texts), *(Path(str(f.image)) for f in figures), page]


# The table ----------------------------------------------------------------------------------------------


def rows(table: Table) -> tuple[list[str], list[list[str]]]:
    """Header and cells as displayed, one row per variant."""
    variants = table["variants"]
    measures = list(dict.fromkeys(name for one in variants for name in one.get("measures", {})))
    seeds = len(table["seeds"])
    header = ["variant", *measures, "valid loss", "parameters", "steps", "tokens/s", "seconds", "memory"]
    notes = any(one["reason"] for one in variants)
    header += (["seeds"] if seeds > 1 else []) + (["not finished"] if notes else [])
    body = []
    for one in variants:
        cells = [
            one["name"],
            *(one.get("measures", {}).get(name, "") for name in measures),
            *_cost_cells(one),
        ]
        cells += [f"{one['finished']}/{one['trainings']}"] if seeds > 1 else []
        cells += [one["reason"]] if notes else []
        body.append(cells)
    return header, body


def _cost_cells(one: Mapping[str, Any]) -> list[str]:
    if not one["finished"]:
        return [""] * 6
    loss = one["valid_loss"]
    return [
        "" if loss is None else f"{loss:.4g}",
        f"{one['parameters']:,}".replace(",", " "),
        str(one["steps"]),
        f"{one['tokens_per_second']:.0f}",
        f"{one['seconds']:.0f}",
        size(one["memory"]),
    ]


def size(count: float) -> str:
    """Bytes as people read them: 432 MB, 1.3 GB."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def markdown(table: Table) -> str:
    """The table as Markdown, followed by how it was measured."""
    header, body = rows(table)
    escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in body]
    sides = ["---"] + ["---" if name == "not finished" else "---:" for name in header[1:]]
    lines = [f"| {' | '.join(row)} |" for row in (header, sides, *escaped)]
    return "\n".join([*lines, "", _sentences(table), ""])


def _sentences(table: Table) -> str:
    """How the numbers were measured."""
    done = [one for one in table["variants"] if one["finished"]]
    seeds = f"seed{'s' if len(table['seeds']) > 1 else ''} {', '.join(map(str, table['seeds']))}"
    where = f" of {table['on']}" if table.get("on") else ""
    count = len(table["variants"])
    variants = f"{count} variant{'s' if count > 1 else ''}"
    text = f"{variants}, {seeds}, measured on the {table['split']} split{where}."
    if not done:
        return f"{text} Nothing is finished yet."
    if len(table["seeds"]) > 1:
        text += " Values are means over the seeds with the standard deviation."
    text += " " + _budget(done)
    on_device = any(one["device"] != "cpu" for one in done)
    text += f" Memory is the peak {'of the accelerator' if on_device else 'resident, of the process'}."
    together = max(one["side_by_side"] for one in done)
    if together > 1:
        text += f" {together} trainings shared the machine, so compare these speeds only with each other."
    processes = max(one.get("processes", 1) for one in done)
    if processes > 1:
        text += f" {processes} processes trained together; memory is that of the first."
    return f"{text} Machine: {'; '.join(sorted({one['machine'] for one in done}))}."


def _budget(done: Sequence[Mapping[str, Any]]) -> str:
    steps = sorted({one["steps"] for one in done})
    tokens = sorted(one["tokens"] for one in done)
    if len(steps) == 1:
        most = tokens[-1]
        unit, name, form = (1e6, " million", ".3g") if most >= 1e6 else (1, "", ",.0f")
        shown = dict.fromkeys(f"{count / unit:{form}}" for count in (tokens[0], most))
        return f"Every training has {steps[0]} updates and sees {' to '.join(shown)}{name} tokens."
    return f"The budgets differ: {steps[0]} to {steps[-1]} updates, as each recipe has them."


def _csv(comparison: Comparison, outcomes: Sequence[Outcome]) -> str:
    changes = {variant.name: dict(variant.changes) for variant in comparison.variants}
    records = []
    for outcome in outcomes:
        record: dict[str, Any] = {"variant": outcome.variant, **changes[outcome.variant]}
        record |= {"seed": outcome.seed, "state": outcome.state, "reason": outcome.reason}
        if outcome.measured is not None:
            record |= {"metric": outcome.measured.metric, "value": outcome.measured.value}
            record |= {f"measured.{name}": value for name, value in flattened(outcome.measured.summary)}
        if outcome.training is not None:
            record |= asdict(outcome.training)
        records.append(record)
    names = list(dict.fromkeys(name for record in records for name in record))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


# The page -----------------------------------------------------------------------------------------------


def _sections(table: Table) -> Iterator[Section]:
    header, body = rows(table)
    if "not finished" in header:
        header, body = header[:-1], [row[:-1] for row in body]
    yield TableSection("All variants", header, body)
    missing = [(one["name"], one["reason"]) for one in table["variants"] if one["reason"]]
    if missing:
        yield TableSection("Not finished, and why", ("variant", "reason"), missing)


def _figures(comparison: Comparison, table: Table, folder: Path, runs: Path) -> Iterator[FigureSection]:
    done = [one for one in table["variants"] if one["finished"]]
    metrics = list(dict.fromkeys(one["metric"] for one in done))
    spread = "Bars are means; each point is one seed." if len(table["seeds"]) > 1 else ""
    for number, metric in enumerate(metrics):
        # values that are not finite (a training diverged) appear in the table only
        values = {
            one["name"]: found
            for one in done
            if one["metric"] == metric and (found := list(filter(math.isfinite, one["values"].values())))
        }
        if not values:
            continue
        name = "quality.png" if number == 0 else f"quality-{number + 1}.png"
        largest = max(abs(value) for runs in values.values() for value in runs)
        path = draw_bars(values, folder / name, xlabel=metric, decimals=1 if largest >= 10 else 3)
        yield FigureSection(metric, path, f"{metric} of each variant as bars", spread)
    errors = _alignments(table)
    if errors:
        path = draw_bars(errors, folder / "alignment.png", xlabel=ALIGNMENT, decimals=3)
        yield FigureSection("Alignment error rate", path, "alignment error rate of each variant as bars")
    lengths = {
        one["name"]: [
            (bin["low"] or 0, math.inf if bin["high"] is None else bin["high"], bin["value"])
            for bin in one["by_length"]
        ]
        for one in done
        if one["by_length"] and all(math.isfinite(bin["value"]) for bin in one["by_length"])
    }
    if lengths:
        path = draw_lengths(lengths, folder / "lengths.png", xlabel="length", ylabel=metrics[0])
        yield FigureSection("By length", path, f"{metrics[0]} by length, one line for each variant")
    curves = {
        variant.name: losses(runs / f"{variant.slug}-seed{seed}" for seed in comparison.seeds)
        for variant in comparison.variants
    }
    curves = {name: curve for name, curve in curves.items() if curve[0]}
    if curves:
        path = draw_training(curves, folder / "training.png", ylabel="training loss")
        yield FigureSection("Training", path, "training loss by step, one line for each variant")


def _alignments(table: Table) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for training in table["trainings"]:
        rate = ((training["measured"] or {"summary": {}})["summary"].get("alignment") or {}).get("error_rate")
        if rate is not None:
            found.setdefault(training["variant"], []).append(float(rate))
    return found


def losses(runs: Iterable[Path]) -> tuple[list[float], list[float]]:
    """Steps, and the training loss at each, averaged over the runs that have it."""
    found: dict[int, list[float]] = {}
    for run in runs:
        for line in read_metrics(run):
            if line.get("loss") is not None and "lr" in line:
                found.setdefault(line["step"], []).append(line["loss"])
    return [float(step) for step in sorted(found)], [statistics.fmean(found[step]) for step in sorted(found)]


def _trainings(outcomes: Sequence[Outcome]) -> Iterator[Section]:
    done = [(one, one.measured, one.training) for one in outcomes if one.measured and one.training]
    if not done:
        return
    yield TableSection(
        "Every training",
        ("variant", "seed", "metric", "value", "valid loss", "best step", "seconds", "date"),
        [
            (
                *(one.variant, one.seed, measured.metric, round(measured.value, 4)),
                *(training.valid_loss, training.best_step, round(training.seconds, 1), training.date),
            )
            for one, measured, training in done
        ],
    )
    notes = list(dict.fromkeys(measured.note for _, measured, _ in done))
    if any(notes):
        yield TextSection("How it was measured", "\n\n".join(notes))
