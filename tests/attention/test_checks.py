"""What a caller may get wrong about masks, and what looking must not change."""

import pytest
import torch

from regard import Attention, DotScore, Hard, Mask, MaskError


def test_lengths_of_another_batch_are_refused():
    with pytest.raises(
        MaskError, match=r"Attention: `mask.lengths` has shape \(3,\); expected \(2,\), one for"
    ):
        Attention(DotScore()).prepare(torch.randn(2, 5, 8), mask=Mask(lengths=torch.tensor([5, 4, 3])))


def test_several_lengths_without_a_batch_axis_are_refused():
    with pytest.raises(MaskError, match=r"expected \(1,\)"):
        Attention(DotScore()).prepare(torch.randn(5, 8), mask=Mask(lengths=torch.tensor([5, 4])))


def test_parts_with_different_windows_do_not_join():
    attention, keys = Attention(DotScore()), torch.randn(2, 3, 8)
    left, right = (attention.prepare(keys, mask=Mask(window=(side, 0))) for side in (1, 2))
    with pytest.raises(MaskError, match=r"Source.append: `window` has \(1, 0\) and \(2, 0\); expected one"):
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
        attention.align(query, source, generator=torch.Generator().manual_seed(3)) for _ in range(2)
    )
    assert torch.equal(first.weights, again.weights)
