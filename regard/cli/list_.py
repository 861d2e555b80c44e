"""regard list: what there is."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from regard import catalog
from regard.cli.common import output, table
from regard.errors import ConfigError

TITLES = {
    "score": "Scores: how a query and a key are compared",
    "normalizer": "Normalizers: how scores become weights",
    "window": "Windows: where a query may look",
    "layer": "Layers",
    "memory": "External memory",
    "kernel": "Fused kernels",
    "model": "Models",
    "task": "Tasks",
    "recipe": "Recipes: regard train NAME",
}


def command(
    kind: Annotated[
        str | None, typer.Argument(metavar="[KIND]", help="score, normalizer, window, model, task, recipe, …")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List every mechanism, model, task and recipe: year, name, title, authors.

    In a pipe, each entry is a line of tab-separated fields.
    """
    if kind is not None and kind not in TITLES:
        raise ConfigError(f"list: unknown kind {kind!r}; {catalog.suggest(kind, tuple(TITLES))}")
    rows = [row for row in catalog.rows() if kind in (None, row.kind)]
    recipes = _recipes() if kind in (None, "recipe") else []
    if as_json:
        found = [asdict(row) for row in rows]
        found += [{"key": name, "kind": "recipe", "sentence": sentence} for name, sentence in recipes]
        typer.echo(json.dumps(found, ensure_ascii=False, indent=2))
    elif output.is_terminal:
        _print_tables(rows, recipes)
    else:
        for row in rows:
            typer.echo("\t".join([row.kind, row.key, str(row.year), row.title, row.authors, row.path]))
        for name, sentence in recipes:
            typer.echo("\t".join(["recipe", name, "", sentence, "", ""]))


def _recipes() -> list[tuple[str, str]]:
    from regard.train.config import recipe_names, recipe_sentence

    return [(name, recipe_sentence(name)) for name in recipe_names()]


def _print_tables(rows: list[catalog.Row], recipes: list[tuple[str, str]]) -> None:
    for kind, title in TITLES.items():
        of_kind = [row for row in rows if row.kind == kind]
        if of_kind:
            made = table("name", "year", "what", "authors", title=title)
            for row in of_kind:
                made.add_row(Text(row.key, "cyan"), str(row.year), row.title, row.authors)
            output.print(made, "")
    if recipes:
        made = table("name", "what", title=TITLES["recipe"])
        for name, sentence in recipes:
            made.add_row(Text(name, "cyan"), sentence)
        output.print(made)
