import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn
from train_support import TinyBatch, TinyModel, TinyTask, build, make_config

from regard.errors import ConfigError
from regard.tasks.base import Loss
from regard.train import loop
from regard.train.config import RunConfig, TrainConfig
from regard.train.loop import Summary, fit
from regard.train.metrics import read_metrics
from regard.train.progress import Quiet
from regard.train.run_folder import RunFolder


class Notes(Quiet):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def train(config: RunConfig, run: Path, **options: Any) -> tuple[nn.Module, TinyTask, Summary]:
    model, task = build(config)
    return model, task, fit(model, task, config, run=run, **({"progress": Quiet()} | options))


def test_a_model_learns_and_the_summary_tells(tmp_path: Path) -> None:
    config = make_config({"steps": 60, "evaluate_every": 10})
    _, task, summary = train(config, tmp_path / "run")
    assert summary.steps == 60
    assert task.batches == 60
    assert summary.best_loss is not None
    assert summary.best_loss < 0.01 < math.log(7)
    assert summary.best_step == 60
    assert summary.train_loss is not None
    assert summary.train_loss < 0.05
    assert summary.tokens_per_second > 0
    assert summary.seconds > 0
    assert not summary.stopped_early
    assert summary.skipped == 0


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("clip", [0.0, 0.01])
def test_an_update_follows_the_gradient_of_the_summed_loss(
    tmp_path: Path, accumulate: int, clip: float
) -> None:
    settings = {"optimizer": "sgd", "lr": 1.0, "clip": clip, "accumulate": accumulate, "steps": 1}
    config = make_config(settings)
    model, task = build(config)
    plan = task.plan(0, seed=1, batch=9)[:accumulate]
    losses = [task.loss(model, task.batch("train", rows)) for rows in plan]
    mean = torch.stack([loss.total for loss in losses]).sum() / sum(int(loss.count) for loss in losses)
    learning = [parameter for name, parameter in model.named_parameters() if name != "unused"]
    gradients = torch.autograd.grad(mean, learning)
    norm = float(torch.cat([gradient.flatten() for gradient in gradients]).norm())
    scale = clip / norm if clip else 1.0
    expected = [p.detach() - scale * g for p, g in zip(learning, gradients, strict=True)]
    trained, _, _ = train(config, tmp_path / "run")
    moved = [parameter for name, parameter in trained.named_parameters() if name != "unused"]
    for got, want in zip(moved, expected, strict=True):
        torch.testing.assert_close(got.detach(), want, rtol=1e-4, atol=1e-6)
    assert read_metrics(tmp_path / "run")[0]["gradient_norm"] == pytest.approx(norm, rel=1e-5)


def test_the_learning_rate_follows_the_schedule(tmp_path: Path) -> None:
    config = make_config({"schedule": "linear", "warmup": 2, "steps": 6, "log_every": 1, "lr": 0.1})
    train(config, tmp_path / "run")
    rates = [line["lr"] for line in read_metrics(tmp_path / "run") if "lr" in line]
    assert rates == pytest.approx([0.05, 0.1, 0.1, 0.075, 0.05, 0.025])


def test_metrics_are_one_json_object_a_line_and_tensorboard_has_the_same(tmp_path: Path) -> None:
    train(make_config({"log_every": 5}), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    logged = [line for line in lines if "loss" in line]
    assert [line["step"] for line in logged] == [5, 10, 12]
    assert set(logged[0]) == {"step", "loss", "lr", "tokens_per_second", "gradient_norm", "seconds"}
    assert [line["step"] for line in lines if "valid_loss" in line] == [4, 8, 12]
    events = EventAccumulator(str(tmp_path / "run/tensorboard")).Reload()
    losses = [(event.step, event.value) for event in events.Scalars("train/loss")]
    assert losses == [(line["step"], pytest.approx(line["loss"], rel=1e-6)) for line in logged]
    assert len(events.Scalars("valid/loss")) == 3


def test_without_tensorboard_training_goes_on_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.train.metrics._event_writer", lambda folder, step: None)
    progress = Notes()
    train(make_config(), tmp_path / "run", progress=progress)
    assert progress.notes == ["tensorboard is not installed; the metrics go to metrics.jsonl alone."]
    assert not (tmp_path / "run/tensorboard").exists()


def test_training_stops_early_when_validation_no_longer_improves(tmp_path: Path) -> None:
    config = make_config({"lr": 0.0, "patience": 2, "evaluate_every": 3, "steps": 100})
    _, _, summary = train(config, tmp_path / "run")
    assert summary.stopped_early
    assert (summary.steps, summary.best_step) == (9, 3)


def test_the_validation_loss_is_that_of_the_model_at_rest(tmp_path: Path) -> None:
    config = make_config({"steps": 5, "evaluate_every": 0}, {"dropout": 0.5})
    model, task, summary = train(config, tmp_path / "run")
    assert model.training
    model.eval()
    losses = [task.loss(model, task.batch("valid", rows)) for rows in ([0, 1, 2], [3])]
    mean = sum(loss.total.item() for loss in losses) / sum(int(loss.count) for loss in losses)
    assert summary.best_loss == pytest.approx(mean)


def test_a_task_without_validation_examples_is_trained_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TinyTask, "evaluation_plan", lambda self, split, batch: [])
    _, _, summary = train(make_config({"patience": 1}), tmp_path / "run")
    assert (summary.steps, summary.best_loss, summary.best_step) == (12, None, None)


