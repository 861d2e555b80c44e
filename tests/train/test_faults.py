"""What goes wrong around a run: two writers, damaged and missing files, a full disk, updates that fail.

Kills are in test_killed.py, several processes in test_processes.py, noexec in kernels/test_compiler.py.
"""

import errno
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from train_support import TinyTask, build, make_config

from regard import lock
from regard.errors import ConfigError, DataError, RegardError
from regard.train.config import RunConfig, TrainConfig
from regard.train.interrupt import Interrupted
from regard.train.lock import RunLock
from regard.train.loop import fit
from regard.train.metrics import read_metrics
from regard.train.progress import Quiet
from regard.train.run import open_run, reopen
from regard.train.run_folder import RunFolder

SETTINGS = {"steps": 12, "evaluate_every": 5, "checkpoint_every": 2, "log_every": 1}
CONFIG = make_config(SETTINGS, {"dropout": 0.3})


class Notes(Quiet):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def train(config: RunConfig, run: Path, *, resume: bool = False) -> list[str]:
    """What was noted on the way."""
    model, task = build(config)
    notes = Notes()
    fit(model, task, config, run=run, resume=resume, progress=notes)
    return notes.notes


def content(run: Path) -> dict[str, bytes]:
    folder = RunFolder(run).require("last")
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


class Stop(Quiet):
    """Ends the training by a signal, after step 8."""

    def update(self, view: Any) -> None:
        if view.step == 8:
            signal.raise_signal(signal.SIGTERM)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped: its last checkpoint is of step 8, the one before of 6, the best of 5."""
    run = tmp_path_factory.mktemp("short") / "run"
    model, task = build(CONFIG)
    with pytest.raises(Interrupted):
        fit(model, task, CONFIG, run=run, progress=Stop())
    folder = RunFolder(run)
    found = [folder.find(name) for name in ("last", "before", "best")]
    assert [path.name for path in found if path] == ["step-00000008", "step-00000006", "step-00000005"]
    return run


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the run is when it was never stopped."""
    run = tmp_path_factory.mktemp("long") / "run"
    train(CONFIG, run)
    return content(run)


@pytest.fixture
def run(tmp_path: Path, short: Path) -> Path:
    """A copy of the short run to break."""
    return Path(shutil.copytree(short, tmp_path / "run"))


def flip(path: Path, place: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(place * (len(data) - 1))] ^= 4
    path.write_bytes(data)


# two writers


def test_a_second_training_is_refused_and_told_who_the_first_is(run: Path) -> None:
    who = rf"process {os.getpid()} on \S+, since \d{{4}}-\d\d-\d\d \d\d:\d\d"
    message = (
        rf"run: it is in use by a training \({who}\); expected a free folder\. "
        "Wait until the training ends, or "
    )
    before = content(run)
    with RunLock(run), pytest.raises(DataError, match=message):
        train(CONFIG, run, resume=True)
    assert content(run) == before
    train(CONFIG, run, resume=True)
    assert (run / "owner.json").read_text() == ""


def test_a_new_folder_is_owned_before_it_is_a_run(tmp_path: Path) -> None:
    with RunLock(tmp_path / "run"), pytest.raises(DataError, match="it is in use by a training"):
        train(CONFIG, tmp_path / "run")
    train(CONFIG, tmp_path / "run")


def test_a_training_that_fails_gives_the_folder_back(run: Path) -> None:
    with pytest.raises(ConfigError, match=r"'model\.dropout'"):
        train(replace(CONFIG, model_settings={"dropout": 0.5}), run, resume=True)
    with RunLock(run):
        pass


def test_of_many_at_once_one_owns_the_folder(tmp_path: Path) -> None:
    start, tried = threading.Barrier(8), threading.Barrier(8)

    def try_to_own(_: int) -> bool:
        start.wait()
        try:
            with RunLock(tmp_path):
                tried.wait()
                return True
        except DataError:
            tried.wait()
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(try_to_own, range(8))) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes")
def test_the_lock_of_a_killed_process_is_taken_over_at_once(tmp_path: Path) -> None:
    ready, told = os.pipe()
    child = os.fork()
    if not child:
        RunLock(tmp_path).__enter__()
        os.write(told, b"1")
        time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
    with pytest.raises(DataError, match=f"process {child} on "):
        RunLock(tmp_path).__enter__()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert str(child) in (tmp_path / "owner.json").read_text()
    with RunLock(tmp_path):
        assert f'"process": {os.getpid()},' in (tmp_path / "owner.json").read_text()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes")
