"""What a comparison leaves to read: one table in four forms, the plots, one page; and records for results/.

table.json      everything: a summary for each variant, and every training
table.csv       one line a training
table.md        one line a variant, means over the seeds
quality.png     bars, with a point for each seed; alignment.png the same of the alignment error rate
training.png    training loss by step; lengths.png quality by length, where the evaluation has it
report.html     all of it
"""

import csv
import io
import json
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.evaluate.results import Result, write_result
from regard.train import durable
from regard.train.compare import Comparison, Outcome, Variant
from regard.train.measured import Measured, Training
from regard.train.metrics import read_metrics
from regard.viz.bars import draw_bars
from regard.viz.curves import draw_lengths, draw_training
from regard.viz.report import FigureSection, Section, TableSection, TextSection, write_report

ALIGNMENT = "alignment error rate"  # as the evaluation of translations names it
_SHOWN = re.compile(r"(-?\d+(?:\.(\d+))?)(\D*)")  # a value as an evaluation shows it: 37.21, 76.5 %

Table = dict[str, Any]  # the content of table.json


def summarize(comparison: Comparison, outcomes: Sequence[Outcome]) -> Table:
    """The content of table.json: plain values only."""
    return {
        "name": comparison.name,
        **asdict(comparison.asked),
        "seeds": list(comparison.seeds),
        "variants": [
            _summarize(variant, [outcome for outcome in outcomes if outcome.variant == variant.name])
            for variant in comparison.variants
        ],
        "trainings": [asdict(outcome) for outcome in outcomes],
    }


def write(
    comparison: Comparison, outcomes: Sequence[Outcome], folder: Path, *, runs: Path | None = None
) -> list[Path]:
    """Tables, plots and the page; what was written, the page last. `runs` is where the trainings lie."""
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


