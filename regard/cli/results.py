"""regard results: what was measured, beside what the papers say."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.common import output, say, table
from regard.errors import ConfigError, DataError


def command(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where the JSON files lie.")] = Path(
        "results"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    add: Annotated[
        Path | None,
        typer.Option(metavar="COMPARISON", help="First record a folder that `regard compare` wrote."),
    ] = None,
    paper: Annotated[
        list[str] | None,
        typer.Option(metavar="VARIANT=VALUE NOTE", help="With --add: what the paper says of a variant."),
    ] = None,
) -> None:
    """Show measured results: recipe, metric, value, the paper's value, seconds, machine, date.

    regard results
    regard results --add comparisons/scores
    """
    from regard.evaluate.results import read_results

    if add is not None:
        record(add, folder, paper or [])
    elif paper:
        raise ConfigError("results: --paper is given without --add; expected both.")

    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected one with the JSON files of measured results.")
    found = read_results(folder)
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
    if not output.is_terminal:
        for row in rows:
            typer.echo("\t".join(row))
        return
    made = table(*columns, numeric=("value", "paper", "seconds"))
    for row in rows:
        made.add_row(*row)
    output.print(made)


def record(comparison: Path, folder: Path, paper: list[str]) -> None:
    """Add a comparison's means to the results; `paper` has `VARIANT=VALUE NOTE`."""
    from regard.train.compare_table import read_table
    from regard.train.compare_table import record as write

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
    for path in write(read_table(comparison), folder, paper=known):
        say(f"recorded: {path}")
