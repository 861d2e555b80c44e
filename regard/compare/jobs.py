"""Trains several jobs side by side, each in its own process, with a progress bar for each.

A small recurrent model gains little from a second thread, and on a busy machine two threads that wait for
each other lose much; two models on a core each use both. So the number of threads of a job is never left to
the libraries: it is set for PyTorch, its BLAS and the tokenizers.
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

POLL = 0.5  # seconds between reads of the metrics
PATIENCE = 30.0  # seconds that an interrupted training has to save
TAIL = 1 << 14  # bytes read from the end of the metrics


@dataclass(frozen=True)
class Job:
    """One training: recipe, overrides, run folder, and its displayed name."""

    name: str
    recipe: str
    run: Path
    steps: int
    overrides: tuple[str, ...] = ()

    # A job in a session of its own receives no Ctrl-C. It is told to stop once, and it also stops when its
    # standard input closes, which happens when this process dies.
    own_session: ClassVar[bool] = False

    def words(self, threads: int) -> list[str]:
        """The command-line arguments after `python`."""
        settings = [f"--set={setting}" for setting in (*self.overrides, f"train.threads={threads}")]
        return ["-m", "regard", "train", self.recipe, "--run", str(self.run), *settings]

    def is_needed(self) -> bool:
        """Checked when its turn comes: an earlier job may have made it unnecessary."""
        return True

    def start(self, threads: int) -> subprocess.Popen[bytes]:
        """Start the process; its output goes to a log file next to the run."""
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
        """Why it failed: the last line of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1].removeprefix("regard: ") if lines else "it printed nothing"


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

    At `until` (a value of `time.monotonic`) running jobs are told to save and stop within `patience` seconds,
    and no more are started. `failed` is called with each failed job and the last line of its log; without it,
    the first failure stops everything and raises DataError.
    """
    waiting = list(jobs)
    running: list[tuple[Job, subprocess.Popen[bytes]]] = []
    view = _View(jobs, console)
    with view.bars:
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
    """Tell running jobs to save and stop; Ctrl-C may have reached them already."""
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
    """The progress of a job, from the last line of its metrics; None while it prepares."""
    lines = [line for line in _last_lines(job.run / "metrics.jsonl") if "tokens_per_second" in line]
    if not lines:
        return None
    last = lines[-1]
    left = (job.steps - last["step"]) * last["seconds"] / last["step"]
    return View(last["step"], last["loss"], last["tokens_per_second"], left, None)


def _last_lines(path: Path) -> list[dict[str, Any]]:
    """The last complete lines of the metrics. Long runs have many lines, and this runs twice a second."""
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
        self.bars = Progress(*columns, console=console, disable=not console.is_terminal)
        self._tasks = {job: self.bars.add_task("waiting", job=job.name, total=job.steps) for job in jobs}
        self._console = console
        self._shown = dict.fromkeys(jobs, time.monotonic())

    def update(self, job: Job) -> None:
        now = standing(job)
        step, text = (now.step, describe(now)) if now else (0, "preparing")
        if self._console.is_terminal:
            self.bars.update(self._tasks[job], completed=step, description=text)
        elif time.monotonic() - self._shown[job] >= LINE_SECONDS:
            self._shown[job] = time.monotonic()
            self._console.print(f"{job.name}: step {step}/{job.steps}  {text}", markup=False)
