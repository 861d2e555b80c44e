"""A run is packed: what is in the folder, what it costs, and that every reader takes it for a run."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.errors import DataError, RegardError
from regard.evaluate.pointing import PointingEvaluation
from regard.shipped import find, pack
from regard.shipped.table import SENTENCES, Shipped
from regard.train.config import load_recipe
from regard.train.loop import fit
from regard.train.progress import Quiet
from regard.train.run import create, open_run
from regard.train.run_folder import RunFolder

ROW = Shipped(
    name="tiny",
    sentence="A tiny model.",
    recipe="decomposable-toy",
    settings=("task.test=50",),
    data="made of nothing",
    licence="MIT",
    limits="It is tiny.",
    tolerance=0.5,
    small=("task.test=10",),
)


def train(folder, recipe, *settings):
    config = load_recipe(recipe, [*settings, "train.threads=1"])
    fit(*create(config), config, run=folder, progress=Quiet())
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    settings = ("task.train=400", "task.valid=20", "task.test=50", "train.steps=20")
    return train(tmp_path_factory.mktemp("pack") / "run", "decomposable-toy", *settings)


@pytest.fixture(scope="module")
def packed(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed") / "tiny"
    pack.pack(run, folder, ROW)
    return folder


def test_the_folder_has_weights_config_vocabulary_record_card_and_digests_of_all(packed):
    names = {path.name for path in packed.iterdir()}
    assert names == {
        "README.md",
        "config.toml",
        "digests.json",
        "format.json",
        "model.safetensors",
        "record.json",
        "state.json",
        "words.json",
    }
    digests = json.loads((packed / "digests.json").read_text())
    assert set(digests) == names - {"digests.json"}
    for name, [digest] in digests.items():
        assert hashlib.sha256((packed / name).read_bytes()).hexdigest() == digest


def test_the_record_and_the_card_say_what_it_is(packed):
    record = json.loads((packed / "record.json").read_text(encoding="utf-8"))
    assert (record["recipe"], record["model"], record["step"]) == ("decomposable-toy", "decomposable", 20)
    assert record["encoding"] == "int8"
    found = record["validation"]
    assert abs(found["value"] - found["before"]) <= ROW.tolerance
    card = (packed / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name: regard\nlicense: mit\n")
    for said in (
        "made of nothing",
        "MIT",
        "regard train decomposable-toy --set task.test=50",
        "It is tiny.",
        record["machine"],
        record["date"],
        f"{record['metric']} {record['value']}",
        'regard.load("tiny")',
    ):
        assert said in card


def test_the_packed_folder_is_a_run_with_the_weights_up_to_rounding(run, packed):
    before, after = open_run(run, device="cpu"), open_run(packed, device="cpu")
    assert after.step == before.step
    tensors = load_file(packed / "model.safetensors")
    assert any(tensor.dtype == torch.int8 for tensor in tensors.values())
    for name, weight in before.model.state_dict().items():
        limit = weight.abs().max() / 127
        assert (after.model.state_dict()[name] - weight).abs().max() <= limit * 0.51
    example = "w1 w2 w3", "w2 w3"
    a, b = (regard.load(folder, device="cpu").entails(*example) for folder in (run, packed))
    for label in a.probabilities:
        assert a.probabilities[label] == pytest.approx(b.probabilities[label], abs=0.02)


def test_packing_again_gives_the_same_weights_and_replaces_the_folder(run, tmp_path):
    first = pack.pack(run, tmp_path / "a", ROW)
    weights = (tmp_path / "a" / "model.safetensors").read_bytes()
    (tmp_path / "a" / "left-over").write_text("")
    second = pack.pack(run, tmp_path / "a", ROW)
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == weights
    assert not (tmp_path / "a" / "left-over").exists()
    assert first["value"] == second["value"]


def test_a_packed_run_that_is_packed_once_more_keeps_what_is_known_of_its_training(
    packed, tmp_path, monkeypatch
):
    record = json.loads((packed / "record.json").read_text(encoding="utf-8"))
    kept = set(pack.KEPT) - {"note"}
    monkeypatch.setattr(pack, "machine", lambda: "another machine")
    again = pack.pack(packed, tmp_path / "tiny", ROW)
    assert {name: again[name] for name in kept} == {name: record[name] for name in kept}
    assert "**Note**" not in (tmp_path / "tiny" / "README.md").read_text(encoding="utf-8")
    pack.pack(packed, tmp_path / "noted", ROW, note="It went on.")
    pack.pack(tmp_path / "noted", tmp_path / "again", ROW)
    assert "- **Note**: It went on.\n" in (tmp_path / "again" / "README.md").read_text(encoding="utf-8")


def test_a_packed_run_does_not_go_on(packed):
    with pytest.raises(DataError, match="only its weights were kept; it cannot be continued"):
        RunFolder(packed).load()


def test_a_changed_file_is_refused(run, tmp_path):
    pack.pack(run, tmp_path / "tiny", ROW)
    for name in ("model.safetensors", "words.json"):
        path = tmp_path / "tiny" / name
        content = path.read_bytes()
        path.write_bytes(content[:-2] + b"??")
        with pytest.raises(DataError, match=f"{name} cannot be read: its SHA-256 digest is not the recorded"):
            regard.load(tmp_path / "tiny")
        path.write_bytes(content)
    regard.load(tmp_path / "tiny")


def test_a_failure_leaves_the_folder_as_it_was(run, packed, monkeypatch, tmp_path):
    pack.pack(run, tmp_path / "tiny", ROW)
    kept = (tmp_path / "tiny" / "digests.json").read_bytes()
    monkeypatch.setattr(pack, "render_card", lambda record: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pack.pack(run, tmp_path / "tiny", ROW)
    assert (tmp_path / "tiny" / "digests.json").read_bytes() == kept
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


def test_where_int8_costs_too_much_of_the_validation_figure_more_bytes_are_taken(run, monkeypatch):
    """int8 is made to hurt: all scales are far too coarse, first of the rows, then of the groups too."""
    opened = open_run(run, device="cpu")
    tensors = pack.serialization.weights(opened.model)
    asked = []
    exact = pack.evaluate
    monkeypatch.setattr(
        pack, "evaluate", lambda *given, decoding: asked.append(given[2]) or exact(*given, decoding=decoding)
    )
    for spoilt, expected in (
        ("to_int8", ("int8-groups", "int10-groups", "bf16", "float32")),
        ("to_groups", ("bf16", "float32")),
    ):
        fine = getattr(pack.quantization, spoilt)

        def coarse(tensor, largest=None, fine=fine):
            numbers, scale = fine(tensor, largest) if largest else fine(tensor)
            steps = (largest or 127) - 7
            return (numbers // steps).to(numbers.dtype), scale * steps

        monkeypatch.setattr(pack.quantization, spoilt, coarse)
        pack.serialization.load_weights(opened.model, tensors)
        assert pack.choose_encoding(opened, tensors, replace(ROW, tolerance=0.0))[0] in expected
    assert set(asked) == {"valid"}


def test_what_spares_the_smallest_size_and_costs_the_largest_is_too_much(run, monkeypatch):
    """int8 is made to hurt tours of 10 points and none of 5, which are the headline."""

    def tours(above):
        sizes = {5: {"above": 0.001}, 10: {"above": above}}
        return PointingEvaluation("valid", "tsp", 8, sizes, {5: 9, 10: 9}, [])

    opened, found = open_run(run, device="cpu"), iter([tours(0.005), tours(0.045), tours(0.006)])
    monkeypatch.setattr(pack, "evaluate", lambda *given, decoding: next(found))
    encoding, figures = pack.choose_encoding(
        opened, pack.serialization.weights(opened.model), replace(ROW, tolerance=0.002)
    )
    assert encoding == "int8-groups"
    assert figures == {"before": 0.003, "value": 0.0035}


def test_a_row_can_ask_for_more_bits_than_validation_does(run):
    opened = open_run(run, device="cpu")
    row = replace(ROW, smallest="int10-groups")
    assert pack.choose_encoding(opened, pack.serialization.weights(opened.model), row)[0] == "int10-groups"


def test_a_translator_of_text_files_is_packed_with_what_it_makes_of_our_sentences(tmp_path):
    for name, lines in (("train", 200), ("test", 30)):
        source = [f"w{i % 7} w{i % 5} x{i % 3}" for i in range(lines)]
        (tmp_path / f"{name}.en").write_text("\n".join(source) + "\n")
        (tmp_path / f"{name}.fr").write_text("\n".join(line.upper() for line in source) + "\n")
    files = {
        "source": "train.en",
        "target": "train.fr",
        "test_source": "test.en",
        "test_target": "test.fr",
    }
    settings = [f"task.{key}={tmp_path / name}" for key, name in files.items()]
    sizes = [
        "model.hidden=8",
        "model.embedding=8",
        "model.attention.hidden=8",
        "model.readout=8",
        "task.size=300",
    ]
    run = train(tmp_path / "run", "translator", *settings, *sizes, "train.steps=3", "decode.beam=1")
    record = pack.pack(run, tmp_path / "mine", pack.row_of("mine", run))
    assert list(record["examples"]) == list(SENTENCES)
    opened = open_run(tmp_path / "mine", device="cpu")
    row = pack.row_of("mine", run)
    assert record["small"]["value"] == pack.small_figure(opened, row, record["examples"]).value == 1.0
    wrong = dict.fromkeys(SENTENCES, "nothing that it says")
    assert pack.small_figure(opened, row, wrong).value == 0.0
    assert "not stated" in (tmp_path / "mine" / "README.md").read_text(encoding="utf-8")


def test_a_name_that_nobody_knows_is_answered_with_the_nearest():
    with pytest.raises(RegardError, match=r"storys: no such run folder\. Did you mean the model 'stories'"):
        regard.load("storys")
    with pytest.raises(RegardError, match=r"ntm: no such run folder\. Did you mean the model 'ntm-copy'"):
        regard.load("ntm")
    with pytest.raises(RegardError, match=r"qqq: no such run folder\. `regard models` lists the models"):
        regard.load("qqq")
    with pytest.raises(RegardError, match=r"^runs/storys: no such run folder\.$"):
        regard.load("runs/storys")


def test_a_model_of_the_table_that_is_not_there_says_how_it_is_made(monkeypatch):
    monkeypatch.setattr(find, "FOLDER", Path("/nowhere"))
    with pytest.raises(
        RegardError, match=r"hull: this model is not in this copy.*tools/train_shipped.py hull"
    ):
        find.find_run("hull")


def test_a_folder_comes_before_a_shipped_model_of_its_name(packed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stories").mkdir()
    assert find.find_run("stories") == Path("stories")


def test_a_hub_id_is_downloaded_and_a_failure_is_one_sentence(packed, monkeypatch, tmp_path):
    """The Hub's client is replaced: `snapshot_download` gives a folder, as the real one does."""
    import huggingface_hub

    monkeypatch.chdir(tmp_path)
    asked = []
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name: asked.append(name) or str(packed))
    system = regard.load("somebody/tiny")
    assert asked == ["somebody/tiny"]
    assert system.name == "tiny"
    assert system.entails("w1", "w1").label

    def fails(name):
        raise OSError("401 Client Error.\nRepository Not Found")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fails)
    with pytest.raises(
        RegardError, match=r"somebody/tiny: no such run folder, and it could not be loaded from the Hub \(OSE"
    ):
        regard.load("somebody/tiny")
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name: str(tmp_path / "empty"))
    with pytest.raises(RegardError, match=r"has no config\.toml; expected one packed by regard"):
        regard.load("somebody/tiny")


def test_a_relative_path_into_a_folder_that_is_there_is_never_asked_of_the_hub(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(find, "download", lambda name: 1 / 0)
    (tmp_path / "mine").mkdir()
    for name in ("mine/gone", "runs/gone", "a/b/c", "../gone"):
        with pytest.raises(RegardError, match="no such run folder"):
            find.find_run(name)
