"""Language modelling sentence by sentence: every word once, few shapes, padding that counts nothing."""

import pytest
import torch

from regard.data.sentences import EMPTY, STEP, Sentences
from regard.errors import DataError
from regard.evaluate.language import evaluate_language
from regard.models.lstmn import LSTMNConfig, LSTMNLanguageModel
from regard.tasks.language import WordSettings
from regard.tasks.sentences import SentenceTask

MARK = 0
LENGTHS = (1, 3, 7, 8, 9, 12, 2, 20, 5, 6)


def sentences():
    words = iter(range(1, 1000))
    return Sentences([x for n in LENGTHS for x in (*(next(words) for _ in range(n)), MARK)], mark=MARK)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    lines = [f"the {colour} cat sees {n} dogs ." for n in range(10) for colour in ("black", "white", "grey")]
    path.write_text("\n".join(lines), encoding="utf-8")
    return SentenceTask.create(WordSettings(text=str(path)))


def test_each_word_is_predicted_from_those_before_it():
    batch = sentences().batch([1, EMPTY])
    assert batch.inputs.tolist() == [[MARK, 2, 3, 4, MARK, MARK, MARK, MARK], [MARK] * 8]
    assert batch.targets[0].tolist() == [2, 3, 4, MARK, MARK, MARK, MARK, MARK]
    assert batch.counts.tolist() == [4, 0]


def test_an_epoch_has_every_sentence_once_and_few_shapes():
    data = sentences()
    for epoch in range(3):
        plan = data.shuffled_plan(words=32, epoch=epoch, seed=1)
        assert sorted(row for rows in plan for row in rows if row != EMPTY) == list(range(len(LENGTHS)))
        shapes = {tuple(data.batch(rows).inputs.shape) for rows in plan}
        assert shapes == {(4, 8), (2, 16), (1, 24)}
        assert all(T % STEP == 0 for _, T in shapes)
    assert data.shuffled_plan(words=32, epoch=0, seed=1) != data.shuffled_plan(words=32, epoch=1, seed=1)
    assert data.shuffled_plan(words=32, epoch=1, seed=1) == data.shuffled_plan(words=32, epoch=1, seed=1)


def test_evaluation_has_every_sentence_once_without_empty_rows():
    assert sorted(row for rows in sentences().plan(words=32) for row in rows) == list(range(len(LENGTHS)))


def test_empty_rows_and_filling_count_nothing(task):
    model = LSTMNLanguageModel(LSTMNConfig(**task.sizes(), embedding=4, hidden=5)).double()
    own, filled = task.batch("train", [0, 1]), task.batch("train", [0, EMPTY, 1])
    one, other = task.loss(model, own), task.loss(model, filled)
    torch.testing.assert_close(one.total, other.total)
    assert int(one.count) == int(other.count) == 16


def test_perplexity_counts_each_word_and_end_mark_once(task):
    model = LSTMNLanguageModel(LSTMNConfig(**task.sizes(), embedding=4, hidden=5))
    with torch.no_grad():
        model.W.weight.zero_()
        model.W.bias.zero_()
    found = evaluate_language(model, task, "test")
    assert found.words == 8  # one line in twenty, seven pieces and the mark
    assert found.perplexity == pytest.approx(len(task.words), rel=1e-5)


def test_a_users_sentence_is_written_as_the_corpus_would(task):
    words, batch = task.read("The BLACK cat, sees 3 zebras.")
    assert words == ["the", "black", "cat", "sees", "3", "<unk>", "."]
    assert batch.counts.tolist() == [8]


def test_a_text_without_words_is_refused(task):
    with pytest.raises(DataError, match=r"sentences: the text has no words; expected a sentence\."):
        task.read("  !!  ")


def test_the_words_travel_with_the_run(task, tmp_path):
    task.save(tmp_path)
    again = SentenceTask.restore(task.settings, tmp_path)
    assert again.words.words == task.words.words
