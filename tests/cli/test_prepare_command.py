"""regard prepare: text that is prepared before training, and found by it."""

import re
import shlex
from pathlib import Path

import pytest
from forking import forks

from regard.data import prepared
from regard.data.tokens import Tokenizer
from regard.tasks.files import FilesTask

FILES = ("--source", "train.en", "--target", "train.fr")
SMALL = ("--set", "task.size=300")


@pytest.fixture(autouse=True)
def text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("REGARD_PROCESSES", "1")
    monkeypatch.setattr(prepared, "PART", 16)
    (tmp_path / "train.en").write_text("".join(f"I have {n} dogs.\n" for n in range(120)))
    (tmp_path / "train.fr").write_text("".join(f"J'ai {n} chiens.\n" for n in range(120)))
    return tmp_path


@pytest.mark.parametrize("processes", [(), ("--processes", "2")])
def test_training_finds_what_was_prepared(command, text, monkeypatch, processes):
    monkeypatch.setattr(prepared, "LARGE", 0)
    with forks():
        outcome = command("prepare", *FILES, *SMALL, *processes)
    assert outcome.status == 0, outcome.err
    [folder] = (text / "cache" / "encoded").iterdir()
    assert outcome.out == f"118 pairs in {folder}\n"
    monkeypatch.setattr(Tokenizer, "train", None)
    monkeypatch.setattr(Tokenizer, "encode_all", None)
    monkeypatch.setattr(FilesTask, "evaluation_plan", lambda *_, **__: [])
    tiny = ("model.layers=1", "model.d_model=8", "model.d_ff=8", "model.attention.heads=2", "train.steps=2")
    sizes = [word for setting in (*tiny, "train.threads=1") for word in ("--set", setting)]
    outcome = command("train", *FILES, *SMALL, *sizes)
    assert outcome.status == 0, outcome.err


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "corpora.md"
LINES = [line for line in PAGE.read_text().splitlines() if re.match(r"(\w+=\S+ )?regard prepare ", line)]
DOCUMENTED = [line.partition("regard ")[2] for line in LINES]


@pytest.mark.parametrize("line", DOCUMENTED)
def test_every_documented_line_prepares(command, text, monkeypatch, line):
    monkeypatch.setattr(prepared, "LARGE", 0)
    (text / "train.fr").rename(text / "train.de")
    with forks():
        outcome = command(*shlex.split(line.replace("16", "3"), comments=True), *SMALL)
    assert outcome.status == 0, outcome.err
    assert outcome.out.startswith("118 pairs in ")


def test_it_takes_the_options_of_training_the_test_set_too(command, text, monkeypatch):
    monkeypatch.setattr(prepared, "LARGE", 0)
    with forks():
        plain = command("prepare", *FILES, *SMALL)
        given = command("prepare", *FILES, "--test-source", "train.en", "--test-target", "train.fr", *SMALL)
    assert (given.status, given.out) == (0, plain.out), given.err  # the training text is the same


def test_small_text_needs_no_preparing(command, text):
    outcome = command("prepare", *FILES, *SMALL)
    assert outcome.status == 0
    assert "the text is small: every training prepares it in memory" in outcome.err
    assert not (text / "cache").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "prepare: no text was named; expected RECIPE, --source and --target, or --corpus."),
        (("memn2n-stories",), "prepare: the task is 'stories'; expected one on text, files or corpus."),
    ],
)
def test_what_has_no_text_is_refused(command, words, sentence):
    outcome = command("prepare", *words)
    assert (outcome.status, outcome.err) == (2, f"regard: {sentence}\n")
