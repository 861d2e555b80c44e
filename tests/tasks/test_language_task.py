"""Language modelling as a task: Penn Treebank, the embedded grammar, a text of one's own."""

import gzip
import math

import pytest
import torch

from regard.errors import ConfigError, DataError
from regard.evaluate.language import evaluate_language
from regard.tasks.language import LanguageSettings, LanguageTask, read_words


@pytest.fixture
def ptb(tmp_path):
    folder = tmp_path / "ptb"
    folder.mkdir()
    (folder / "ptb.train.txt").write_text(" the cat <unk> N \n the dog sat \n\n" * 20)
    (folder / "ptb.valid.txt.gz").write_bytes(gzip.compress(b" the cat sat \n"))
    (folder / "ptb.test.txt").write_text(" the bird sat \n")
    return str(tmp_path)


def test_penn_treebank_is_read_plain_or_packed_with_end_marks(ptb):
    settings = LanguageSettings(corpus="ptb", data=ptb)
    assert " ".join(read_words(settings, "train")[:9]) == "the cat <unk> N <eos> the dog sat <eos>"
    task = LanguageTask.create(settings)
    assert sorted(task.words.words) == sorted(["<eos>", "<unk>", "the", "cat", "N", "dog", "sat"])
    assert task.held("valid").length == 4
    numbers = task.batch("test", [0]).targets[0].tolist()
    assert [task.words.words[n] for n in numbers[:4]] == ["the", "<unk>", "sat", "<eos>"]


def test_without_data_the_error_names_the_public_home(monkeypatch, tmp_path):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    with pytest.raises(
        DataError, match=r"^ptb: no data folder is given; .*imikolov/rnnlm/ \(simple-examples\.tgz\)\.$"
    ):
        LanguageTask.create(LanguageSettings(corpus="ptb"))
    with pytest.raises(
        DataError, match=r"^ptb: no file ptb\.train\.txt or ptb\.train\.txt\.gz was found in "
    ):
        LanguageTask.create(LanguageSettings(corpus="ptb", data=str(tmp_path)))


def test_a_text_of_ones_own_is_cut_into_words_and_split_by_lines(tmp_path):
    path = tmp_path / "novel.txt"
    path.write_text("\n".join(f"Line {n}, it's here." for n in range(40)) + "\n\n")
    settings = LanguageSettings(text=str(path), size=20)
    assert read_words(settings, "valid")[:3] == ["line", "18", ","]
    assert read_words(settings, "test")[:2] == ["line", "19"]
    assert read_words(settings, "train").count("<eos>") == 36
    assert len(LanguageTask.create(settings).words) == 20
    path.write_text("one line\n")
    with pytest.raises(DataError, match=r"has 1 lines with words; expected 20 or more"):
        LanguageTask.create(settings)


def test_settings_that_cannot_be_are_named():
    with pytest.raises(ConfigError, match=r"^language: `context` has 0; expected 1 or more\.$"):
        LanguageSettings(context=0)
    with pytest.raises(ConfigError, match=r"^language: `predict` has -1; expected 1 or more\.$"):
        LanguageSettings(predict=-1)


class Even(torch.nn.Module):
    """Every word is as likely as any other."""

    def __init__(self, size):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(size))

    def forward(self, batch):
        return self.bias.expand(*batch.targets.shape, -1)


def test_the_perplexity_of_even_guessing_is_the_number_of_words(ptb):
    for predict in (1, 3, 35):
        task = LanguageTask.create(LanguageSettings(corpus="ptb", data=ptb, predict=predict))
        found = evaluate_language(Even(7), task, "test")
        assert found.words == 4
        assert found.headline() == ("perplexity", pytest.approx(7.0))
        assert dict(found.measures())["bits per word"] == f"{math.log2(7):.3f}"
        assert found.summary()["perplexity"] == pytest.approx(7.0)
        assert found.tables() == []


def test_what_does_not_count_has_no_loss(ptb):
    task = LanguageTask.create(LanguageSettings(corpus="ptb", data=ptb, predict=10))
    batch = task.batch("valid", [0])
    scores = torch.randn(1, 10, 7)
    changed = scores.clone()
    changed[:, 4:] = 99.0
    losses = [task.loss(lambda batch, given=given: given, batch) for given in (scores, changed)]
    assert losses[0].total == losses[1].total
    assert losses[0].count == 4


def test_a_saved_task_comes_back_and_plans_count_words(ptb, tmp_path):
    settings = LanguageSettings(corpus="ptb", data=ptb, predict=3, context=2)
    task = LanguageTask.create(settings)
    task.save(tmp_path)
    restored = LanguageTask.restore(settings, tmp_path)
    assert restored.sizes() == task.sizes() == {"vocab": 7, "context": 2}
    assert restored.plan(1, seed=2, batch=12) == task.plan(1, seed=2, batch=12)
    assert {len(rows) for rows in task.plan(0, seed=1, batch=12)} == {4}
    assert {len(rows) for rows in task.plan(0, seed=1, batch=1)} == {1}


def test_the_embedded_grammar_needs_no_data(monkeypatch):
    from regard.tasks import language

    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setattr(language, "SENTENCES", {"train": 50, "valid": 5, "test": 5})
    task = LanguageTask.create(LanguageSettings())
    assert task.held("train").length > 300
    assert task.batch("train", [0, 35]).inputs.shape == (2, 35)
