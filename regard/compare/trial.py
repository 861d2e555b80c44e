"""One training and its evaluation in a process of its own; a comparison runs several side by side.

    python -m regard.compare.trial CONFIG.toml RUN [--split test] [--beam 5] [--on hansards] [--threads 1]

The files in the run folder tell how far it is. Each is written once, when its part is done:

    impossible.json     the model cannot be built with these settings, and why
    trained.json        Training: size, budget, speed, memory, validation loss
    measured-test.json  Measured: the evaluation's results, one file per split, beam and corpus
    outputs-test.txt    one line per example, for tasks with text output

So a second call continues where the first stopped: from the last checkpoint, or with the evaluation alone.
Once both parts are done, only the weights are kept of the checkpoints. Under a launcher all processes do both
together (launched.py), and the main one writes.
"""

import argparse
import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import torch

from regard.compare.jobs import Job
from regard.errors import ConfigError, DataError, RegardError
from regard.evaluate.base import evaluate
from regard.evaluate.divided import together
from regard.evaluate.results import commit, machine
from regard.storage import alone
from regard.tasks.base import Split
from regard.train import durable
from regard.train.config import RunConfig, load_recipe
from regard.train.interrupt import Interrupted
from regard.train.launcher import count_launched, is_main_process
from regard.train.loop import fit
from regard.train.run import create, open_run, other_corpus, reopen
from regard.train.run_folder import RunFolder

IMPOSSIBLE = "impossible.json"
TRAINED = "trained.json"


@dataclass(frozen=True)
class Training:
    """What a training cost, and how it ended."""

    model: str
    parameters: int
    steps: int  # updates made
    tokens: float  # predicted units seen, counted by the task
    seconds: float  # with validation, without pauses
    tokens_per_second: float  # during updates only
    memory: int  # peak bytes of the accelerator, or resident bytes of the process if there is none
    device: str
    valid_loss: float | None  # the best; its checkpoint is evaluated
    best_step: int | None
    skipped: int  # updates that were not finite
    side_by_side: int  # jobs that shared the machine
    machine: str
    date: str
    commit: str | None
    processes: int = 1  # training together


@dataclass(frozen=True)
class Asked:
    """What to measure."""

    split: Split = "test"
    beam: int | None = None  # None: the recipe's
    on: str | None = None  # another corpus, for translators; None: the task's own examples

    @property
    def file(self) -> str:
        """The file of the results in the run folder."""
        return f"measured-{self._name}.json"

    @property
    def outputs(self) -> str:
        """The file of the outputs, one per line, for tasks that have them."""
        return f"outputs-{self._name}.txt"

    @property
    def _name(self) -> str:
        return "-".join([self.split, *([f"beam{self.beam}"] if self.beam else []), *filter(None, [self.on])])


TEST = Asked()


@dataclass(frozen=True)
class Measured:
    """The results of an evaluation, as plain values."""

    split: Split
    metric: str  # the headline
    value: float
    measures: tuple[tuple[str, str], ...]  # name and value as shown, the headline first
    summary: dict[str, Any]
    note: str
    seconds: float


@dataclass(frozen=True)
class MeasuredJob(Job):
    """A job that also evaluates; `recipe` is a resolved config in a file."""

    asked: Asked = TEST
    side_by_side: int = 1
    twins: tuple[Path, ...] = ()  # run folders with the same settings and other seeds

    own_session = True

    def is_needed(self) -> bool:
        """False if it cannot be built: then it cannot be built with another seed either."""
        return self.impossible() is None

    def impossible(self) -> str | None:
        """Why these settings cannot be built, as this job or a twin found out."""
        found = (read_impossible(run) for run in (self.run, *self.twins))
        return next((reason for reason in found if reason is not None), None)

    def words(self, threads: int) -> list[str]:
        options = asdict(self.asked) | {"threads": threads, "side-by-side": self.side_by_side}
        given = [f"--{name}={value}" for name, value in options.items() if value is not None]
        return ["-m", "regard.compare.trial", self.recipe, str(self.run), *given]


def measure(config: RunConfig, run: Path, asked: Asked = TEST, *, side_by_side: int = 1) -> Measured | None:
    """Train if necessary, and evaluate; None if the model cannot be built."""
    main = is_main_process()
    with alone(run) if main else nullcontext():  # a process that was told to stop may still be saving
        together([None])  # the folder does not change for the others until they train
        if not (run / TRAINED).exists() and not _train(config, run, side_by_side):
            return None
        before = read_measured(run, asked)
        found = before or _evaluate(run, asked)
        together([None])  # all have read the weights
        if main:
            if before is None:
                _write(run / asked.file, found)
            RunFolder(run).keep_weights()
        return found


