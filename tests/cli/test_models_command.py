"""regard models, regard pack, and shipped names in the place of run folders."""

import json
import re

import pytest

from regard.shipped.find import FOLDER, names, said


def test_models_are_listed_with_size_and_figure(command):
    outcome = command("models")
    rows = [line.split("\t") for line in outcome.out.splitlines()]
    assert [row[0] for row in rows] == list(names())
    listed = {row[0]: row for row in rows}
    assert listed["demo-rnnsearch"][1].endswith(" MB")
    assert listed["demo-rnnsearch"][2].startswith("BLEU 9")
    assert re.fullmatch(r"9\d\.?\d* % right at n = 5", listed["hull"][2])
    records = json.loads(command("models", "--json").out)
    assert [record["name"] for record in records] == list(names())
    assert all(record["bytes"] > 1000 and record["licence"] for record in records)


@pytest.mark.parametrize(
    ("metric", "value", "words"),
    [
        ("BLEU", 38.9585, "BLEU 38.96"),
        ("accuracy at n = 5", 0.9375, "93.75 % right at n = 5"),
        ("above at n = 5", 0.0006, "0.06 % above the shortest at n = 5"),
        ("mean error", 0.0, "0 % wrong"),
        ("bits per sequence at length 20", 0.013, "0.013 bits per sequence at length 20"),
    ],
)
def test_figures_are_said_in_words(metric, value, words):
    assert said(metric, value) == words


def test_commands_take_the_names_of_models_that_ship(command, tmp_path):
    outcome = command("translate", "demo-rnnsearch", "She is eating a green apple.")
    assert (outcome.status, outcome.out) == (0, "Elle mange une pomme verte.\n")
    outcome = command("show", "stories", "--out", tmp_path / "hops.png")
    assert outcome.status == 0
    assert (tmp_path / "hops.png").stat().st_size > 1000
    outcome = command("evaluate", "entailment", "--json")
    assert json.loads(outcome.out)["accuracy"] > 0.99
    story = b"Anna took the lamp. Anna went to the garden.\n"
    outcome = command("ask", "stories", "-", "Where is the lamp?", "--json", stdin=story)
    assert json.loads(outcome.out)["answer"] == "garden"


def test_a_wrong_name_is_answered_with_the_nearest(command):
    outcome = command("translate", "demo-rnsearch", "hello")
    assert outcome.status == 2
    assert (
        outcome.err == "regard: demo-rnsearch: no such run folder. Did you mean the model 'demo-rnnsearch'?\n"
    )


def test_nothing_is_written_into_the_package(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = command("dictionary", "demo-rnnsearch")
    assert (
        outcome.err == "regard: dictionary: demo-rnnsearch ships with the package; expected `--out FILE`.\n"
    )
    assert not (FOLDER / "demo-rnnsearch" / "dictionary.tsv").exists()


def test_a_run_is_packed_and_read_by_its_folder(command, run, tmp_path):
    out = tmp_path / "mine"
    outcome = command("pack", run, out, "--data", "letters", "--licence", "MIT", "--tolerance", 100)
    assert outcome.status == 0, outcome.err
    assert "in int8" in outcome.err
    assert command("translate", out, "a b").out == command("translate", run, "a b").out
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "letters. Licence: MIT." in card
    assert command("train", "--resume", "--run", out).err.endswith("it cannot be continued.\n")


def test_packing_replaces_nothing_but_a_packed_run(command, run, plain_run, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("kept")
    for out in (tmp_path / "notes", run, plain_run):
        before = sorted(out.rglob("*"))
        outcome = command("pack", run, out)
        assert outcome.status == 2
        assert outcome.err.startswith("regard: pack: `OUT` has")
        assert sorted(out.rglob("*")) == before
