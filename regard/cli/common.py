"""What several commands share: where they print, how they open a run, how they read text."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from regard.data.parallel import decode_lines
from regard.decode.base import WIDEST
from regard.errors import ConfigError, DataError
from regard.train.launcher import count_launched, is_main_process

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from regard.models.base import Translating
    from regard.tasks.translation import TranslationTask
    from regard.train.config import RunConfig
    from regard.train.run import Run

LONGEST = 600  # characters of a sentence about what went wrong
RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder, a name from `regard models`, or a Hub id.")
]

BeamOption = Annotated[
    int | None,
    typer.Option("--beam", min=1, max=WIDEST, help="Beam width; default: the recipe's."),
]

DeviceOption = Annotated[
    Literal["cpu", "cuda", "mps"] | None,
    typer.Option("--device", help="Device; default: an accelerator if there is one."),
]

# without markup: what is printed has words of the user's, such as the name of a folder with brackets
output = Console(highlight=False, markup=False, emoji=False)  # what was asked for
messages = Console(stderr=True, highlight=False, markup=False, emoji=False)  # what is said about it


def say(line: str) -> None:
    """A line about the work, on standard error, once however many processes work."""
    if is_main_process():
        messages.print(line, soft_wrap=True)


def complain(sentence: str) -> None:
    """One sentence on standard error, unadorned, so that it survives a pipe and a screen reader."""
    if len(sentence) > LONGEST:  # it repeats what somebody typed, or lists everything there is
        sentence = f"{sentence[: LONGEST // 2]} … {sentence[-LONGEST // 2 :]}"
    if sys.stderr is not None:  # closed: `2>&-`
        print(f"regard: {sentence}", file=sys.stderr, flush=True)


def table(*columns: str, numeric: Sequence[str] = (), title: str | None = None) -> Table:
    """A table in the one look of this command line."""
    made = Table(
        title=title, title_justify="left", box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0)
    )
    for column in columns:
        made.add_column(column, justify="right" if column in numeric else "left")
    return made


def print_rows(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Sequence[str], header: bool = False
) -> None:
    """A table in a terminal; in a pipe a line with tabs for each row, and for the columns if `header`."""
    if output.is_terminal:
        made = table(*columns, numeric=numeric)
        for row in rows:
            made.add_row(*row)
        output.print(made)
        return
    for row in (columns, *rows) if header else rows:
        typer.echo("\t".join(cell.replace("\n", " ") for cell in row))


def open_run(name: Path, *, device: str | None = None) -> "Run":
    """A trained model: a run folder, a model that ships, or one of the Hub."""
    from regard.shipped.find import find_run
    from regard.train.run import open_run

    check_device(device)
    return open_run(find_run(name), device=device)


def check_device(device: str | None) -> None:
    """Refuse a device that torch does not find here."""
    import torch

    from regard.train.run import is_there

    if device is not None and not is_there(torch.device(device)):
        raise ConfigError(f"`--device` has {device}, which PyTorch does not find here; expected cpu.")


def train_on(device: str | None) -> None:
    """Let Accelerate train there, in this process and in those it starts; None: where it finds best."""
    check_device(device)
    if device is None:
        return
    if count_launched() > 1:
        raise ConfigError(
            f"`--device` has {device} in one of several processes; expected none, since their launcher "
            "chooses the devices."
        )
    os.environ["ACCELERATE_TORCH_DEVICE"] = device


@dataclass(frozen=True)
class OpenTranslator:
    """A run whose model translates."""

    config: "RunConfig"
    model: "Translating"
    task: "TranslationTask"
    step: int


def open_translator(folder: Path, *, device: str | None = None) -> OpenTranslator:
    """The run of a folder or a name; only translation models can be asked in words."""
    from regard.models.base import Translating
    from regard.tasks.translation import TranslationTask

    run = open_run(folder, device=device)
    if not isinstance(run.task, TranslationTask) or not isinstance(run.model, Translating):
        raise DataError(f"{folder}: task is {run.config.task!r}; expected a translation task.")
    return OpenTranslator(run.config, run.model, run.task, run.step)


def read_input() -> list[str]:
    """The lines of standard input, all checked to be UTF-8 before any is used."""
    return decode_lines(standard_input().read(), "standard input")


def standard_input() -> IO[bytes]:
    """Standard input without a buffer: reading takes what is there, and no lock outlives the reader."""
    if sys.stdin is None:
        raise DataError("standard input is closed; expected text, or a file after `<`.")
    return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)


@contextmanager
def waiting(what: str, total: int | None = None, *, show: bool = True) -> Iterator["Waiting"]:
    """A bar for work that is counted, in a terminal only; without a total it only shows that work goes on."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    disable = not (show and messages.is_terminal)
    with Progress(*columns, console=messages, transient=True, disable=disable) as progress:
        yield Waiting(progress, progress.add_task(what, total=total))


class Waiting:
    """Advances its bar when called."""

    def __init__(self, progress: "Progress", task: "TaskID") -> None:
        self._progress, self._task = progress, task

    def __call__(self, count: int) -> None:
        self._progress.advance(self._task, count)
