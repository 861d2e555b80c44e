"""Each score against its paper, written as loops over scalars."""

import math

import pytest
import torch
from laws.cases import DK, DQ, HIDDEN, B, S, T
from oracles import (
    additive,
    concat,
    cosine,
    coverage,
    dot,
    feedforward,
    general,
    location,
    location_aware,
    rectified,
)
from oracles.linear import inner, softplus
from torch.testing import assert_close

from regard import (
    AdditiveScore,
    Attention,
    CosineScore,
    CoverageScore,
    DotScore,
    FeedForwardScore,
    GeneralScore,
    History,
    LocationAwareScore,
    LocationScore,
    RectifiedScore,
)


def tensors(keys: int = DK):
    return torch.randn(B, T, DQ).double(), torch.randn(B, S, keys).double()


def check(scores, oracle, query, keys):
    """`oracle(b, t, s, q, k)` for every batch row, query and key."""
    assert scores.shape == (B, T, S)
    expected = [
        [
            [oracle(b, t, s, q, k) for s, k in enumerate(keys[b].tolist())]
            for t, q in enumerate(query[b].tolist())
        ]
        for b in range(B)
    ]
    assert_close(scores, torch.tensor(expected, dtype=torch.float64), atol=1e-12, rtol=1e-12)


def lists(*parameters):
    return [parameter.detach().tolist() for parameter in parameters]


def test_dot():
    query, keys = tensors(DQ)
    score = DotScore(1.0)
    check(score(query, score.prepare(keys)), lambda b, t, s, q, k: dot.dot(q, k), query, keys)


def test_scaled_dot():
    query, keys = tensors(DQ)
    score = DotScore()
    check(score(query, score.prepare(keys)), lambda b, t, s, q, k: dot.scaled_dot(q, k), query, keys)


def test_dot_by_hand():
    """(1, 2) · (3, -1) = 1, divided by √2."""
    q, k = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, -1.0]])
    assert DotScore(1.0)(q, k).item() == 1.0
    assert DotScore()(q, k).item() == pytest.approx(1 / math.sqrt(2))


def test_general():
    query, keys = tensors()
    score = GeneralScore(query=DQ, keys=DK).double()
    (W,) = lists(score.W.weight)
    check(score(query, score.prepare(keys)), lambda b, t, s, q, k: general.general(q, k, W), query, keys)


def test_rectified():
    query, keys = tensors()
    score = RectifiedScore(query=DQ, keys=DK).double()
    (W,), (U,) = lists(score.W.weight, score.U.weight)
    found = score(query, score.prepare(keys))
    check(found, lambda b, t, s, q, k: rectified.rectified(q, k, [*W, *U]), query, keys)
    assert (found == 0).any()
    assert (found > 0).any()


def test_additive():
    query, keys = tensors()
    score = AdditiveScore(query=DQ, keys=DK, hidden=HIDDEN).double()
    W, U, bias, (v,) = lists(score.W.weight, score.U.weight, score.U.bias, score.v.weight)
    check(
        score(query, score.prepare(keys)),
        lambda b, t, s, q, k: additive.additive(q, k, W, U, bias, v),
        query,
        keys,
    )


@pytest.mark.parametrize("kernel", ["reference", "additive-cpu"])
def test_additive_takes_queries_that_are_projected_already(kernel):
    query, keys = torch.randn(2, 5, DQ), torch.randn(2, 6, DK)
    score = AdditiveScore(query=DQ, keys=DK, hidden=HIDDEN)
    projected = AdditiveScore(query=None, keys=DK, hidden=HIDDEN)
    projected.load_state_dict({k: v for k, v in score.state_dict().items() if k != "W.weight"})
    own, given = Attention(score, kernel=kernel), Attention(projected, kernel=kernel)
    expected = own(query, own.prepare(keys)).context
    torch.testing.assert_close(given(score.W(query), given.prepare(keys)).context, expected)


def test_concat_is_a_function_of_the_joined_vectors():
    query, keys = tensors()
    W, v = torch.randn(HIDDEN, DQ + DK).double(), torch.randn(HIDDEN).double()
    score = AdditiveScore.concat(W, v, query=DQ)
    assert score.W.weight.dtype == torch.float64
    matrix, vector = lists(W, v)
    check(
        score(query, score.prepare(keys)),
        lambda b, t, s, q, k: concat.concat(q, k, matrix, vector),
        query,
        keys,
    )


@pytest.mark.parametrize("strength", [1.0, 2.5])
def test_cosine_with_a_given_strength(strength):
    query, keys = tensors(DQ)
    score = CosineScore(strength=strength)
    check(score(query, score.prepare(keys)), lambda b, t, s, q, k: cosine.cosine(q, k, strength), query, keys)


def test_cosine_with_a_strength_from_the_query():
    query, keys = tensors(DQ)
    score = CosineScore(query=DQ).double()
    (w,), (bias,) = lists(score.beta.weight, score.beta.bias)
    check(
        score(query, score.prepare(keys)),
        lambda b, t, s, q, k: cosine.cosine(q, k, softplus(inner(w, q) + bias)),
        query,
        keys,
    )


