"""Comparisons in the processes of a launcher: every variant is trained by all of them together."""

import json
import os
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from compare_worker import BATCH, compare, scores
from forking import forks

from regard.compare.trial import measure, read_measured, read_training
from regard.errors import ConfigError
from regard.train.run import open_run
from regard.train.run_folder import RunFolder

NAMES = ("general-seed1", "additive-seed1")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """What two processes compared, and what they said."""
    folder = tmp_path_factory.mktemp("pair")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    given |= {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    with forks(), ThreadPoolExecutor() as pool:
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "compare_worker", str(folder)],
                env=os.environ | given | {"RANK": rank, "LOCAL_RANK": rank},
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in "01"
        ]
        said = [err for _, err in pool.map(lambda process: process.communicate(timeout=240), processes)]
    assert [process.returncode for process in processes] == [0, 0], said
    return folder, "".join(said)


def weights(run):
    return open_run(run, device="cpu").model.state_dict()


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_train_each_variant_as_one_does_with_twice_the_batch(pair, tmp_path, name):
    folder, _ = pair
    [config] = [
        variant.config for variant in scores(2 * BATCH).variants if variant.slug == name.partition("-")[0]
    ]
    measure(config, tmp_path / "one")
    one, two = weights(tmp_path / "one"), weights(folder / "two" / "runs" / name)
    for key, tensor in one.items():
        torch.testing.assert_close(two[key], tensor, rtol=1e-5, atol=1e-5)
    ours, theirs = read_training(tmp_path / "one"), read_training(folder / "two" / "runs" / name)
    assert theirs.valid_loss == pytest.approx(ours.valid_loss, rel=1e-5)
    assert (theirs.tokens, theirs.best_step) == (ours.tokens, ours.best_step)
    assert (ours.processes, theirs.processes) == (1, 2)


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_measure_what_one_does(pair, tmp_path, name):
    folder, _ = pair
    shutil.copytree(folder / "two" / "runs" / name, tmp_path / "run")
    found = read_measured(tmp_path / "run")
    outputs = (tmp_path / "run" / "outputs-test.txt").read_text()
    (tmp_path / "run" / "measured-test.json").unlink()
    [config] = [variant.config for variant in scores().variants if variant.slug == name.partition("-")[0]]
    again = measure(config, tmp_path / "run")  # trains nothing
    assert replace(again, seconds=0, summary=again.summary | {"seconds": 0}) == replace(
        found, seconds=0, summary=found.summary | {"seconds": 0}
    )
    assert (tmp_path / "run" / "outputs-test.txt").read_text() == outputs
    assert len(outputs.splitlines()) == 8


def test_the_table_says_what_cannot_be_built_and_how_many_processes_trained(pair):
    folder, _ = pair
    table = json.loads((folder / "two" / "table.json").read_text())
    dot, general, additive = table["variants"]
    assert dot["reason"].startswith("impossible: dot: `query` has size 16")
    assert general["processes"] == additive["processes"] == 2
    written = (folder / "two" / "table.md").read_text()
    assert "2 processes trained together; memory is that of the first." in written


def test_a_comparison_that_one_process_was_told_to_stop_goes_on_as_if_undisturbed(pair):
    folder, _ = pair
    for name in NAMES:
        one, two = (RunFolder(folder / part / "runs" / name) for part in ("two", "interrupted"))
        content = [(run.require("best") / "model.safetensors").read_bytes() for run in (one, two)]
        assert content[0] == content[1]
        assert read_measured(one.path).value == read_measured(two.path).value


def test_only_the_main_process_speaks(pair):
    _, said = pair
    assert said.count("step 6/6") == 5  # of three comparisons


@pytest.fixture
def launched(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")


@pytest.mark.usefixtures("launched")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"workers": 2},
            "compare: --jobs has 2 in 2 processes of a launcher, which train one variant after the other, "
            "together; expected 1. Without a launcher, --jobs trains side by side.",
        ),
        (
            {"deadline": 60.0},
            "compare: --deadline has 60 in 2 processes of a launcher; expected none. Stop the launcher, for "
            "instance with `timeout --signal=TERM`: what is trained is kept.",
        ),
    ],
)
def test_what_a_launcher_cannot_have_is_refused(tmp_path, options, sentence):
    with pytest.raises(ConfigError) as refused:
        compare(scores(), tmp_path / "out", **options)
    assert str(refused.value) == sentence
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("launched")
def test_the_rest_of_a_comparison_is_not_trained_in_another_number_of_processes(pair, tmp_path, monkeypatch):
    folder, _ = pair
    shutil.copytree(folder / "two", tmp_path / "two")
    shutil.rmtree(tmp_path / "two" / "runs" / "additive-seed1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(
        ConfigError, match="the training has `processes` 2; expected 3, as this comparison is launched"
    ):
        compare(scores(), tmp_path / "two")


def test_what_is_trained_is_measured_in_any_number_of_processes(pair, tmp_path):
    folder, _ = pair
    shutil.copytree(folder / "two", tmp_path / "two")
    (tmp_path / "two" / "runs" / "additive-seed1" / "measured-test.json").unlink()
    with forks():
        outcomes = compare(scores(), tmp_path / "two")
    assert [outcome.state for outcome in outcomes] == ["impossible", "finished", "finished"]
    assert outcomes[2].training.processes == 2
