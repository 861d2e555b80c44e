"""Each normalizer against its paper, as loops over scalars, and by hand."""

import math
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.divide_by_length import count
from oracles.hard import argmax
from oracles.mean import mean
from oracles.softmax import softmax
from oracles.sparsemax import sparsemax
from torch.testing import assert_close

from regard import DivideByLength, GumbelSoftmax, Hard, Mean, Softmax, Sparsemax, StraightThrough

PAIRS = [
    (Softmax(), softmax),
    (Softmax(temperature=0.5), lambda row: softmax(row, 0.5)),
    (Softmax(temperature=3.0), lambda row: softmax(row, 3.0)),
    (Sparsemax(), sparsemax),
    (Mean(), mean),
    (DivideByLength(), count),
    (Hard().eval(), argmax),
    (StraightThrough().eval(), argmax),
    (GumbelSoftmax(temperature=2.0).eval(), lambda row: softmax(row, 2.0)),
    (GumbelSoftmax(hard=True).eval(), argmax),
]


@pytest.mark.parametrize(("normalizer", "oracle"), PAIRS, ids=[repr(normalizer) for normalizer, _ in PAIRS])
@pytest.mark.parametrize("spread", [0.1, 1.0, 30.0])
def test_normalizers_agree_with_their_papers(normalizer, oracle, spread):
    scores = spread * torch.randn(2, 3, 7).double()
    mask = torch.rand(2, 3, 7) > 0.3
    mask[..., 2] = True
    rows = scores.masked_fill(~mask, -math.inf).flatten(0, 1).tolist()
    expected = torch.tensor([oracle(row) for row in rows], dtype=torch.float64).unflatten(0, (2, 3))
    assert_close(normalizer(scores, mask), expected, atol=1e-12, rtol=1e-9)


def test_softmax_by_hand():
    """exp(ln 1), exp(ln 2), exp(ln 5), divided by 8; at τ = 1/2 their squares, divided by 30."""
    scores = torch.tensor([1.0, 2.0, 5.0]).log()
    assert_close(Softmax()(scores), torch.tensor([1 / 8, 2 / 8, 5 / 8]))
    assert_close(Softmax(temperature=0.5)(scores), torch.tensor([1 / 30, 4 / 30, 25 / 30]))


def test_sparsemax_by_hand():
    """k = 2, τ = (2 + 1.5 - 1) / 2 = 1.25; and the cases of Martins & Astudillo, section 2.2."""
    assert Sparsemax()(torch.tensor([2.0, 1.5, -1.0])).tolist() == [0.75, 0.25, 0.0]
    assert Sparsemax()(torch.tensor([3.0, 1.0])).tolist() == [1.0, 0.0]  # two classes: a hard sigmoid
    assert Sparsemax()(torch.tensor([0.5, 0.0])).tolist() == [0.75, 0.25]
    assert_close(Sparsemax()(torch.zeros(3)), torch.full((3,), 1 / 3))


def brute_force(z):
    """The best of all supports: for each, the projection onto the face of the simplex it spans."""
    best, nearest = None, math.inf
    for size in range(1, len(z) + 1):
        for support in combinations(range(len(z)), size):
            tau = (sum(z[i] for i in support) - 1) / size
            p = [z[i] - tau if i in support else 0.0 for i in range(len(z))]
            distance = sum((a - b) ** 2 for a, b in zip(p, z, strict=True))
            if min(p) >= 0 and distance < nearest:
                best, nearest = p, distance
    return best


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6))
def test_sparsemax_is_the_nearest_point_of_the_simplex(z):
    result = Sparsemax()(torch.tensor(z, dtype=torch.float64))
    assert_close(result, torch.tensor(brute_force(z), dtype=torch.float64), atol=1e-9, rtol=0)
    assert result.sum().item() == pytest.approx(1.0)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6), st.floats(-100, 100))
def test_a_constant_added_to_the_scores_changes_no_weight(z, constant):
    scores = torch.tensor(z, dtype=torch.float64)
    for normalizer in (Softmax(temperature=0.7), Sparsemax(), Mean()):
        assert_close(normalizer(scores + constant), normalizer(scores), atol=1e-9, rtol=0)


def test_the_gradient_of_sparsemax_is_that_of_its_support():
    """Proposition 2: on the support S, ∂p_i/∂z_j = δ_ij - 1/|S|; elsewhere 0."""
    z = torch.tensor([2.0, 1.5, -1.0], requires_grad=True)
    jacobian = torch.autograd.functional.jacobian(Sparsemax(), z)
    assert_close(jacobian, torch.tensor([[0.5, -0.5, 0.0], [-0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]))


def test_mean_ignores_the_scores_and_counts_the_visible():
    mask = torch.tensor([True, False, True, True])
    assert_close(Mean()(torch.tensor([9.0, 1.0, -9.0, 0.0]), mask), torch.tensor([1 / 3, 0, 1 / 3, 1 / 3]))


def test_temperature_says_so_in_the_representation():
    assert repr(Softmax(temperature=2.0)) == "Softmax(temperature=2)"
    assert repr(GumbelSoftmax(temperature=0.5, hard=True)) == "GumbelSoftmax(temperature=0.5, hard=True)"
