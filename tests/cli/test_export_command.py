"""regard export, and regard translate on what it wrote."""

import json

import pytest

SENTENCE = "a b c d e"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A Transformer after a few steps."""
    from regard.train.config import load_recipe
    from regard.train.loop import fit
    from regard.train.progress import Quiet
    from regard.train.run import create

    folder = tmp_path_factory.mktemp("transformer") / "run"
    small = ["model.layers=1", "model.d_model=16", "model.d_ff=16", "task.train=400", "task.valid=16"]
    small += ["task.test=16", "train.steps=12", "train.evaluate_every=6", "train.threads=1"]
    config = load_recipe("transformer-reverse", small)
    fit(*create(config), config, run=folder, progress=Quiet())
    return folder


@pytest.mark.parametrize("to", ["ctranslate2", "onnx"])
def test_an_export_translates_as_the_run_does(command, written, to):
    done = command("export", written, "--to", to)
    assert done.status == 0
    assert done.out == ""
    assert f"{to} (" in done.err.replace("\n", "")
    lines = f"{SENTENCE}\n\nc b a\n".encode()
    ours, theirs = (command("translate", folder, "-", stdin=lines) for folder in (written, written / to))
    assert ours.status == theirs.status == 0
    assert theirs.out == ours.out
    assert len(theirs.out.splitlines()) == 3
    record = json.loads(
        command("translate", written / to, SENTENCE, "--json", "--nbest", 2).out.splitlines()[0]
    )
    assert record["source"] == SENTENCE
    assert (record["weights"] is None) == (to == "onnx")
    if to == "onnx":
        refused = command("translate", written / to, SENTENCE, "--align")
        assert refused.status == 2
        assert refused.err == (
            f"regard: {written / to}: is an export to onnx, which returns no attention weights; expected a "
            "run folder or an export to ctranslate2 for --align.\n"
        )
    else:
        assert "\t" in command("translate", written / to, SENTENCE, "--align").out


def test_an_export_gives_way_to_the_next_one_and_nothing_else_does(command, written, tmp_path):
    out = tmp_path / "mine"
    for _ in range(2):
        assert command("export", written, "--to", "ctranslate2", "--out", out).status == 0
    other = tmp_path / "other"
    other.mkdir()
    (other / "letters.txt").write_text("x")
    refused = command("export", written, "--to", "ctranslate2", "--out", other)
    assert refused.status == 2
    assert refused.err == (
        f"regard: {other}: exists and is not an export; choose another folder with --out.\n"
    )
    assert (other / "letters.txt").read_text() == "x"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "other"]


def test_other_commands_say_that_an_export_is_no_run(command, written, tmp_path):
    out = tmp_path / "mine"
    command("export", written, "--to", "ctranslate2", "--out", out)
    shown = command("show", out)
    assert shown.status == 2
    assert shown.err == f"regard: {out}: an export, which can only translate; expected a run folder.\n"


def test_a_recurrent_run_is_refused_in_one_sentence(command, run, tmp_path):
    refused = command("export", run, "--to", "ctranslate2", "--out", tmp_path / "x")
    assert refused.status == 2
    assert refused.err == (
        "regard: export to ctranslate2: the model is RNNsearch; expected Transformer. `--to onnx` takes "
        "luong and rnnsearch too.\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_export_of_an_unknown_format_is_told(command, tmp_path, written):
    out = tmp_path / "mine"
    command("export", written, "--to", "ctranslate2", "--out", out)
    record = json.loads((out / "export.json").read_text())
    (out / "export.json").write_text(json.dumps(record | {"to": "paper tape"}))
    refused = command("translate", out, SENTENCE)
    assert refused.status == 2
    assert refused.err == f"regard: {out}: format 'paper tape' is unknown to this regard; update regard.\n"
