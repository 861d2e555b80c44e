"""How a run reports its progress: a live bar in a terminal, plain lines elsewhere, nothing when quiet."""

import sys
import time
from dataclasses import dataclass
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress

LINE_SECONDS = 10.0  # longest silence without a terminal


@dataclass(frozen=True)
class View:
    """What to show after a step."""

    step: int
    loss: float | None  # mean since the last line of metrics
    tokens_per_second: float
    seconds_left: float
    best_loss: float | None


class Progress(Protocol):
    """Receives the loop's reports."""

    def start(self, step: int, steps: int) -> None: ...
    def update(self, view: View) -> None: ...
    def note(self, text: str) -> None: ...
    def stop(self) -> None: ...


class Quiet:
    """Shows nothing, for tests and for every process but the main one."""

    def start(self, step: int, steps: int) -> None: ...
    def update(self, view: View) -> None: ...
    def note(self, text: str) -> None: ...
    def stop(self) -> None: ...


class Bar:
    """A live bar: step, loss, speed, time left, best validation loss."""

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("step {task.completed}/{task.total}"),
            BarColumn(),
            TextColumn("{task.description}"),
        )
        self._bar = RichProgress(*columns, console=console)
        self._task: TaskID | None = None

    def start(self, step: int, steps: int) -> None:
        self._task = self._bar.add_task("starting", total=steps, completed=step)
        self._bar.start()

    def update(self, view: View) -> None:
        if self._task is not None:
            self._bar.update(self._task, completed=view.step, description=describe(view))

    def note(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)

    def stop(self) -> None:
        self._bar.stop()


class Lines(Quiet):
    """A line every `every` steps, and more often when steps are slow."""

    def __init__(self, every: int, stream: TextIO | None = None) -> None:
        self._every = every
        self._stream = stream or sys.stderr
        self._steps = 0
        self._shown = time.monotonic()

    def start(self, step: int, steps: int) -> None:
        self._steps = steps

    def update(self, view: View) -> None:
        late = time.monotonic() - self._shown >= LINE_SECONDS
        if view.step % self._every == 0 or view.step == self._steps or late:
            self.note(f"step {view.step}/{self._steps}  {describe(view)}")

    def note(self, text: str) -> None:
        print(text, file=self._stream, flush=True)
        self._shown = time.monotonic()


def choose_progress(log_every: int, console: Console | None = None) -> Progress:
    """A bar if the console is a terminal, otherwise lines; both on standard error."""
    console = console or Console(stderr=True)
    return Bar(console) if console.is_terminal else Lines(log_every, console.file)  # type: ignore[arg-type]


def describe(view: View) -> str:
    """`loss 2.314  9120 tokens/s  3:05 left  best 2.287`."""
    parts = [] if view.loss is None else [f"loss {view.loss:.4g}"]
    parts += [f"{view.tokens_per_second:.0f} tokens/s", f"{clock(view.seconds_left)} left"]
    if view.best_loss is not None:
        parts.append(f"best {view.best_loss:.4g}")
    return "  ".join(parts)


def clock(seconds: float) -> str:
    """Hours, minutes and seconds: 0:07, 12:30, 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
