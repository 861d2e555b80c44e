"""The five tasks of the Neural Turing Machine: what is asked is what the paper asks."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from regard.data.counter_rng import uniform
from regard.errors import ConfigError
from regard.tasks.bits import costs
from regard.tasks.ntm import (
    AssociativeRecallSettings,
    AssociativeRecallTask,
    CopySettings,
    CopyTask,
    NGramSettings,
    NGramTask,
    PrioritySortSettings,
    PrioritySortTask,
    RepeatCopySettings,
    RepeatCopyTask,
)

TASKS = [CopyTask, RepeatCopyTask, AssociativeRecallTask, NGramTask, PrioritySortTask]
every_task = pytest.mark.parametrize("kind", TASKS, ids=lambda kind: kind.name)


class Coin(nn.Module):
    def forward(self, batch):
        return torch.zeros_like(batch.targets)


class Knowing(nn.Module):
    """Answers what is asked."""

    def forward(self, batch):
        return 100 * (2 * batch.targets - 1)


def test_copy_asks_for_the_vectors_after_the_flag():
    batch = CopyTask(CopySettings()).example((5,))
    x, y, counted = batch.inputs[0], batch.targets[0], batch.counted[0]
    assert x.shape == (11, 9)
    assert torch.equal(y[6:], x[:5, :8])
    assert x[5].tolist() == [0.0] * 8 + [1.0]
    assert not x[6:].any()
    assert counted.tolist() == [False] * 6 + [True] * 5


def test_repeat_copy_asks_for_all_copies_and_then_an_end_marker():
    task = RepeatCopyTask(RepeatCopySettings())
    batch = task.example((3, 4))
    x, y = batch.inputs[0], batch.targets[0]
    assert x.shape == (3 + 1 + 12 + 1, 10)
    assert torch.equal(y[4:16, :8], x[:3, :8].repeat(4, 1))
    assert y[:, 8].tolist() == [0.0] * 16 + [1.0]
    assert x[3, 8] == 1.0
    assert batch.counted.sum() == 13


def test_the_number_of_copies_has_mean_0_and_variance_1_over_the_trained_range():
    task = RepeatCopyTask(RepeatCopySettings(fewest=1, most=10))
    values = np.array([task.normalised(copies) for copies in range(1, 11)])
    assert values.mean() == pytest.approx(0)
    assert values.std() == pytest.approx(1)
    assert RepeatCopyTask(RepeatCopySettings(fewest=3, most=3)).normalised(3) == 0.0


def test_recall_asks_for_the_item_after_the_one_shown():
    task = AssociativeRecallTask(AssociativeRecallSettings(tested=(4,), test=200))
    batch = task.batch("test", range(200))
    assert batch.inputs.shape == (200, 4 * 4 + 8, 8)
    asked = set()
    for x, y in zip(batch.inputs, batch.targets, strict=True):
        items = [x[4 * i + 1 : 4 * i + 4, :6] for i in range(4)]
        assert [i for i in range(len(x)) if x[i, 6]] == [0, 4, 8, 12]
        assert [i for i in range(len(x)) if x[i, 7]] == [16, 20]
        found = [i for i in range(4) if torch.equal(items[i], x[17:20, :6])]
        assert any(i < 3 and torch.equal(items[i + 1], y[21:]) for i in found)
        asked.add(found[0])
        assert not x[21:].any()
    assert asked == {0, 1, 2}


def test_ngrams_follow_a_table_of_their_own():
    """With a long sequence the share of ones after a context is its probability, from Beta(1/2, 1/2)."""
    task = NGramTask(NGramSettings(context=2, length=4000, tested=(4000,)))
    stream = uniform(f"ngrams {task.settings.seed} shown", [0], task.needs((4000,)))
    table = np.sin(np.pi / 2 * stream[0, :4].numpy()) ** 2
    bits = task.example((4000,)).targets[0, :, 0].long()
    for context in range(4):
        older, newer = context & 1, context >> 1
        after = bits[2:][(bits[:-2] == older) & (bits[1:-1] == newer)].double()
        if len(after) > 100:
            assert after.mean().item() == pytest.approx(table[context], abs=4 / math.sqrt(len(after)))


def test_ngrams_show_each_bit_one_step_after_it_is_asked_for():
    batch = NGramTask(NGramSettings()).example((200,))
    assert torch.equal(batch.inputs[0, 1:], batch.targets[0, :-1])
    assert batch.inputs[0, 0] == 0
    assert batch.counted.all()


def test_the_optimum_of_ngrams_is_the_papers_equation_bit_by_bit():
    task = NGramTask(NGramSettings(context=2, length=30, tested=(30,)))
    batch = task.batch("test", [0, 1])
    for row, found in zip(batch.targets[..., 0].int().tolist(), task.optimum(batch).tolist(), strict=True):
        counts, cost = {}, 2.0
        for t in range(2, 30):
            zeros_ones = counts.setdefault((row[t - 2], row[t - 1]), [0, 0])
            cost -= math.log2((zeros_ones[row[t]] + 0.5) / (sum(zeros_ones) + 1))
            zeros_ones[row[t]] += 1
        assert found == pytest.approx(cost)


def test_the_optimum_of_ngrams_lies_near_133_bits():
    task = NGramTask(NGramSettings())
    costs_ = task.optimum(task.batch("test", range(2000)))
    error = float(costs_.std()) / math.sqrt(2000)
    assert abs(float(costs_.mean()) - 133.3) < 4 * error


def test_priority_sort_asks_for_the_highest_in_order():
    batch = PrioritySortTask(PrioritySortSettings()).example((20,))
    x, y = batch.inputs[0], batch.targets[0]
    assert x.shape == (37, 10)
    order = sorted(range(20), key=lambda i: -x[i, 8])
    assert torch.equal(y[21:], x[order[:16], :8])
    assert x[:20, 8].abs().max() <= 1
    assert x[20, 9] == 1


@every_task
def test_a_coin_pays_a_bit_for_every_bit_and_the_truth_nothing(kind):
    task = kind(kind.Settings())
    batch = task.batch("valid", task.evaluation_plan("valid", batch=8)[0])
    loss = task.loss(Coin(), batch)
    assert loss.total / loss.count == pytest.approx(1.0)
    assert task.loss(Knowing(), batch).total < 1e-30
    assert costs(Coin()(batch), batch).tolist() == pytest.approx(
        [float(loss.count) / batch.size] * batch.size
    )


@every_task
def test_an_example_is_the_same_in_whichever_batch_it_comes(kind):
    task = kind(kind.Settings())
    rows = task.plan(3, seed=1, batch=4)[0]
    together, alone = task.batch("train", rows), task.batch("train", rows[2:3])
    assert torch.equal(together.inputs[2:3], alone.inputs)
    assert torch.equal(together.targets[2:3], alone.targets)


@every_task
def test_a_batch_has_one_shape_and_plans_repeat_nothing(kind):
    task = kind(kind.Settings(train=400))
    seen = set()
    for epoch in range(3):
        plan = task.plan(epoch, seed=1, batch=8)
        assert plan == task.plan(epoch, seed=1, batch=8)
        assert len(plan) == 50
        for rows in plan:
            assert len({task.shape("train", row) for row in rows}) == 1
            seen.update(rows)
    assert len(seen) == 1200
    assert seen.isdisjoint(row for rows in task.plan(0, seed=2, batch=8) for row in rows)


@every_task
def test_train_valid_and_test_differ(kind):
    task = kind(kind.Settings())
    shape = task.trained()[-1]
    other = kind(kind.Settings(tested=(shape if len(shape) > 1 else shape[0],)))
    row = len(task.trained()) - 1
    batches = [task.batch("train", [row]), task.batch("valid", [row]), other.batch("test", [0])]
    assert not torch.equal(batches[0].inputs, batches[1].inputs)
    assert not torch.equal(batches[1].inputs, batches[2].inputs)


@every_task
def test_bits_are_fair(kind):
    task = kind(kind.Settings())
    batch = task.batch("valid", task.evaluation_plan("valid", batch=64)[-1])
    assert 0.3 < batch.targets[batch.counted].mean() < 0.7


def test_batches_of_several_shapes_are_padded_and_padding_costs_nothing():
    task = CopyTask(CopySettings(tested=(2, 5)))
    both = task.batch("test", [0, 1])
    assert both.inputs.shape == (2, 11, 9)
    assert both.counted.sum(1).tolist() == [2, 5]
    assert both.rounded().inputs.shape == (2, 16, 9)
    assert costs(Coin()(both.rounded()), both.rounded()).tolist() == pytest.approx([16.0, 40.0])


def test_a_curriculum_begins_with_short_sequences_and_ends_with_all():
    task = CopyTask(CopySettings(longest=20, curriculum=4, train=2000))

    def longest(epoch):
        return max(task.shape("train", rows[0])[0] for rows in task.plan(epoch, seed=1, batch=10))

    assert [longest(epoch) for epoch in (0, 1, 3, 9)] == [5, 10, 20, 20]


def test_the_curriculum_of_repeat_copy_begins_with_one_copy_of_every_length():
    task = RepeatCopyTask(RepeatCopySettings(curriculum=10, train=2000))
    for epoch in range(10):
        shapes = {task.shape("train", rows[0]) for rows in task.plan(epoch, seed=1, batch=2)}
        assert shapes == {(length, copies) for length in range(1, 11) for copies in range(1, epoch + 2)}


def test_the_test_split_has_every_tested_shape():
    task = RepeatCopyTask(RepeatCopySettings(tested=((2, 3), (1, 5)), test=10))
    plan = task.evaluation_plan("test", batch=4)
    shapes = [task.shape("test", row) for rows in plan for row in rows]
    assert shapes == [(2, 3)] * 10 + [(1, 5)] * 10


@pytest.mark.parametrize(
    ("kind", "settings", "text"),
    [
        (
            CopyTask,
            {"shortest": 0},
            "copy: `shortest` has 0 and `longest` 20; expected 1 <= shortest <= longest.",
        ),
        (CopyTask, {"tested": (0,)}, "copy: `tested` has (0,); expected length, each 1 or more."),
        (CopyTask, {"tested": ()}, "copy: `tested` has no shapes; expected at least one."),
        (CopyTask, {"bits": 0}, "copy: `bits` has 0; expected 1 or more."),
        (CopyTask, {"curriculum": -1}, "copy: `curriculum` has -1; expected 0 or more."),
        (CopyTask, {"until": -0.1}, "copy: `until` has -0.1; expected 0 or more."),
        (CopyTask, {"until": math.inf}, "copy: `until` has inf; expected 0 or more."),
        (CopyTask, {"test": 0}, "copy: `test` has 0; expected 1 or more."),
        (
            RepeatCopyTask,
            {"most": 0},
            "repeat-copy: `fewest` has 1 and `most` 0; expected 1 <= fewest <= most.",
        ),
        (
            AssociativeRecallTask,
            {"fewest": 1},
            "associative-recall: `fewest` has 1 and `most` 6; expected 2 <= fewest <= most.",
        ),
        (
            AssociativeRecallTask,
            {"tested": (1,)},
            "associative-recall: `tested` has 1 item; expected 2 or more, one to follow another.",
        ),
        (NGramTask, {"length": 0}, "ngrams: `length` has 0; expected 1 or more."),
        (
            PrioritySortTask,
            {"kept": 21},
            "priority-sort: `tested` has length 20; expected at least `kept`, 21.",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_settings_without_examples_are_refused(kind, settings, text):
    with pytest.raises(ConfigError) as error:
        kind(kind.Settings(**settings))
    assert str(error.value) == text


def test_uniform_numbers_are_uniform_and_do_not_depend_on_their_neighbours():
    numbers = uniform("a stream", range(2000), 50).numpy()
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert numbers.mean() == pytest.approx(0.5, abs=0.005)
    assert np.histogram(numbers, 10, (0, 1))[0] / numbers.size == pytest.approx([0.1] * 10, abs=0.005)
    assert abs(np.corrcoef(numbers[:-1].ravel(), numbers[1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]) < 0.02
    assert np.array_equal(uniform("a stream", [7], 3)[0], numbers[7, :3])
    assert not np.array_equal(uniform("another", [7], 3)[0], numbers[7, :3])
    assert uniform("a stream", [2**62], 3).isfinite().all()
