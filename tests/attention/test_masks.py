"""Masks: an algebra with &, and what it means pair by pair."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.visible import visible
from torch._subclasses.fake_tensor import FakeTensorMode

from regard import Attention, DotScore, LocalMonotonic, LocalPredictive, Mask, MaskError, MultiHead

B, T, S = 2, 3, 5
CPU = torch.device("cpu")
SHAPES = [(S,), (1,), (T, S), (1, S), (T, 1), (B, T, S), (B, 1, S), (B, T, 1), (1, T, S), (B, 1, 1)]
quick = settings(max_examples=150, deadline=None)


@st.composite
def denses(draw):
    shape = draw(st.sampled_from(SHAPES))
    count = torch.Size(shape).numel()
    return torch.tensor(draw(st.lists(st.booleans(), min_size=count, max_size=count))).view(shape)


OFFSETS = st.integers(0, 4)


def masks(offset=OFFSETS):
    lengths = st.lists(st.integers(0, S + 1), min_size=B, max_size=B).map(torch.tensor)
    window = st.tuples(st.integers(0, 3), st.integers(0, 3))
    return st.builds(
        Mask,
        causal=st.booleans(),
        lengths=st.none() | lengths,
        window=st.none() | window,
        dense=st.none() | denses(),
        offset=offset,
    )


def dense(mask, **changes):
    """(B, T, S), whatever the mask."""
    result = mask.to_dense(T, S, ndim=3, device=CPU, **changes)
    return torch.ones(B, T, S, dtype=torch.bool) if result is None else result.expand(B, T, S)


def by_loops(mask, positions=None):
    """Each pair of positions asked alone."""
    entries = None if mask.dense is None else mask.dense.expand(B, T, S)
    return torch.tensor(
        [
            [
                [
                    visible(
                        t,
                        s,
                        causal=mask.causal,
                        length=None if mask.lengths is None else int(mask.lengths[b]),
                        window=mask.window,
                        dense=None if entries is None else entries[b, t, s],
                        offset=mask.offset,
                    )
                    for s in range(S)
                ]
                for t in range(T)
            ]
            for b in range(B)
        ]
    )


@quick
@given(masks())
def test_a_dense_mask_says_what_each_pair_of_positions_says(mask):
    assert torch.equal(dense(mask), by_loops(mask))


@quick
@given(masks(st.just(2)), masks(st.just(2)))
def test_and_shows_what_both_show_and_is_commutative(a, b):
    both = dense(a & b)
    assert torch.equal(both, dense(a) & dense(b))
    assert torch.equal(both, dense(b & a))


@quick
@given(masks(st.just(1)), masks(st.just(1)), masks(st.just(1)))
def test_and_is_associative(a, b, c):
    assert torch.equal(dense((a & b) & c), dense(a & (b & c)))


@quick
@given(masks())
def test_and_is_idempotent_and_nothing_is_its_unit(mask):
    assert torch.equal(dense(mask & mask), dense(mask))
    assert mask & mask == mask
    assert mask & None == mask
    assert Mask() & mask == mask
    assert mask & Mask() == mask


@quick
@given(masks(), st.lists(st.integers(0, T - 1), min_size=1, max_size=4))
def test_chosen_rows_are_the_rows_of_the_whole(mask, rows):
    targets = torch.tensor(rows)
    chosen = mask.to_dense(len(rows), S, ndim=3, device=CPU, positions=targets + mask.offset)
    whole = dense(mask)[:, targets]
    assert torch.equal(whole, torch.ones_like(whole) if chosen is None else chosen.expand_as(whole))


@quick
@given(masks(), st.integers(0, 3))
def test_a_later_offset_is_a_later_row(mask, step):
    """Only facts about positions move; lengths and dense stay."""
    mask = Mask(causal=mask.causal, lengths=mask.lengths, window=mask.window, offset=mask.offset)
    later = dense(mask.at(mask.offset + step))
    long = mask.to_dense(T + step, S, ndim=3, device=CPU)
    assert torch.equal(later, later if long is None else long.expand(B, T + step, S)[:, step:])


@quick
@given(masks())
def test_equal_masks_are_equal_and_one_changed_fact_makes_them_differ(mask):
    twin = Mask(
        causal=mask.causal,
        lengths=None if mask.lengths is None else mask.lengths.clone(),
        window=mask.window,
        dense=None if mask.dense is None else mask.dense.clone(),
        offset=mask.offset,
    )
    assert mask == twin
    assert mask != mask.at(mask.offset + 1)
    assert mask != Mask(causal=not mask.causal, offset=mask.offset)
    assert mask != "a mask"
    if mask.lengths is not None:
        assert mask != replace(mask, lengths=mask.lengths + 1)
    if mask.dense is not None:
        assert mask != replace(mask, dense=~mask.dense)


def test_a_mask_of_every_kind_of_argument():
    some = Mask(causal=True)
    assert Mask.of(some) is some
    assert Mask.of(None) == Mask()
    table = torch.ones(T, S, dtype=torch.bool)
    assert Mask.of(table) == Mask(dense=table)


def test_trivial_and_positional_are_what_they_say():
    assert Mask().is_trivial
    assert Mask(offset=3).is_trivial
    for mask in (Mask(causal=True), Mask(window=(0, 0))):
        assert mask.is_positional
        assert not mask.is_trivial
    for mask in (Mask(lengths=torch.tensor([1])), Mask(dense=torch.ones(1, dtype=torch.bool))):
        assert not mask.is_positional
        assert not mask.is_trivial
    assert Mask(offset=3).to_dense(T, S, ndim=3, device=CPU) is None


def test_no_axis_is_larger_than_the_facts_need():
    lengths = Mask(lengths=torch.tensor([3, 5]))
    assert lengths.to_dense(1000, S, ndim=4, device=CPU).shape == (2, 1, 1, S)
    assert Mask(causal=True).to_dense(T, S, ndim=4, device=CPU).shape == (T, S)


def test_a_causal_mask_by_hand():
    assert Mask(causal=True).to_dense(3, 3, ndim=2, device=CPU).tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
    assert Mask(causal=True, offset=1).to_dense(1, 3, ndim=2, device=CPU).tolist() == [[True, True, False]]


def test_a_window_by_hand():
    assert Mask(window=(1, 0)).to_dense(3, 3, ndim=2, device=CPU).tolist() == [
        [True, False, False],
        [True, True, False],
        [False, True, True],
    ]


def test_a_mask_without_positions_takes_the_offset_of_the_other():
    lengths = Mask(lengths=torch.tensor([3, 5]))
    assert (lengths & Mask(causal=True, offset=4)).offset == 4
    assert (Mask(window=(1, 1), offset=4) & lengths).offset == 4


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (Mask(causal=True), Mask(causal=True, offset=2)),
        (Mask(causal=True, offset=1), Mask(window=(1, 1), offset=2)),
        (Mask(offset=1), Mask(causal=True, offset=2)),
    ],
)
def test_offsets_that_disagree_are_refused(a, b):
    for first, second in ((a, b), (b, a)):
        offsets = f"{first.offset} and {second.offset}"
        text = rf"^Mask: `offset` has {offsets}; expected the same in both masks\.$"
        with pytest.raises(MaskError, match=text):
            first & second


BOOL = r"expected torch\.bool, True = may attend\.$"
WRONG = {
    rf"^Mask: `mask` has dtype torch\.float32; {BOOL}": lambda: Mask.of(torch.zeros(T, S)),
    rf"^Mask: `mask` has dtype torch\.int64; {BOOL}": lambda: Mask() & torch.zeros(T, S, dtype=torch.long),
    rf"^Mask: `dense` has dtype torch\.uint8; {BOOL}": lambda: Mask(dense=torch.zeros(S, dtype=torch.uint8)),
    r"^Mask: `dense` has shape \(\); expected \(\.\.\., T, S\) or one that broadcasts to it\.$": lambda: Mask(
        dense=torch.tensor(True)
    ),
    r"^Mask: `lengths` has shape \(2, 1\) and dtype torch\.int64; expected \(B,\) whole numbers\.$": lambda: (
        Mask(lengths=torch.ones(2, 1, dtype=torch.long))
    ),
    r"^Mask: `lengths` has shape \(2,\) and dtype torch\.float32; expected \(B,\) whole numbers\.$": lambda: (
        Mask(lengths=torch.ones(2))
    ),
    r"^Mask: `lengths` has shape \(2,\) and dtype torch\.bool; expected \(B,\) whole numbers\.$": lambda: (
        Mask(lengths=torch.ones(2, dtype=torch.bool))
    ),
    r"^Mask: `lengths` has -1; expected 0 or more\.$": lambda: Mask(lengths=torch.tensor([3, -1])),
    r"^Mask: `lengths` has \['a', 1\]; expected whole numbers\.$": lambda: Mask(lengths=["a", 1]),
    r"^Mask: `lengths` has shape \(2,\) and dtype torch\.float32; expected \(B,\) whole num": lambda: Mask.of(
        [1.5, 2.0]
    ),
    r"^Mask: `lengths` has 3; expected a list or a tensor \(B,\) of whole numbers\.": lambda: Mask(lengths=3),
    r"^Mask\.padding: `visible` has shape \(5,\); expected \(B, S\)\.$": lambda: Mask.padding(
        torch.ones(5, dtype=torch.bool)
    ),
    r"^Mask: `window` has \(1, -1\); expected \(left, right\), both 0 or more\.$": lambda: Mask(
        window=(1, -1)
    ),
    r"^Mask: `window` has 3; expected \(left, right\)": lambda: Mask(window=3),
    r"^Mask: `window` has \(1, 2, 3\); expected \(left, right\)": lambda: Mask(window=(1, 2, 3)),
    r"^Mask: `window` has \(0\.5, 1\); expected \(left, right\)": lambda: Mask(window=(0.5, 1)),
    r"^Mask: `causal` has 'yes'; expected True or False\.$": lambda: Mask(causal="yes"),
    r"^Mask: `causal` has a tensor of shape \(3, 5\); expected True or False\.$": lambda: Mask(
        causal=torch.ones(T, S).bool()
    ),
    r"^Mask: `offset` has 1\.5; expected a whole number\.$": lambda: Mask(offset=1.5),
    r"^Mask: `offset` has a tensor of shape \(\); expected a whole number\.$": lambda: Mask().at(
        torch.tensor(2)
    ),
    r"^Mask: `mask` has 'causal'; expected a boolean tensor \(\.\.\., T, S\) or a Mask\.$": lambda: Mask.of(
        "causal"
    ),
    r"^Mask: `dense` has \[True, False\]; expected a boolean tensor": lambda: Mask(dense=[True, False]),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_not_a_mask_is_refused(text):
    with pytest.raises(MaskError, match=text):
        WRONG[text]()


INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16, torch.uint32, torch.uint64]


@pytest.mark.parametrize("kernel", ["auto", "reference"])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_lengths_of_every_integer_dtype_hide_the_same(dtype, kernel):
    lengths = torch.tensor([S, 0])
    query, keys = torch.randn(B, T, 4), torch.randn(B, S, 4)
    for window in (None, LocalMonotonic(half_width=1), LocalPredictive(query=4, hidden=3, half_width=1)):
        attention = Attention(DotScore(), window=window, kernel=kernel)
        found, expected = (
            attention(query, attention.prepare(keys, mask=Mask(lengths=x)))
            for x in (lengths.to(dtype), lengths)
        )
        assert torch.equal(found.context, expected.context)
        assert torch.equal(found.weights, expected.weights)
        assert not found.weights[1].any()


def test_lengths_that_cannot_be_read_are_taken_as_they_are():
    """A length is never waited for: not inside vmap, nor under fake tensors, nor on another device."""
    rows = torch.func.vmap(lambda n: Mask(lengths=n).to_dense(1, S, ndim=2, device=CPU))(
        torch.tensor([[3], [5]])
    )
    assert rows.sum(-1).flatten().tolist() == [3, 5]
    with FakeTensorMode():
        assert Mask(lengths=torch.ones(B, dtype=torch.int32)).lengths.dtype == torch.int64
    assert Mask(lengths=torch.ones(B, dtype=torch.int64, device="meta")).lengths.is_meta


def test_a_list_of_lengths_is_as_good_as_a_tensor():
    expected = Mask(lengths=torch.tensor([3, 1]))
    assert Mask(lengths=[3, 1]) == Mask.of([3, 1]) == Mask.of((3, 1)) == expected
    assert Mask(lengths=[3, 1]).lengths.dtype == torch.int64


def test_an_empty_list_of_lengths_is_that_of_an_empty_batch():
    attention = Attention(DotScore())
    source = attention.prepare(torch.randn(0, S, 4), mask=Mask(lengths=[]))
    assert attention(torch.randn(0, T, 4), source).weights.shape == (0, T, S)


def test_a_key_padding_mask_hides_the_same_from_every_query_of_a_row():
    visible = torch.tensor([[True, True, False, False, False], [True, False, True, True, False]])[:, :S]
    attention = Attention(DotScore())
    query, keys = torch.randn(2, T, 8), torch.randn(2, visible.shape[1], 8)
    weights = attention(query, attention.prepare(keys, mask=Mask.padding(visible))).weights
    assert (weights > 0).eq(visible[:, None]).all()
    heads = MultiHead(8, 2)
    weights = heads(query, heads.prepare(keys, mask=Mask.padding(visible))).weights
    assert (weights > 0).eq(visible[:, None, None]).all()


def test_a_mask_prints_its_facts_and_has_no_hash():
    assert "causal=True" in repr(Mask(causal=True))
    assert repr(Mask(lengths=[3, 1], offset=2)) == "Mask(lengths=[3, 1], offset=2)"
    assert repr(Mask(lengths=[1] * 9, dense=torch.ones(4, 5) > 0)) == "Mask(lengths=(9,), dense=(4, 5))"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Mask())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (True, "True was given without a name; expected Mask(causal=True)."),
        (
            [3, 2],
            "[3, 2] was given without a name; expected Mask(lengths=…), Mask(causal=True), "
            "Mask(window=(left, right)) or Mask(dense=…).",
        ),
        (
            torch.ones(2, 3, dtype=torch.bool),
            "a tensor of shape (2, 3) was given without a name; "
            "expected Mask(dense=…), or Mask.padding(…) for (B, S).",
        ),
        ((1, 0), "(1, 0) was given without a name; expected Mask(window=(left, right)), or Mask(lengths=…)."),
        (Mask(), "a Mask was given without a name; expected the mask itself, or Mask.of(mask)."),
    ],
    ids=["causal", "lengths", "dense", "window", "mask"],
)
def test_an_argument_without_a_name_is_refused_with_the_name(given, said):
    with pytest.raises(MaskError) as error:
        Mask(given)
    assert str(error.value) == f"Mask: {said}"
