"""Shared by several commands: consoles, opening runs, reading text."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.data.parallel import decode_lines
from regard.errors import ConfigError, DataError
from regard.train.launcher import count_launched, is_main_process

if TYPE_CHECKING:
    from regard.train.run import Run

Task = TypeVar("Task")
PICTURES = (".png", ".svg")
LONGEST = 600  # longest error message, in characters

# without markup, since output may contain user text such as a folder name with brackets
output = Console(highlight=False, markup=False, emoji=False)  # results
messages = Console(stderr=True, highlight=False, markup=False, emoji=False)  # progress and remarks


def say(line: str) -> None:
    """Print a line about the work to standard error, from one process only."""
    if is_main_process():
        messages.print(line, soft_wrap=True)


def complain(sentence: str) -> None:
    """Print one plain sentence to standard error, so that pipes and screen readers can use it."""
    if len(sentence) > LONGEST:  # it repeats user input, or lists everything
        sentence = f"{sentence[: LONGEST // 2]} … {sentence[-LONGEST // 2 :]}"
    if sys.stderr is not None:  # None if closed: `2>&-`
        print(f"regard: {sentence}", file=sys.stderr, flush=True)


def table(
    *columns: str,
    rows: Iterable[Sequence[str | Text]] = (),
    numeric: Sequence[str] = (),
    title: str | None = None,
    names: bool = False,
) -> Table:
    """A table in the style of this command line; with `names`, the first column holds what users can type."""
    made = Table(
        title=title, title_justify="left", box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0)
    )
    for number, column in enumerate(columns):
        style = "cyan" if names and number == 0 else ""
        made.add_column(column, style=style, justify="right" if column in numeric else "left")
    for row in rows:
        made.add_row(*row)
    return made


def print_rows(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numeric: Sequence[str],
    header: bool = False,
    names: bool = False,
) -> None:
    """A table in a terminal; in a pipe a tab-separated line per row, and one for the columns if `header`."""
    if output.is_terminal:
        output.print(table(*columns, rows=rows, numeric=numeric, names=names))
        return
    for row in (columns, *rows) if header else rows:
        typer.echo("\t".join(cell.replace("\n", " ") for cell in row))


def open_run(name: Path, *, device: str | None = None) -> "Run":
    """Open a trained model: a run folder, a shipped model, or one from the Hub."""
    from regard.shipped.find import find_run
    from regard.train.run import open_run

    check_device(device)
    return open_run(find_run(name), device=device)


def check_device(device: str | None) -> None:
    """Raise ConfigError for a device that torch does not find here."""
    from regard.train import run

    run.check_device("`--device`", device)


def train_on(device: str | None) -> None:
    """Make Accelerate train on this device, also in child processes; None leaves the choice to it."""
    check_device(device)
    if device is None:
        return
    if count_launched() > 1:
        raise ConfigError(
            f"`--device` has {device} in one of several processes; expected none, since their launcher "
            "chooses the devices."
        )
    os.environ["ACCELERATE_TORCH_DEVICE"] = device


def open_task(
    name: Path, kind: type[Task], expected: str, *, device: str | None = None
) -> "tuple[Run, Task]":
    """Open a trained model whose task must be of this kind; `expected` names such tasks in the error."""
    run = open_run(name, device=device)
    if not isinstance(run.task, kind):
        raise DataError(f"{name}: task is {run.config.task!r}; expected {expected}.")
    return run, run.task


def require_ending(owner: str, out: Path | None, endings: Sequence[str] = PICTURES) -> None:
    """Raise ConfigError for an output file with another suffix."""
    if out is not None and out.suffix.lower() not in endings:
        known = (" or " if len(endings) < 3 else ", ").join(endings)
        raise ConfigError(f"{owner}: `--out` has the ending {out.suffix!r}; expected {known}.")


def words(text: str | None) -> tuple[str, ...]:
    """Split at commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip()) if text else ()


def numbers(option: str, text: str | None, example: str, *, least: int = 0) -> tuple[int, ...]:
    """Split at commas and convert to integers."""
    found = words(text)
    if not all(word.isdecimal() and int(word) >= least for word in found):
        raise ConfigError(f"{option} has {text!r}; expected whole numbers, e.g. {example}.")
    return tuple(map(int, found))


def read_input() -> list[str]:
    """The lines of standard input, all checked to be UTF-8 before any is used."""
    return decode_lines(standard_input().read(), "standard input")


def standard_input() -> IO[bytes]:
    """Unbuffered standard input: reads return what is available, and no lock outlives the reader."""
    if sys.stdin is None:
        raise DataError("standard input is closed; expected text, or a file after `<`.")
    return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)


@contextmanager
def waiting(what: str, total: int | None = None, *, show: bool = True) -> Iterator[Callable[[int], None]]:
    """A progress bar, in a terminal only; without a total it shows just that work continues.

    Yields a function to call with each increment.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    disable = not (show and messages.is_terminal)
    with Progress(*columns, console=messages, transient=True, disable=disable) as progress:
        yield partial(progress.advance, progress.add_task(what, total=total))