@pytest.mark.parametrize("poison", ["loss", "gradient"])
def test_an_update_that_is_not_finite_leaves_the_parameters_alone(tmp_path: Path, poison: str) -> None:
    config = make_config({"steps": 1, "evaluate_every": 0})
    before = [parameter.detach().clone() for parameter in build(config)[0].parameters()]

    def step(model: nn.Module, batch: TinyBatch) -> Loss:
        loss = TinyTask.loss(None, model, batch)  # type: ignore[arg-type]
        total = loss.total * math.nan if poison == "loss" else _InfiniteGradient.apply(loss.total)
        return Loss(total, loss.count)

    progress = Notes()
    model, _, summary = train(config, tmp_path / "run", progress=progress, step_function=step)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert summary.skipped == 1
    assert progress.notes == [f"step 1: the {poison} is not finite; the update was skipped (1 so far)."]
    event = next(line for line in read_metrics(tmp_path / "run") if "event" in line)
    assert (event["step"], event["event"], event["skipped"]) == (1, "non-finite", 1)
    assert event["gradient_norm"] is None


class _InfiniteGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * math.inf


def test_training_goes_on_after_a_poisoned_batch(tmp_path: Path) -> None:
    progress = Notes()
    config = make_config({"steps": 40}, task={"poison": (7, 11)})
    _, _, summary = train(config, tmp_path / "run", progress=progress)
    assert summary.skipped == len(progress.notes) >= 4
    assert summary.best_loss is not None
    assert summary.best_loss < 0.1


def test_ten_in_a_row_stop_the_run_and_keep_its_checkpoint(tmp_path: Path) -> None:
    config = make_config({"steps": 40, "checkpoint_every": 4}, task={"poison": tuple(range(40))})
    with pytest.raises(
        ConfigError, match=r"run: the loss is not finite at step 10, in 10 updates in a row; "
    ):
        train(config, tmp_path / "run")
    # 4 was evaluated; at 8 the updates still failed, and a run that goes on must begin before they did
    assert RunFolder(tmp_path / "run").last_step() == 4


def test_stop_means_at_once(tmp_path: Path) -> None:
    config = make_config({"on_nonfinite": "stop"}, task={"poison": tuple(range(40))})
    lower = r"regard train --resume --run \S+/run --set train\.lr=0\.005"
    message = rf"stopped\. Lower train\.lr or train\.clip: {lower}; no checkpoint is complete\."
    with pytest.raises(ConfigError, match=message):
        train(config, tmp_path / "run")


def test_bf16_computes_in_bf16_and_learns(tmp_path: Path) -> None:
    seen = set()

    def step(model: nn.Module, batch: TinyBatch) -> Loss:
        handle = model.output.register_forward_hook(lambda module, given, result: seen.add(result.dtype))  # type: ignore[union-attr, operator]
        try:
            return TinyTask.loss(None, model, batch)  # type: ignore[arg-type]
        finally:
            handle.remove()

    config = make_config({"precision": "bf16", "steps": 60})
    model, _, summary = train(config, tmp_path / "run", step_function=step)
    assert seen == {torch.bfloat16}
    assert summary.best_loss is not None
    assert summary.best_loss < 0.05
    # the caller's model is as it was: float32 weights and no autocast in its forward
    assert model(torch.zeros(1, 1, dtype=torch.int64)).dtype == torch.float32
    assert "forward" not in vars(model)


