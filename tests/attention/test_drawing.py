"""Normalizers that draw: what they draw, from where, and what gradient there is."""

import math

import pytest
import torch
from seeds import offset_seed
from torch.testing import assert_close

from regard import (
    Attention,
    ConfigError,
    DotScore,
    GumbelSoftmax,
    Hard,
    Mask,
    MultiHead,
    Softmax,
    StraightThrough,
)

CHOOSING = [Hard, StraightThrough, lambda: GumbelSoftmax(hard=True)]
DRAWING = [*CHOOSING, GumbelSoftmax]
IDS = ["hard", "straight-through", "hard gumbel", "gumbel"]
SCORES = torch.tensor([0.0, 1.0, 2.0, -1.0, -math.inf])


def seeded(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("make", DRAWING, ids=IDS)
def test_the_generator_decides_what_is_drawn(make):
    attention = Attention(DotScore(), normalizer=make())
    query, keys = torch.randn(2, 30, 5), torch.randn(2, 7, 5)
    source = attention.prepare(keys)
    first = attention(query, source, generator=seeded(1))
    torch.manual_seed(offset_seed(12345))  # the global seed has no part in it
    assert torch.equal(attention(query, source, generator=seeded(1)).weights, first.weights)
    assert not torch.equal(attention(query, source, generator=seeded(2)).weights, first.weights)
    torch.manual_seed(offset_seed(3))
    one = attention(query, source).weights
    torch.manual_seed(offset_seed(3))
    assert torch.equal(attention(query, source).weights, one)


@pytest.mark.parametrize("make", CHOOSING, ids=IDS[:3])
def test_a_choice_is_exactly_one_hot_in_training_and_evaluation(make):
    for training in (True, False):
        weights = make().train(training)(torch.randn(50, 7), None)
        assert ((weights == 0) | (weights == 1)).all()
        assert (weights.sum(-1) == 1).all()


@pytest.mark.parametrize("make", CHOOSING, ids=IDS[:3])
@pytest.mark.parametrize("gradients", [True, False])
def test_values_may_have_rows_that_share_a_choice(make, gradients):
    attention = Attention(DotScore(), normalizer=make()).eval()
    source = attention.prepare(torch.randn(1, 7, 5), torch.randn(3, 7, 2))
    query = torch.randn(1, 4, 5, requires_grad=gradients)
    result = attention(query, source)
    assert_close(result.context, result.weights @ source.values)


@pytest.mark.parametrize("make", CHOOSING, ids=IDS[:3])
def test_choices_are_as_frequent_as_the_softmax_says(make):
    n = 20_000
    weights = make()(SCORES.expand(n, -1), None, seeded(0))
    expected = SCORES.softmax(-1)
    sigma = (expected * (1 - expected) / n).sqrt()
    assert ((weights.mean(0) - expected).abs() <= 4 * sigma).all()
    assert (weights[:, 4] == 0).all()


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_the_likeliest_of_a_relaxed_sample_is_a_sample(temperature):
    n = 20_000
    weights = GumbelSoftmax(temperature=temperature)(SCORES.expand(n, -1), None, seeded(0))
    frequency = torch.bincount(weights.argmax(-1), minlength=5) / n
    expected = SCORES.softmax(-1)
    assert ((frequency - expected).abs() <= 4 * (expected * (1 - expected) / n).sqrt()).all()
    assert_close(weights.sum(-1), torch.ones(n))


def test_a_low_temperature_makes_relaxed_samples_one_hot():
    weights = GumbelSoftmax(temperature=1e-3)(torch.randn(200, 7), None, seeded(0))
    assert (weights.max(-1).values > 0.99).float().mean() > 0.95


@pytest.mark.parametrize("make", CHOOSING, ids=IDS[:3])
def test_evaluation_takes_the_likeliest(make):
    scores = torch.randn(50, 7)
    chosen = make().eval()(scores)
    assert torch.equal(chosen.argmax(-1), scores.argmax(-1))
    assert torch.equal(make().eval()(scores), chosen)


def test_the_straight_through_gradient_is_that_of_the_softmax():
    scores = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    direction = torch.randn(3, 7, dtype=torch.float64)
    for training in (True, False):
        weights = StraightThrough().train(training)(scores, None, seeded(0))
        (grad,) = torch.autograd.grad((weights * direction).sum(), scores)
        (expected,) = torch.autograd.grad((Softmax()(scores) * direction).sum(), scores)
        assert_close(grad, expected)


def test_the_gradient_of_a_hard_gumbel_choice_is_that_of_the_relaxed_one():
    scores = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    direction = torch.randn(3, 7, dtype=torch.float64)
    grads = []
    for hard in (True, False):
        weights = GumbelSoftmax(temperature=0.7, hard=hard)(scores, None, seeded(0))
        grads.append(torch.autograd.grad((weights * direction).sum(), scores)[0])
    assert_close(*grads)


@pytest.mark.parametrize("make", CHOOSING[:2], ids=IDS[:2])
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_the_log_probability_is_that_of_the_choice(make, training):
    attention = Attention(DotScore(), normalizer=make()).train(training)
    query, keys = torch.randn(2, 3, 5), torch.randn(2, 7, 5)
    result = attention(
        query, attention.prepare(keys, mask=Mask(lengths=torch.tensor([7, 0]))), generator=seeded(0)
    )
    assert result.log_probability.shape == (2, 3)
    logs = (query @ keys.mT / math.sqrt(5)).log_softmax(-1)
    chosen = result.weights.argmax(-1, keepdim=True)
    assert_close(result.log_probability[0], logs.gather(-1, chosen)[0, :, 0])
    assert (result.log_probability[1] == 0).all()  # nothing visible: nothing chosen


def test_reinforce_estimates_the_exact_gradient():
    """E[v(s) ∇ log p(s)] = ∇ E[v(s)]: 20,000 samples of 3 positions, within five standard errors."""
    n = 20_000
    key = torch.tensor([[0.5], [-0.3], [0.1]], dtype=torch.float64, requires_grad=True)
    value = torch.tensor([[1.0], [3.0], [-2.0]], dtype=torch.float64)
    attention = Attention(DotScore(1.0), normalizer=Hard())
    query = torch.ones(n, 1, dtype=torch.float64)
    result = attention(query, attention.prepare(key, value), generator=seeded(0))
    reward = result.context.detach().squeeze(-1)
    assert result.context.requires_grad is False
    surrogate = (reward * result.log_probability).mean()
    (estimate,) = torch.autograd.grad(surrogate, key)
    exact_mean = (key.squeeze(-1).softmax(-1) * value.squeeze(-1)).sum()
    (exact,) = torch.autograd.grad(exact_mean, key)
    p = key.detach().squeeze(-1).softmax(-1)
    # one sample of reward · (onehot - p) has at most a spread of 3 in each part
    assert ((estimate - exact).abs() <= 5 * 3 / math.sqrt(n)).all()
    assert (exact.abs() > 0.1).all()
    assert_close(p.sum(), torch.tensor(1.0, dtype=torch.float64))


def test_the_log_probability_has_no_nan_gradient_for_empty_rows():
    query = torch.randn(2, 3, 5, requires_grad=True)
    attention = Attention(DotScore(), normalizer=Hard())
    result = attention(
        query, attention.prepare(torch.randn(2, 7, 5), mask=Mask(lengths=torch.tensor([7, 0])))
    )
    result.log_probability.sum().backward()
    assert torch.isfinite(query.grad).all()
    assert (query.grad[1] == 0).all()
    assert (query.grad[0] != 0).any()


def test_heads_hand_out_the_log_probability_of_each_head():
    heads = MultiHead(10, 2, attention=Attention(DotScore(), normalizer=Hard()))
    x = torch.randn(2, 7, 10)
    assert heads(x, heads.prepare(x), generator=seeded(0)).log_probability.shape == (2, 2, 7)


@pytest.mark.parametrize("normalizer", [Softmax(), GumbelSoftmax()], ids=["softmax", "gumbel"])
def test_soft_attention_has_no_log_probability(normalizer):
    attention = Attention(DotScore(), normalizer=normalizer)
    result = attention(torch.randn(3, 5), attention.prepare(torch.randn(7, 5)))
    text = r"^AttentionResult: `log_probability` needs a hard normalizer, such as Hard\.$"
    with pytest.raises(ConfigError, match=text):
        result.log_probability  # noqa: B018


def test_what_was_drawn_stays_drawn():
    attention = Attention(DotScore(), normalizer=Hard())
    query, keys = torch.randn(40, 5), torch.randn(7, 5)
    result = attention(query, attention.prepare(keys))
    first = result.weights.clone()
    assert torch.equal(result.weights, first)
    assert torch.equal(result.rows(torch.tensor([3, 0])), first[[3, 0]])
    assert_close(result.context, first @ keys)
