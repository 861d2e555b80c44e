"""Models and systems go to a Hub on this machine and come back; the page about it runs. Nothing leaves it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from hub.fake_hub import TOKEN, FakeHub

import regard
from regard.data.tokens import Tokenizer
from regard.errors import ConfigError, DataError
from regard.models.pooled import PooledSentences
from regard.models.rnnsearch import RNNsearch, RNNsearchConfig
from regard.systems.entailment_system import EntailmentSystem
from regard.systems.system import System
from regard.tasks.files import FilesSettings, FilesTask

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "hub.md").read_text(encoding="utf-8")
TINY = RNNsearchConfig(source_vocab=20, target_vocab=30, embedding=4, hidden=4, readout=4)


def head(folder):
    """The card's head, as the Hub reads it."""
    return yaml.safe_load((folder / "README.md").read_text(encoding="utf-8").split("---")[1])


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page's code run in a process that knows no other Hub: what it printed, and what the Hub got."""
    folder = tmp_path_factory.mktemp("page")
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    check = (
        "print(again.translate('The cat sleeps.').text, again.name)\n"
        "import torch\n"
        "pairs = zip(model.state_dict().values(), same.state_dict().values())\n"
        "print(all(torch.equal(a, b) for a, b in pairs), same.config == model.config)\n"
        "print(regard.load('somebody/animals').translate('The dog sleeps.').text)\n"
        "print(regard.load('runs/pairs').entails(premises[1], premises[0]).label)\n"
        "try:\n    regard.load('somebody/search')\nexcept regard.DataError as error:\n    print(error)\n"
        "try:\n    regard.load('somebody/nothing')\nexcept regard.DataError as error:\n    print(error)\n"
    )
    with FakeHub() as hub:
        own = {
            "HF_ENDPOINT": hub.address,
            "HF_HOME": str(folder / "hf"),
            "HF_TOKEN": TOKEN,
            "OMP_NUM_THREADS": "1",
        }
        done = subprocess.run(
            [sys.executable, "-c", code + check],
            env={**os.environ, **own, "PYTHONPATH": str(Path(regard.__file__).parents[1])},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), hub, folder


def test_what_was_sent_comes_back(page):
    said, hub, _ = page
    assert said[0] == "Le chat dort. somebody/my-translator"
    assert said[1] == "True True"
    assert said[2].endswith("dort.")
    assert said[3] == "neutral"
    assert set(hub.files) == {"somebody/my-translator", "somebody/search", "somebody/animals"}
    assert set(hub.files["somebody/search"]) == {"README.md", "config.json", "model.safetensors"}
    assert {"config.toml", "record.json", "source.tokenizer.json"} <= set(hub.files["somebody/my-translator"])
    card = hub.files["somebody/my-translator"]["README.md"].decode()
    assert 'regard.load("somebody/my-translator")' in card


def test_a_model_alone_and_a_missing_one_are_named(page):
    said, _, _ = page
    assert said[4] == (
        "somebody/search: this model of the Hub has no config.toml; expected one packed by regard. "
        "A model alone is read by its class: RNNsearch.from_pretrained(…)."
    )
    assert said[5].startswith(
        "somebody/nothing: no such run folder, and it could not be loaded from the Hub ("
    )


def test_the_folder_of_a_system_is_a_run_and_its_card_has_the_record(page):
    _, _, folder = page
    assert regard.load(folder / "my-translator").translate("The cat sleeps.").text == "Le chat dort."
    found, record = (
        head(folder / "my-translator"),
        json.loads((folder / "my-translator/record.json").read_text()),
    )
    assert (found["library_name"], found["license"]) == ("regard", "apache-2.0")
    [metric] = found["model-index"][0]["results"][0]["metrics"]
    assert metric == {"type": record["metric"], "value": record["value"]}
    assert (
        "arxiv.org/abs/1409.0473"
        in (folder / "my-translator/README.md").read_text().partition("## Citation")[2]
    )


def test_a_model_is_the_same_after_a_folder(tmp_path):
    model = RNNsearch(TINY)
    model.save_pretrained(tmp_path / "search", model_card_kwargs={"license": "mit", "data": "none"})
    same = RNNsearch.from_pretrained(tmp_path / "search")
    assert same.config == TINY
    for name, tensor in model.state_dict().items():
        assert torch.equal(same.state_dict()[name], tensor)
    assert not same.training
    assert (head(tmp_path / "search")["license"], head(tmp_path / "search")["library_name"]) == (
        "mit",
        "regard",
    )
    assert "- **Data**: none" in (tmp_path / "search/README.md").read_text()


def test_every_shipped_model_and_system_comes_back_from_a_folder(tmp_path):
    """Also those whose weights are tied, and whose config has tuples."""
    for name in ("en-fr", "stories", "sagan-shapes", "entailment", "ntm-copy", "snail-omniglot"):
        model = regard.load(name, device="cpu").trained.model
        model.save_pretrained(tmp_path / name)
        same = type(model).from_pretrained(tmp_path / name)
        assert same.config == model.config
        assert all(map(torch.equal, model.state_dict().values(), same.state_dict().values()))


