import math
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from seeds import offset_seed

from regard.attention.config import AttentionConfig
from regard.data import batches
from regard.data.batches import (
    ROUND_LENGTHS,
    ROUND_ROWS,
    Plan,
    pad,
    pair_batch,
    plan_by_tokens,
    plan_in_order,
)
from regard.data.tokens import EOS, PAD
from regard.errors import ConfigError, DataError
from regard.models.rnnsearch import RNNsearch, RNNsearchConfig
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.tasks.translation import cross_entropy

LENGTHS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=80)


def size(batch, lengths):
    return len(batch) * (max(lengths[i][0] for i in batch) + max(lengths[i][1] for i in batch))


@given(LENGTHS, st.integers(1, 400), st.integers(0, 9), st.integers(0, 9), st.integers(1, 100))
def test_a_training_plan_has_every_example_once_within_the_budget(lengths, budget, epoch, seed, pool):
    with patch.object(batches, "POOL", pool):
        plan = plan_by_tokens(lengths, budget=budget, epoch=epoch, seed=seed)
        assert plan == plan_by_tokens(list(lengths), budget=budget, epoch=epoch, seed=seed)
    assert sorted(i for batch in plan for i in batch) == list(range(len(lengths)))
    assert all(batch and (len(batch) == 1 or size(batch, lengths) <= budget) for batch in plan)


@given(LENGTHS, st.integers(1, 400))
def test_an_evaluation_plan_keeps_the_order(lengths, budget):
    plan = plan_in_order(lengths, budget=budget)
    assert [i for batch in plan for i in batch] == list(range(len(lengths)))
    assert all(batch and (len(batch) == 1 or size(batch, lengths) <= budget) for batch in plan)


def cut_greedily(order, lengths, budget):
    """Batches by the definition: a row joins as long as rows times both longest lengths fit."""
    batches = []
    for row in order:
        if batches and size([*batches[-1], row], lengths) <= budget:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


@given(LENGTHS, st.integers(1, 400))
def test_an_evaluation_plan_is_cut_greedily(lengths, budget):
    assert list(plan_in_order(lengths, budget=budget)) == cut_greedily(range(len(lengths)), lengths, budget)


@given(LENGTHS.filter(len), st.integers(1, 400), st.integers(0, 9), st.integers(1, 30))
def test_a_training_plan_sorts_by_steps_of_four_within_pools_of_shuffled_examples(
    lengths, budget, seed, pool
):
    steps = [tuple(math.ceil(n / 4) * 4 for n in pair) for pair in lengths]
    bits = np.random.PCG64(np.random.SeedSequence([seed, 3, 0])).random_raw(len(lengths)).tolist()
    shuffled = sorted(range(len(lengths)), key=bits.__getitem__)
    expected = []
    for start in range(0, len(shuffled), pool):
        similar = sorted(shuffled[start : start + pool], key=lambda i: (sum(steps[i]), steps[i]))
        expected += cut_greedily(similar, steps, budget)
    with patch.object(batches, "POOL", pool):
        plan = plan_by_tokens(lengths, budget=budget, epoch=3, seed=seed)
    assert sorted(plan) == sorted(expected)
    order = np.random.PCG64(np.random.SeedSequence([seed, 3, 1])).random_raw(len(expected)).tolist()
    assert list(plan) == [expected[i] for i in sorted(range(len(expected)), key=order.__getitem__)]


@pytest.mark.parametrize("size", [0, 1, 99, 1000])
def test_a_plan_is_the_same_however_little_is_sorted_at_once(monkeypatch, size):
    lengths = np.random.default_rng(offset_seed(1)).integers(1, 50, (size, 2))
    monkeypatch.setattr(batches, "POOL", 64)
    expected = plan_by_tokens(lengths, budget=300, epoch=1, seed=2)
    for share, drawn in ((1, 7), (100, 64), (999, 1000)):
        monkeypatch.setattr(batches, "SHARE", share)
        monkeypatch.setattr(batches, "DRAWN", drawn)
        monkeypatch.setattr(batches, "CHUNK", 5)
        assert plan_by_tokens(lengths, budget=300, epoch=1, seed=2) == expected


def test_a_plan_is_a_sequence():
    plan = Plan(torch.tensor([4, 2, 7, 1]), torch.tensor([0, 1, 4]))
    assert list(plan) == [[4], [2, 7, 1]]
    assert (plan[-1], plan[0:1], len(plan)) == ([2, 7, 1], [[4]], 2)
    with pytest.raises(IndexError, match="the plan has 2 batches, no number 2"):
        plan[2]


MODELS = {
    "rnnsearch": lambda: RNNsearch(
        RNNsearchConfig(
            source_vocab=20,
            target_vocab=20,
            embedding=6,
            hidden=6,
            readout=6,
            attention=AttentionConfig("additive"),
        )
    ),
    "seq2seq": lambda: Seq2Seq(Seq2SeqConfig(source_vocab=20, target_vocab=20, embedding=6, hidden=6)),
}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_rounded_batch_has_the_same_loss_and_gradients(name):
    model = MODELS[name]().double()
    batch = pair_batch([[5, 6, 7], [8], [9] * 11], [[4], [5, 6, 7, 8, 9, 10, 11, 12, 13], [14, 15]])
    found = {}
    for form, each in (("plain", batch), ("rounded", batch.rounded())):
        model.zero_grad()
        loss = cross_entropy(model(each), each)
        loss.total.backward()
        found[form] = (
            loss.total.detach(),
            loss.count,
            [p.grad for p in model.parameters() if p.grad is not None],
        )
    torch.testing.assert_close(found["rounded"], found["plain"], rtol=1e-6, atol=1e-6)
    assert found["rounded"][1] == 15


