import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from train_support import TinyBatch, TinyTask, build, make_config

from regard.errors import ConfigError, DataError
from regard.train.config import RunConfig
from regard.train.interrupt import Interrupted
from regard.train.loop import Summary, fit
from regard.train.metrics import read_metrics
from regard.train.progress import Quiet
from regard.train.run_folder import RunFolder

CONFIG = make_config({"steps": 14, "accumulate": 2, "schedule": "cosine", "patience": 9}, {"dropout": 0.3})


def train(config: RunConfig, run: Path, **options: Any) -> Summary:
    model, task = build(config)
    return fit(model, task, config, run=run, progress=Quiet(), **options)


def content(run: Path) -> dict[str, bytes]:
    """The last checkpoint's tensors, bit for bit."""
    folder = RunFolder(run).require("last")
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


def weights_of_best(run: Path) -> bytes:
    return (RunFolder(run).require("best") / "model.safetensors").read_bytes()


def numbers(run: Path) -> list[dict[str, Any]]:
    """The metrics without what a clock says."""
    timed = ("seconds", "tokens_per_second")
    return [{key: value for key, value in line.items() if key not in timed} for line in read_metrics(run)]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("reference") / "run"
    train(CONFIG, run)
    return run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("at", [1, 5, 12, 27])
def test_a_run_stopped_by_a_signal_goes_on_as_if_never_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: Path, number: signal.Signals, at: int
) -> None:
    run, before = tmp_path / "run", signal.getsignal(number)
    with monkeypatch.context() as patch:
        _signal_in_batch(patch, number, "train", at)
        with pytest.raises(Interrupted) as stopped:
            train(CONFIG, run)
    step = -(-at // 2)  # the step is finished: two batches make one
    assert stopped.value.step == step
    assert str(stopped.value) == f"stopped at step {step}; go on with: regard train --resume --run {run}"
    assert signal.getsignal(number) is before
    train(CONFIG, run, resume=True)
    assert content(run) == content(reference)
    assert numbers(run) == numbers(reference)
    assert RunFolder(run).last_step() == RunFolder(reference).last_step() == 14
    assert weights_of_best(run) == weights_of_best(reference)


def test_a_signal_during_evaluation_leaves_the_evaluation_to_the_resumed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: Path
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        _signal_in_batch(patch, signal.SIGINT, "valid", 3)
        with pytest.raises(Interrupted, match="stopped at step 8"):
            train(CONFIG, run)
    assert [line["step"] for line in read_metrics(run) if "valid_loss" in line] == [4]
    train(CONFIG, run, resume=True)
    assert content(run) == content(reference)
    assert numbers(run) == numbers(reference)


def test_a_second_interrupt_acts_at_once_and_the_last_checkpoint_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: Path
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        _signal_in_batch(patch, signal.SIGINT, "train", 10, times=2)
        with pytest.raises(Interrupted) as stopped:
            train(CONFIG, run)
    assert stopped.value.step == 4  # step 5 is lost; 4 was an improvement
    train(CONFIG, run, resume=True)
    assert content(run) == content(reference)
    assert numbers(run) == numbers(reference)


def _signal_in_batch(
    patch: pytest.MonkeyPatch, number: signal.Signals, split: str, at: int, *, times: int = 1
) -> None:
    original, calls = TinyTask.batch, [0]

    def batch(self: TinyTask, wanted: Any, rows: Any) -> TinyBatch:
        calls[0] += wanted == split
        if wanted == split and calls[0] == at:
            for _ in range(times):
                signal.raise_signal(number)
        return original(self, wanted, rows)

    patch.setattr(TinyTask, "batch", batch)


def test_a_longer_run_goes_on_from_the_end_of_a_shorter_one(tmp_path: Path) -> None:
    constant = make_config({"steps": 8}, {"dropout": 0.3})
    longer = replace(constant, train=replace(constant.train, steps=16))
    train(constant, tmp_path / "a")
    summary = train(longer, tmp_path / "a", resume=True)
    train(longer, tmp_path / "b")
    assert summary.steps == 16
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert numbers(tmp_path / "a") == numbers(tmp_path / "b")
    assert "steps = 16" in (tmp_path / "a/config.toml").read_text()


def test_resuming_a_finished_run_does_nothing(tmp_path: Path) -> None:
    first = train(CONFIG, tmp_path / "run")
    before = content(tmp_path / "run")
    model, task = build(CONFIG)
    again = fit(model, task, CONFIG, run=tmp_path / "run", resume=True, progress=Quiet())
    assert task.batches == 0
    assert content(tmp_path / "run") == before
    assert (again.steps, again.best_loss, again.train_loss) == (
        first.steps,
        first.best_loss,
        first.train_loss,
    )


def test_a_run_killed_before_its_first_checkpoint_starts_again(tmp_path: Path, reference: Path) -> None:
    model, task = build(CONFIG)
    RunFolder(tmp_path / "run").create(CONFIG, task)
    (tmp_path / "run/metrics.jsonl").write_text('{"step": 1, "loss"')
    fit(model, task, CONFIG, run=tmp_path / "run", resume=True, progress=Quiet())
    assert content(tmp_path / "run") == content(reference)
    assert numbers(tmp_path / "run") == numbers(reference)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (replace(CONFIG, train=replace(CONFIG.train, batch=8)), r"'train\.batch' is 8; .* with 9\."),
        (
            replace(CONFIG, model_settings={"dropout": 0.4}),
            r"'model\.dropout' is 0\.4; the run was started with 0\.3",
        ),
        (replace(CONFIG, model_settings={}), r"'model\.dropout' is None; the run was started with 0\.3\."),
        (replace(CONFIG, task="other"), r"'task\.name' is 'other'; the run was started with 'tiny-task'\."),
    ],
)
def test_a_run_cannot_go_on_with_another_config(changed: RunConfig, message: str, reference: Path) -> None:
    model, task = build(CONFIG)
    with pytest.raises(ConfigError, match=message):
        fit(model, task, changed, run=reference, resume=True, progress=Quiet())


