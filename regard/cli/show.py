"""regard show: the alignment of a sentence, as a picture or as a page."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.common import RunArgument, decoding, messages, open_translator
from regard.errors import ConfigError, DataError

ENDINGS = (".png", ".svg", ".html")


def command(
    run: RunArgument,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="A sentence; default one of the test set.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="A .png, .svg or .html file.")] = Path(
        "alignment.png"
    ),
    beam: Annotated[
        int | None, typer.Option(min=1, help="Hypotheses kept; default as in the recipe.")
    ] = None,
) -> None:
    """Draw what the model looked at while it wrote each word.

    regard show runs/rnnsearch-en-fr "The European Economic Area is very large." --out alignment.png
    regard show runs/rnnsearch-en-fr --out alignment.html
    """
    from regard.decode.translator import Translator

    if out.suffix not in ENDINGS:
        raise ConfigError(f"show: `--out` has the ending {out.suffix!r}; expected {', '.join(ENDINGS)}.")
    opened = open_translator(run)
    task = opened.task
    if opened.model.aligner is None:
        raise DataError(
            f"{run}: model is {opened.config.model!r}, which has no attention; nothing can be shown."
        )
    sentence = task.examples("test")[0].source if text is None else text
    translator = Translator(opened.model, task.source, task.target)
    [[translation]] = translator.translate([sentence], decoding(opened.config.decode, beam=beam))
    if translation.weights is None or not translation.pieces:
        raise DataError("show: the sentence is empty; expected words.")
    _draw(translation, out)
    typer.echo(translation.text)
    messages.print(f"drawn: {out}")


def _draw(translation: "object", out: Path) -> None:
    from regard.decode.translator import Translation
    from regard.viz.heatmap import draw_alignment
    from regard.viz.report import AlignmentSection, write_report

    assert isinstance(translation, Translation)
    assert translation.weights is not None
    if out.suffix == ".html":
        section = AlignmentSection(
            translation.source, translation.weights, translation.source_pieces, translation.pieces
        )
        write_report(out, title="Alignment", summary=translation.text, sections=[section])
        return
    draw_alignment(translation.weights, translation.source_pieces, translation.pieces, path=out)