def test_cosine_by_hand():
    """cos((3, 4), (4, 3)) = 24 / 25."""
    score = CosineScore(strength=2.0)
    keys = score.prepare(torch.tensor([[4.0, 3.0]]))
    assert score(torch.tensor([[3.0, 4.0]]), keys).item() == pytest.approx(2 * 24 / 25)


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_the_cosine_does_not_depend_on_the_length_of_the_vectors(size):
    score = CosineScore()
    query, keys = torch.randn(T, DQ), torch.randn(S, DQ)
    assert_close(score(query * size, score.prepare(keys * size)), score(query, score.prepare(keys)))


def test_the_cosine_of_vectors_without_features_is_zero():
    score = CosineScore()
    assert_close(score(torch.zeros(T, 0), score.prepare(torch.zeros(S, 0))), torch.zeros(T, S))


@pytest.mark.parametrize("positions", [S + 4, S, S - 2])
def test_location(positions):
    query, keys = tensors()
    score = LocationScore(query=DQ, positions=positions).double()
    (W,) = lists(score.W.weight)
    check(score(query, score.prepare(keys)), lambda b, t, s, q, k: location.location(q, s, W), query, keys)


def test_feedforward():
    query, keys = tensors(DQ)
    score = FeedForwardScore(dim=DQ, hidden=HIDDEN).double()
    W1, b1, W2, b2 = lists(*score.F.parameters())
    check(
        score(query, score.prepare(keys)),
        lambda b, t, s, q, k: feedforward.feedforward(q, k, W1, b1, W2, b2),
        query,
        keys,
    )


def test_feedforward_dropout_acts_in_training_alone():
    score = FeedForwardScore(dim=DQ, hidden=HIDDEN, dropout=0.5)
    query, keys = torch.randn(T, DQ), torch.randn(S, DQ)
    assert not torch.equal(score.prepare(keys), score.prepare(keys))
    score.eval()
    assert torch.equal(score(query, score.prepare(keys)), score(query, score.prepare(keys)))


@pytest.mark.parametrize("width", [1, 3, 9])
def test_location_aware(width):
    query, keys = tensors()
    score = LocationAwareScore(query=DQ, keys=DK, hidden=HIDDEN, filters=3, width=width).double()
    history = History(torch.rand(B, 1, S).double(), torch.rand(B, 1, S).double())
    W, V, bias, U, (w,) = lists(score.W.weight, score.V.weight, score.V.bias, score.U.weight, score.w.weight)
    F = [filters[0] for filters in score.F.weight.tolist()]
    previous = history.previous.tolist()
    check(
        score(query, score.prepare(keys), history),
        lambda b, t, s, q, k: location_aware.location_aware(q, k, s, previous[b][0], W, V, bias, U, F, w),
        query,
        keys,
    )


def test_coverage():
    query, keys = tensors()
    score = CoverageScore(query=DQ, keys=DK, hidden=HIDDEN, fertility=3.0).double()
    history = History(torch.rand(B, 1, S).double(), 2 * torch.rand(B, 1, S).double())
    W, U, bias, (v,) = lists(score.W.weight, score.U.weight, score.U.bias, score.v.weight)
    V, (U_f,) = [row[0] for row in score.V.weight.tolist()], score.U_f.weight.tolist()
    attended = history.cumulative.tolist()
    check(
        score(query, score.prepare(keys), history),
        lambda b, t, s, q, k: coverage.coverage(q, k, attended[b][0][s], W, U, bias, V, U_f, 3.0, v),
        query,
        keys,
    )


def test_coverage_by_hand():
    """σ(0) = 1/2, so Φ = 2 · 1/2 = 1 and the coverage is the sum of the weights: e = tanh(0.3 + 0.7)."""
    score = CoverageScore(query=1, keys=1, hidden=1)
    with torch.no_grad():
        for name, value in {"W": 0.0, "U": 1.0, "V": 1.0, "U_f": 0.0, "v": 1.0}.items():
            getattr(score, name).weight.fill_(value)
        score.U.bias.zero_()
    history = History(torch.zeros(1, 1), torch.tensor([[0.7]]))
    result = score(torch.zeros(1, 1), score.prepare(torch.tensor([[0.3]])), history)
    assert result.item() == pytest.approx(math.tanh(1.0), abs=1e-6)


def test_a_word_of_no_fertility_gives_finite_scores():
    score = CoverageScore(query=1, keys=1, hidden=2)
    with torch.no_grad():
        score.U_f.weight.fill_(-1e4)  # σ(-1e4) is 0 in any precision
    history = History(torch.ones(1, 1), torch.ones(1, 1))
    assert torch.isfinite(score(torch.zeros(1, 1), score.prepare(torch.ones(1, 1)), history)).all()


@pytest.mark.parametrize("kernel", ["auto", "reference"])
def test_vectors_of_no_features_attend_to_all_alike(kernel):
    attention = Attention(DotScore(), kernel=kernel)
    values = torch.randn(B, S, 3)
    result = attention(torch.zeros(B, T, 0), attention.prepare(torch.zeros(B, S, 0), values))
    assert_close(result.context, values.mean(1, keepdim=True).expand(B, T, 3))
