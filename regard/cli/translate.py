"""regard translate: line for line, with alignments when asked."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.common import (
    BeamOption,
    DeviceOption,
    complain,
    messages,
    open_translator,
    read_input,
    waiting,
)
from regard.cli.dictionary import UnknownOption, choose_dictionary
from regard.decode.base import WIDEST
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.decode.base import Decoding
    from regard.decode.lines import Refused
    from regard.decode.translator import TextTranslator, Translation


def command(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A run folder, what `regard export` has made of one, or a model of `regard models`.",
        ),
    ],
    text: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT|-]", help="A sentence; `-` or nothing reads standard input."),
    ] = None,
    beam: BeamOption = None,
    device: DeviceOption = None,
    nbest: Annotated[int, typer.Option(min=1, max=WIDEST, help="Translations for each sentence.")] = 1,
    align: Annotated[
        bool, typer.Option("--align", help="Add links between the pieces in Pharaoh format, 0-0 1-2.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, weights included.")
    ] = False,
    unknown: UnknownOption = "copy",
) -> None:
    """Translate: one line in, one line out, also for empty lines.

    regard translate demo-rnnsearch "She is eating a green apple."
    regard translate runs/rnnsearch-en-fr "She is eating a green apple."
    regard translate runs/rnnsearch-en-fr - < input.txt > output.txt
    echo "The cat sleeps." | regard translate runs/rnnsearch-en-fr --align

    With --nbest N there are N lines for each line. Links join what the model reads and writes, counted from
    0: words and marks, or byte-pairs; --json names them. Words the model has never seen are named on standard
    error and carried through to the translation, as --unknown says.

    A line of more than 400 pieces is cut into its sentences. One that cannot be is named on standard error;
    its place stays empty, and the exit status is 2.
    """
    from regard.decode.lines import Refused, translate_lines
    from regard.shipped.find import find_run

    interactive = text in (None, "-") and sys.stdin is not None and sys.stdin.isatty()
    lines = [] if interactive else read_input() if text in (None, "-") else [str(text)]
    folder = find_run(run)
    translator, settings = open_any(folder, align=align, device=device)
    how = replace(settings.with_beam(beam), nbest=nbest, dictionary=choose_dictionary(folder, unknown))
    if text is not None and _names_a_file(text):
        complain(f"{text!r} is a file; its name is translated. Its lines: regard translate {run} - < {text}")
    if interactive:
        _converse(translator, how, align, as_json)
        return
    with waiting("translating", len(lines)) as progress:
        found = translate_lines(translator, lines, how, attention=align or as_json, progress=progress)
    for number, (line, outcome) in enumerate(zip(lines, found, strict=True), 1):
        _answer(line, outcome, f"line {number}: " if len(lines) > 1 else "", how, align, as_json)
    if any(isinstance(outcome, Refused) for outcome in found):
        raise typer.Exit(2)


def _names_a_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or with a character that none may have
        return False


def open_any(folder: Path, *, align: bool, device: str | None = None) -> "tuple[TextTranslator, Decoding]":
    """What translates in a folder, a run or an export, and how its recipe wants it decoded."""
    from regard.decode.translator import Translator
    from regard.export.base import is_export
    from regard.export.formats import open_export

    if not is_export(folder):
        opened = open_translator(folder, device=device)
        if align and opened.model.aligner is None:
            raise DataError(
                f"{folder}: model is {opened.config.model!r}, which has no attention; expected, for --align, "
                "one that has."
            )
        return Translator(opened.model, opened.task.source, opened.task.target), opened.config.decode
    if device is not None:
        raise ConfigError(f"translate: `--device` has {device}, and the engine of an export chooses its own.")
    exported, translator = open_export(folder)
    if align and translator.aligner is None:
        raise DataError(
            f"{folder}: an export to {exported.to}, which hands out no attention; expected, for "
            "--align, a run folder or an export to ctranslate2."
        )
    return translator, exported.decode


def _converse(translator: "TextTranslator", how: "Decoding", align: bool, as_json: bool) -> None:
    from regard.decode.lines import translate_lines

    messages.print("One sentence a line; Ctrl-D ends.", style="dim")
    for line in sys.stdin:
        text = line.rstrip("\n")
        [outcome] = translate_lines(translator, [text], how, attention=align or as_json)
        _answer(text, outcome, "", how, align, as_json)


def _answer(
    line: str,
    outcome: "list[Translation] | Refused",
    where: str,
    how: "Decoding",
    align: bool,
    as_json: bool,
) -> None:
    """Print what a line became; of one that was refused, an empty line, so that lines stay matched."""
    from regard.decode.lines import Refused
    from regard.decode.translator import nothing

    if isinstance(outcome, Refused):
        complain(f"{where or 'the line '}{outcome.reason} It is left empty.")
        _print([nothing(line, finished=False)], align, as_json)
        return
    _print(outcome, align, as_json)
    _name_unknown(outcome[0], where, how)


def _print(translations: "list[Translation]", align: bool, as_json: bool) -> None:
    for translation in translations:
        if as_json:
            typer.echo(json.dumps(_record(translation), ensure_ascii=False))
        elif align:
            typer.echo(f"{translation.text}\t{_pharaoh(translation)}")
        else:
            typer.echo(translation.text)


def _record(translation: "Translation") -> dict[str, object]:
    weights = translation.weights
    return {
        "source": translation.source,
        "text": translation.text,
        "score": round(translation.score, 4),
        "log_probability": round(translation.log_probability, 4),
        "finished": translation.finished,
        "unknown": list(translation.unknown),
        "source_pieces": list(translation.source_pieces),
        "pieces": list(translation.pieces),
        "links": _pharaoh(translation),
        "weights": None if weights is None else [[round(w, 4) for w in row] for row in weights.tolist()],
    }


def _pharaoh(translation: "Translation") -> str:
    from regard.evaluate.alignment import argmax_links, write_pharaoh

    if translation.weights is None:
        return ""
    return write_pharaoh([argmax_links(translation.weights)]).strip()


def _name_unknown(translation: "Translation", where: str, how: "Decoding") -> None:
    if not translation.unknown:
        return
    words = ", ".join(repr(word) for word in translation.unknown)
    if how.dictionary is None:
        fate = "left as <unk>"
    elif translation.weights is None:
        fate = "this model has no attention to carry them"
    else:
        fate = "looked up or carried through" if how.dictionary else "carried through"
    complain(f"{where}never seen in training: {words} ({fate}).")
