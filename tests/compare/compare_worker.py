"""One of two processes that compare together. Run by a launcher: `compare_worker.py FOLDER`."""

import io
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from tiny import TINY

from regard.compare import launched
from regard.compare.comparison import Comparison, Outcome, plan, run
from regard.compare.report import write
from regard.errors import DataError
from regard.tasks.reverse import ReverseTask
from regard.train.interrupt import Interrupted
from regard.train.run_folder import RunFolder

BATCH = 60  # of each process


def scores(batch: int = BATCH) -> Comparison:
    """Two scores, and one that cannot be built."""
    overrides = (*TINY, f"train.batch={batch}")
    return plan("rnnsearch-reverse", scores=("dot", "general", "additive"), overrides=overrides, name="two")


def compare(comparison: Comparison, folder: Path, **options: Any) -> list[Outcome]:
    return run(comparison, folder, console=Console(file=io.StringIO()), **options)


def compare_interrupted(folder: Path) -> None:
    """The second process alone gets a signal, in the fourth step of the first training that can be built."""
    batch, calls = ReverseTask.batch, list[str]()

    def interrupting(self: ReverseTask, split: str, rows: list[int]) -> object:
        calls.append(split)
        if calls.count("train") == 4 and process == 1:
            signal.raise_signal(signal.SIGTERM)
        return batch(self, split, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReverseTask, "batch", interrupting)
        with pytest.raises(Interrupted):
            compare(scores(), folder)
    assert RunFolder(folder / "runs" / "general-seed1").last_step() == 4
    compare(scores(), folder)


def compare_failing(folder: Path) -> None:
    """A training that fails in all processes is an outcome, and the next one begins."""
    comparison = plan(
        "rnnsearch-reverse",
        vary=("train.lr=1e30,0.003",),
        overrides=(*TINY, "train.batch=60", "train.on_nonfinite=stop"),
    )
    failed, finished = compare(comparison, folder)
    assert (failed.state, finished.state) == ("failed", "finished")
    assert "not finite at step " in failed.reason


def compare_with_one_that_fails(folder: Path) -> None:
    """What one process alone cannot do ends all, with its sentence where it can be heard."""
    comparison = plan("rnnsearch-reverse", overrides=(*TINY, "train.batch=60"))

    def fails_after(*_: object) -> None:
        if process == 1:
            raise DataError("the disk is full.")

    def fails_within(*_: object) -> None:
        fails_after()
        torch.distributed.barrier()  # as within a step, which waits for the other process

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launched, "measure", fails_after)
        with pytest.raises(DataError, match=r"rnnsearch-reverse, seed 1: the disk is full\."):
            compare(comparison, folder)
        patch.setattr(launched, "measure", fails_within)
        patch.setattr(launched, "PATIENCE", timedelta(seconds=2))
        expected = "^the disk is full" if process == 1 else "other processes were lost; run the command again"
        with pytest.raises(DataError, match=expected):
            compare(comparison, folder)
        if process == 1:
            torch.distributed.barrier()


if __name__ == "__main__":
    process = int(os.environ["RANK"])
    folder = Path(sys.argv[1])
    outcomes = compare(scores(), folder / "two")
    if process == 0:
        write(scores(), outcomes, folder / "two")
    compare_interrupted(folder / "interrupted")
    compare_failing(folder / "failing")
    compare_with_one_that_fails(folder / "lost")
    torch.distributed.destroy_process_group()