def test_wrong_folders_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        DataError, match=r"config\.json cannot be read; expected a folder that save_pretrained"
    ):
        RNNsearch.from_pretrained(tmp_path / "empty")
    with pytest.raises(DataError, match=r"has no config\.toml; expected one packed by regard\.$"):
        System.from_pretrained(tmp_path / "empty")
    RNNsearch(TINY).save_pretrained(tmp_path / "search")
    with pytest.raises(DataError, match=r"the model is 'rnnsearch'; expected 'pooled-sentences'"):
        PooledSentences.from_pretrained(tmp_path / "search")
    config = json.loads((tmp_path / "search/config.json").read_text())
    (tmp_path / "search/config.json").write_text(json.dumps(config | {"hidden": 5}))
    with pytest.raises(DataError, match=r"model\.safetensors does not fit config\.json\.$"):
        RNNsearch.from_pretrained(tmp_path / "search")
    (tmp_path / "search/config.json").write_text(json.dumps(config | {"colour": 5}))
    with pytest.raises(DataError, match=r"does not fit RNNsearch: .*colour"):
        RNNsearch.from_pretrained(tmp_path / "search")
    regard.load("stories").save_pretrained(tmp_path / "stories")
    with pytest.raises(DataError, match=r"holds a MemorySystem; expected a EntailmentSystem"):
        EntailmentSystem.from_pretrained(tmp_path / "stories")


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setattr("regard.extras.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'pip install "regard\[hub\]"'):
        RNNsearch(TINY).push_to_hub("somebody/search")
    with pytest.raises(DataError, match=r'pip install "regard\[hub\]"'):
        RNNsearch.from_pretrained("somebody/search")


ROWS = [{"translation": {"en": f"the cat number {n}", "fr": f"le chat numéro {n}"}} for n in range(120)]


def test_rows_are_held_out_as_lines_of_files_are():
    settings = FilesSettings(pieces="words")
    task = FilesTask.from_dataset(ROWS, settings)
    assert [len(task.examples(split)) for split in ("train", "valid", "test")] == [118, 2, 2]
    assert task.examples("valid")[0].source == "the cat number 49"
    splits = {"train": ROWS[:50], "validation": ROWS[50:60], "test": ROWS[60:65]}
    task = FilesTask.from_dataset(splits, settings)
    assert [len(task.examples(split)) for split in ("train", "valid", "test")] == [50, 10, 5]
    with pytest.raises(DataError, match=r"a row of the dataset has en, de; expected 'fr' among them"):
        FilesTask.from_dataset([{"en": "a", "de": "b"}], settings)
    with pytest.raises(DataError, match=r"expected rows of 'train'"):
        FilesTask.from_dataset([], settings)


@pytest.fixture(scope="module")
def fast():
    """A fast tokenizer of transformers, learnt here."""
    from tokenizers import Tokenizer as Library
    from tokenizers import decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    library = Library(models.BPE(unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    library.decoder = decoders.Metaspace()
    texts = [side for row in ROWS for side in row["translation"].values()]
    trainer = trainers.BpeTrainer(vocab_size=80, special_tokens=["[UNK]", "[PAD]"], show_progress=False)
    library.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=library, unk_token="[UNK]", pad_token="[PAD]")


def test_a_tokenizer_of_transformers_serves_where_ours_does(fast, tmp_path):
    task = FilesTask.from_dataset(ROWS, FilesSettings(joint=True), tokenizer=fast)
    own = task.source
    assert task.target is own
    text = "the cat number 7"
    assert own.pieces(text) == fast.tokenize(text)
    assert own.decode(own.encode(text)) == text
    assert own.encode_all([text, ""]) == [own.encode(text), []]
    assert own.unknown("the @") == ["[UNK]"]
    assert own.vocabulary[:4] == ("<pad>", "<bos>", "<eos>", "<unk>")
    assert "[UNK]" not in own.vocabulary
    numbers, owners = own.encode_words(["the", "cat"])
    assert len(numbers) == len(owners)
    own.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.encode(text) == own.encode(text)
    assert again.to_json() == own.to_json()
    batch = task.batch("train", [0, 1])
    assert int(batch.source.max()) < len(own)


def test_what_is_no_tokenizer_is_refused(fast):
    assert Tokenizer.of(fast.backend_tokenizer).kind == "borrowed"
    with pytest.raises(DataError, match=r"^Tokenizer: list was given; expected a Tokenizer of regard"):
        Tokenizer.of([])
    with pytest.raises(ConfigError, match="which merges nothing"):
        Tokenizer.of(fast).recut(share=0.1, seed=1)
