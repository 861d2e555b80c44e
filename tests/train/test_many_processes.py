"""Faults of many processes, in full: `make test-many`. Two machines are two launchers on loopback."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from regard.train.run_folder import RunFolder

pytestmark = [
    pytest.mark.many,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by /proc"),
]
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "several-gpus.md"
SMALL = (
    "train.steps=40",
    "train.checkpoint_every=4",
    "train.evaluate_every=20",
    "train.batch=64",
    "task.train=256",
    "task.valid=8",
    "model.hidden=8",
)
ENVIRONMENT = os.environ | {
    "ACCELERATE_USE_CPU": "true",
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
}


def documented() -> list[str]:
    """The line of the page for jobs that survive the loss of a machine."""
    [line] = [
        line for line in PAGE.read_text().splitlines() if "--resume-or-start" in line and "torchrun" in line
    ]
    words = shlex.split(line, comments=True)
    assert words[0] == "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"
    return words[2:]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Machines:
    """Launchers, each with its processes."""

    def __init__(self, run: Path, *, machines: int, processes: int) -> None:
        self.run, self.port = run, free_port()
        words = documented()
        given = {
            "--nnodes": str(machines),
            "--nproc-per-node": str(processes),
            "--rdzv-endpoint": f"127.0.0.1:{self.port}",
            "--run": str(run),
        }
        for option, value in given.items():
            words[words.index(option) + 1] = value
        words[words.index("train") + 1] = "rnnsearch-reverse"
        settings = [word for setting in SMALL for word in ("--set", setting)]
        launcher = [sys.executable, "-m", "torch.distributed.run", "--local-addr=127.0.0.1"]
        self.command = [*launcher, *words, *settings]
        self.all: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        """One more machine; the first holds the rendezvous, and is waited for."""
        made = subprocess.Popen(self.command, env=ENVIRONMENT, stderr=subprocess.DEVNULL, text=True)
        self.all.append(made)
        while len(self.all) == 1:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            except OSError:
                assert made.poll() is None
                time.sleep(0.05)
        return made

    def wait_for_checkpoint(self) -> None:
        while not RunFolder(self.run).names.exists():
            assert all(machine.poll() is None for machine in self.all)
            time.sleep(0.05)

    def kill(self) -> None:
        for machine in self.all:
            kill_tree(machine.pid)
            machine.wait()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path / "run", machines=2, processes=2)
    yield made
    made.kill()


def descendants(process: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
        children.setdefault(parent, []).append(int(path.name))
    found = [process]
    for each in found:
        found += children.get(each, [])
    return found


def kill_tree(process: int) -> None:
    for each in descendants(process):
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            continue


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def weights(run: Path) -> dict[str, torch.Tensor]:
    checkpoint = RunFolder(run).load()
    assert checkpoint is not None
    assert (checkpoint.state.step, checkpoint.state.processes) == (40, 4)
    return checkpoint.model


def test_a_job_ends_as_if_undisturbed_after_one_of_its_machines_was_killed(
    machines: Machines, tmp_path: Path
) -> None:
    first, second = machines.start(), machines.start()
    machines.wait_for_checkpoint()
    kill_tree(second.pid)
    second.wait()
    assert RunFolder(machines.run).last_step() < 40
    replaced = machines.start()
    assert (first.wait(), replaced.wait()) == (0, 0)
    plain = Machines(tmp_path / "plain", machines=1, processes=4)
    assert plain.start().wait() == 0
    # the same sums; DDP's buckets, filled anew after a start, add four numbers in another order
    expected = weights(plain.run)
    for name, tensor in weights(machines.run).items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-5, atol=1e-5)


def test_the_processes_of_a_killed_launcher_end(machines: Machines) -> None:
    first, second = machines.start(), machines.start()
    machines.wait_for_checkpoint()
    below = [each for machine in (first, second) for each in descendants(machine.pid) if each != machine.pid]
    assert len(below) >= 4
    for machine in (first, second):
        machine.kill()
        machine.wait()
    while any(map(is_running, below)):
        time.sleep(0.1)
    names = json.loads(RunFolder(machines.run).names.read_text())
    assert re.fullmatch(r"step-\d{8}(-\d+)?", names["last"])


TRANSFORMER = ("model.layers=2", "model.d_model=16", "model.d_ff=16", "model.attention.heads=2")
REVERSE = ("model.hidden=8", "model.embedding=8", "model.readout=8")
TINY = (
    "train.steps=2",
    "train.evaluate_every=2",
    "train.checkpoint_every=2",
    "train.batch=200",
    "train.precision=no",
    "train.capture=false",
    "train.compile=false",
    "task.train=200",
    "task.valid=4",
    "task.test=4",
)


def launches() -> list[list[str]]:
    """The words of every launch of the page on one machine, in its order."""
    lines = re.findall(r"^(?:\w+=\S+ )?((?:torchrun|accelerate) .*)$", PAGE.read_text(), re.MULTILINE)
    return [shlex.split(line) for line in lines if "--nnodes" not in line]


def small(words: list[str]) -> list[str]:
    """The launch in two CPU processes of this machine, with text that needs no download and small sizes."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--rdzv-backend=c10d"]
    launcher += ["--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1"]
    count = "--nproc-per-node"
    if words[0] == "accelerate":  # which takes several processes for GPUs, and needs to be told without any
        launcher = [sys.executable, "-m", "accelerate.commands.accelerate_cli", "launch"]
        launcher += ["--main_process_port=0", *(["--multi_gpu"] if "--use_fsdp" not in words else [])]
        count, words = "--num_processes", words[1:]
    words = [word.replace("transformer-multi30k-en-de", "transformer-en-fr") for word in words[1:]]
    words[words.index(count) + 1] = "2"
    if "evaluate" not in words:
        sizes = TRANSFORMER if "transformer-en-fr" in words else REVERSE
        words += [word for setting in (*TINY, *sizes) for word in ("--set", setting)]
    return [*launcher, *words]


