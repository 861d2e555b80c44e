"""Several trainings side by side, each in a process of its own, shown as one set of bars.

A small recurrent model gains little from a second thread, and two threads that wait for each other lose much
on a busy machine; two models with a core each use both.
"""

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from regard.errors import DataError
from regard.train.metrics import read_metrics
from regard.train.progress import LINE_SECONDS, clock

POLL = 0.5  # seconds between looks at the metrics
PATIENCE = 30.0  # seconds that an interrupted training has to save its state


@dataclass(frozen=True)
class Job:
    """One training: a recipe, its overrides, its run folder, and the name it is shown under."""

    name: str
    recipe: str
    run: Path
    steps: int
    overrides: tuple[str, ...] = ()

    def start(self, threads: int) -> subprocess.Popen[bytes]:
        """Begin in a process of its own; what it says goes to a file beside the run."""
        settings = [f"--set={setting}" for setting in (*self.overrides, f"train.threads={threads}")]
        words = [sys.executable, "-m", "regard", "train", self.recipe, "--run", str(self.run), *settings]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    @property
    def log(self) -> Path:
        return self.run.with_name(f"{self.run.name}.log")

    def reason(self) -> str:
        """Why it failed: its own last sentence."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1].removeprefix("regard: ") if lines else "it said nothing"


@dataclass(frozen=True)
class Standing:
    """Where a job is, from its metrics."""

    step: int
    text: str


def run_jobs(jobs: Sequence[Job], *, workers: int, threads: int, console: Console) -> None:
    """Train all jobs, `workers` at a time; raises DataError with a job's own sentence where one fails."""
    waiting = list(jobs)
    running: list[tuple[Job, subprocess.Popen[bytes]]] = []
    with _View(jobs, console) as view:
        try:
            while waiting or running:
                while waiting and len(running) < workers:
                    job = waiting.pop(0)
                    running.append((job, job.start(threads)))
                time.sleep(POLL)
                for job, process in list(running):
                    view.update(job)
                    if process.poll() is not None:
                        running.remove((job, process))
                        _check(job, process)
        finally:
            _end([process for _, process in running])


def _check(job: Job, process: subprocess.Popen[bytes]) -> None:
    if process.returncode:
        raise DataError(f"training {job.name!r} failed: {job.reason()}")


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask what still runs to save its state and stop; Ctrl-C has reached it already."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()


def standing(job: Job) -> Standing:
    """Step, loss, speed and time left, from the last lines of the run's metrics."""
    lines = (
        [line for line in read_metrics(job.run) if "tokens_per_second" in line] if job.run.exists() else []
    )
    if not lines:
        return Standing(0, "preparing")
    last = lines[-1]
    left = (job.steps - last["step"]) * last["seconds"] / last["step"]
    return Standing(
        last["step"], f"loss {last['loss']:.3f}  {last['tokens_per_second']:.0f} tokens/s  {clock(left)} left"
    )


class _View:
    """Bars in a terminal, lines elsewhere."""

    def __init__(self, jobs: Sequence[Job], console: Console) -> None:
        columns = (
            TextColumn("{task.fields[job]}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.description}"),
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
        if self._console.is_terminal:
            self._bars.update(self._tasks[job], completed=now.step, description=now.text)
        elif time.monotonic() - self._shown[job] >= LINE_SECONDS:
            self._shown[job] = time.monotonic()
            self._console.print(f"{job.name}: step {now.step}/{job.steps}  {now.text}", markup=False)
