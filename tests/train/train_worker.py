"""One of several processes that train together. Run by a launcher: `train_worker.py FOLDER`."""

import os
import signal
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from train_support import TinyBatch, TinyTask, build, make_config

from regard.errors import DataError
from regard.train.checkpoint import RunFolder
from regard.train.config import RunConfig
from regard.train.interrupt import Interrupted
from regard.train.lock import RunLock
from regard.train.loop import fit
from regard.train.metrics import read_metrics

# sizes for which no batch of an epoch has fewer rows than processes
TASK = {"examples": 38}
EXACT = make_config(
    {"batch": 8, "accumulate": 2, "optimizer": "sgd", "lr": 0.5, "steps": 10}, {"unused": False}, TASK
)
RANDOM = make_config({"batch": 8, "steps": 6, "checkpoint_every": 2}, {"dropout": 0.3}, TASK)


def train(config: RunConfig, run: Path, **options: Any) -> None:
    model, task = build(config)
    fit(model, task, config, run=run, **options)


class InterruptedTask(TinyTask):
    """The second process alone gets a signal, in the middle of its third step."""

    def batch(self, split: Any, rows: Any) -> TinyBatch:
        batch = super().batch(split, rows)
        if self.batches == 3 and split == "train" and process == 1:
            signal.raise_signal(signal.SIGINT)
        return batch


def train_interrupted(config: RunConfig, run: Path) -> None:
    model, task = build(config)
    with pytest.raises(Interrupted) as stopped:
        fit(model, InterruptedTask(task.settings), config, run=run)
    assert stopped.value.step == RunFolder(run).last_step() == 3


class InterruptedValidation(TinyTask):
    """The second process alone gets a signal, in the middle of the first validation."""

    def batch(self, split: Any, rows: Any) -> TinyBatch:
        if split == "valid" and process == 1:
            signal.raise_signal(signal.SIGTERM)
        return super().batch(split, rows)


def train_interrupted_in_validation(config: RunConfig, run: Path) -> None:
    model, task = build(config)
    with pytest.raises(Interrupted) as stopped:
        fit(model, InterruptedValidation(task.settings), config, run=run)
    assert stopped.value.step == 4
    assert not [line for line in read_metrics(run) if "valid_loss" in line]


def train_refused(config: RunConfig, run: Path) -> None:
    """Somebody else owns the folder: all processes stop with the sentence that the main one got."""
    model, task = build(config)
    with RunLock(run) if process == 0 else nullcontext():
        with pytest.raises(DataError, match="it is in use by a training"):
            fit(model, task, config, run=run)
        torch.distributed.barrier()


if __name__ == "__main__":
    process = int(os.environ["RANK"])
    folder = Path(sys.argv[1])
    train(EXACT, folder / "exact")
    train(RANDOM, folder / "whole")
    train(replace(RANDOM, train=replace(RANDOM.train, steps=4)), folder / "parts")
    train(RANDOM, folder / "parts", resume=True)
    train_interrupted(RANDOM, folder / "interrupted")
    train(RANDOM, folder / "interrupted", resume=True)
    train_interrupted_in_validation(RANDOM, folder / "validating")
    train(RANDOM, folder / "validating", resume=True)
    train_refused(RANDOM, folder / "refused")
    torch.distributed.destroy_process_group()