def test_a_forked_child_does_not_keep_the_folder(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        child = os.fork()
        if not child:
            time.sleep(60)
            os._exit(0)
    try:
        with RunLock(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def leave_record(folder: Path, *, boot: str, seconds: float) -> None:
    """A record as a process leaves it that ended without a word, so long ago."""
    record = {
        "process": os.getpid(),
        "host": "node3",
        "boot": boot,
        "since": "2018-05-01 12:00",
        "token": "0",
    }
    (folder / "owner.json").write_text(json.dumps(record) + "\n")
    past = time.time() - seconds
    os.utime(folder / "owner.json", (past, past))


def test_a_process_number_that_is_in_use_again_keeps_nobody_out(tmp_path: Path) -> None:
    leave_record(tmp_path, boot=lock._boot(), seconds=0)  # with this very process's number
    with RunLock(tmp_path):
        pass


def test_an_owner_on_another_machine_counts_while_it_touches_its_record(tmp_path: Path) -> None:
    leave_record(tmp_path, boot="another", seconds=lock.GONE / 2)
    with pytest.raises(DataError, match=r"process \d+ on node3, since 2018-05-01 12:00\)"):
        RunLock(tmp_path).__enter__()
    leave_record(tmp_path, boot="another", seconds=2 * lock.GONE)
    with RunLock(tmp_path):
        pass


@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_without_locks_of_the_system_the_record_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def unknown(*arguments: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unknown)
    leave_record(tmp_path, boot=lock._boot(), seconds=seconds * lock.GONE)
    if seconds < 1:
        with pytest.raises(DataError, match="it is in use by a training"):
            RunLock(tmp_path).__enter__()
    else:
        with RunLock(tmp_path), pytest.raises(DataError, match="it is in use by a training"):
            RunLock(tmp_path).__enter__()


def test_the_owner_touches_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "BEAT", 0.01)
    with RunLock(tmp_path):
        os.utime(tmp_path / "owner.json", (0, 0))
        end = time.monotonic() + 20
        while (tmp_path / "owner.json").stat().st_mtime == 0:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_an_owner_that_slept_and_lost_the_folder_saves_nothing(run: Path) -> None:
    before = content(run)
    model, task = build(CONFIG)

    class Overtaken(Notes):
        def update(self, view: Any) -> None:
            leave_record(run, boot="another", seconds=0)

    with pytest.raises(DataError, match=r"it is in use by a training \(process \d+ on node3"):
        fit(model, task, CONFIG, run=run, resume=True, progress=Overtaken())
    assert content(run) == before
    assert "node3" in (run / "owner.json").read_text()


# names and links


@pytest.mark.parametrize("damage", ["missing", "flip", "garbage", "a list"])
def test_without_checkpoints_json_the_folders_tell_the_last(
    run: Path, expected: dict[str, bytes], damage: str
) -> None:
    names, folder = run / "checkpoints.json", RunFolder(run)
    found = {name: folder.find(name) for name in ("last", "before", "best")}
    if damage == "flip":
        text = names.read_text()
        names.write_text(text.replace("step-00000008", "step-00000006", 1))
    else:
        names.unlink()
    if damage in ("garbage", "a list"):
        names.write_bytes(b"\x80\x04" if damage == "garbage" else b"[]")
    assert {name: folder.find(name) for name in found} == found
    train(CONFIG, run, resume=True)
    assert content(run) == expected


def test_without_checkpoints_json_a_run_of_weights_alone_is_still_used(run: Path) -> None:
    folder = RunFolder(run)
    folder.keep_weights()
    kept = folder.require("best")
    folder.names.unlink()
    assert folder.require("best") == kept
    with pytest.raises(DataError, match="only its weights were kept"):
        folder.load()


@pytest.mark.parametrize("name", ["../../victim", "/victim", "", ".", "step-00000008/../../../victim", 7])
def test_a_name_that_points_elsewhere_is_refused_and_nothing_is_deleted(run: Path, name: Any) -> None:
    victim = run.parent / "victim"
    victim.mkdir()
    (victim / "optimizer.safetensors").write_text("mine")
    last = RunFolder(run).require("last").name
    (run / "checkpoints.json").write_text(
        json.dumps({"last": last, "best": name})
    )  # no digest, as in old runs
    with pytest.raises(
        DataError, match=r"run: checkpoints\.json names .*; expected a folder of checkpoints/\."
    ):
        train(CONFIG, run, resume=True)
    assert (victim / "optimizer.safetensors").read_text() == "mine"


def test_a_checkpoint_that_is_a_link_is_refused_and_what_is_foreign_stays(run: Path, tmp_path: Path) -> None:
    folder = RunFolder(run)
    last = folder.require("last")
    (run / "checkpoints" / "my notes").mkdir()
    train(CONFIG, run, resume=True)
    assert (run / "checkpoints" / "my notes").is_dir()
    last = folder.require("last")
    shutil.move(last, tmp_path / "elsewhere")
    last.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=rf"checkpoints/{last.name} is a symbolic link; expected a folder\."):
        folder.load()


