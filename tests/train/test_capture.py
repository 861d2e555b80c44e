"""Captured steps: without a GPU the setting changes nothing; with one, replaying equals the plain step."""

from dataclasses import replace

import pytest
import torch
from train_support import build, make_config

from regard.errors import ConfigError
from regard.train.capture import CapturedStep, _shape
from regard.train.loop import fit
from regard.train.progress import Quiet


def trained(tmp_path, name, **train):
    config = make_config(train)
    model, task = build(config)
    fit(model, task, config, run=tmp_path / name, progress=Quiet())
    return model.cpu().state_dict()


@pytest.mark.skipif(torch.cuda.is_available(), reason="for a machine without a GPU")
def test_without_a_gpu_the_setting_changes_nothing(tmp_path):
    plain, captured = trained(tmp_path, "a"), trained(tmp_path, "b", capture=True)
    assert all(torch.equal(plain[name], captured[name]) for name in plain)


def test_half_precision_with_a_loss_scale_is_refused(tmp_path):
    config = make_config({"capture": True, "precision": "fp16"})
    model, task = build(config)
    with pytest.raises(ConfigError, match=r"^train: 'train\.(capture|precision)' is "):
        fit(model, task, config, run=tmp_path / "run", progress=Quiet())


def test_a_recording_belongs_to_shapes_and_to_everything_that_is_no_tensor():
    _, task = build(make_config())
    batch = task.batch("train", [1, 2])
    assert _shape(batch) == _shape(replace(batch, source=batch.source + 1))
    assert _shape(batch) != _shape(task.batch("train", [1, 2, 3]))
    assert _shape(batch) != _shape(replace(batch, poison=True))
    with pytest.raises(ConfigError, match=r"a batch is a Tensor; expected a dataclass\.$"):
        _shape(torch.zeros(3))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
class TestOnAGPU:
    def test_a_captured_run_learns_what_a_plain_run_learns(self, tmp_path):
        plain, captured = trained(tmp_path, "a"), trained(tmp_path, "b", capture=True)
        for name in plain:
            assert torch.allclose(plain[name].double(), captured[name].double(), rtol=1e-4, atol=1e-5), name

    def test_a_captured_run_goes_on_as_if_it_had_not_stopped(self, tmp_path):
        whole = trained(tmp_path, "a", capture=True)
        half = make_config({"capture": True, "steps": 6})
        model, task = build(half)
        fit(model, task, half, run=tmp_path / "b", progress=Quiet())
        rest = make_config({"capture": True})
        model, task = build(rest)
        fit(model, task, rest, run=tmp_path / "b", resume=True, progress=Quiet())
        for name, tensor in model.cpu().state_dict().items():
            assert torch.allclose(whole[name].double(), tensor.double(), rtol=1e-5, atol=1e-6), name

    def test_gradients_add_up_over_replays_and_shapes(self):
        config = make_config()
        model, task = build(config)
        model.cuda()
        parameters = list(model.parameters())

        def step(batch):
            loss = task.loss(model, batch)
            loss.total.backward()
            return loss

        captured = CapturedStep(step, model)
        batches = [task.batch("train", rows).to("cuda") for rows in ([0, 1], [2, 3], [4, 5, 6], [1, 0])]
        totals = [float(captured(batch).total) for batch in batches]
        found = [None if p.grad is None else p.grad.clone() for p in parameters]
        captured.clear_gradients()
        assert all(p.grad is None or not p.grad.any() for p in parameters)
        expected = [step(batch).total.item() for batch in batches]
        assert totals == pytest.approx(expected, rel=1e-5)
        assert len(captured._recordings) < len(batches)
        for gradient, parameter in zip(found, parameters, strict=True):
            assert (gradient is None) == (parameter.grad is None)
            if gradient is not None:
                assert (gradient - parameter.grad).norm() <= 1e-5 * parameter.grad.norm()
