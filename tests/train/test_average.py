"""The mean of the last evaluations' weights, at the end of a run."""

import json
from pathlib import Path

import pytest
import torch
from train_support import build, make_config

from regard.errors import ConfigError, DataError
from regard.train import durable, serialization
from regard.train.average import Snapshots, average
from regard.train.config import TrainConfig
from regard.train.loop import fit
from regard.train.progress import Quiet
from regard.train.run import open_run
from regard.train.run_folder import RunFolder


def train(path: Path, monkeypatch: pytest.MonkeyPatch, **settings: int) -> list[serialization.Tensors]:
    """A run of twelve steps, evaluated every four; the weights at each evaluation, as the loop saw them."""
    seen: list[serialization.Tensors] = []
    keep = Snapshots.keep

    def watched(self: Snapshots, step: int, weights: serialization.Tensors) -> None:
        seen.append({name: tensor.clone() for name, tensor in weights.items()})
        keep(self, step, weights)

    monkeypatch.setattr(Snapshots, "keep", watched)
    config = make_config(settings)
    model, task = build(config)
    fit(model, task, config, run=path, progress=Quiet())
    return seen


def test_the_mean_is_taken_by_name_in_double_precision() -> None:
    parts = [{"w": torch.tensor([1e8, 1.0]), "n": torch.tensor(i)} for i in (3, 4)]
    parts.append({"w": torch.tensor([1.0, 4.0]), "n": torch.tensor(9)})
    mean = average(parts)
    torch.testing.assert_close(mean["w"], torch.tensor([(2e8 + 1) / 3, 2.0]))
    assert mean["w"].dtype == torch.float32
    assert mean["n"] == 9  # a counter has no mean


@pytest.mark.usefixtures("_tiny_rows")
@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_a_run_ends_with_the_mean_of_its_last_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    seen = train(tmp_path / "run", monkeypatch, average=count)
    assert len(seen) == 3
    run = open_run(tmp_path / "run", device="cpu")
    expected = average(seen[-count:])
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(tensor, expected[name])
    assert run.step == 12
    if count > 1:
        best = open_run(tmp_path / "run", checkpoint="best", device="cpu").model.state_dict()
        assert not torch.equal(best["output.weight"], expected["output.weight"])


@pytest.mark.usefixtures("_tiny_rows")
def test_no_more_weights_are_kept_than_are_averaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tmp_path / "run", monkeypatch, average=2)
    kept = sorted(path.name[:13] for path in (tmp_path / "run" / "averaging").iterdir())
    assert kept == ["step-00000008", "step-00000012"]
    RunFolder(tmp_path / "run").keep_weights()
    assert not (tmp_path / "run" / "averaging").exists()
    assert open_run(tmp_path / "run", device="cpu").step == 12
    assert open_run(tmp_path / "run", checkpoint="averaged", device="cpu").step == 12


@pytest.mark.usefixtures("_tiny_rows")
def test_a_run_that_goes_on_averages_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tmp_path / "run", monkeypatch, average=2)
    longer = make_config({"average": 2, "steps": 16})
    model, task = build(longer)
    fit(model, task, longer, run=tmp_path / "run", resume=True, progress=Quiet())
    at_once = make_config({"average": 2, "steps": 16})
    model, task = build(at_once)
    fit(model, task, at_once, run=tmp_path / "other", progress=Quiet())
    files = [
        RunFolder(tmp_path / name).require("averaged") / "model.safetensors" for name in ("run", "other")
    ]
    assert files[0].name == files[1].name
    assert files[0].read_bytes() == files[1].read_bytes()
    names = json.loads((tmp_path / "run" / "checkpoints.json").read_text())
    assert names["averaged"] == "averaged-00000016"
    assert len(list((tmp_path / "run" / "checkpoints").glob("averaged-*"))) == 1


def test_weights_from_steps_still_to_come_are_forgotten(tmp_path: Path) -> None:
    kept = Snapshots(tmp_path, 3)
    for step in (2, 4, 6, 4):  # killed after 6, gone on from a checkpoint before 4
        kept.keep(step, {"w": torch.full((2,), float(step))})
    found = kept.mean(4)
    assert found is not None
    assert torch.equal(found["w"], torch.full((2,), 3.0))
    assert [path.name[:13] for path in kept._files(99)] == ["step-00000002", "step-00000004"]


def test_without_averaging_nothing_is_kept_and_the_error_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train(tmp_path / "run", monkeypatch) == []
    assert not (tmp_path / "run" / "averaging").exists()
    with pytest.raises(
        DataError, match=r"run: nothing was averaged; train with train\.average, or use 'best'\."
    ):
        RunFolder(tmp_path / "run").require("averaged")
    with pytest.raises(ConfigError, match=r"'train\.average' is -1; expected at least 0\."):
        TrainConfig(average=-1)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    kept = Snapshots(tmp_path / "run", 2)
    kept.keep(3, {"w": torch.ones(2)})
    [path] = kept.folder.iterdir()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # of a weight
    durable.write(path, bytes(content))
    message = r"run: averaging/step-00000003-\w+\.safetensors cannot be read: its SHA-256 digest is not "
    with pytest.raises(DataError, match=message):
        kept.mean(3)
    path.rename(kept.folder / "step-00000003.safetensors")  # as earlier versions named it
    assert kept.mean(3) is not None
    durable.write(kept.folder / "step-00000003.safetensors", b"half")
    with pytest.raises(DataError, match=r"run: averaging/step-00000003\.safetensors cannot be read: "):
        kept.mean(3)
