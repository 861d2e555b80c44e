"""A curriculum that waits for the loss, and goes on as if it had never stopped."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from regard.tasks.ntm import CopySettings, CopyTask
from regard.train.batch_stream import Stream
from regard.train.config import RunConfig, TrainConfig
from regard.train.interrupt import Interrupted
from regard.train.loop import fit
from regard.train.metrics import read_metrics
from regard.train.progress import Quiet
from regard.train.run import create
from regard.train.run_folder import RunFolder

SETTINGS = {"bits": 2, "longest": 6, "tested": (6,), "curriculum": 3, "train": 12, "valid": 6, "test": 1}
NTM = {"hidden": 6, "rows": 8, "width": 3}
STEPS = 30  # four batches are an epoch; three make an update where they accumulate


def config(until: float, **train: Any) -> RunConfig:
    numbers = {"steps": STEPS, "batch": 3, "lr": 0.02, "evaluate_every": 10, "checkpoint_every": 0}
    task = SETTINGS | {"until": until}
    return RunConfig("ntm", NTM, "copy", task, TrainConfig(**numbers | train))  # type: ignore[arg-type]


def state(run: Path) -> dict[str, Any]:
    numbers = json.loads((RunFolder(run).require("last") / "state.json").read_text())
    timed = ("seconds", "training_seconds", "window_seconds", "metrics_size")
    return {key: value for key, value in numbers.items() if key not in timed}


def tensors(run: Path) -> dict[str, bytes]:
    folder = RunFolder(run).require("last")
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


def train(config: RunConfig, run: Path, stop: int = 0, **options: Any) -> None:
    """Until the end, or for `stop` updates."""
    model, task = create(config)
    original, calls = task.batch, 0

    def batch(split: Any, rows: Any) -> Any:
        nonlocal calls
        calls += split == "train"
        if calls == stop * config.train.accumulate and split == "train":
            signal.raise_signal(signal.SIGINT)
        return original(split, rows)

    task.batch = batch  # type: ignore[method-assign]
    fit(model, task, config, run=run, progress=Quiet(), **options)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_stopped_run_waits_as_if_it_had_never_stopped(tmp_path: Path, accumulate: int) -> None:
    until = 0.98  # some epochs come down to it, and some do not
    whole = tmp_path / "whole"
    train(config(until, accumulate=accumulate), whole)
    reached = state(whole)
    assert 0 < reached["learnt"] < reached["epoch"]
    for stop in range(1, 10):
        run = tmp_path / f"stopped-{stop}"
        with pytest.raises(Interrupted, match=f"stopped at step {stop};"):
            train(config(until, accumulate=accumulate), run, stop)
        train(config(until, accumulate=accumulate), run, resume=True)
        assert tensors(run) == tensors(whole)
        assert state(run) == reached
        assert [line.get("loss") for line in read_metrics(run)] == [
            line.get("loss") for line in read_metrics(whole)
        ]


def test_lengths_grow_only_after_an_epoch_that_was_learnt() -> None:
    task = CopyTask(CopySettings(longest=6, curriculum=3, train=30, until=0.1))
    walk, longest = Stream(task, seed=1, batch=1, processes=1, process=0), []
    before = float("nan")
    for loss in (0.5, 0.1, 0.11, float("nan"), 0.0, 0.0):
        rows = [walk.next(before if position == 0 else loss)[0] for position in range(30)]
        longest.append(max(task.shape("train", row)[0] for row in rows))
        assert walk.waits
        before = loss
    assert longest == [2, 2, 4, 4, 4, 6]
    assert walk.learnt == 2


def test_a_plan_depends_on_the_seed_the_epoch_and_how_many_were_learnt() -> None:
    task = CopyTask(CopySettings(longest=6, curriculum=3, train=30, until=0.1))
    plans = [task.plan(e, seed=s, batch=2, learnt=n) for e in (0, 5) for s in (1, 2) for n in (0, 2)]
    again = [task.plan(e, seed=s, batch=2, learnt=n) for e in (0, 5) for s in (1, 2) for n in (0, 2)]
    assert plans == again
    assert len({str(plan) for plan in plans}) == len(plans)


def test_without_a_loss_to_wait_for_the_clock_decides() -> None:
    task = CopyTask(CopySettings(longest=6, curriculum=3, train=30))
    assert task.plan(2, seed=1, batch=2, learnt=0) == task.plan(2, seed=1, batch=2)
