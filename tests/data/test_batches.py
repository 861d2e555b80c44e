import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batches import pad, pair_batch, plan_by_tokens, plan_in_order
from regard.data.tokens import EOS, PAD
from regard.errors import ConfigError, DataError

LENGTHS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=80)


def size(batch, lengths):
    return len(batch) * (max(lengths[i][0] for i in batch) + max(lengths[i][1] for i in batch))


@given(LENGTHS, st.integers(1, 400), st.integers(0, 9), st.integers(0, 9), st.integers(1, 100))
def test_a_training_plan_has_every_example_once_within_the_budget(lengths, budget, epoch, seed, pool):
    plan = plan_by_tokens(lengths, budget=budget, epoch=epoch, seed=seed, pool=pool)
    assert sorted(i for batch in plan for i in batch) == list(range(len(lengths)))
    assert all(batch and (len(batch) == 1 or size(batch, lengths) <= budget) for batch in plan)
    assert plan == plan_by_tokens(list(lengths), budget=budget, epoch=epoch, seed=seed, pool=pool)


@given(LENGTHS, st.integers(1, 400))
def test_an_evaluation_plan_keeps_the_order(lengths, budget):
    plan = plan_in_order(lengths, budget=budget)
    assert [i for batch in plan for i in batch] == list(range(len(lengths)))
    assert all(batch and (len(batch) == 1 or size(batch, lengths) <= budget) for batch in plan)


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
    assert sum(map(sum, lengths)) / padded > 0.95
    longest = [max(lengths[i][0] for i in batch) for batch in plan]
    assert longest not in (sorted(longest), sorted(longest, reverse=True))


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


def test_impossible_budgets_and_pools_are_errors():
    with pytest.raises(ConfigError, match="plan: `budget` has 0 tokens; expected 1 or more"):
        plan_in_order([(1, 1)], budget=0)
    with pytest.raises(ConfigError, match="plan_by_tokens: `pool` has 0; expected 1 or more"):
        plan_by_tokens([(1, 1)], budget=9, epoch=0, seed=0, pool=0)
