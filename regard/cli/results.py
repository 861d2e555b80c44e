"""regard results: measured results, beside those of the papers."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from regard.catalog import suggest
from regard.cli.common import print_rows, say
from regard.cli.options import JsonOption
from regard.errors import ConfigError, DataError


def command(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FOLDER]", help="Folder with the JSON files; default: results/, or regard's own."
        ),
    ] = None,
    as_json: JsonOption = False,
    system: Annotated[
        str, typer.Option(metavar="NAME", help="Only recipes with this in their name, such as ntm.")
    ] = "",
    best: Annotated[bool, typer.Option("--best", help="Only the best value of each metric.")] = False,
    add: Annotated[
        Path | None,
        typer.Option(metavar="COMPARISON", help="First record a folder written by `regard compare`."),
    ] = None,
    paper: Annotated[
        list[str] | None,
        typer.Option(metavar="VARIANT=VALUE NOTE", help="With --add: what the paper says of a variant."),
    ] = None,
    summary: Annotated[
        list[str] | None,
        typer.Option(metavar="VARIANT=TEXT", help="With --add: what the paper's page says of a variant."),
    ] = None,
    commit: Annotated[
        str | None,
        typer.Option(help="With --add: the commit that was trained, if the machine did not know it."),
    ] = None,
    median: Annotated[
        bool, typer.Option("--median", help="With --add: record the median of the seeds instead of the mean.")
    ] = False,
) -> None:
    """Show what was measured, next to the papers' values.

    regard results
    regard results --system ntm --best
    regard results --add comparisons/scores
    regard results --add comparisons/luong --commit 39ac4b37a4c4 --paper "luong-global-dot=18.6 table 4"
    """
    from regard.evaluate.results import best_of_each_metric, packaged, read_results

    own = Path("results")
    folder = folder or next((each for each in (own, packaged()) if each.is_dir()), own)
    if add is not None:
        record(add, folder, paper or [], summary or [], commit=commit, median=median)
    else:
        options = {"--paper": paper, "--summary": summary, "--commit": commit, "--median": median}
        for name, given in options.items():
            if given:
                raise ConfigError(f"results: {name} is given without --add; expected both.")

    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected one with the JSON files of measured results.")
    found = [result for result in read_results(folder) if system in result.recipe]
    if system and not found:
        known = sorted({result.recipe.partition("-")[0] for result in read_results(folder)})
        raise DataError(f"results: `--system` has {system!r}; {suggest(system, known)}")
    if best:
        found = best_of_each_metric(found)
    if as_json:
        typer.echo(json.dumps([asdict(result) for result in found], ensure_ascii=False, indent=2))
        return
    columns = ("recipe", "metric", "value", "paper", "seconds", "date", "machine")
    rows = [
        (
            result.recipe,
            result.metric,
            f"{result.value:g}",
            "" if result.paper_value is None else f"{result.paper_value:g}",
            f"{result.seconds:.0f}",
            result.date,
            result.machine,
        )
        for result in found
    ]
    print_rows(columns, rows, numeric=("value", "paper", "seconds"))


def record(
    comparison: Path,
    folder: Path,
    paper: list[str],
    summary: list[str],
    *,
    commit: str | None,
    median: bool,
) -> None:
    """Add a comparison to the results; `paper` holds `VARIANT=VALUE NOTE`, `summary` holds `VARIANT=TEXT`."""
    from regard.compare.table import read_table
    from regard.compare.table import record as write

    known = {}
    for text in paper:
        name, equals, said = text.rpartition("=")
        value, _, note = said.strip().partition(" ")
        try:
            known[name.strip()] = (float(value), note.strip())
        except ValueError:
            equals = ""
        if not equals:
            raise ConfigError(f"results: --paper has {text!r}; expected VARIANT=VALUE NOTE.")
    said_of = {}
    for text in summary:
        name, equals, words = text.partition("=")
        if not (equals and words.strip()):
            raise ConfigError(f"results: --summary has {text!r}; expected VARIANT=TEXT.")
        said_of[name.strip()] = words.strip()
    table = read_table(comparison)
    for path in write(table, folder, paper=known, summaries=said_of, commit=commit, median=median):
        say(f"recorded: {path}")
