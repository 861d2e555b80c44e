"""Luong's local attention against the paper, as loops over scalars, and by hand."""

import math

import pytest
import torch
from laws.cases import DQ, HIDDEN, B, S
from oracles.local_monotonic import local_monotonic
from oracles.local_predictive import centre, local_predictive
from torch.testing import assert_close

from regard import (
    Attention,
    ConfigError,
    DotScore,
    Everywhere,
    LocalMonotonic,
    LocalPredictive,
    Mask,
    Softmax,
    Sparsemax,
)

T = 7
LENGTHS = [7, 4]


def setting(window):
    query, keys = torch.randn(B, T, DQ).double(), torch.randn(B, S, DQ).double()
    attention = Attention(DotScore(1.0), window=window).double()
    scores = DotScore(1.0)(query, keys).tolist()
    return attention, query, keys, scores


@pytest.mark.parametrize("D", [0, 1, 2, 10])
def test_local_monotonic(D):
    attention, query, keys, scores = setting(LocalMonotonic(half_width=D))
    weights = attention(query, attention.prepare(keys)).weights
    expected = [[local_monotonic(row, t, D) for t, row in enumerate(rows)] for rows in scores]
    assert_close(weights, torch.tensor(expected, dtype=torch.float64))


def test_local_monotonic_stays_at_the_end_of_a_shorter_source():
    """The paper does not say; here p_t = min(t, length - 1)."""
    attention, query, keys, scores = setting(LocalMonotonic(half_width=1))
    weights = attention(query, attention.prepare(keys, mask=Mask(lengths=torch.tensor(LENGTHS)))).weights
    for b, length in enumerate(LENGTHS):
        padded = [row[:length] + [-math.inf] * (S - length) for row in scores[b]]
        expected = [local_monotonic(row, min(t, length - 1), 1) for t, row in enumerate(padded)]
        assert_close(weights[b], torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("D", [1, 2, 10])
def test_local_predictive(D):
    window = LocalPredictive(query=DQ, hidden=HIDDEN, half_width=D)
    torch.nn.init.normal_(window.v.weight, std=2)  # centres all over the sentence
    attention, query, keys, scores = setting(window)
    weights = attention(query, attention.prepare(keys, mask=Mask(lengths=torch.tensor(LENGTHS)))).weights
    W, (v,) = window.W.weight.tolist(), window.v.weight.tolist()
    expected = [
        [
            local_predictive(row, q, length, D, W, v)
            for row, q in zip(scores[b], query[b].tolist(), strict=True)
        ]
        for b, length in enumerate(LENGTHS)
    ]
    assert_close(weights, torch.tensor(expected, dtype=torch.float64))


def test_the_centre_is_a_share_of_the_source_length():
    window = LocalPredictive(query=DQ, hidden=HIDDEN, half_width=2).double()
    query = torch.randn(T, DQ).double()
    W, (v,) = window.W.weight.tolist(), window.v.weight.tolist()
    expected = [[centre(q, 4, W, v)] for q in query.tolist()]
    assert_close(window.centre(query, torch.tensor([4])), torch.tensor(expected, dtype=torch.float64))


def test_the_gaussian_by_hand():
    """v = 0: p = 8 σ(0) = 4. With D = 4, σ = 2: the factor is exp(-1/2) at distance D/2, exp(-2) at D."""
    window = LocalPredictive(query=1, hidden=1, half_width=4)
    torch.nn.init.zeros_(window.v.weight)
    mask, factor = window(torch.ones(1, 1), torch.ones(8, dtype=torch.bool), torch.zeros(1))
    assert factor[0, 4].item() == 1.0
    assert factor[0, 2].item() == factor[0, 6].item() == pytest.approx(math.exp(-1 / 2))
    assert factor[0, 0].item() == pytest.approx(math.exp(-2))
    assert mask.tolist() == [[True] * 8]  # 0 is at distance D exactly, and still inside


def test_weights_of_local_predictive_are_not_renormalised():
    window = LocalPredictive(query=1, hidden=1, half_width=1)
    torch.nn.init.zeros_(window.v.weight)  # p = 2 of 4
    attention = Attention(DotScore(1.0), window=window)
    weights = attention(torch.zeros(1, 1), attention.prepare(torch.zeros(4, 1))).weights
    third, tail = 1 / 3, math.exp(-2)  # three positions inside, σ = 1/2
    assert_close(weights, torch.tensor([[0.0, third * tail, third, third * tail]]))


def test_the_gradient_of_the_centre_comes_through_the_gaussian():
    window = LocalPredictive(query=DQ, hidden=HIDDEN, half_width=2)
    attention = Attention(DotScore(1.0), window=window)
    keys = torch.randn(1, S, DQ)
    attention(torch.randn(1, 1, DQ), attention.prepare(keys)).context.sum().backward()
    assert (window.W.weight.grad != 0).any()
    assert (window.v.weight.grad != 0).any()


def test_everywhere_changes_nothing():
    query, keys = torch.randn(B, T, DQ), torch.randn(B, S, DQ)
    mask = Mask(lengths=torch.tensor(LENGTHS))
    for normalizer in (Softmax(), Softmax(temperature=0.5)):
        plain = Attention(DotScore(), normalizer=normalizer, kernel="reference")
        windowed = Attention(DotScore(), normalizer=normalizer, window=Everywhere(), kernel="reference")
        source = plain.prepare(keys, mask=mask)
        assert torch.equal(windowed(query, source).weights, plain(query, source).weights)


HIDE_THE_BEGINNING = torch.tensor([False, False, False, True, True, True, True])


@pytest.mark.parametrize(
    "mask", [Mask(window=(1, 1)), Mask(window=(2, 0)), Mask(causal=True)], ids=["band", "behind", "causal"]
)
def test_local_monotonic_keeps_its_centre_under_a_positional_mask(mask):
    """How many positions a mask shows says nothing about where the query stands."""
    attention, query, keys, _ = setting(LocalMonotonic(half_width=2))
    both = attention(query, attention.prepare(keys, mask=mask)).weights
    plain = Attention(DotScore(1.0), kernel="reference")
    expected = plain(query, plain.prepare(keys, mask=mask & Mask(window=(2, 2)))).weights
    assert_close(both, expected)
    assert_close(both.sum(-1), torch.ones(B, T).double())


def test_windows_count_positions_from_the_true_beginning_of_a_left_padded_source():
    attention, query, keys, scores = setting(LocalMonotonic(half_width=1))
    weights = attention(query, attention.prepare(keys, mask=HIDE_THE_BEGINNING)).weights
    hidden = [[-math.inf] * 3 + row[3:] for row in scores[0]]
    expected = [local_monotonic(row, t, 1) for t, row in enumerate(hidden)]
    assert_close(weights[0], torch.tensor(expected, dtype=torch.float64))
    predictive = LocalPredictive(query=DQ, hidden=HIDDEN, half_width=10).double()
    torch.nn.init.zeros_(predictive.v.weight)
    _, factor = predictive(query, HIDE_THE_BEGINNING, torch.arange(T))
    assert (factor.argmax(-1) == 3).all()  # p = 7 / 2: positions 3 and 4 are equally near


def test_windows_say_their_width():
    assert repr(LocalMonotonic(half_width=3)) == "LocalMonotonic(half_width=3)"
    assert "half_width=3" in repr(LocalPredictive(query=2, hidden=2, half_width=3))


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: LocalMonotonic(half_width=-1), "LocalMonotonic: `half_width` has -1; expected 0 or more"),
        (
            lambda: LocalPredictive(query=DQ, hidden=HIDDEN, half_width=0),
            "LocalPredictive: `half_width` has 0; expected 1 or more",
        ),
    ],
)
def test_a_window_that_would_show_nothing_is_refused(build, text):
    with pytest.raises(ConfigError, match=rf"^{text}\.$"):
        build()


@pytest.mark.parametrize("normalizer", [Softmax(), Sparsemax()], ids=repr)
@pytest.mark.parametrize(
    "window",
    [
        lambda: None,
        lambda: LocalMonotonic(half_width=2),
        lambda: LocalPredictive(query=DQ, hidden=HIDDEN, half_width=2),
    ],
    ids=["global", "local-m", "local-p"],
)
@pytest.mark.parametrize(("t", "s"), [(0, 30), (6, 0)])
def test_no_query_and_no_source_give_no_context(t, s, window, normalizer):
    attention = Attention(DotScore(), normalizer=normalizer, window=window())
    result = attention(torch.randn(B, t, DQ), attention.prepare(torch.randn(B, s, DQ)))
    assert result.context.shape == (B, t, DQ)
    assert not result.context.any()
