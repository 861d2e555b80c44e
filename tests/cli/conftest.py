import io
import sys
from dataclasses import dataclass

import pytest

from regard.cli import common
from regard.cli.main import main


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch, capsys):
    """Call the command line in this process: command("translate", run, "a b", stdin=b"...")."""

    def call(*words, stdin=None):
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, words)])
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        for console in (common.output, common.messages):
            monkeypatch.setattr(console, "_file", None)
        capsys.readouterr()
        status = 0
        try:
            main()
        except SystemExit as stop:
            status = stop.code or 0
        return Outcome(status, *capsys.readouterr())

    return call


SMALL = (
    "model.hidden=24",
    "model.embedding=16",
    "task.train=400",
    "task.valid=16",
    "task.test=16",
    "train.threads=1",
    "train.seed=2",  # whose model writes something after so few steps
)


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A small trained RNNsearch."""
    return train(tmp_path_factory, "rnnsearch-reverse", "model.attention.hidden=24", "model.readout=24")


@pytest.fixture(scope="session")
def plain_run(tmp_path_factory):
    """The same without attention."""
    return train(tmp_path_factory, "seq2seq-reverse")


def train(tmp_path_factory, recipe, *settings):
    from regard.train.config import load_recipe
    from regard.train.loop import fit
    from regard.train.progress import Quiet
    from regard.train.run import create

    folder = tmp_path_factory.mktemp(recipe) / "run"
    config = load_recipe(recipe, [*SMALL, *settings, "train.steps=12", "train.evaluate_every=6"])
    fit(*create(config), config, run=folder, progress=Quiet())
    return folder
