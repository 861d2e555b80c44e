"""Windows of a text, and the list of its words."""

import pytest
import torch

from regard.data.text_windows import WordStream
from regard.data.wordlist import WordList
from regard.errors import DataError

TEXT = list(range(10, 33))  # 23 words


@pytest.mark.parametrize(("context", "predict"), [(1, 1), (1, 5), (4, 5), (3, 23), (2, 40)])
def test_every_word_is_asked_once_behind_the_words_before_it(context, predict):
    stream = WordStream(TEXT, context=context, predict=predict, start=0)
    padded, asked = [0] * context + TEXT, []
    for rows in stream.plan(rows=3):
        batch = stream.batch(rows)
        assert batch.inputs.shape == (len(rows), context + predict - 1)
        for inputs, targets, count in zip(batch.inputs, batch.targets, batch.counts.tolist(), strict=True):
            for t in range(count):
                position = len(asked)
                assert inputs[: t + context].tolist() == padded[position - t : position + context]
                asked.append(int(targets[t]))
    assert asked == TEXT


def test_training_windows_are_whole_and_differ_from_epoch_to_epoch():
    stream = WordStream(TEXT, context=2, predict=4, start=0)
    plans = [stream.shuffled_plan(rows=2, epoch=epoch, seed=1) for epoch in range(6)]
    assert plans[0] == stream.shuffled_plan(rows=2, epoch=0, seed=1)
    assert len({str(plan) for plan in plans}) > 1
    for plan in plans:
        assert all(len(rows) == 2 for rows in plan)
        starts = [start for rows in plan for start in rows]
        assert len(set(starts)) == len(starts)
        assert (stream.batch(starts).counts == 4).all()


def test_a_text_shorter_than_a_window_is_still_a_batch():
    stream = WordStream([5, 6], context=3, predict=8, start=0)
    [rows] = stream.shuffled_plan(rows=4, epoch=0, seed=0)
    assert stream.batch(rows).counts.tolist() == [2]


def test_a_list_of_words_is_ordered_by_frequency_and_kept(tmp_path):
    words = WordList.learn(["b", "a", "a", "c", "c", "c"], first=("<eos>", "<unk>"), size=4)
    assert words.words == ("<eos>", "<unk>", "c", "a")
    assert words.numbers(["a", "b"]) == [3, 1]
    assert "b" not in words
    words.save(tmp_path / "words.json")
    assert WordList.load(tmp_path / "words.json").words == words.words


def test_a_list_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "words.json"
    with pytest.raises(
        DataError, match=r"there is no file .*words\.json; expected what WordList\.save wrote"
    ):
        WordList.load(path)
    path.write_text("{}")
    with pytest.raises(DataError, match=r"has no list of words; expected what WordList\.save wrote"):
        WordList.load(path)
    path.write_text("[")
    with pytest.raises(DataError, match=r"is not valid JSON"):
        WordList.load(path)
    with pytest.raises(DataError, match=r"^WordList: `words` has no '<unk>'"):
        WordList(["a"])


def test_batches_move_to_a_device():
    batch = WordStream(TEXT, context=2, predict=4, start=0).batch([0])
    assert batch.to("meta").inputs.device == torch.device("meta")
    assert batch.size == 1
