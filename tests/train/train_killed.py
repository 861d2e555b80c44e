"""Train in processes that are killed, and resume until done. Run as a script: `train_killed.py FOLDER SEED`.

Everything is imported once and each attempt is a fork, so that an attempt takes a tenth of a second. The
parent does no arithmetic before it forks. What was done is printed as one JSON object.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch._dynamo  # a first optimizer imports it; here, so that the forks need not
import torch.utils.tensorboard  # noqa: F401
from train_support import build, make_config

from regard import catalog
from regard.train import durable
from regard.train.config import RunConfig
from regard.train.loop import fit
from regard.train.metrics import read_metrics
from regard.train.progress import Quiet
from regard.train.run_folder import RunFolder

SETTINGS = {"checkpoint_every": 1, "evaluate_every": 2, "log_every": 1, "accumulate": 2, "average": 2}
SHORT = make_config(SETTINGS | {"steps": 3}, {"dropout": 0.3})
LONG = make_config(SETTINGS | {"steps": 7}, {"dropout": 0.3})
DISK = ("fsync", "replace", "rename", "mkdir", "unlink", "rmdir")  # what a checkpoint asks of the system
catalog.rows()  # reads every task and model; here, for the same reason
DEMANDS = 85  # to make the folder a run, and for its first two checkpoints, the second of them the best


def start(config: RunConfig, run: Path, prepare: Callable[[], None] = lambda: None) -> int:
    """Fork a process that trains to the end, from wherever the folder stands."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        prepare()
        model, task = build(config)
        fit(model, task, config, run=run, resume=RunFolder(run).config.exists(), progress=Quiet())
        status = 0
    finally:
        os._exit(status)


def finish(child: int) -> str:
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return "killed"
    assert os.WEXITSTATUS(status) == 0, "the training process failed"
    return "done"


def kill_at(call: int) -> Callable[[], None]:
    """In the fork: end the process before its `call`-th demand on the disk, or in the middle of a file."""
    left = [call]

    def count() -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def prepare() -> None:
        for name in DISK:
            setattr(os, name, counted(getattr(os, name)))
        write = durable.write

        def in_halves(path: Path, data: bytes) -> None:
            path.write_bytes(data[: len(data) // 2])
            count()
            write(path, data)

        durable.write = in_halves

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            count()
            return function(*arguments, **options)

        return call

    return prepare


def result(run: Path) -> tuple[dict[str, bytes], bytes, list[dict[str, Any]]]:
    """Last tensors, best and averaged weights, bit for bit, and the metrics without what a clock says."""
    folder = RunFolder(run)
    tensors = {path.name: path.read_bytes() for path in folder.require("last").glob("*.safetensors")}
    timed = ("seconds", "tokens_per_second")
    metrics = [{key: value for key, value in line.items() if key not in timed} for line in read_metrics(run)]
    used = b"".join(
        (folder.require(name) / "model.safetensors").read_bytes() for name in ("best", "averaged")
    )
    return tensors, used, metrics


def check_open(run: Path) -> int:
    """The folder a killed process left: free, or a run whose last checkpoint is complete. The step."""
    folder = RunFolder(run)
    if not folder.config.exists():
        return -1
    folder.require_run()
    for name in ("last", "best", "averaged"):
        found = folder.find(name)
        assert found is None or (found / "model.safetensors").stat().st_size > 0
    state = folder.find("last")
    if state is None:
        return 0
    names = {path.name for path in state.iterdir()}
    assert {"model.safetensors", "optimizer.safetensors", "random.safetensors", "state.json"} <= names
    return int(json.loads((state / "state.json").read_text())["step"])


def kill_again(run: Path, expected: Any, *, stride: int) -> int:
    """A process killed after `stride` demands on the disk, resumed, killed after as many, until one ends."""
    kills, step = 0, -1
    while finish(start(LONG, run, kill_at(stride))) == "killed":
        kills += 1
        now = check_open(run)
        assert now >= step, "a checkpoint was lost"
        step = now
        assert kills < 100, "no life gets further than the one before"
    assert result(run) == expected
    return kills


def kill_randomly(run: Path, expected: Any, *, seed: int, seconds: float) -> int:
    """A process killed after a random part of the time it needs, again and again, until one ends."""
    moments, kills = random.Random(seed), 0
    while True:
        child = start(LONG, run)
        end = time.monotonic() + moments.uniform(0.0, seconds)
        while (
            time.monotonic() < end
            and os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None
        ):
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        if finish(child) == "done":
            break
        kills += 1
        check_open(run)
        if kills == 20:
            finish(start(LONG, run))
            break
    assert result(run) == expected
    return kills


def main(folder: Path, seed: int) -> None:
    finish(start(SHORT, folder / "short"))
    expected = result(folder / "short")
    counts = {}
    for demand in range(1, DEMANDS + 1):
        run = folder / f"at-{demand}"
        assert finish(start(SHORT, run, kill_at(demand))) == "killed"
        check_open(run)
        finish(start(SHORT, run))
        assert result(run) == expected, f"killed at demand {demand}"
        shutil.rmtree(run)
    counts["once"] = DEMANDS
    began = time.monotonic()
    finish(start(LONG, folder / "long"))
    seconds, expected = time.monotonic() - began, result(folder / "long")
    counts["again"] = kill_again(folder / "again", expected, stride=37)  # more than one checkpoint demands
    counts["random"] = kill_randomly(folder / "random", expected, seed=seed, seconds=0.5 * seconds)
    print(json.dumps(counts))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
