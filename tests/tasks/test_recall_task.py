"""Key-value recall: distinct keys, the right label, new sequences each epoch, and what a user may type."""

import re

import pytest
import torch

from regard.errors import ConfigError, DataError
from regard.tasks.recall import Recall, RecallSettings, RecallTask

TASK = RecallTask.create(RecallSettings(test=30))


def test_a_sequence_asks_for_the_value_of_one_of_its_keys():
    batch = TASK.batch("train", range(200))
    for symbols, length, label in zip(batch.symbols, batch.lengths, batch.labels, strict=True):
        own = symbols[:length].tolist()
        keys = [key for key, _ in own[:-1]]
        assert len(set(keys)) == len(keys)
        assert 2 <= len(keys) <= 12
        assert own[-1][1] == TASK.blank == 30
        assert dict(own[:-1])[own[-1][0]] == 20 + label


def test_training_batches_have_one_shape():
    assert {tuple(TASK.batch("train", [n]).symbols.shape) for n in range(20)} == {(1, 13, 2)}


def test_every_epoch_has_new_sequences():
    numbers = [n for epoch in range(3) for rows in TASK.plan(epoch, seed=1, batch=64) for n in rows]
    assert len(set(numbers)) == len(numbers) == 3 * (20_000 // 64) * 64


def test_the_same_number_is_the_same_sequence_and_splits_differ():
    assert TASK.example("train", 5) == TASK.example("train", 5)
    assert TASK.example("train", 5) != TASK.example("valid", 5)


def test_the_test_asks_each_number_of_pairs_as_often():
    plan = TASK.evaluation_plan("test", batch=20)
    assert [n for rows in plan for n in rows] == list(range(6 * 30))
    lengths = [{len(TASK.example("test", n).pairs) for n in rows} for rows in plan]
    assert lengths == [{p} for p in (2, 4, 8, 12, 16, 20) for _ in range(2)]


def test_a_users_sequence_is_read():
    assert TASK.read("3=7 5=1 3") == Recall(((3, 7), (5, 1)), 0)
    assert TASK.tensors([TASK.read("3=7 5=1 5")], steps=3).labels.tolist() == [1]


@pytest.mark.parametrize(
    "text",
    ["", "3", "3=7", "3=7 4", "3=7 3=1 3", "20=1 20", "3=10 3", "a=1 a", "3=1 3=", "3=7=1 3"],
    ids=["empty", "key", "pair", "other", "twice", "key20", "value10", "letter", "open", "double"],
)
def test_what_is_no_sequence_is_refused(text):
    expected = (
        f"key-value: {text!r} is not a sequence; expected pairs key=value with distinct keys below 20 and"
    )
    with pytest.raises(DataError, match=re.escape(expected)):
        TASK.read(text)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"values": 1}, "key-value: `values` has 1; expected 2 or more."),
        (
            {"shortest": 5, "longest": 4},
            "key-value: `shortest` has 5 and `longest` 4; expected 1 <= shortest",
        ),
        (
            {"keys": 10},
            "key-value: `keys` has 10 and sequences have up to 20 pairs; expected as many keys or",
        ),
        ({"asked": (0,)}, "key-value: `asked` has (0,); expected numbers of pairs, 1 or more each."),
        ({"asked": ()}, "key-value: `asked` has (); expected numbers of pairs, 1 or more each."),
    ],
    ids=["values", "lengths", "keys", "none", "empty"],
)
def test_settings_that_cannot_be_are_refused(settings, text):
    with pytest.raises(ConfigError, match=re.escape(text)):
        RecallSettings(**settings)


def test_the_loss_is_a_sum_over_sequences():
    batch = TASK.batch("valid", range(8))
    loss = TASK.loss(lambda batch: torch.zeros(8, 10), batch)
    torch.testing.assert_close(loss.total, 8 * torch.tensor(10.0).log())
    assert int(loss.count) == 8
