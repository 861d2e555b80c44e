import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.distributed.run import parse_args
from train_support import TinySettings, TinyTask
from train_worker import EXACT, RANDOM, SPLIT, TASK, evaluate_pairs, train, train_pairs

from regard.train.metrics import read_metrics
from regard.train.progress import Quiet
from regard.train.run_folder import RunFolder

WORKER = Path(__file__).parent / "train_worker.py"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """What two processes trained, and what they showed."""
    folder = tmp_path_factory.mktemp("pair")
    train(replace(EXACT, train=replace(EXACT.train, steps=3)), folder / "from-one", progress=Quiet())
    # `accelerate launch --cpu` starts several processes by MPI alone; torchrun starts them anywhere
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--rdzv-backend=c10d"]
    launcher += ["--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1"]
    environment = os.environ | {
        "ACCELERATE_USE_CPU": "true",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    command = [sys.executable, *launcher, str(WORKER), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return folder, done.stderr


def last(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in RunFolder(run).require("last").glob("*.safetensors")}


def test_two_processes_do_what_one_does_with_twice_the_batch(pair: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = pair
    task = TinyTask(TinySettings(**TASK))
    assert all(len(rows) > 1 for epoch in range(4) for rows in task.plan(epoch, seed=1, batch=16))
    train(replace(EXACT, train=replace(EXACT.train, batch=16)), tmp_path / "one", progress=Quiet())
    one, two = RunFolder(tmp_path / "one").load(), RunFolder(folder / "exact").load()
    assert one is not None
    assert two is not None
    assert (two.state.step, two.state.processes) == (10, 2)
    for name, tensor in one.model.items():
        torch.testing.assert_close(two.model[name], tensor, rtol=1e-5, atol=1e-5)
    ours = [line["loss"] for line in read_metrics(tmp_path / "one") if "loss" in line]
    theirs = [line["loss"] for line in read_metrics(folder / "exact") if "loss" in line]
    assert theirs == pytest.approx(ours, rel=1e-5)
    assert two.state.best_loss == pytest.approx(one.state.best_loss, rel=1e-5)


def test_a_run_of_one_process_goes_on_with_two_and_says_so_once(pair: tuple[Path, str]) -> None:
    folder, shown = pair
    run = RunFolder(folder / "from-one").load()
    assert run is not None
    assert (run.state.step, run.state.processes) == (10, 2)
    assert len(run.random["torch"]) == 2
    said = "the run was saved by 1 process and goes on with 2: from here on the result is that of 2."
    assert shown.count(said) == 1


def weights(run: Path) -> dict[str, torch.Tensor]:
    checkpoint = RunFolder(run).load()
    assert checkpoint is not None
    return checkpoint.model | checkpoint.optimizer


@pytest.mark.parametrize("name", ["pairs", "unsharded", "sharded", "sharded-parts"])
def test_pairs_of_mixed_lengths_train_a_model_whole_or_in_parts_as_one_process_does(
    pair: tuple[Path, str], tmp_path: Path, name: str
) -> None:
    """Accumulated gradients of uneven shares: four steps of Adam on numbers near 1 stay within 1e-5."""
    folder, _ = pair
    train_pairs(tmp_path / "one", replace(SPLIT, batch=2 * SPLIT.batch), progress=Quiet())
    one, two = weights(tmp_path / "one"), weights(folder / name)
    assert one.keys() == two.keys()
    for key, tensor in one.items():
        torch.testing.assert_close(two[key], tensor, rtol=1e-5, atol=1e-5)
    best = [RunFolder(run).find("best") for run in (tmp_path / "one", folder / name)]
    losses = [
        [line["valid_loss"] for line in read_metrics(run) if "valid_loss" in line]
        for run in (tmp_path / "one", folder / name)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert all(best)


def test_one_process_goes_on_from_a_model_in_parts(pair: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = pair
    shutil.copytree(folder / "sharded", tmp_path / "run")
    train_pairs(tmp_path / "run", replace(SPLIT, steps=6), resume=True, progress=Quiet())
    assert RunFolder(tmp_path / "run").last_step() == 6


def test_processes_that_measure_together_get_what_one_gets(pair: tuple[Path, str]) -> None:
    folder, _ = pair
    expected = json.loads(json.dumps(evaluate_pairs(folder / "pairs")))
    assert len(expected["lines"]) == 7
    for process in (0, 1):
        assert json.loads((folder / f"evaluation-{process}.json").read_text()) == expected


def test_capture_with_several_processes_is_answered_with_a_sentence(pair: tuple[Path, str]) -> None:
    _, shown = pair
    assert "'train.capture' works in one process only; the steps of 2 are not captured." in shown


def test_a_promise_about_parameters_is_kept(pair: tuple[Path, str]) -> None:
    folder, _ = pair  # the worker checks the refusal of the other
    assert RunFolder(folder / "promised-False").last_step() == RANDOM.train.steps


def test_two_processes_go_on_as_if_never_stopped(pair: tuple[Path, str]) -> None:
    folder, _ = pair
    assert last(folder / "parts") == last(folder / "whole")


def test_a_signal_to_one_process_stops_all_at_the_same_step(pair: tuple[Path, str]) -> None:
    folder, _ = pair
    assert last(folder / "interrupted") == last(folder / "whole")


def test_a_signal_to_one_process_within_a_validation_stops_all_at_the_next_batch(
    pair: tuple[Path, str],
) -> None:
    folder, _ = pair
    assert last(folder / "validating") == last(folder / "whole")


def test_a_folder_that_another_owns_is_refused_by_all_processes(pair: tuple[Path, str]) -> None:
    folder, _ = pair  # the workers check what they are told
    assert not (folder / "refused" / "config.toml").exists()


def documented() -> list[list[str]]:
    """The words of every line of the documentation in which torchrun trains into a folder."""
    lines = (Path(__file__).parents[2] / "docs" / "how-to" / "several-gpus.md").read_text().splitlines()
    found = [shlex.split(line) for line in lines if re.match(r"(\w+=\S+ )?torchrun .* --run ", line)]
    return [words[words.index("torchrun") + 1 :] for words in found]


@pytest.mark.parametrize("words", documented(), ids=" ".join)
def test_torchrun_leaves_the_options_behind_two_dashes_to_regard(words: list[str]) -> None:
    found = parse_args(words)
    assert (found.module, found.training_script) == (True, "regard")
    assert found.training_script_args == words[words.index("--") + 2 :]
    assert "--run" in found.training_script_args
    with pytest.raises(SystemExit):
        parse_args([word for word in words if word != "--"])  # ambiguous option: --run


def test_two_machines_train_by_the_documented_line(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    [words] = [words for words in documented() if "--nnodes" in words]
    given = {"--nproc-per-node": "1", "--rdzv-endpoint": f"127.0.0.1:{port}", "--run": str(tmp_path / "run")}
    for option, value in given.items():
        words[words.index(option) + 1] = value
    words[words.index("transformer-multi30k-en-de")] = "rnnsearch-reverse"
    words += [
        "--set",
        "train.steps=1",
        "--set",
        "task.train=64",
        "--set",
        "task.valid=4",
        "--set",
        "model.hidden=8",
    ]
    command = [sys.executable, "-m", "torch.distributed.run", "--local-addr=127.0.0.1", *words]
    environment = os.environ | {
        "ACCELERATE_USE_CPU": "true",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    machines = [
        subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for machine in machines:
        _, shown = machine.communicate(timeout=120)
        assert machine.returncode == 0, shown
    checkpoint = RunFolder(tmp_path / "run").load()
    assert checkpoint is not None
    assert (checkpoint.state.step, checkpoint.state.processes) == (1, 2)


def test_each_process_has_its_own_dropout(pair: tuple[Path, str]) -> None:
    folder, _ = pair
    checkpoint = RunFolder(folder / "whole").load()
    assert checkpoint is not None
    assert checkpoint.random["torch"].shape[0] == 2
    assert not torch.equal(checkpoint.random["torch"][0], checkpoint.random["torch"][1])


def test_only_the_main_process_speaks(pair: tuple[Path, str]) -> None:
    _, shown = pair
    assert shown.count("step 10/10") == 2  # of the two runs of ten steps
    # torch says once, from C++ and past every filter, that it looked for unused parameters in vain
    warned = [
        line for line in shown.splitlines() if "Warning" in line and "find_unused_parameters" not in line
    ]
    assert warned == []
