"""What a caller may get wrong about masks, and what looking must not change."""

import re
from dataclasses import replace

import pytest
import torch
from seeds import offset_seed
from torch.testing import assert_close

from regard import (
    Attention,
    CosineScore,
    DotScore,
    FeedForwardScore,
    GeneralScore,
    Hard,
    LocalMonotonic,
    Mask,
    MaskError,
    MultiHead,
    ShapeError,
    Softmax,
    Sparsemax,
)


def test_lengths_of_another_batch_are_refused():
    with pytest.raises(
        MaskError, match=r"Attention: `mask.lengths` has shape \(3,\); expected \(2,\), one for"
    ):
        Attention(DotScore()).prepare(torch.randn(2, 5, 8), mask=Mask(lengths=torch.tensor([5, 4, 3])))


def test_several_lengths_without_a_batch_axis_are_refused():
    with pytest.raises(MaskError, match=r"expected \(1,\)"):
        Attention(DotScore()).prepare(torch.randn(5, 8), mask=Mask(lengths=torch.tensor([5, 4])))


@pytest.mark.parametrize(
    "shape", [(2, 1, 6), (3, 1, 5), (3, 4, 5), (6,)], ids=lambda shape: "x".join(map(str, shape))
)
def test_a_dense_mask_for_other_keys_is_refused(shape):
    text = re.escape(
        f"Attention: `mask` has shape {shape}; expected (..., T, S=5) or one that broadcasts to it"
    )
    with pytest.raises(MaskError, match=rf"^{text}, for keys \(2, 5, 8\)\.$"):
        Attention(DotScore()).prepare(torch.randn(2, 5, 8), mask=torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize("normalizer", [Softmax(), Sparsemax()], ids=repr)
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 5)], ids=str)
def test_a_dense_mask_for_another_number_of_queries_is_refused(shape, normalizer):
    attention = Attention(DotScore(), normalizer=normalizer)
    source = attention.prepare(torch.randn(2, 5, 8), mask=torch.ones(shape, dtype=torch.bool))
    text = re.escape(f"Attention: `mask` has shape {shape}; expected (..., T=4, S), or one that broadcasts")
    for ask in (attention, attention.explain):
        with pytest.raises(MaskError, match=rf"^{text} to it\.$"):
            ask(torch.randn(2, 4, 8), source)


@pytest.mark.parametrize("normalizer", [Softmax(), Sparsemax()], ids=repr)
@pytest.mark.parametrize("window", [None, LocalMonotonic(half_width=2)], ids=repr)
@pytest.mark.parametrize(
    "score",
    [DotScore, CosineScore, lambda: GeneralScore(query=9, keys=8)],
    ids=["dot", "cosine", "general"],
)
@pytest.mark.parametrize("kernel", ["auto", "reference"])
def test_a_query_of_another_width_is_refused_whatever_runs(score, window, normalizer, kernel):
    attention = Attention(score(), normalizer=normalizer, window=window, kernel=kernel)
    source, owner = attention.prepare(torch.randn(2, 40, 8)), type(attention.score).__name__
    for width in (7, 10):
        with pytest.raises(ShapeError, match=rf"^{owner}: `(keys|query)` has shape"):
            attention(torch.randn(2, 16, width), source)


def test_a_feed_forward_score_says_which_width_it_takes():
    attention = Attention(FeedForwardScore(dim=8, hidden=6))
    text = re.escape("FeedForwardScore: `query` has shape (2, 16, 7); expected (..., T=16, D=8).")
    with pytest.raises(ShapeError, match=f"^{text}$"):
        attention(torch.randn(2, 16, 7), attention.prepare(torch.randn(2, 40, 8)))


def test_values_of_whole_numbers_are_not_rounded_to():
    attention = Attention(CosineScore())
    text = r"^Source: `values` has dtype torch\.int64; expected a floating-point dtype\.$"
    with pytest.raises(ShapeError, match=text):
        attention.prepare(torch.randn(2, 5, 8), torch.ones(2, 5, 3, dtype=torch.long))
    doubles = attention.prepare(torch.randn(2, 5, 8), torch.ones(2, 5, 3, dtype=torch.float64))
    assert attention.explain(torch.randn(2, 4, 8), doubles).kernel == "reference"


