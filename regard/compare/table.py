"""The table of a comparison, with a summary per variant; stored as JSON, and recorded in results/.

summarize    trainings -> table: means, spreads and costs over the seeds of each variant
read_table   reads it from a comparison's folder
record       writes a result record for each finished variant
"""

import json
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.compare.comparison import Comparison, Outcome, Variant
from regard.compare.trial import TEST, Measured, Training
from regard.errors import DataError
from regard.evaluate.results import Result, read_results, write_result
from regard.train import fields

_SHOWN = re.compile(r"(-?\d+(?:\.(\d+))?)(\D*)")  # a value as evaluations print it: 37.21, 76.5 %

Table = dict[str, Any]  # what table.json holds


def summarize(comparison: Comparison, outcomes: Sequence[Outcome]) -> Table:
    """The content of table.json, as plain values."""
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


def read_table(folder: Path) -> Table:
    """Read the table of a comparison's folder."""
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
    done = [(one.seed, one.training, one.measured) for one in outcomes if one.training and one.measured]
    measured, config = [found for _, _, found in done], variant.config
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
    values = [found.value for found in measured]
    return summary | {
        "metric": measured[0].metric,
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None,
        "min": min(values),
        "max": max(values),
        "values": {str(seed): found.value for seed, _, found in done},
        "measures": {
            name: _together(texts, values if name == measured[0].metric else ())
            for name, texts in _by_name(measured).items()
        },
        "numbers": _mean_numbers([one.summary for one in measured]),
        "by_length": _mean_by_length([one.summary for one in measured]),
        "note": measured[0].note,
        **_costs([training for _, training, _ in done]),
    }


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    flat = fields.flatten(settings)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in flat.items()}


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


def _costs(trainings: Sequence[Training]) -> dict[str, Any]:
    """Means over the seeds; steps, memory and the like are maxima."""
    losses = [one.valid_loss for one in trainings if one.valid_loss is not None]
    first = ("parameters", "device", "machine", "commit")
    most = ("steps", "memory", "side_by_side", "processes", "date")
    means = ("tokens", "tokens_per_second", "seconds")
    return {
        "valid_loss": statistics.fmean(losses) if losses else None,
        **{name: getattr(trainings[0], name) for name in first},
        **{name: max(getattr(one, name) for one in trainings) for name in most},
        **{name: statistics.fmean(getattr(one, name) for one in trainings) for name in means},
    }


def _by_name(measured: Sequence[Measured]) -> dict[str, list[str]]:
    """Each measure that all seeds have, so that no mean is one of fewer."""
    found: dict[str, list[str]] = {}
    for one in measured:
        for name, text in one.measures:
            found.setdefault(name, []).append(text)
    return {name: texts for name, texts in found.items() if len(texts) == len(measured)}


def _together(texts: Sequence[str], exact: Sequence[float] = ()) -> str:
    """`37.20` and `37.40` become `37.30 ± 0.14`; text without numbers is shown once if all agree.

    If the texts are `exact` rounded, the mean is that of `exact`.
    """
    if len(texts) == 1:
        return texts[0]
    matches = [match for text in texts if (match := _SHOWN.fullmatch(text))]
    if len(matches) < len(texts) or len({match[3] for match in matches}) > 1:
        return texts[0] if len(set(texts)) == 1 else " / ".join(texts)
    values = [float(match[1]) for match in matches]
    decimals = max(len(match[2] or "") for match in matches)
    unit = matches[0][3]
    if len(exact) == len(values) and all(
        abs(a - b) <= 0.51 * 0.1**decimals for a, b in zip(exact, values, strict=True)
    ):
        values = list(exact)
    return f"{statistics.fmean(values):.{decimals}f} ± {statistics.stdev(values):.{decimals}f}{unit}"


