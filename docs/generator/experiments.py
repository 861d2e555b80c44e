"""Tables and pictures of the experiments: what `regard compare` and the recipes of a corpus recorded."""

import math
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from records import (
    UNMEASURED,
    benchmark,
    facts,
    in_order,
    markdown,
    markers,
    newest,
    notes,
    papers,
    recorded,
    words,
)

from regard.compare.report import size
from regard.evaluate.results import Result, read_results
from regard.train.config import recipe_names
from regard.viz.bars import draw_bars
from regard.viz.curves import draw_lengths

# Comparisons ------------------------------------------------------------------------------------------------


def comparison(folder: Path, name: str) -> list[Result]:
    """The variants that `regard compare` recorded under a name."""
    return in_order(r for r in read_results(folder) if r.details.get("comparison") == name)


def by_length(folder: Path, name: str) -> list[Result]:
    """Those of them that were measured by length as well."""
    return [result for result in comparison(folder, name) if result.details["by_length"]]


def comparison_table(folder: Path, name: str) -> str:
    """A row for each variant: what was measured, beside the paper, and what it cost."""
    found = comparison(folder, name)
    if not found:
        return UNMEASURED
    measures = list(dict.fromkeys(measure for result in found for measure, _ in result.details["measures"]))
    paper = ["the paper's"] if any(result.paper_value is not None for result in found) else []
    costs = ["valid loss", "parameters", "tokens/s", "seconds", "memory", "seeds"]
    body = []
    for result in found:
        shown = dict(result.details["measures"])
        quality = [shown.get(measure, "") for measure in measures] + ([papers(result)] if paper else [])
        body.append([_variant(result), *quality, *_costs(result)])
    table = markdown(["variant", *measures, *paper, *costs], body)
    return "\n\n".join([recorded(table), *_made(found)])


def _variant(result: Result) -> str:
    """Its name, as code where it is that of a recipe."""
    name = str(result.details["variant"])
    return f"`{name}`" if name in recipe_names() else name


def _costs(result: Result) -> list[str]:
    details = result.details
    loss = details["valid_loss"]
    return [
        "" if loss is None else f"{loss:.3f}",
        _parameters(result),
        f"{details['tokens_per_second']:.0f}",
        f"{result.seconds:.0f}",
        size(details["memory"]) if details.get("memory") else "",
        str(len(result.seeds)),
    ]


def _made(found: list[Result]) -> list[str]:
    """How long each was trained, on what it was measured, when and where; what the paper's values are."""
    first = found[0]
    updates = sorted({result.details["steps"] for result in found})
    budget = f"{updates[0]}–{updates[-1]}" if len(updates) > 1 else str(updates[0])
    of = {"updates": budget, "split": first.details["split"], "date": first.date, "machine": first.machine}
    said = [facts(of)]
    if len(first.seeds) > 1:
        said.append(recorded("Values are means over the seeds with the standard deviation."))
    if notes(found):
        said.append(recorded(markdown(["the paper's values"], [[note] for note in notes(found)], sides="l")))
    return said


def lengths_table(folder: Path, name: str) -> str:
    """The headline by length, a column for each variant, and the picture of it."""
    found = by_length(folder, name)
    if not found:
        return UNMEASURED
    columns = [{words(b): f"{b['value']:.1f}" for b in result.details["by_length"]} for result in found]
    lengths = [words(b) for b in found[0].details["by_length"]]
    body = [[length, *(column.get(length, "") for column in columns)] for length in lengths]
    table = recorded(markdown(["source words", *map(_variant, found)], body))
    drawn = f"![{_headline(found)} by length, a line for each variant](../pictures/lengths-{name}.svg)"
    return "\n".join([table, "", drawn])


def bars_picture(folder: Path, name: str) -> str:
    """The headline of each variant as bars."""
    found = comparison(folder, name)
    if not found:
        return UNMEASURED
    return f"![{_headline(found)} of each variant as bars](../pictures/bars-{name}.svg)"


def pictures(page: str, folder: Path) -> dict[str, bytes]:
    """What the `lengths` and `bars` of a page show, by the names that the page has for them."""
    made: dict[str, bytes] = {}
    for kind, name in markers(("lengths", "bars")).findall(page):
        find, draw = (by_length, _draw_lengths) if kind == "lengths" else (comparison, _draw_bars)
        found = find(folder, name)
        if found:
            with TemporaryDirectory() as aside:
                path = Path(aside) / "picture.svg"
                draw(found, path)
                made[f"{kind}-{name}.svg"] = path.read_bytes()
    return made


