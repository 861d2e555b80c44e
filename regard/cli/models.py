"""regard models: lists the trained models in the package."""

import json

import typer

from regard.cli.common import print_rows
from regard.cli.options import JsonOption


def command(as_json: JsonOption = False) -> None:
    """List the trained models in the package: name, size, figure, what each does.

    Every command that takes a run folder also takes these names.

    regard models
    regard show stories --out hops.png
    """
    from regard.shipped.find import packed_models

    found = packed_models()
    if as_json:
        typer.echo(json.dumps([{**m.record, "bytes": m.bytes} for m in found], ensure_ascii=False, indent=2))
        return
    rows = [(m.name, f"{m.bytes / 1e6:.2f} MB", m.figure, m.record["sentence"]) for m in found]
    print_rows(("name", "size", "figure", "what"), rows, numeric=("size",), names=True)
