"""The tool that trains and packs the models of the table, on a training of a few steps."""

import json
import subprocess
import sys

from documentation import ROOT, script
from forking import forks

import regard

TOOL = ROOT / "tools" / "train_shipped.py"
TINY = ("train.steps=4", "task.train=200", "task.valid=20", "task.test=40", "model.hidden=8")


def call(*words):
    command = [sys.executable, str(TOOL), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_model_is_trained_packed_and_its_figures_are_written(tmp_path, monkeypatch, capfd):
    words = ["entailment", "--out", tmp_path / "out", "--runs", tmp_path / "runs", "--deadline", 200]
    settings = (f"--set={setting}" for setting in TINY)
    monkeypatch.setattr(sys, "argv", [str(TOOL), *map(str, words), *settings])
    with forks():
        status = script(TOOL.parent, "train_shipped").main()
    assert status == 0, "".join(capfd.readouterr())
    [figures] = json.loads((tmp_path / "out" / "figures.json").read_text(encoding="utf-8"))
    assert (figures["name"], figures["step"], figures["seed"]) == ("entailment", 4, 1)
    assert figures["bytes"] > 1000
    system = regard.load(tmp_path / "out" / "entailment")
    assert system.name == "entailment"
    assert system.entails("w1", "w1").label in ("entailment", "neutral", "contradiction")


def test_a_deadline_that_is_over_trains_nothing_and_says_so(tmp_path):
    done = call("entailment", "--out", tmp_path / "out", "--runs", tmp_path / "runs", "--deadline", 0)
    assert done.returncode == 1
    assert "seed 1 was not begun before the deadline" in done.stdout
    assert "nothing is packed" in done.stdout


def test_an_unknown_name_is_refused():
    done = call("entailmint")
    assert done.returncode == 2
    assert "unknown: entailmint" in done.stderr