@pytest.mark.parametrize("normalizer", [Softmax(), Sparsemax()], ids=repr)
@pytest.mark.parametrize("window", [None, LocalMonotonic(half_width=2)], ids=repr)
@pytest.mark.parametrize("kernel", ["auto", "reference"])
@pytest.mark.parametrize("T", [1, 3, 5])
def test_a_query_that_all_rows_share_sees_each_row_as_far_as_its_length(T, kernel, window, normalizer):
    attention = Attention(DotScore(), normalizer=normalizer, window=window, kernel=kernel)
    query, keys, lengths = torch.randn(1, T, 8), torch.randn(3, 40, 8), torch.tensor([40, 10, 0])
    result = attention(query, attention.prepare(keys, mask=Mask(lengths=lengths)))
    apart = attention(query.expand(3, T, 8), attention.prepare(keys, mask=Mask(lengths=lengths)))
    assert_close(result.context, apart.context)
    assert_close(result.weights, apart.weights)
    assert not result.weights[2].any()


@pytest.mark.parametrize("kernel", ["auto", "reference"])
@pytest.mark.parametrize("rows", [3, 1, 2])
def test_a_state_without_its_time_axis_is_refused_with_the_remedy(rows, kernel):
    """(B, D) would be B queries for each of B rows; also where the number of states is another one."""
    attention, heads = Attention(DotScore(), kernel=kernel), MultiHead(8, 2)
    keys, state = torch.randn(3, 5, 8), torch.randn(rows, 8)
    remedy = re.escape(
        f"`query` has shape ({rows}, 8); expected (3, T, Dq), as many axes as the source. "
        "`query[..., None, :]` is one query for each row; `query[None]` are queries that all rows share."
    )
    for asked, source in ((attention, attention.prepare(keys)), (heads, heads.prepare(keys))):
        owner = type(asked).__name__
        with pytest.raises(ShapeError, match=f"^{owner}: {remedy}$"):
            asked(state, source)
        with pytest.raises(ShapeError, match=f"^{owner}: {remedy}$"):
            asked(state, replace(source, keys=source.keys[:1], values=source.values[:1], copies=3))
        assert asked(state[None], source).context.shape == (3, rows, 8)
        if rows == 3:
            apart = asked(state[..., None, :], source).context
            assert apart.shape == (3, 1, 8)
            assert_close(apart[:, 0], asked(state[None], source).context[range(3), range(3)])
        # one row is no batch: there is nothing to take a state for
        assert asked(state, asked.prepare(keys[:1])).context.shape == (1, rows, 8)
    for ask in (attention.align, attention.explain):
        with pytest.raises(ShapeError, match=remedy):
            ask(state, attention.prepare(keys))


def test_heads_without_their_time_axis_are_refused():
    attention, keys = Attention(DotScore()), torch.randn(2, 4, 5, 8)
    with pytest.raises(ShapeError, match=re.escape("has shape (2, 4, 8); expected (2, 4, T, Dq)")):
        attention(torch.randn(2, 4, 8), attention.prepare(keys))


def test_lengths_of_keys_with_fewer_axes_than_the_query_are_refused():
    attention = Attention(DotScore())
    source = attention.prepare(torch.randn(2, 5, 8), mask=Mask(lengths=torch.tensor([5, 3])))
    text = re.escape(
        "Attention: `query` has shape (2, 2, 4, 8), more axes than keys (2, 5, 8), whose rows have 2 "
        "lengths; expected as many axes. Give keys that heads share an axis of size 1."
    )
    with pytest.raises(MaskError, match=f"^{text}$"):
        attention(torch.randn(2, 2, 4, 8), source)


def test_parts_with_different_windows_do_not_join():
    attention, keys = Attention(DotScore()), torch.randn(2, 3, 8)
    left, right = (attention.prepare(keys, mask=Mask(window=(side, 0))) for side in (1, 2))
    text = r"^Source\.append: `window` has \(1, 0\) and \(2, 0\); expected the same\.$"
    with pytest.raises(MaskError, match=text):
        left.append(right)


def test_looking_without_gradients_leaves_them_to_a_later_loss():
    attention = Attention(DotScore())
    query = torch.randn(1, 2, 8, requires_grad=True)
    result = attention(query, attention.prepare(torch.randn(1, 3, 8)))
    assert result.kernel == "sdpa"
    with torch.no_grad():
        assert not result.weights.requires_grad
    result.weights.square().sum().backward()
    assert query.grad.abs().sum() > 0


def test_aligning_takes_a_generator():
    attention = Attention(DotScore(), normalizer=Hard())
    source, query = attention.prepare(torch.randn(1, 50, 4)), torch.randn(1, 20, 4)
    first, again = (
        attention.align(query, source, generator=torch.Generator().manual_seed(offset_seed(3)))
        for _ in range(2)
    )
    assert torch.equal(first.weights, again.weights)
