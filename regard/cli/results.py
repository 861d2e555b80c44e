"""regard results: what was measured, beside what the papers say."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.common import output, table
from regard.errors import DataError


def command(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where the JSON files lie.")] = Path(
        "results"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show measured results: recipe, metric, value, the paper's value, seconds, machine, date."""
    from regard.evaluate.results import read_results

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
