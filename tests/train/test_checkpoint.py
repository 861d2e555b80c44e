import errno
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from train_support import TinyConfig, TinyModel, build, make_config

from regard.errors import DataError
from regard.train import durable, serialization
from regard.train.checkpoint import Checkpoint, State
from regard.train.loop import fit
from regard.train.progress import Quiet
from regard.train.run_folder import RunFolder


def checkpoint(step: int, **changes: Any) -> Checkpoint:
    model = TinyModel(TinyConfig(vocab=5))
    return Checkpoint(
        State(step=step, **changes),
        serialization.weights(model),
        {"0.m": torch.ones(2)},
        {"torch": torch.ones(1)},
    )


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    _, task = build(make_config())
    folder = RunFolder(tmp_path / "run")
    folder.create(make_config(), task)
    return folder


def tree(folder: RunFolder) -> list[str]:
    return sorted(path.relative_to(folder.path).as_posix() for path in folder.path.rglob("*"))


def test_the_last_two_and_the_best_are_kept_and_all_else_is_removed(folder: RunFolder) -> None:
    for step in (1, 2, 3, 4):
        folder.save(checkpoint(step), best=step == 2)
    kept = ["step-00000002", "step-00000003", "step-00000004"]
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == kept
    names = json.loads(folder.names.read_text())
    assert names.pop("digest")
    assert names == {"last": "step-00000004", "before": "step-00000003", "best": "step-00000002"}
    weights = {"model.safetensors", "state.json", "digests.json"}
    full = weights | {"optimizer.safetensors", "random.safetensors"}
    assert {path.name for path in folder.require("last").iterdir()} == full
    assert {path.name for path in folder.checkpoints.joinpath("step-00000003").iterdir()} == full
    assert {path.name for path in folder.require("best").iterdir()} == weights
    assert not [name for name in tree(folder) if "writing" in name]


def test_what_is_saved_is_what_is_loaded(folder: RunFolder) -> None:
    saved = checkpoint(7, epoch=2, position=3, best_loss=0.1 + 0.2, window_total=1 / 3)
    folder.save(saved, best=True)
    loaded = folder.load()
    assert loaded is not None
    assert loaded.state == saved.state
    assert loaded.model.keys() == saved.model.keys()
    assert all(torch.equal(loaded.model[name], saved.model[name]) for name in saved.model)
    assert torch.equal(loaded.optimizer["0.m"], torch.ones(2))


def test_a_step_saved_again_replaces_the_first(folder: RunFolder) -> None:
    folder.save(checkpoint(3), best=True)
    folder.save(checkpoint(3, evaluated=3), best=True)
    loaded = folder.load()
    assert loaded is not None
    assert loaded.state.evaluated == 3
    assert folder.last_step() == 3
    folder.save(checkpoint(4), best=True)
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["step-00000003-2", "step-00000004"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", range(7))
def test_a_full_disk_keeps_the_last_checkpoint_and_leaves_nothing_half_written(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, call: int, code: int
) -> None:
    folder.save(checkpoint(400), best=True)
    before, calls, write = tree(folder), [0], durable.write

    def full(path: Path, data: bytes) -> None:
        calls[0] += 1
        if calls[0] == call + 1:
            write(path, data[: len(data) // 2])
            raise OSError(code, "No space left on device")
        write(path, data)

    monkeypatch.setattr(durable, "write", full)
    if call == 6:  # six files make a checkpoint: three of tensors, the state, the digests, the names
        folder.save(checkpoint(401), best=False)
        assert folder.last_step() == 401
        return
    message = r"run: no space left on the device; the last complete checkpoint is step 400\."
    with pytest.raises(DataError, match=message):
        folder.save(checkpoint(401), best=False)
    assert folder.last_step() == 400
    assert folder.load() is not None
    half = [name for name in tree(folder) if name not in before and "step-00000401" not in name]
    assert half == []
    monkeypatch.undo()
    folder.save(checkpoint(402), best=False)  # and with room again, what is left over goes
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["step-00000400", "step-00000402"]


def test_a_disk_full_in_the_middle_of_training_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config({"checkpoint_every": 1, "evaluate_every": 0})
    model, task = build(config)
    write = durable.write

    def full(path: Path, data: bytes) -> None:
        if ".writing-step-00000005" in str(path):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, data)

    monkeypatch.setattr(durable, "write", full)
    with pytest.raises(DataError, match=r"run: no space left on the device; .* is step 4\.$"):
        fit(model, task, config, run=tmp_path / "run", progress=Quiet())
    monkeypatch.undo()
    model, task = build(config)
    assert fit(model, task, config, run=tmp_path / "run", resume=True, progress=Quiet()).steps == 12


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    _, task = build(make_config())
    with pytest.raises(
        DataError, match=r"file/run: cannot be written: Not a directory; no checkpoint is complete\."
    ):
        RunFolder(tmp_path / "file/run").create(make_config(), task)


def test_what_is_no_run_is_refused(tmp_path: Path, folder: RunFolder) -> None:
    with pytest.raises(DataError, match=r"absent: no such run folder\."):
        RunFolder(tmp_path / "absent").require_run()
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: not a run folder: config\.toml is missing\."):
        RunFolder(tmp_path / "empty").require_run()
    with pytest.raises(
        DataError, match=r"run: no checkpoint is complete; train again, or continue with --resume\."
    ):
        folder.require("last")
    with pytest.raises(DataError, match=r"run: unknown checkpoint 'lost'; did you mean 'last'\?"):
        folder.require("lost")  # type: ignore[arg-type]


def test_a_later_format_is_refused(folder: RunFolder) -> None:
    folder.require_run()
    format_file = folder.path / "format.json"
    format_file.write_text('{"format": 3, "regard": "9.0.0"}')
    with pytest.raises(
        DataError, match=r"run: format 3 is newer than this regard understands \(1\); update regard\."
    ):
        folder.require_run()
    format_file.write_text("{}")
    with pytest.raises(DataError, match=r"run: format\.json has no format number"):
        folder.require_run()
    format_file.unlink()
    with pytest.raises(DataError, match=r"run: format\.json cannot be read: No such file or directory\."):
        folder.require_run()


@pytest.mark.parametrize(
    "name", ["model.safetensors", "optimizer.safetensors", "random.safetensors", "state.json"]
)
@pytest.mark.parametrize("damage", ["missing", "cut", "garbage"])
def test_a_damaged_checkpoint_is_named(folder: RunFolder, name: str, damage: str) -> None:
    folder.save(checkpoint(3), best=True)
    path = folder.require("last") / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(content[: len(content) // 2] if damage == "cut" else b"\x80\x04garbage")
    with pytest.raises(DataError, match=rf"run: checkpoints/step-00000003/{name} cannot be read: "):
        folder.load()


def test_weights_that_do_not_fit_are_refused(folder: RunFolder) -> None:
    folder.save(checkpoint(3), best=True)
    with pytest.raises(
        DataError, match=r"run: the weights do not fit the model: .*\(embedding\.weight, .*of another shape"
    ):
        folder.load_model(TinyModel(TinyConfig(vocab=6)), "best")
    assert folder.load_model(TinyModel(TinyConfig(vocab=5)), "best") == 3


def test_nothing_in_the_package_unpickles() -> None:
    files = list(Path(serialization.__file__).parent.glob("*.py"))
    assert len(files) > 10
    for path in files:
        text = path.read_text()
        assert " torch.load" not in text
        assert "import pickle" not in text