def test_every_launch_of_the_page_runs(tmp_path: Path) -> None:
    assert len(launches()) == 6
    for words in launches():
        done = subprocess.run(
            small(words), env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    for name in ("transformer-multi30k-en-de", "four", "two", "parts"):
        run = tmp_path / "runs" / name.replace("multi30k-en-de", "en-fr")
        state = json.loads((RunFolder(run).require("last") / "state.json").read_text())
        assert (state["step"], state["processes"]) == (2, 2), name
    [table] = (tmp_path / "comparisons").glob("*/table.json")
    variants = json.loads(table.read_text())["variants"]
    assert [(one["finished"], one["processes"]) for one in variants] == [(1, 2), (1, 2)]


def test_a_comparison_that_is_killed_goes_on_as_if_undisturbed(tmp_path: Path) -> None:
    words = ["torchrun", "--nproc-per-node", "2", "-m", "--", "regard", "compare", "rnnsearch-reverse"]
    words += ["--scores", "general,additive"]
    more = ("train.steps=800", "train.checkpoint_every=4", "train.evaluate_every=400", "task.train=256")

    def start(out: str) -> subprocess.Popen[str]:
        settings = [word for setting in more for word in ("--set", setting)]
        command = [*small([*words, "--out", str(tmp_path / out)]), *settings]
        return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, text=True)

    def content(out: str, score: str) -> bytes:
        return (
            RunFolder(tmp_path / out / "runs" / f"{score}-seed1").require("best") / "model.safetensors"
        ).read_bytes()

    assert start("whole").wait() == 0
    for score, everything in (("general", True), ("additive", False)):  # with its processes, and without them
        launcher = start("killed")
        names = RunFolder(tmp_path / "killed" / "runs" / f"{score}-seed1").names
        while not names.exists():
            assert launcher.poll() is None
            time.sleep(0.05)
        below = descendants(launcher.pid)
        if everything:
            kill_tree(launcher.pid)
        launcher.kill()
        launcher.wait()
        while any(map(is_running, below)):
            time.sleep(0.1)
        assert not (tmp_path / "killed" / "runs" / f"{score}-seed1" / "trained.json").exists()
    assert start("killed").wait() == 0
    for score in ("general", "additive"):
        assert content("killed", score) == content("whole", score)
    tables = [json.loads((tmp_path / out / "table.json").read_text()) for out in ("whole", "killed")]
    found = [
        [(one["name"], one["values"], one["valid_loss"]) for one in table["variants"]] for table in tables
    ]
    assert found[0] == found[1]


def test_a_killed_preparing_leaves_no_process_and_goes_on(tmp_path: Path) -> None:
    for side in "ab":
        lines = (f"{side} {n} {n * n % 977} {n * n * n % 331} the end of {side}\n" for n in range(200_000))
        (tmp_path / f"text.{side}").write_text("".join(lines))
    code = (
        "from regard.data import prepared; prepared.LARGE = 0; prepared.PART = 4096\n"
        "from regard.tasks.files import *\n"
        f"settings = FilesSettings(source={str(tmp_path / 'text.a')!r}, target={str(tmp_path / 'text.b')!r}, "
        "pieces='words')\n"
        "print(len(FilesTask.create(settings).encoded('train')))"
    )

    def prepare(cache: str) -> subprocess.Popen[str]:
        environment = ENVIRONMENT | {"REGARD_CACHE": str(tmp_path / cache), "REGARD_PROCESSES": "2"}
        return subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
        )

    def content(cache: str) -> dict[str, bytes]:
        [folder] = (tmp_path / cache / "encoded").iterdir()
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    def parts() -> set[str]:
        return {path.parent.name for path in (tmp_path / "killed").glob("encoded/*.making/0*/pairs.json")}

    whole = prepare("whole")
    assert whole.communicate()[0] == "198000\n"
    for expected in (1, 5, 20):
        process = prepare("killed")
        while len(parts()) < expected:
            assert process.poll() is None
            time.sleep(0.01)
        below = descendants(process.pid)
        assert len(below) == 3
        process.kill()
        process.communicate()
        while any(map(is_running, below)):
            time.sleep(0.05)
    assert prepare("killed").communicate()[0] == "198000\n"
    assert content("killed") == content("whole")