def test_rounded_shapes_are_few_and_padding_is_told_by_lengths():
    batch = pair_batch([[5] * n for n in (3, 8, 2)], [[6] * n for n in (7, 1, 1)])
    rounded = batch.rounded()
    assert (rounded.source.shape, rounded.target.shape) == ((8, 12), (8, 8))
    assert rounded.source_lengths.tolist() == [4, 9, 3, *[1] * 5]
    assert rounded.target_lengths.tolist() == [8, 2, 2, *[0] * 5]
    assert torch.equal(rounded.source[:3, :9], batch.source)
    assert rounded.source[3:, 0].tolist() == [EOS] * 5
    again = rounded.rounded()
    assert again.source.shape == rounded.source.shape
    assert torch.equal(again.source, rounded.source)
    assert batch.source.shape == (3, 9)  # as it was


def test_epochs_and_seeds_differ():
    lengths = [(n % 7 + 1, n % 5 + 1) for n in range(200)]
    plans = [
        plan_by_tokens(lengths, budget=60, epoch=epoch, seed=seed)
        for epoch, seed in [(0, 0), (1, 0), (0, 1), (1, 1)]
    ]
    assert all(plans[a] != plans[b] for a in range(4) for b in range(a))


def test_batches_have_similar_lengths_and_come_in_no_order_of_length():
    lengths = [(n % 50 + 1, n % 50 + 1) for n in range(2000)]
    plan = plan_by_tokens(lengths, budget=600, epoch=3, seed=1)
    padded = sum(size(batch, lengths) for batch in plan)
    assert sum(map(sum, lengths)) / padded > 0.9
    longest = [max(lengths[i][0] for i in batch) for batch in plan]
    assert longest not in (sorted(longest), sorted(longest, reverse=True))


@given(st.data())
def test_turned_rows_have_their_source_as_target(data):
    side = st.lists(st.integers(3, 9), max_size=5)
    pairs = data.draw(st.lists(st.tuples(side, side, st.booleans()), min_size=1, max_size=5))
    batch = pair_batch([x for x, _, _ in pairs], [y for _, y, _ in pairs])
    found = batch.turned(torch.tensor([turned for _, _, turned in pairs]))
    expected = pair_batch(
        [y if turned else x for x, y, turned in pairs], [x if t else y for x, y, t in pairs]
    )
    for name in ("source", "source_lengths", "target", "target_lengths"):
        assert torch.equal(getattr(found, name), getattr(expected, name))


def rounded_shape(batch, lengths):
    longest = [max(lengths[i][side] for i in batch) for side in (0, 1)]
    return (
        len(batch) + -len(batch) % ROUND_ROWS,
        *(n + -n % ROUND_LENGTHS for n in longest),
    )


def test_recorded_batches_are_mostly_words_of_few_shapes_in_every_epoch():
    chance = np.random.default_rng(offset_seed(3))
    source = chance.poisson(14, 20_000) + 1
    lengths = list(
        zip(source.tolist(), (source + chance.integers(-3, 5, 20_000)).clip(1).tolist(), strict=True)
    )
    plans = [plan_by_tokens(lengths, budget=8192, epoch=epoch, seed=1) for epoch in range(4)]
    shapes = [{rounded_shape(batch, lengths) for batch in plan} for plan in plans]
    assert len(set().union(*shapes)) <= 25
    positions = sum(B * (S + T) for B, S, T in (rounded_shape(batch, lengths) for batch in plans[0]))
    assert sum(map(sum, lengths)) / positions > 0.84
    # the sentences of a batch are others in another epoch
    alike = [max(len({*batch} & {*other}) for other in plans[1]) / len(batch) for batch in plans[0]]
    assert np.mean(alike) < 0.5


def test_chance_decides_the_order_of_equals():
    plans = [plan_by_tokens([(3, 3)] * 8, budget=24, epoch=epoch, seed=0) for epoch in range(4)]
    assert len({str(sorted(map(sorted, plan))) for plan in plans}) > 1


@given(st.lists(st.lists(st.integers(3, 99), max_size=9), max_size=6))
def test_padding_keeps_rows_and_tells_their_lengths(rows):
    padded, lengths = pad(rows)
    assert padded.dtype == lengths.dtype == torch.long
    assert padded.shape == (len(rows), max(map(len, rows), default=0))
    assert lengths.tolist() == [len(row) for row in rows]
    for row, filled, length in zip(rows, padded.tolist(), lengths.tolist(), strict=True):
        assert filled[:length] == row
        assert set(filled[length:]) <= {PAD}


def test_both_sides_of_a_pair_are_closed_by_eos():
    batch = pair_batch([[5, 6], []], [[7], [8, 9, 4]])
    assert batch.source.tolist() == [[5, 6, EOS], [EOS, PAD, PAD]]
    assert batch.source_lengths.tolist() == [3, 1]
    assert batch.target.tolist() == [[7, EOS, PAD, PAD], [8, 9, 4, EOS]]
    assert batch.target_lengths.tolist() == [2, 4]


def test_unequal_sides_are_an_error():
    with pytest.raises(DataError, match="pair_batch: `targets` has 1 rows; expected 2, as `sources`"):
        pair_batch([[3], [4]], [[5]])


def test_an_impossible_budget_is_an_error():
    with pytest.raises(ConfigError, match="plan: `budget` has 0 tokens; expected 1 or more"):
        plan_in_order([(1, 1)], budget=0)