def read_table(folder: Path) -> Table:
    """The table of a comparison's folder."""
    path = folder / "table.json"
    if not path.is_file():
        raise DataError(f"{folder}: not a comparison: table.json is missing.")
    try:
        table: Table = json.loads(path.read_text(encoding="utf-8"))
        table["variants"], table["name"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: cannot be read as a comparison: {error}.") from error
    return table


# One variant --------------------------------------------------------------------------------------------


def _summarize(variant: Variant, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    done = [outcome for outcome in outcomes if outcome.measured is not None and outcome.training is not None]
    trainings = [outcome.training for outcome in done if outcome.training is not None]
    measured = [outcome.measured for outcome in done if outcome.measured is not None]
    config = variant.config
    summary: dict[str, Any] = {
        "name": variant.name,
        "changes": dict(variant.changes),
        "recipe": Path(variant.recipe).stem,
        "model": None if config is None else config.model,
        "model_settings": {} if config is None else _plain(config.model_settings),
        "task": None if config is None else config.task,
        "finished": len(done),
        "trainings": len(outcomes),
        "reason": _reasons(outcomes),
    }
    if not done:
        return summary
    values = [one.value for one in measured]
    return summary | {
        "metric": measured[0].metric,
        **_spread(values),
        "values": {str(outcome.seed): value for outcome, value in zip(done, values, strict=True)},
        "measures": {name: _together(texts) for name, texts in _by_name(measured).items()},
        "numbers": _mean_numbers([one.summary for one in measured]),
        "by_length": _mean_by_length([one.summary for one in measured]),
        "note": measured[0].note,
        **_costs(trainings),
    }


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}


def _reasons(outcomes: Sequence[Outcome]) -> str:
    """Why trainings are missing, each reason once: `impossible: …`, `seed 2 unfinished: …`."""
    missing = [outcome for outcome in outcomes if outcome.state != "finished"]
    seeds: dict[tuple[str, str], list[int]] = {}
    for outcome in missing:
        seeds.setdefault((outcome.state, outcome.reason), []).append(outcome.seed)
    return "; ".join(
        f"{state}: {reason}"
        if len(numbers) == len(outcomes)
        else f"seed {', '.join(map(str, numbers))} {state}: {reason}"
        for (state, reason), numbers in seeds.items()
    )


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    return {
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if len(values) > 1 else None,
        "min": min(values),
        "max": max(values),
    }


def _costs(trainings: Sequence[Training]) -> dict[str, Any]:
    """Means over the seeds; the memory is that of the largest."""
    losses = [one.valid_loss for one in trainings if one.valid_loss is not None]
    first = trainings[0]
    return {
        "valid_loss": statistics.fmean(losses) if losses else None,
        "parameters": first.parameters,
        "steps": max(one.steps for one in trainings),
        "tokens": statistics.fmean(one.tokens for one in trainings),
        "tokens_per_second": statistics.fmean(one.tokens_per_second for one in trainings),
        "seconds": statistics.fmean(one.seconds for one in trainings),
        "memory": max(one.memory for one in trainings),
        "device": first.device,
        "side_by_side": max(one.side_by_side for one in trainings),
        "machine": first.machine,
        "date": max(one.date for one in trainings),
        "commit": first.commit,
    }


def _by_name(measured: Sequence[Measured]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in measured:
        for name, text in one.measures:
            found.setdefault(name, []).append(text)
    return found


def _together(texts: Sequence[str]) -> str:
    """`37.20` and `37.40` become `37.30 ± 0.14`; what is no number is shown if all agree."""
    matches = [_SHOWN.fullmatch(text) for text in texts]
    if None in matches or len({match[3] for match in matches if match}) > 1:
        return texts[0] if len(set(texts)) == 1 else " / ".join(texts)
    values = [float(match[1]) for match in matches if match]
    decimals = max(len(match[2] or "") for match in matches if match)
    unit = matches[0][3] if matches[0] else ""
    if len(values) == 1:
        return texts[0]
    return f"{statistics.fmean(values):.{decimals}f} ± {statistics.stdev(values):.{decimals}f}{unit}"


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """The numbers of nested objects, under dotted names; lists are left out."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, float(value)


def _mean_numbers(summaries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    flat = [dict(_flat(summary)) for summary in summaries]
    shared = [name for name in flat[0] if all(name in one for one in flat)]
    return {name: statistics.fmean(one[name] for one in flat) for name in shared}


def _mean_by_length(summaries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The bins of `by_length` with the mean value of the seeds; empty where an evaluation has none."""
    every = [list(_bins(summary)) for summary in summaries]
    if not every[0] or any([bin[:2] for bin in bins] != [bin[:2] for bin in every[0]] for bins in every):
        return []
    return [
        {"low": bins[0][0], "high": bins[0][1], "value": statistics.fmean(bin[2] for bin in bins)}
        for bins in zip(*every, strict=True)
    ]


def _bins(summary: Mapping[str, Any]) -> Iterator[tuple[Any, Any, float]]:
    """Each entry has its limits, perhaps a count, and one value: the first other number."""
    for entry in summary.get("by_length") or []:
        counts = ("low", "high", "sentences", "examples")
        rest = [v for k, v in entry.items() if k not in counts and isinstance(v, int | float)]
        if "low" in entry and "high" in entry and rest:
            yield entry["low"], entry["high"], float(rest[0])


# The table ----------------------------------------------------------------------------------------------


def rows(table: Table) -> tuple[list[str], list[list[str]]]:
    """Header and cells as they are shown, one row a variant."""
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
    """Bytes for a reader: 432 MB, 1.3 GB."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def markdown(table: Table) -> str:
    """The table as Markdown, with how it was made below."""
    header, body = rows(table)
    escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in body]
    sides = ["---"] + ["---" if name == "not finished" else "---:" for name in header[1:]]
    lines = [f"| {' | '.join(row)} |" for row in (header, sides, *escaped)]
    return "\n".join([*lines, "", _sentences(table), ""])


def _sentences(table: Table) -> str:
    """How the numbers came about."""
    done = [one for one in table["variants"] if one["finished"]]
    seeds = ", ".join(map(str, table["seeds"]))
    where = f" of {table['on']}" if table.get("on") else ""
    text = f"{len(table['variants'])} variants, seed {seeds}, measured on the {table['split']} split{where}."
    if not done:
        return f"{text} Nothing is finished yet."
    if len(table["seeds"]) > 1:
        text += " Values are means over the seeds with the standard deviation."
    text += " " + _budget(done)
    memory = (
        "of the accelerator" if any(one["device"] != "cpu" for one in done) else "resident, of the process"
    )
    text += f" Memory is the peak {memory}."
    together = max(one["side_by_side"] for one in done)
    if together > 1:
        text += f" {together} trainings shared the machine, so the speeds are to be compared with each other."
    return f"{text} Machine: {'; '.join(sorted({one['machine'] for one in done}))}."


def _budget(done: Sequence[Mapping[str, Any]]) -> str:
    steps = sorted({one["steps"] for one in done})
    tokens = sorted(one["tokens"] for one in done)
    if len(steps) == 1:
        least, most = (f"{count / 1e6:.3g}" for count in (tokens[0], tokens[-1]))
        seen = least if least == most else f"{least} to {most}"
        return f"Every training has {steps[0]} updates and sees {seen} million tokens."
    return f"The budgets differ: {steps[0]} to {steps[-1]} updates, as each recipe has them."


def _csv(comparison: Comparison, outcomes: Sequence[Outcome]) -> str:
    changes = {variant.name: dict(variant.changes) for variant in comparison.variants}
    records = []
    for outcome in outcomes:
        record: dict[str, Any] = {
            "variant": outcome.variant,
            **changes[outcome.variant],
            "seed": outcome.seed,
        }
        record |= {"state": outcome.state, "reason": outcome.reason}
        if outcome.measured is not None:
            record |= {"metric": outcome.measured.metric, "value": outcome.measured.value}
            record |= {f"measured.{name}": value for name, value in _flat(outcome.measured.summary)}
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
    for number, metric in enumerate(metrics):
        values = {one["name"]: list(one["values"].values()) for one in done if one["metric"] == metric}
        name = "quality.png" if number == 0 else f"quality-{number + 1}.png"
        largest = max(abs(value) for runs in values.values() for value in runs)
        path = draw_bars(values, folder / name, xlabel=metric, decimals=1 if largest >= 10 else 3)
        yield FigureSection(metric, path, f"{metric} of each variant as bars", _spread_caption(table))
    errors = _alignments(table)
    if errors:
        path = draw_bars(errors, folder / "alignment.png", xlabel=ALIGNMENT, decimals=3)
        yield FigureSection("Alignment error rate", path, "alignment error rate of each variant as bars")
    lengths = {one["name"]: one["by_length"] for one in done if one["by_length"]}
    if lengths:
        path = draw_lengths(
            {name: [(_low(b), _high(b), b["value"]) for b in bins] for name, bins in lengths.items()},
            folder / "lengths.png",
            xlabel="length",
            ylabel=metrics[0],
        )
        yield FigureSection("By length", path, f"{metrics[0]} by length, one line for each variant")
    curves = dict(_curves(comparison, runs))
    if curves:
        path = draw_training(curves, folder / "training.png", ylabel="training loss")
        yield FigureSection("Training", path, "training loss by step, one line for each variant")


def _spread_caption(table: Table) -> str:
    return "Bars are means; each point is one seed." if len(table["seeds"]) > 1 else ""


def _alignments(table: Table) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for training in table["trainings"]:
        rate = ((training["measured"] or {"summary": {}})["summary"].get("alignment") or {}).get("error_rate")
        if rate is not None:
            found.setdefault(training["variant"], []).append(float(rate))
    return found


def _low(bin: Mapping[str, Any]) -> float:
    return float(bin["low"] or 0)


def _high(bin: Mapping[str, Any]) -> float:
    return math.inf if bin["high"] is None else float(bin["high"])


def _curves(comparison: Comparison, runs: Path) -> Iterator[tuple[str, tuple[list[float], list[float]]]]:
    """Each variant's training loss by step, the mean of its seeds where they have it."""
    for variant in comparison.variants:
        losses: dict[int, list[float]] = {}
        for seed in comparison.seeds:
            for line in read_metrics(runs / f"{variant.slug}-seed{seed}"):
                if line.get("loss") is not None and "lr" in line:
                    losses.setdefault(line["step"], []).append(line["loss"])
        if losses:
            steps = sorted(losses)
            yield variant.name, ([float(s) for s in steps], [statistics.fmean(losses[s]) for s in steps])


def _trainings(outcomes: Sequence[Outcome]) -> Iterator[Section]:
    done = [outcome for outcome in outcomes if outcome.measured is not None and outcome.training is not None]
    if not done:
        return
    yield TableSection(
        "Every training",
        ("variant", "seed", "metric", "value", "valid loss", "best step", "seconds", "date"),
        [
            (
                outcome.variant,
                outcome.seed,
                outcome.measured.metric,
                round(outcome.measured.value, 4),
                outcome.training.valid_loss,
                outcome.training.best_step,
                round(outcome.training.seconds, 1),
                outcome.training.date,
            )
            for outcome in done
            if outcome.measured and outcome.training
        ],
    )
    notes = list(dict.fromkeys(outcome.measured.note for outcome in done if outcome.measured))
    if any(notes):
        yield TextSection("How it was measured", "\n\n".join(notes))


# Records ------------------------------------------------------------------------------------------------


def record(table: Table, results: Path, *, paper: Mapping[str, tuple[float | None, str]] = {}) -> list[Path]:
    """Write each finished variant's headline as a result: the mean, with every seed in the details.

    Whole recipes are recorded under their own names, and the first recipe of each model stands for it in the
    README; variants of one recipe are recorded under the comparison's name. `paper` has the paper's value and
    a note for some variants.
    """
    unknown = [name for name in paper if name not in {one["name"] for one in table["variants"]}]
    if unknown:
        raise DataError(f"record: `paper` has {unknown[0]!r}; expected the name of a variant.")
    written = []
    shown: set[str] = set()
    for order, one in enumerate(table["variants"]):
        if not one["finished"]:
            continue
        whole = set(one["changes"]) == {"recipe"}
        value, note = paper.get(one["name"], (None, ""))
        seeds = tuple(int(seed) for seed in one["values"])
        result = Result(
            recipe=one["recipe"] if whole else table["name"],
            metric=one["metric"] if whole else f"{one['name']}: {one['metric']}",
            value=round(one["mean"], 4),
            paper_value=value,
            paper_note=note,
            seconds=round(one["seconds"], 1),
            machine=one["machine"],
            date=one["date"],
            commit=one["commit"],
            seeds=seeds,
            details=_details(table, one, whole and one["model"] not in shown, order),
        )
        shown.add(one["model"])
        written.append(write_result(results, result))
    return sorted(set(written))


def _details(table: Table, one: Mapping[str, Any], headline: bool, order: int) -> dict[str, Any]:
    kept = ("values", "std", "min", "max", "numbers", "by_length", "note", "changes")
    costs = ("valid_loss", "parameters", "steps", "tokens", "tokens_per_second", "memory", "device")
    return {
        "catalogue": [f"model:{one['model']}"],
        "comparison": table["name"],
        "variant": one["name"],
        "headline": headline,
        "order": order,
        "split": table["split"],
        "measures": [list(pair) for pair in one["measures"].items()],  # a list keeps the headline first
        **{name: _rounded(one[name]) for name in (*kept, *costs, "side_by_side")},
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return round(value, 4) if isinstance(value, float) else value
