"""Several trainings side by side, each in a process of its own, shown as one set of bars.

A small recurrent model gains little from a second thread, and two threads that wait for each other lose much
on a busy machine; two models with a core each use both. So the number of threads of a job is never left to a
library: PyTorch, its BLAS and the tokenizers are all told.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from regard.data.workers import THREADS
from regard.errors import DataError
from regard.train.progress import LINE_SECONDS, View, describe

POLL = 0.5  # seconds between looks at the metrics
PATIENCE = 30.0  # seconds that an interrupted training has to save its state
TAIL = 1 << 14  # bytes at the end of the metrics that are looked at


@dataclass(frozen=True)
class Job:
    """One training: a recipe, its overrides, its run folder, and the name it is shown under."""

    name: str
    recipe: str
    run: Path
    steps: int
    overrides: tuple[str, ...] = ()

    # A job with a session of its own hears no Ctrl-C; it is told once to stop, and stops when its standard
    # input ends, which it does when this process dies.
    own_session: ClassVar[bool] = False

    def words(self, threads: int) -> list[str]:
        """The command, for Python."""
        settings = [f"--set={setting}" for setting in (*self.overrides, f"train.threads={threads}")]
        return ["-m", "regard", "train", self.recipe, "--run", str(self.run), *settings]

    def is_needed(self) -> bool:
        """Asked when its turn comes: what ran before may have made it needless."""
        return True

    def start(self, threads: int) -> subprocess.Popen[bytes]:
        """Begin in a process of its own; what it says goes to a file beside the run."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, *self.words(threads)],
                stdin=subprocess.PIPE if self.own_session else subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | dict.fromkeys(THREADS, str(threads)),
                start_new_session=self.own_session,
            )

    @property
    def log(self) -> Path:
        return self.run.with_name(f"{self.run.name}.log")

    def reason(self) -> str:
        """Why it failed: its own last sentence."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1].removeprefix("regard: ") if lines else "it said nothing"


def run_jobs(
    jobs: Sequence[Job],
    *,
    workers: int,
    threads: int,
    console: Console,
    until: float | None = None,
    patience: float = PATIENCE,
    failed: Callable[[Job, str], None] | None = None,
) -> None:
    """Run all jobs, `workers` at a time.

    At the moment `until`, as `time.monotonic` counts, what runs is told to save its state and stop, for which
    it has `patience` seconds, and nothing more is started. `failed` is told of a job that fails, with the
    job's own last sentence; without it, the first failure ends all and is a DataError.
    """
    waiting = list(jobs)
    running: list[tuple[Job, subprocess.Popen[bytes]]] = []
    with _View(jobs, console) as view:
        try:
            while (waiting or running) and (until is None or time.monotonic() < until):
                while waiting and len(running) < workers:
                    job = waiting.pop(0)
                    if job.is_needed():
                        running.append((job, job.start(threads)))
                time.sleep(POLL)
                for job, process in list(running):
                    view.update(job)
                    if process.poll() is not None:
                        running.remove((job, process))
                        _close(process)
                        if process.returncode:
                            (failed or _raise)(job, job.reason())
        finally:
            _end([process for _, process in running], patience)


def _raise(job: Job, reason: str) -> None:
    raise DataError(f"training {job.name!r} failed: {reason}")


def _end(processes: Sequence[subprocess.Popen[bytes]], patience: float) -> None:
    """Ask what still runs to save its state and stop; Ctrl-C may have reached it already."""
    for process in processes:
        process.terminate()
    last = time.monotonic() + patience
    for process in processes:
        try:
            process.wait(max(0.0, last - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _close(process)


def _close(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()


def standing(job: Job) -> View | None:
    """Where a job is, from the last lines of the run's metrics; None while it prepares."""
    lines = [line for line in _last_lines(job.run / "metrics.jsonl") if "tokens_per_second" in line]
    if not lines:
        return None
    last = lines[-1]
    left = (job.steps - last["step"]) * last["seconds"] / last["step"]
    return View(last["step"], last["loss"], last["tokens_per_second"], left, None)


def _last_lines(path: Path) -> list[dict[str, Any]]:
    """The last complete lines of the metrics: a long run has many, and this is asked twice a second."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL))
        lines = file.read().split(b"\n")[:-1]
    return [json.loads(line) for line in (lines if size <= TAIL else lines[1:])]


class _View:
    """Bars in a terminal, lines elsewhere."""

    def __init__(self, jobs: Sequence[Job], console: Console) -> None:
        columns = (
            TextColumn("{task.fields[job]}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.description}", markup=False),
        )
        self._bars = Progress(*columns, console=console, disable=not console.is_terminal)
        self._tasks = {job: self._bars.add_task("waiting", job=job.name, total=job.steps) for job in jobs}
        self._console = console
        self._shown = dict.fromkeys(jobs, time.monotonic())

    def __enter__(self) -> "_View":
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def update(self, job: Job) -> None:
        now = standing(job)
        step, text = (now.step, describe(now)) if now else (0, "preparing")
        if self._console.is_terminal:
            self._bars.update(self._tasks[job], completed=step, description=text)
        elif time.monotonic() - self._shown[job] >= LINE_SECONDS:
            self._shown[job] = time.monotonic()
            self._console.print(f"{job.name}: step {step}/{job.steps}  {text}", markup=False)
