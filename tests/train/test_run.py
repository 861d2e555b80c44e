from dataclasses import replace
from pathlib import Path

import pytest
import torch
from train_support import TinyTask, make_config

from regard.errors import ConfigError, DataError
from regard.train.loop import fit
from regard.train.progress import Quiet
from regard.train.run import create, open_run, reopen
from regard.train.run_folder import RunFolder

pytestmark = pytest.mark.usefixtures("_tiny_rows")


def test_the_seed_decides_the_first_weights() -> None:
    one, _ = create(make_config())
    torch.rand(3)
    same, _ = create(make_config())
    other, _ = create(make_config({"seed": 2}))
    assert torch.equal(one.embedding.weight, same.embedding.weight)
    assert not torch.equal(one.embedding.weight, other.embedding.weight)


def test_sizes_come_from_the_task() -> None:
    model, task = create(make_config(task={"vocab": 11}))
    assert isinstance(task, TinyTask)
    assert model.config.vocab == 11
    create(make_config(model={"vocab": 7}))  # says the same as the data
    with pytest.raises(
        ConfigError, match=r"'model\.vocab' is 9; the data of the task has 7\. Leave the key out\."
    ):
        create(make_config(model={"vocab": 9}))


def test_a_run_opens_with_its_best_or_last_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config({"steps": 10, "evaluate_every": 4, "lr": 0.5}, {"dropout": 0.1})
    worse = iter([1.0, 2.0, 3.0])
    monkeypatch.setattr("regard.train.loop._validation_loss", lambda run: next(worse))
    model, task = create(config)
    fit(model, task, config, run=tmp_path / "run", progress=Quiet())
    best, last = open_run(tmp_path / "run"), open_run(tmp_path / "run", checkpoint="last")
    assert (best.step, last.step) == (4, 10)
    assert not best.model.training
    assert torch.equal(last.model.embedding.weight, model.embedding.weight)
    assert not torch.equal(best.model.embedding.weight, model.embedding.weight)
    assert last.config.train == config.train
    assert last.config.model_settings["dropout"] == 0.1
    assert last.folder == tmp_path / "run"


def test_where_nothing_was_evaluated_the_best_is_the_last(tmp_path: Path) -> None:
    config = make_config({"steps": 3})
    model, task = create(config)
    task.evaluation_plan = lambda split, *, batch: []  # type: ignore[method-assign]
    fit(model, task, config, run=tmp_path / "run", progress=Quiet())
    assert open_run(tmp_path / "run").step == 3


def test_a_run_without_a_checkpoint_cannot_be_opened(tmp_path: Path) -> None:
    _, task = create(make_config())
    RunFolder(tmp_path / "run").create(make_config(), task)
    with pytest.raises(
        DataError, match=r"run: no checkpoint is complete; train again, or continue with --resume\."
    ):
        open_run(tmp_path / "run")
    with pytest.raises(DataError, match=r"absent: no such run folder\."):
        open_run(tmp_path / "absent")


def test_a_reopened_run_goes_on(tmp_path: Path) -> None:
    config = make_config({"steps": 5})
    model, task = create(config)
    fit(model, task, config, run=tmp_path / "run", progress=Quiet())
    longer, model, task = reopen(tmp_path / "run", ["train.steps=9"])
    assert longer.train == replace(config.train, steps=9)
    assert fit(model, task, longer, run=tmp_path / "run", resume=True, progress=Quiet()).steps == 9
    assert open_run(tmp_path / "run", checkpoint="last").step == 9