def test_metrics_are_not_written_through_a_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine\n")
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").symlink_to(tmp_path / "victim")
    with pytest.raises(
        DataError, match=r"run: metrics\.jsonl is a symbolic link; expected a file of the run"
    ):
        train(CONFIG, run, resume=True)
    assert (tmp_path / "victim").read_text() == "mine\n"


# bit flips


READ_BACK = (
    "config.toml",
    "format.json",
    "tiny.json",
    "digests.json",
    "checkpoints.json",
    *(
        f"{folder}/{name}"
        for folder in ("last", "best")
        for name in ("model.safetensors", "state.json", "digests.json")
    ),
    "last/optimizer.safetensors",
    "last/random.safetensors",
)


def path_of(run: Path, name: str) -> Path:
    which, _, file = name.rpartition("/")
    return RunFolder(run).require(which) / file if which else run / file  # type: ignore[arg-type]


@pytest.mark.usefixtures("_tiny_rows")
@pytest.mark.parametrize("name", READ_BACK)
def test_a_flipped_bit_changes_no_result_without_a_word(
    tmp_path: Path, short: Path, expected: dict[str, bytes], name: str
) -> None:
    weights = open_run(short, device="cpu").model.state_dict()
    for place in (0.0, 0.37, 0.5, 0.81, 1.0):
        run = Path(shutil.copytree(short, tmp_path / f"run-{place}"))
        flip(path_of(run, name), place)
        try:
            used = open_run(run, device="cpu").model.state_dict()
            assert all(torch.equal(used[key], weights[key]) for key in weights), place
        except RegardError as error:
            assert str(run) in str(error)  # noqa: PT017 (one of both must be)
        notes = Notes()
        try:
            config, model, task = reopen(run)
            fit(model, task, config, run=run, resume=True, progress=notes)
            assert content(run) == expected, place
        except RegardError as error:
            assert str(run) in str(error)  # noqa: PT017
        if name.startswith("last/"):
            [note] = notes.notes
            assert "cannot be read: " in note
            assert note.endswith(" The run goes on from step 6, saved before.")


def test_a_damaged_best_that_was_the_last_is_made_again(tmp_path: Path) -> None:
    config = make_config(SETTINGS | {"evaluate_every": 4, "steps": 8}, {"dropout": 0.3})
    train(config, tmp_path / "whole")
    run = Path(shutil.copytree(tmp_path / "whole", tmp_path / "run"))
    folder = RunFolder(run)
    assert folder.require("best") == folder.require("last")
    flip(folder.require("last") / "model.safetensors", 1.0)
    [note] = train(config, run, resume=True)
    assert "step-00000008/model.safetensors cannot be read: its SHA-256 digest" in note
    assert content(run) == content(tmp_path / "whole")
    assert folder._is_usable(folder.find("best"))


def test_if_both_are_damaged_the_last_is_named(run: Path) -> None:
    folder = RunFolder(run)
    for path in (folder.find("last"), folder.find("before")):
        assert path is not None
        flip(path / "random.safetensors", 0.9)
    with pytest.raises(
        DataError, match=r"step-00000008/random\.safetensors cannot be read: its SHA-256 digest"
    ):
        train(CONFIG, run, resume=True)


def test_a_run_of_an_earlier_version_has_no_digests_and_goes_on(
    run: Path, expected: dict[str, bytes]
) -> None:
    for path in list(run.rglob("digests.json")):
        path.unlink()
    names = json.loads((run / "checkpoints.json").read_text())
    (run / "checkpoints.json").write_text(json.dumps({name: names[name] for name in ("last", "best")}))
    train(CONFIG, run, resume=True)
    assert content(run) == expected


