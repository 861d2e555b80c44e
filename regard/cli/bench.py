"""regard bench: how fast the mechanisms run on this machine, and which implementation runs when."""

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.common import numbers, output, print_rows, say, words
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.bench.bench_plan import Plan
    from regard.evaluate.results import Result


def command(
    what: Annotated[
        Literal["attention", "calls", "training-steps"],
        typer.Argument(
            metavar="[WHAT]",
            help="attention: the mechanisms; calls: one call beside a hand-written module; "
            "training-steps: whole models.",
        ),
    ] = "attention",
    mechanisms: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Scores, normalizers or windows to measure; default all."),
    ] = None,
    device: Annotated[
        Literal["cpu", "cuda"] | None, typer.Option(help="Default: the GPU if there is one.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="CPU threads.")] = 1,
    lengths: Annotated[
        str | None, typer.Option(metavar="N,M,…", help="Lengths over which growth is measured.")
    ] = None,
    length: Annotated[
        int | None, typer.Option(min=1, help="Length at which mechanisms are compared; recorded separately.")
    ] = None,
    forward: Annotated[
        bool | None,
        typer.Option("--forward/--backward", help="Measure only the forward pass, or both passes."),
    ] = None,
    rivals: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Of by-hand, sorted, entmax, flex and compile; `none` for none."),
    ] = None,
    deadline: Annotated[
        float | None,
        typer.Option(
            min=1, metavar="SECONDS", help="Start nothing new after this long; default 170, on a GPU 150."
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=0, help="Processes that compile rivals beforehand; default none, on a GPU up to 12."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes, nothing compiled; takes a minute.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where records and pictures go.")] = Path("bench"),
    record: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also add the records to this folder of results.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Measure nothing; print which kernel runs when, and why.")
    ] = False,
) -> None:
    """Measure how fast mechanisms, calls and training steps run here.

    regard bench attention --mechanisms additive,sparsemax
    regard bench attention --device cuda --out bench
    regard bench calls
    regard bench training-steps
    regard bench --explain

    Each mechanism is compared with the reference, torch.compile, FlexAttention and SDPA. A kernel is timed
    only if its results agree with the reference.
    """
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if explain or what != "attention":
        given = {
            "--mechanisms": mechanisms, "--lengths": lengths, "--length": length, "--rivals": rivals,
            "--forward": forward, "--processes": processes,
        }  # fmt: skip
        _unused(given, "--explain, which measures nothing" if explain else what)
    if explain:
        print_choices()
        return
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("bench: --device has cuda; expected cpu, since torch finds no GPU here.")
    torch.set_num_threads(threads)
    if what == "calls":
        calls(device, out, record, quick=quick)
        return
    if what == "training-steps":
        steps(device, out, record, quick=quick, deadline=deadline)
        return
    from regard.bench.bench_plan import standard
    from regard.bench.problems import chosen

    plan = standard(device, quick=quick)
    plan = replace(
        plan,
        mechanisms=chosen(words(mechanisms)),
        lengths=plan.lengths
        if lengths is None
        else tuple(sorted(numbers("bench: --lengths", lengths, "512,1024,2048", least=1))),
        size=plan.size if length is None else replace(plan.size, N=length),
        apart="" if length is None else f"-{length}",
        passes=(False, True) if forward is None else (not forward,),
        rivals=plan.rivals if rivals is None else _rivals(rivals),
        deadline=plan.deadline if deadline is None else deadline,
        processes=plan.processes if processes is None else processes,
    )
    attention(plan, out, record)


def attention(plan: "Plan", out: Path, record: Path | None) -> None:
    """Measure, print and write."""
    from regard.bench import report as told
    from regard.bench.attention import measure

    say(f"{len(plan.mechanisms)} mechanisms on {plan.device}, {plan.size} (batch × length × features)")
    began = time.monotonic()

    report = measure(
        plan,
        lambda line: say(f"{time.monotonic() - began:4.0f} s  {line}"),
        lambda report: write(told.records(report), out, record, quietly=True),
    )
    show(told.COLUMNS, told.table(report), words=3)
    if report.growth:
        output.print()
        show(told.GROWTH, told.growth_table(report), words=2)
    for line in told.look_lines(report):
        say(line)
    for line in told.not_run(report):
        say(f"not run: {line}")
    if report.ceiling is not None:
        say(f"ceiling: {report.ceiling / 1e12:.2f} T elements/s, {report.ceiling_from}")
    found = told.records(report)
    write(found, out, record)
    try:
        for path in told.draw(found, out):
            say(f"drawn: {path}")
    except ImportError as error:
        say(f"nothing drawn: {error}; the records are complete.")


def steps(device: str, out: Path, record: Path | None, *, quick: bool, deadline: float | None) -> None:
    """Time training steps of whole models, with and without fused kernels."""
    from regard.bench.steps import COLUMNS, measure, records, rows

    found = measure(device, quick=quick, deadline=deadline or math.inf, say=say)
    show(COLUMNS, rows(found), words=4)
    write(records(found, device), out, record)


def calls(device: str, out: Path, record: Path | None, *, quick: bool) -> None:
    """Time one call beside the same call of a hand-written module."""
    from regard.bench.calls import COLUMNS, measure, records, rows

    found = measure(device, budget=0.02 if quick else 0.5, say=say)
    show(COLUMNS, rows(found), words=5)
    write(records(found, device), out, record)


def print_choices() -> None:
    """Which kernel runs which attention, and the fused paths of everything else."""
    from regard.bench.choices import COLUMNS, PLACES, choices, joined, places, rows

    show(COLUMNS, rows(joined(choices())), words=len(COLUMNS))
    output.print()
    show(PLACES, places(), words=len(PLACES))


def show(columns: tuple[str, ...], body: list[tuple[str, ...]], *, words: int) -> None:
    """A table in a terminal, without empty columns; tab-separated lines in a pipe, always the same columns.

    The first `words` columns are text, the others numbers.
    """
    if output.is_terminal:
        kept = [i for i in range(len(columns)) if any(row[i] for row in body)]
        body = [tuple(row[i] for i in kept) for row in body]
    else:
        kept = list(range(len(columns)))
    print_rows([columns[i] for i in kept], body, numeric=columns[words:], header=True)


def write(found: "list[Result]", out: Path, record: Path | None, *, quietly: bool = False) -> None:
    """Write the records to the folder of this run, and to the recorded results if given."""
    from regard.evaluate.results import write_result

    for folder in [out, *([record] if record is not None else [])]:
        for path in dict.fromkeys(write_result(folder, result) for result in found):
            if not quietly:
                say(f"written: {path}")


def _unused(options: Mapping[str, object], by: str) -> None:
    """Raise ConfigError for an option that would otherwise be silently ignored."""
    for name, value in options.items():
        if value is not None:
            raise ConfigError(f"bench: {name} has {value!r}; expected no {name} with {by}.")


def _rivals(text: str) -> tuple[str, ...]:
    from regard.bench.rivals import RIVALS

    known = tuple(rival.name for rival in RIVALS)
    given = () if text == "none" else words(text)
    for word in given:
        if word not in known:
            raise ConfigError(f"bench: --rivals has {word!r}; expected some of {', '.join(known)}, or none.")
    return given
