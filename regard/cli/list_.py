"""regard list: the catalogue, and the recipes."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from regard import catalog
from regard.cli.common import output, table
from regard.cli.options import JsonOption
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
    as_json: JsonOption = False,
) -> None:
    """List every mechanism, model, task and recipe: year, name, title, authors.

    In a pipe, each entry is a line of tab-separated fields.
    """
    from regard.train.config import recipe_names, recipe_sentence

    if kind is not None and kind not in TITLES:
        raise ConfigError(f"list: unknown kind {kind!r}; {catalog.suggest(kind, tuple(TITLES))}")
    rows = [row for row in catalog.rows() if kind in (None, row.kind)]
    listed = recipe_names() if kind in (None, "recipe") else ()
    recipes = [(name, recipe_sentence(name)) for name in listed]
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


def _print_tables(rows: list[catalog.Row], recipes: list[tuple[str, str]]) -> None:
    for kind, title in TITLES.items():
        of_kind = [row for row in rows if row.kind == kind]
        if of_kind:
            cells = [(row.key, str(row.year), row.title, row.authors) for row in of_kind]
            output.print(table("name", "year", "what", "authors", rows=cells, title=title, names=True), "")
    if recipes:
        output.print(table("name", "what", rows=recipes, title=TITLES["recipe"], names=True))