@pytest.mark.skipif(torch.cuda.is_available(), reason="fp16 is for GPUs, and here is one")
def test_fp16_is_refused_on_a_cpu(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"'train\.precision' is 'fp16'; expected 'no' or 'bf16' on a CPU\."
    ):
        train(make_config({"precision": "fp16"}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("precision", ["no", "bf16", "fp16"])
def test_a_gpu_learns_in_every_precision(tmp_path: Path, precision: str) -> None:
    _, _, summary = train(make_config({"precision": precision, "steps": 80}), tmp_path / "run")
    assert summary.best_loss is not None
    assert summary.best_loss < 0.05
    assert summary.skipped == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_fp16_overflow_lowers_the_scale_and_is_no_failure(tmp_path: Path) -> None:
    def step(model: nn.Module, batch: TinyBatch) -> Loss:
        loss = TinyTask.loss(None, model, batch)  # type: ignore[arg-type]
        return Loss(loss.total * 1000.0, loss.count)

    _, _, summary = train(
        make_config({"precision": "fp16", "steps": 80}), tmp_path / "run", step_function=step
    )
    events = [line for line in read_metrics(tmp_path / "run") if line.get("event") == "overflow"]
    assert events
    assert summary.skipped == 0
    assert summary.best_loss is not None
    assert summary.best_loss < 0.05


def test_threads_are_set_for_the_run_and_given_back(tmp_path: Path) -> None:
    seen = []

    def step(model: nn.Module, batch: TinyBatch) -> Loss:
        seen.append(torch.get_num_threads())
        return TinyTask.loss(None, model, batch)  # type: ignore[arg-type]

    before = torch.get_num_threads()
    train(make_config({"threads": 2, "steps": 1}), tmp_path / "run", step_function=step)
    assert seen == [2]
    assert torch.get_num_threads() == before


SCALED = {"precision": "fp16", "checkpoint_every": 0, "evaluate_every": 0}


@pytest.fixture
def scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss scaling as on a GPU, on the CPU: Accelerate scales nowhere else than on GPUs, torch does."""

    def build_accelerator(settings: TrainConfig, *how: Any, **more: Any) -> Accelerator:
        accelerator = build_plain(replace(settings, precision="no"), *how, **more)
        accelerator.state._mixed_precision = "fp16"
        accelerator.native_amp = True
        accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**126, growth_interval=20)
        return accelerator

    build_plain = loop.build_accelerator
    monkeypatch.setattr(loop, "build_accelerator", build_accelerator)


@pytest.mark.usefixtures("scaled")
def test_an_overflow_of_the_scaled_loss_lowers_the_scale_and_is_no_failure(tmp_path: Path) -> None:
    _, _, summary = train(make_config(SCALED | {"steps": 200}), tmp_path / "run")
    overflows = [line for line in read_metrics(tmp_path / "run") if line.get("event") == "overflow"]
    assert len(overflows) > 10  # more in a row than updates that are not finite may be
    assert [line["step"] for line in overflows[:10]] == list(range(1, 11))
    assert summary.skipped == 0
    assert summary.best_loss is not None
    assert summary.best_loss < 0.05


@pytest.mark.usefixtures("scaled")
def test_a_poisoned_loss_is_not_mistaken_for_an_overflow(tmp_path: Path) -> None:
    config = make_config({"precision": "fp16", "steps": 40}, task={"poison": tuple(range(40))})
    with pytest.raises(ConfigError, match="the loss is not finite at step 10, in 10 updates in a row"):
        train(config, tmp_path / "run")


@pytest.mark.usefixtures("scaled")
def test_the_loss_scale_is_resumed(tmp_path: Path) -> None:
    longer = make_config(SCALED | {"steps": 160})
    shorter = replace(longer, train=replace(longer.train, steps=140))
    train(shorter, tmp_path / "parts")
    train(longer, tmp_path / "parts", resume=True)
    train(longer, tmp_path / "whole")
    parts, whole = RunFolder(tmp_path / "parts").load(), RunFolder(tmp_path / "whole").load()
    assert parts is not None
    assert whole is not None
    assert parts.numbers == whole.numbers
    assert 0 < parts.numbers["scaler"]["scale"] < 2.0**126
    assert all(torch.equal(tensor, whole.model[name]) for name, tensor in parts.model.items())


def test_compiling_replaces_the_steps_of_the_model_while_it_trains(tmp_path, monkeypatch):
    compiled = []

    def compiling(function, *, dynamic):
        compiled.append(function.__name__)
        assert dynamic is False
        return lambda *arguments: function(*arguments)

    monkeypatch.setattr(torch, "compile", compiling)
    monkeypatch.setattr(TinyModel, "steps", ("forward_step",))
    monkeypatch.setattr(TinyModel, "forward_step", lambda self, x: x, raising=False)
    config = make_config({"compile": True, "steps": 2})
    model, task = build(config)
    fit(model, task, config, run=tmp_path / "run", progress=Quiet())
    assert compiled == ["<lambda>"]
    assert "forward_step" not in vars(model)
