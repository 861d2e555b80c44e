"""One of several processes that train together. Run by a launcher: `train_worker.py FOLDER`."""

import json
import os
import signal
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from train_pairs import TRANSFORMER, make_pairs
from train_support import TinyBatch, TinyConfig, TinyModel, TinyTask, build, make_config

from regard.decode.base import Decoding
from regard.errors import ConfigError, DataError
from regard.evaluate.base import evaluate
from regard.evaluate.divided import processes_together, share
from regard.models.transformer import Transformer, TransformerConfig
from regard.train.config import RunConfig, TrainConfig
from regard.train.interrupt import Interrupted
from regard.train.lock import RunLock
from regard.train.loop import fit
from regard.train.metrics import read_metrics
from regard.train.run_folder import RunFolder

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


class Promising(TinyModel):
    """Says that each of its parameters gets a gradient."""

    uses_all_parameters = True


def train_promised(config: RunConfig, run: Path) -> None:
    """A model whose promise is true is trained; one that breaks it is refused with a sentence."""
    _, task = build(config)
    for unused, refusal in ((False, nullcontext()), (True, pytest.raises(ConfigError, match=UNUSED))):
        model = Promising(TinyConfig(vocab=task.settings.vocab, unused=unused))
        with refusal:
            fit(model, task, config, run=run.with_name(f"{run.name}-{unused}"))


UNUSED = r"`Promising\.uses_all_parameters` is True, and unused got no gradient; expected False"
PAIRS = make_pairs()
SPLIT = TrainConfig(
    steps=4, batch=40, accumulate=2, lr=0.01, evaluate_every=2, checkpoint_every=2, average=2, threads=1
)


def train_pairs(run: Path, train: TrainConfig = SPLIT, **options: Any) -> None:
    """A small Transformer on pairs of different lengths."""
    config = RunConfig("transformer", TRANSFORMER, "pairs", {}, train)
    torch.manual_seed(1)
    fit(Transformer(TransformerConfig(**TRANSFORMER)), PAIRS, config, run=run, **options)


def train_sharded(folder: Path) -> None:
    """The same with the model in parts, stopped and gone on; other models are refused."""
    os.environ["ACCELERATE_USE_FSDP"] = "true"
    train_pairs(folder / "sharded")
    train_pairs(folder / "sharded-parts", replace(SPLIT, steps=2))
    train_pairs(folder / "sharded-parts", resume=True)
    refusal = (
        "launched for FSDP, with the model TinyModel; expected the model 'transformer', or every process"
    )
    with pytest.raises(ConfigError, match=refusal):
        train(EXACT, folder / "sharded-refused")
    del os.environ["ACCELERATE_USE_FSDP"]
    train_pairs(folder / "unsharded", replace(SPLIT, steps=2))
    train_pairs(folder / "unsharded", resume=True)


def evaluate_pairs(run: Path) -> dict[str, Any]:
    """A trained translator, measured on its validation pairs; without what a clock says."""
    model = Transformer(TransformerConfig(**TRANSFORMER))
    RunFolder(run).load_model(model, "last")
    found = evaluate(model.eval(), PAIRS, "valid", decoding=Decoding(beam=3))
    assert found.lines() is not None
    return {**found.summary(), "lines": found.lines(), "seconds": None}


if __name__ == "__main__":
    process = int(os.environ["RANK"])
    folder = Path(sys.argv[1])
    train(EXACT, folder / "exact")
    train(EXACT, folder / "from-one", resume=True)
    train_promised(replace(RANDOM, train=replace(RANDOM.train, capture=True)), folder / "promised")
    train_pairs(folder / "pairs")
    train_sharded(folder)
    with processes_together():
        assert len(share(range(7))) == (4, 3)[process]
        (folder / f"evaluation-{process}.json").write_text(json.dumps(evaluate_pairs(folder / "pairs")))
    assert share(range(7)) == list(range(7))
    train(RANDOM, folder / "whole")
    train(replace(RANDOM, train=replace(RANDOM.train, steps=4)), folder / "parts")
    train(RANDOM, folder / "parts", resume=True)
    train_interrupted(RANDOM, folder / "interrupted")
    train(RANDOM, folder / "interrupted", resume=True)
    train_interrupted_in_validation(RANDOM, folder / "validating")
    train(RANDOM, folder / "validating", resume=True)
    train_refused(RANDOM, folder / "refused")
    torch.distributed.destroy_process_group()
