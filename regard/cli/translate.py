"""regard translate: line by line, with alignments on request; streams and whole files."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.common import check_device, complain, messages, output, say, standard_input, waiting
from regard.cli.options import BeamOption, DeviceOption, UnknownOption
from regard.decode.base import WIDEST
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.translate.answers import Answer, Options
    from regard.translate.windows import Window

SHOWN = 20  # faults listed individually


def command(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN",
            help="A run folder, an export of one, a name from `regard models`, or a Hub id.",
        ),
    ] = None,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT|-|FILE",
            help="A sentence; `-` or nothing reads standard input; with --out, files, plain or .gz.",
        ),
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
    processes: Annotated[
        int, typer.Option(min=1, max=1024, help="Processes that translate; each takes one GPU.")
    ] = 1,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Translate files into this folder.")] = None,
    shard: Annotated[
        str | None, typer.Option("--shard", metavar="K/N", help="With --out: part K of N, from 0/N.")
    ] = None,
    verify: Annotated[
        Path | None,
        typer.Option("--verify", metavar="DIR", help="Only check what --out has written: status 0 if whole."),
    ] = None,
) -> None:
    """Translate: one line in, one line out, also for empty lines.

    regard translate demo-rnnsearch "She is eating a green apple."
    regard translate runs/rnnsearch-en-fr "She is eating a green apple."
    regard translate runs/rnnsearch-en-fr - < input.txt > output.txt
    echo "The cat sleeps." | regard translate runs/rnnsearch-en-fr --align
    regard translate runs/rnnsearch-en-fr a.txt b.txt.gz --out translated --processes 2
    regard translate --verify translated

    With --nbest N there are N output lines per input line. The links of --align join the pieces that the
    model reads and writes, counted from 0: words and punctuation marks, or byte-pairs. --json names the
    pieces. Words that the model has never seen are named on standard error and handled as --unknown says.

    A line of more than 400 pieces is split into its sentences. If it cannot be split, it is named on standard
    error, its output line stays empty, and the exit status is 2.

    Standard input is translated as it arrives. Files are translated in chunks: run the same command again to
    do what is missing. --shard 3/64 does every 64th chunk, so that many machines can share the work.
    """
    if verify is not None:
        _verify(verify, run)
        return
    if run is None:
        raise ConfigError("translate: no RUN is given; expected a run folder or a model of `regard models`.")
    if shard is not None and out is None:
        raise ConfigError("translate: `--shard` is given without --out; expected both.")
    check_device(device)
    texts = texts or []
    if out is None and len(texts) > 1:
        raise ConfigError(
            f"translate: {len(texts)} texts are given; expected one, in quotes, or files and --out DIR."
        )
    from regard.shipped.find import find_run
    from regard.translate.answers import Options

    options = Options(find_run(run), beam, nbest, unknown, align, as_json, device)
    if out is not None:
        refused = _files(options, texts, out, shard, processes)
    elif texts in ([], ["-"]):
        refused = _stream(options, processes)
    else:
        refused = _sentence(options, texts[0], run)
    if refused:
        raise typer.Exit(2)


def _sentence(options: "Options", text: str, run: Path) -> int:
    from regard.translate.answers import LineTranslator
    from regard.translate.windows import Window

    translate = LineTranslator(options)
    if _names_a_file(text):
        complain(f"{text!r} is a file; its name is translated. Its lines: regard translate {run} - < {text}")
    return _print(Window([text]), translate([text]), numbered=False)


def _names_a_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or with invalid characters
        return False


def _stream(options: "Options", processes: int) -> int:
    """Translate standard input as it arrives; returns the number of refused lines."""
    from regard.translate.answers import LineTranslator
    from regard.translate.windows import Window, stream_windows
    from regard.translate.workers import translating

    if sys.stdin is not None and sys.stdin.isatty():
        translate = LineTranslator(options)
        messages.print("One sentence a line; Ctrl-D ends.", style="dim")
        for line in sys.stdin:
            text = line.rstrip("\n")
            _print(Window([text]), translate([text]), numbered=False)
        return 0
    windows = stream_windows(standard_input(), "standard input")
    refused = 0
    show = not output.is_terminal  # a bar would interfere with the output
    with translating(options, processes) as answered, waiting("translating", show=show) as bar:
        for window, answers in answered(windows):
            refused += _print(window, answers)
            bar(len(answers))
    return refused


def _print(window: "Window", answers: "list[Answer]", *, numbered: bool = True) -> int:
    """Print translations and complaints; returns the number of refused lines.

    A refused line becomes an empty line, so that lines stay aligned.
    """
    typer.echo("\n".join(answer.text for answer in answers))
    for number, answer in enumerate(answers, window.first):
        where = f"line {number}: " if numbered else "the line " if answer.refused else ""
        if answer.complaint:
            complain(f"{where}{answer.complaint}")
    return sum(answer.refused for answer in answers)


def _files(options: "Options", names: list[str], out: Path, shard: str | None, processes: int) -> int:
    """Translate what is missing in a folder; returns the number of refused lines."""
    from regard.translate.files import WHOLE, Shard, agree, translate_files

    share = WHOLE if shard is None else Shard.parse(shard)
    if not names or "-" in names:
        raise ConfigError("translate: `--out` is given without files; expected their names before it.")
    paths = [Path(name) for name in names]
    plan = agree(options, paths, out)
    with waiting("translating", share.lines(plan)) as bar:
        done = translate_files(
            options, paths, out, plan, shard=share, processes=processes, complain=complain, progress=bar
        )
    say(f"{out}: chunks translated: {done.chunks}; files complete: {done.joined} of {len(plan.inputs)}.")
    if done.unknown:
        say(f"lines with words never seen in training: {done.unknown}")
    return done.left_empty


def _verify(folder: Path, run: Path | None) -> None:
    from regard.translate.verify import verify

    if run is not None:
        raise ConfigError(f"translate: `--verify` is given beside {run}; expected the folder alone.")
    found = verify(folder)
    files = found.plan.inputs
    whole = f"{found.whole} of {found.plan.chunks} chunks are right" if found.faults else "complete"
    typer.echo(f"{folder}: {len(files)} files, {sum(own.lines for own in files)} lines; {whole}.")
    if found.left_empty:
        typer.echo(f"lines left empty because they could not be translated: {found.left_empty}")
    for fault in found.faults[:SHOWN]:
        typer.echo(fault)
    if len(found.faults) > SHOWN:
        typer.echo(f"and {len(found.faults) - SHOWN} more")
    if found.faults:
        complain(f"{folder}: is not complete; run the same `regard translate … --out {folder}` again.")
        raise typer.Exit(2)