def test_an_edited_config_is_told_from_a_damaged_one_by_its_owner(run: Path) -> None:
    config = run / "config.toml"
    config.write_text(config.read_text().replace("lr = 0.05", "lr = 0.01"))
    message = r"run: config\.toml cannot be read: .* if you changed it yourself, delete digests\.json\."
    with pytest.raises(DataError, match=message):
        RunFolder(run).require_run()
    (run / "digests.json").unlink()
    RunFolder(run).require_run()


def test_a_damaged_line_of_metrics_is_named(run: Path) -> None:
    lines = (run / "metrics.jsonl").read_bytes().split(b"\n")
    lines[2] = b'{"step": 3, "lo\xff'
    (run / "metrics.jsonl").write_bytes(b"\n".join(lines))
    with pytest.raises(
        DataError, match=r"run: line 3 of metrics\.jsonl cannot be read; expected a JSON object"
    ):
        read_metrics(run)


# updates that fail, and signals


def test_a_run_whose_updates_fail_goes_on_with_a_lower_learning_rate(tmp_path: Path) -> None:
    run = tmp_path / "run"
    failing = make_config({"lr": 1e38, "steps": 40, "optimizer": "sgd", "evaluate_every": 0})
    with pytest.raises(
        ConfigError, match=r"10 updates in a row; .* --resume --run \S+ --set train\.lr=1e\+37"
    ):
        train(failing, run)
    mended = replace(failing, train=replace(failing.train, lr=0.05))
    assert train(mended, run, resume=True) == []
    assert RunFolder(run).last_step() == 40
    [change] = [json.loads(line) for line in (run / "changes.jsonl").read_text().splitlines()]
    assert (change["key"], change["was"], change["is"]) == ("train.lr", 1e38, 0.05)
    assert "lr = 0.05" in (run / "config.toml").read_text()


def test_failed_updates_are_counted_anew_after_a_change(tmp_path: Path) -> None:
    run = tmp_path / "run"
    poisoned = make_config({"steps": 7, "evaluate_every": 0}, task={"poison": tuple(range(40))})
    train(poisoned, run)  # saved at the end with seven failures
    for lr, last in ((None, 10), (0.01, 17)):
        config = replace(poisoned, train=replace(poisoned.train, steps=40, lr=lr or poisoned.train.lr))
        with pytest.raises(ConfigError, match=f"not finite at step {last}, in 10 updates in a row"):
            train(config, run, resume=True)


@pytest.mark.parametrize("name", ["lr", "clip", "weight_decay", "epsilon", "momentum"])
@pytest.mark.parametrize("value", [float("inf"), float("nan"), -1.0])
def test_a_setting_that_is_no_finite_number_is_refused(name: str, value: float) -> None:
    expected = "a finite number" if value == float("inf") else "at least 0"
    with pytest.raises(ConfigError, match=rf"'train\.{name}' is {value}; expected {expected}\."):
        TrainConfig(**{name: value})


# a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("mounting asks for root; test_checkpoint.py simulates a full disk")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_disk_that_is_really_full_keeps_the_last_checkpoint(
    small_disk: Path, short: Path, expected: dict[str, bytes]
) -> None:
    run, filler = small_disk / "run", small_disk / "filler"
    shutil.copytree(short, run)
    model, task = build(CONFIG)

    class Filling(Quiet):
        def update(self, view: Any) -> None:
            if view.step == 9:
                with filler.open("wb", buffering=0) as file, suppress(OSError):
                    while file.write(bytes(1024)):
                        pass

    with pytest.raises(
        DataError, match=r"run: no space left on the device; the last complete checkpoint is step 8\."
    ):
        fit(model, task, CONFIG, run=run, resume=True, progress=Filling())
    filler.unlink()
    assert RunFolder(run).last_step() == 8
    train(CONFIG, run, resume=True)
    assert content(run) == expected


def test_a_signal_is_answered_at_once_and_acts_at_the_next_batch(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    expected: dict[str, bytes],
) -> None:
    batches, make = [], TinyTask.batch

    def batch(self: TinyTask, split: Any, rows: Any) -> Any:
        batches.append(split)
        if split == "valid":
            signal.raise_signal(signal.SIGTERM)
        return make(self, split, rows)

    with monkeypatch.context() as patch:
        patch.setattr(TinyTask, "batch", batch)
        with pytest.raises(Interrupted, match="stopped at step 5"):
            train(CONFIG, tmp_path / "run")
    assert batches.count("valid") == 1  # of two
    assert "SIGTERM: stopping after this batch; a second one stops at once.\n" in capfd.readouterr().err
    train(CONFIG, tmp_path / "run", resume=True)
    assert content(tmp_path / "run") == expected