def _draw_bars(found: list[Result], path: Path) -> None:
    values = {result.details["variant"]: list(result.details["values"].values()) for result in found}
    draw_bars(values, path, xlabel=_headline(found))


def _draw_lengths(found: list[Result], path: Path) -> None:
    bins = {
        of["variant"]: [(b["low"] or 0, b["high"] or math.inf, b["value"]) for b in of["by_length"]]
        for of in (result.details for result in found)
    }
    draw_lengths(bins, path, xlabel="length of the source", ylabel=_headline(found))


def _headline(found: list[Result]) -> str:
    return str(found[0].details["measures"][0][0])


# One budget for all ----------------------------------------------------------------------------------------

BUDGET = {  # columns, and how the means of a record are shown there
    "BLEU": ("bleu", "{:.1f}"),
    "BLEU, 51 and more words": ("bleu_longest", "{:.1f}"),
    "chrF": ("chrf", "{:.1f}"),
    "alignment error rate": ("alignment", "{:.2f}"),
    "of the word read": ("alignment_read", "{:.2f}"),
}


def budget_table(folder: Path, name: str) -> str:
    """A row for each model that had the same budget: what it reached, and what it did with its seconds."""
    found = benchmark(folder, name)
    if not found:
        return UNMEASURED
    header = ["model", *BUDGET, "parameters", "updates", "seconds", "seconds to translate"]
    body = []
    for result in found:
        of = result.details
        quality = [_spread(of, key, shown) for key, shown in BUDGET.values()]
        costs = [f"{of['means'][key]:.0f}" for key in ("steps", "seconds", "translating")]
        body.append([of["model"], *quality, _parameters(result), *costs])
    first = found[0]
    made = facts(
        {
            "budget": f"{first.details['budget']:g} processor seconds",
            "split": first.details["split"],
            "seeds": str(len(first.seeds)),
            "date": first.date,
            "machine": first.machine,
        }
    )
    said = recorded("Values are means over the seeds with the standard deviation.")
    return "\n\n".join([recorded(markdown(header, body)), made, said])


def _spread(of: Mapping[str, Any], key: str, shown: str) -> str:
    """Mean ± standard deviation; nothing where it was not measured."""
    if key not in of["means"]:
        return ""
    mean, std = (shown.format(of[kind][key]) for kind in ("means", "std"))
    return f"{mean} ± {std}"


# The recipes of a corpus ------------------------------------------------------------------------------------

MOSES = "BLEU, lower-cased, Moses tokens"
FORMS = {MOSES: "moses", "BLEU": "case:mixed"}  # by what stands in the signature of each


def corpus_table(folder: Path, name: str) -> str:
    """All recipes for a corpus, best first: BLEU in the two forms that are compared, and their signatures."""
    every = newest(read_results(folder))
    found = [r for r in every if r.recipe.endswith(f"-{name}") and r.metric == "BLEU"]
    if not found:
        return UNMEASURED
    of_papers = {r.recipe: papers(r) for r in every if r.metric == MOSES and r.paper_value is not None}
    paper = ["published"] if any(result.recipe in of_papers for result in found) else []
    body = []
    for result in sorted(found, key=lambda r: -r.value):
        shown = dict(result.details["measures"])
        quality = [shown.get(MOSES, ""), shown["BLEU"]]
        quality += [of_papers.get(result.recipe, "")] if paper else []
        costs = [_parameters(result), f"{result.seconds:.0f}", str(len(result.seeds))]
        body.append([f"`{result.recipe}`", *quality, *costs])
    table = recorded(markdown(["recipe", *FORMS, *paper, "parameters", "seconds", "seeds"], body))
    first, *rest = found[0].details["note"].splitlines()
    signatures = [line.removeprefix("signature: ") for line in rest]
    escaped = "\\|"  # within a table
    kept = [(form, line) for form, mark in FORMS.items() for line in signatures if mark in line]
    made = recorded(
        f"Means over the seeds with the standard deviation, {first}. Seconds are those of one training."
    )
    signed = recorded(
        markdown(
            ["form", "signature"],
            [[form, f"`{line.replace('|', escaped)}`"] for form, line in kept],
            sides="l",
        )
    )
    return "\n\n".join([table, made, signed])


def _parameters(result: Result) -> str:
    return f"{result.details['parameters']:,}".replace(",", " ")
