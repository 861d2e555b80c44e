"""regard export: writes a trained translator in the format of another engine."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.common import open_run, say
from regard.cli.options import RunArgument


def command(
    run: RunArgument,
    to: Annotated[Literal["ctranslate2", "onnx"], typer.Option("--to", help="The format.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Default: a folder named after the format, in the run."),
    ] = None,
) -> None:
    """Export a trained translator to CTranslate2 or ONNX.

    regard export runs/transformer-en-fr --to ctranslate2
    regard translate runs/transformer-en-fr/ctranslate2 "She is eating a green apple."

    CTranslate2 runs the Transformer, ONNX also rnnsearch and luong. The folder includes the tokenizers and
    does not need the run. Needs pip install "regard[export]".
    """
    from regard.export.formats import export_run
    from regard.shipped.find import is_shipped

    opened = open_run(run, device="cpu")
    if out is None and is_shipped(opened.folder):  # never write into the package
        out = Path(f"{opened.folder.name}-{to}")
    folder = export_run(opened, to, out)
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    say(f"written: {folder} ({size:.1f} MB)")