def flattened(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """The numbers in nested objects, under dotted names; lists are skipped."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flattened(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, float(value)


def _mean_numbers(summaries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    flat = [dict(flattened(summary)) for summary in summaries]
    shared = [name for name in flat[0] if all(name in one for one in flat)]
    return {name: statistics.fmean(one[name] for one in flat) for name in shared}


def _mean_by_length(summaries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The bins of `by_length`, averaged over the seeds; empty if the evaluation has none."""
    every = [list(_bins(summary)) for summary in summaries]
    if not every[0] or any([bin[:2] for bin in bins] != [bin[:2] for bin in every[0]] for bins in every):
        return []
    return [
        {"low": bins[0][0], "high": bins[0][1], "value": statistics.fmean(bin[2] for bin in bins)}
        for bins in zip(*every, strict=True)
    ]


def _bins(summary: Mapping[str, Any]) -> Iterator[tuple[Any, Any, float]]:
    """Low, high and value of each bin; the value is the first number that is neither a limit nor a count."""
    for entry in summary.get("by_length") or []:
        counts = ("low", "high", "sentences", "examples")
        rest = [v for k, v in entry.items() if k not in counts and isinstance(v, int | float)]
        if "low" in entry and "high" in entry and rest:
            yield entry["low"], entry["high"], float(rest[0])


# Records ------------------------------------------------------------------------------------------------


def record(
    table: Table,
    results: Path,
    *,
    paper: Mapping[str, tuple[float | None, str]] = {},
    summaries: Mapping[str, str] = {},
    commit: str | None = None,
    median: bool = False,
) -> list[Path]:
    """Write each finished variant's headline as a result: the mean, with every seed in the details.

    Whole recipes are recorded under their own names, variants of one recipe under the comparison's. Unusual
    conditions (another corpus, split or beam) become part of the metric's name, so that such a result does
    not replace the usual one. Headlines on a paper's page are the first recipe of a model that has none yet,
    a recipe that has one, and variants with a sentence in `summaries`.

    `paper` maps variants to the paper's value and a note; `commit` names the trained commit, for machines
    that could not tell; with `median`, the median over the seeds is recorded instead of the mean.
    """
    for argument, given in (("paper", paper), ("summaries", summaries)):
        unknown = [name for name in given if name not in {one["name"] for one in table["variants"]}]
        if unknown:
            raise DataError(f"record: `{argument}` has {unknown[0]!r}; expected the name of a variant.")
    written = []
    recipes, models = _headlines(results)
    for order, one in enumerate(table["variants"]):
        if not one["finished"]:
            continue
        whole = set(one["changes"]) == {"recipe"}
        value, note = paper.get(one["name"], (None, ""))
        seeds = tuple(int(seed) for seed in one["values"])
        metric = one["metric"] + _conditions(table) + (f", median of {len(seeds)} seeds" if median else "")
        headline = one["name"] in summaries
        if whole and not _conditions(table):
            headline = headline or one["recipe"] in recipes or f"model:{one['model']}" not in models
            models.add(f"model:{one['model']}")
        result = Result(
            recipe=one["recipe"] if whole else table["name"],
            metric=metric if whole else f"{one['name']}: {metric}",
            value=round(statistics.median(one["values"].values()) if median else one["mean"], 4),
            paper_value=value,
            paper_note=note,
            seconds=round(one["seconds"], 1),
            machine=one["machine"],
            date=one["date"],
            commit=one["commit"] or commit,
            seeds=seeds,
            details=_details(table, one, headline, order, summaries.get(one["name"])),
        )
        written.append(write_result(results, result))
    return sorted(set(written))


def _headlines(results: Path) -> tuple[set[str], set[str]]:
    """Recipes and catalogue entries that have a headline on a paper's page."""
    found = [result for result in read_results(results) if result.details.get("headline")]
    entries = {entry for result in found for entry in result.details.get("catalogue", [])}
    return {result.recipe for result in found}, entries


def _conditions(table: Table) -> str:
    """Conditions that differ from the recipes': ` on hansards`, ` on the valid split, beam 1`."""
    where = [table["on"]] if table.get("on") else []
    where += [f"the {table['split']} split"] if table["split"] != TEST.split else []
    text = f" on {', '.join(where)}" if where else ""
    return text + (f", beam {table['beam']}" if table.get("beam") else "")


def _details(
    table: Table, one: Mapping[str, Any], headline: bool, order: int, summary: str | None
) -> dict[str, Any]:
    kept = ("values", "std", "min", "max", "numbers", "by_length", "note", "changes")
    costs = ("valid_loss", "parameters", "steps", "tokens", "tokens_per_second", "memory", "device")
    return {
        "catalogue": [f"model:{one['model']}"],
        "comparison": table["name"],
        "variant": one["name"],
        "headline": headline,
        **({} if summary is None else {"summary": summary}),
        "order": order,
        "split": table["split"],
        "measures": [list(pair) for pair in one["measures"].items()],  # a list keeps the order
        **{name: _rounded(one[name]) for name in (*kept, *costs, "side_by_side")},
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return round(value, 4) if isinstance(value, float) else value