def test_a_few_keys_may_change(tmp_path: Path, reference: Path) -> None:
    half = replace(CONFIG, train=replace(CONFIG.train, checkpoint_every=5, log_every=3, threads=0))
    with pytest.MonkeyPatch.context() as patch:
        _signal_in_batch(patch, signal.SIGINT, "train", 9)
        with pytest.raises(Interrupted):
            train(half, tmp_path / "run")
    train(CONFIG, tmp_path / "run", resume=True)
    assert content(tmp_path / "run") == content(reference)


def test_a_folder_that_holds_a_run_is_not_overwritten(reference: Path) -> None:
    message = r"run: already holds a run; continue it with --resume, or choose another folder\."
    with pytest.raises(DataError, match=message):
        train(CONFIG, reference)


def test_resuming_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing: no such run folder\."):
        train(CONFIG, tmp_path / "nothing", resume=True)


def test_a_run_of_two_processes_goes_on_with_one_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder(tmp_path / "run")
    train(replace(CONFIG, train=replace(CONFIG.train, steps=4)), run.path)
    state = run.require("last") / "state.json"
    state.write_text(state.read_text().replace('"processes": 1', '"processes": 2'))
    state.with_name("digests.json").unlink()
    capsys.readouterr()
    model, task = build(CONFIG)
    fit(model, task, CONFIG, run=run.path, resume=True)
    said = "the run was saved by 2 processes and goes on with 1: from here on the result is that of 1."
    assert capsys.readouterr().err.count(said) == 1
    last = run.load()
    assert last is not None
    assert (last.state.step, last.state.processes) == (CONFIG.train.steps, 1)
    changes = [json.loads(line) for line in (run.path / "changes.jsonl").read_text().splitlines()]
    assert [(c["key"], c["was"], c["is"]) for c in changes if c["key"] == "processes"] == [
        ("processes", 2, 1)
    ]


def test_dropout_differs_between_seeds(tmp_path: Path, reference: Path) -> None:
    # otherwise the bitwise comparisons above would prove nothing about random states
    model, task = build(CONFIG)
    other = replace(CONFIG, train=replace(CONFIG.train, seed=2))
    fit(model, task, other, run=tmp_path / "run", progress=Quiet())
    assert content(tmp_path / "run")["model.safetensors"] != content(reference)["model.safetensors"]
