"""regard show: draws one example as a picture or a page, with the viewer of its task (views/__init__.py)."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.common import PICTURES, open_run, require_ending, say
from regard.cli.options import BeamOption, DeviceOption, RunArgument


def command(
    run: RunArgument,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="An input; default: an example of the test set.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .png, .svg or .html file.")] = Path(
        "attention.png"
    ),
    beam: BeamOption = None,
    device: DeviceOption = None,
) -> None:
    """Draw what a model attended to: words, memory rows or points.

    regard show runs/rnnsearch-en-fr "The European Economic Area is very large." --out alignment.png
    regard show runs/rnnsearch-en-fr --out alignment.html
    regard show stories --out hops.png
    """
    from regard.evaluate.base import of_task
    from regard.views import VIEWERS

    require_ending("show", out, (*PICTURES, ".html"))
    opened = open_run(run, device=device)
    typer.echo(of_task(VIEWERS, opened.task)(opened, text, out, beam=beam))
    say(f"drawn: {out}")
