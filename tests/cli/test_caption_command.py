"""regard caption on files and folders, and evaluate and show on a run that describes pictures."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from seeds import offset_seed

SMALL = ["task.train=64", "task.valid=8", "task.test=6", "model.hidden=12", "model.embedding=8"]
SMALL += [
    "model.attention.hidden=8",
    "model.annotation=8",
    "model.channels=4",
    "train.steps=3",
    "train.batch=16",
]


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    from regard.train.config import load_recipe
    from regard.train.loop import fit
    from regard.train.progress import Quiet
    from regard.train.run import create

    folder = tmp_path_factory.mktemp("shapes") / "run"
    config = load_recipe("sat-shapes", [*SMALL, "decode.max_length=6"])
    fit(*create(config), config, run=folder, progress=Quiet())
    return folder


@pytest.fixture
def album(tmp_path):
    folder = tmp_path / "album"
    folder.mkdir()
    pixels = np.random.default_rng(offset_seed(0)).integers(0, 255, (40, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "a.jpg")
    Image.fromarray(pixels).convert("L").save(folder / "grey.png")
    Image.fromarray(pixels).convert("RGBA").save(folder / "alpha.png")
    whole = (folder / "a.jpg").read_bytes()
    (folder / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "text.jpg").write_text("no picture")
    Image.new("RGB", (1, 1)).save(folder / "one.png")
    Image.new("1", (9000, 8000)).save(folder / "vast.png")
    return folder


def test_one_picture_is_described_and_drawn(command, shapes, album, tmp_path):
    out = tmp_path / "caption.png"
    outcome = command("caption", shapes, album / "a.jpg", "--out", out, "--beam", "2")
    assert outcome.status == 0
    assert len(outcome.out.splitlines()) == 1
    record = json.loads(command("caption", shapes, album / "a.jpg", "--form", "json", "--beam", "2").out)
    assert record["caption"] == outcome.out.strip()
    assert set(record) == {"file", "caption", "log_probability", "finished", "words", "attention"}
    assert " ".join(record["words"]) == record["caption"]
    assert len(record["attention"]) == len(record["words"])
    for row in record["attention"]:
        assert len(row) == 36  # places of a grid of 6 × 6
        assert sum(row) == pytest.approx(1, abs=0.01)
    if record["caption"]:
        assert out.stat().st_size > 1000


def test_a_caption_without_words_is_said_and_not_drawn(command, shapes, album, tmp_path, monkeypatch):
    from regard.decode.captions import Caption
    from regard.views import captions

    monkeypatch.setattr(captions, "captions", lambda *_, **__: [Caption((), -0.5, True, torch.zeros(1, 36))])
    out = tmp_path / "none.png"
    outcome = command("caption", shapes, album / "a.jpg", "--out", out)
    assert (outcome.status, outcome.out) == (0, "\n")
    assert outcome.err == f"{album / 'a.jpg'}: no word was written; nothing is drawn\n"
    assert not out.exists()


def test_the_rest_of_a_folder_goes_on(command, shapes, album):
    outcome = command("caption", shapes, album)
    assert outcome.status == 2
    assert [line.split("\t")[0].rpartition("/")[2] for line in outcome.out.splitlines()] == [
        "a.jpg",
        "alpha.png",
        "grey.png",
    ]
    complaints = outcome.err.splitlines()
    assert len(complaints) == 4
    for name, reason in (
        ("cut.jpg", "has a damaged image"),
        ("one.png", "has 1 × 1 pixels; expected 8 or more a side."),
        ("text.jpg", "has no image that can be read"),
        ("vast.png", "has 9000 × 8000 pixels; expected at most 64,000,000 in all."),
    ):
        assert any(f"{name}: {reason}" in line for line in complaints), name


def test_pictures_of_one_name_are_drawn_into_files_of_their_own(tmp_path):
    from regard.cli.caption import _drawn_files

    paths = [
        tmp_path / "a" / "1.jpg",
        tmp_path / "b" / "1.jpg",
        tmp_path / "b" / "1.JPG",
        tmp_path / "b" / "2.jpg",
    ]
    files = _drawn_files(paths, tmp_path / "out", single=False)
    assert [file.name for file in files.values()] == ["1.jpg.png", "1-2.jpg.png", "1-3.JPG.png", "2.jpg.png"]
    assert _drawn_files(paths[:1], tmp_path / "one.svg", single=True) == {paths[0]: tmp_path / "one.svg"}


def test_what_cannot_be_is_a_sentence(command, shapes, run, album, tmp_path):
    missing = command("caption", shapes, tmp_path / "none.jpg", album / "a.jpg")
    assert missing.status == 2
    assert missing.err.endswith("none.jpg: no such file or directory.\n")
    assert len(missing.out.splitlines()) == 1
    assert "expected a caption task" in command("caption", run, album / "a.jpg").err
    assert "expected .png or .svg" in command("caption", shapes, album / "a.jpg", "--out", "a.pdf").err
    assert "expected a folder for several" in command("caption", shapes, album, "--out", "a.png").err
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "has no picture; expected .jpg" in command("caption", shapes, empty).err


def test_evaluate_and_show_a_run_that_describes(command, shapes, album, tmp_path):
    found = json.loads(command("evaluate", shapes, "--json").out)
    assert found["pictures"] == 6
    assert {"bleu1", "bleu2", "bleu3", "bleu4", "exact"} <= set(found)
    for text in ("5", album / "a.jpg"):
        out = tmp_path / "shown.svg"
        assert command("show", shapes, text, "--out", out).status == 0
        assert out.read_text().startswith("<?xml")
    assert command("show", shapes, "6", "--out", tmp_path / "a.png").err == (
        "regard: show: `TEXT` has '6'; expected the number of a test picture, 0 to 5, or a file.\n"
    )