def read_training(run: Path) -> Training | None:
    """The cost of a run folder's training; None if it is not finished."""
    return _read(run / TRAINED, Training)


def trained_by(run: Path) -> int | None:
    """How many processes have trained the run folder's model so far; None if none have."""
    training = read_training(run)
    if training is not None:
        return training.processes
    folder = RunFolder(run)
    last = folder.find("last") if folder.config.exists() else None
    return None if last is None else int(folder.read_json(last / "state.json")["processes"])


def read_measured(run: Path, asked: Asked = TEST) -> Measured | None:
    """The results of an evaluation in a run folder; None if it was not made yet."""
    found: Measured | None = _read(run / asked.file, Measured)
    return found and replace(found, measures=tuple((name, text) for name, text in found.measures))


def read_impossible(run: Path) -> str | None:
    """Why a run folder's model cannot be built; None if it can, or was not tried."""
    path = run / IMPOSSIBLE
    return str(json.loads(path.read_text(encoding="utf-8"))["reason"]) if path.exists() else None


def _train(config: RunConfig, run: Path, side_by_side: int) -> bool:
    """Train or resume; False if the model cannot be built (the reason is written to the folder)."""
    _reset_peak()
    resume = (run / "config.toml").exists()
    try:
        if resume:
            config, model, task = reopen(run, [f"train.threads={config.train.threads}"])
        else:
            model, task = create(config)
    except ConfigError as error:
        if is_main_process():
            durable.replace(run / IMPOSSIBLE, json.dumps({"reason": str(error)}) + "\n")
        return False
    summary = fit(model, task, config, run=run, resume=resume)
    device = next(model.parameters()).device
    folder = RunFolder(run)
    state = folder.read_json(folder.require("last") / "state.json")
    training = Training(
        model=config.model,
        parameters=sum(p.numel() for p in model.parameters()),
        steps=summary.steps,
        tokens=state["units"],
        seconds=round(summary.seconds, 2),
        tokens_per_second=round(summary.tokens_per_second, 1),
        memory=_peak(device),
        device=device.type,
        valid_loss=summary.best_loss,
        best_step=summary.best_step,
        skipped=summary.skipped,
        side_by_side=side_by_side,
        machine=machine(),
        date=date.today().isoformat(),
        commit=commit(),
        processes=count_launched(),
    )
    if is_main_process():
        _write(run / TRAINED, training)
    return True


def _evaluate(run: Path, asked: Asked) -> Measured:
    opened = open_run(run)
    started = time.perf_counter()
    task = opened.task if asked.on is None else other_corpus(opened, asked.on, owner="compare")
    how = opened.config.decode.with_beam(asked.beam)
    found = evaluate(opened.model, task, asked.split, decoding=how)
    lines = found.lines()
    if lines is not None and is_main_process():
        durable.replace(run / asked.outputs, "".join(f"{line}\n" for line in lines))
    metric, value = found.headline()
    return Measured(
        split=asked.split,
        metric=metric,
        value=float(value),
        measures=tuple(found.measures()),
        summary=found.summary(),
        note=found.note(),
        seconds=round(time.perf_counter() - started, 2),
    )


def _reset_peak() -> None:
    """Reset the memory peak: under a launcher one process trains several variants."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    with suppress(OSError):  # Linux only
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak(device: torch.device) -> int:
    """The memory peak of this process, in bytes."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        import resource
    except ImportError:  # not on this platform
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _write(path: Path, value: Training | Measured) -> None:
    durable.replace(path, json.dumps(asdict(value), ensure_ascii=False, indent=1) + "\n")


def _read(path: Path, kind: type[Any]) -> Any:
    if not path.exists():
        return None
    try:
        return kind(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: cannot be read: {error}. Delete it and start again.") from error


def _stop_with_parent() -> None:
    """Save and stop when standard input closes: the parent process is gone."""

    def watch() -> None:
        # os.read: a thread blocked in a buffered read could not be abandoned at exit
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def main(words: Sequence[str] | None = None) -> int:
    """Exit status 0: done, or impossible and recorded; 2: failed; 130: stopped, can be resumed."""
    parser = argparse.ArgumentParser(prog="regard.compare.trial")
    parser.add_argument("config")
    parser.add_argument("run", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--beam", type=int)
    parser.add_argument("--on")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--side-by-side", type=int, default=1)
    options = parser.parse_args(words)
    asked = Asked(options.split, options.beam, options.on)
    torch.set_num_threads(options.threads)
    _stop_with_parent()
    try:
        config = load_recipe(options.config, [f"train.threads={options.threads}"])
        measure(config, options.run, asked, side_by_side=options.side_by_side)
    except Interrupted as stopped:
        print(stopped, file=sys.stderr)
        return 130
    except RegardError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
