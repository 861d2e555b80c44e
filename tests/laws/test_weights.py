"""Laws of the weights, over the whole catalogue: shape, sum, hidden positions, and what the context is."""

from itertools import product

import torch
from laws.cases import DV, EACH, PRODUCT, STOCHASTIC, B, S, T, build, call, inputs, parametrize
from torch.testing import assert_close

from regard import Mask
from regard.bench.rule import UNITS

LENGTHS = Mask(lengths=torch.tensor([7, 4]))
MASKS = {
    "nothing hidden": None,
    "lengths": LENGTHS,
    "causal": Mask(causal=True),
    "window": Mask(window=(2, 1)),
    "dense": torch.arange(B * T * S).view(B, T, S) % 3 != 1,
    "one row for all": torch.tensor([True, False, True, True, False, True, True]),
    "everything at once": LENGTHS & Mask(causal=True, window=(1, 5)) & (torch.arange(S) != 0),
}


def dense(mask) -> torch.Tensor:
    full = torch.ones(B, T, S, dtype=torch.bool)
    hidden = Mask.of(mask).to_dense(T, S, ndim=3, device=torch.device("cpu"))
    return full if hidden is None else hidden.expand(B, T, S)


@parametrize(PRODUCT)
def test_shapes_are_those_of_the_contract(case):
    result = call(build(case), inputs(case))
    assert result.context.shape == (B, T, DV)
    assert result.scores.shape == (B, T, S)
    assert result.weights.shape == (B, T, S)
    assert result.kernel == case.runs_on


@parametrize(PRODUCT)
def test_rows_sum_to_one_and_hidden_positions_get_exactly_zero(case):
    attention, x = build(case), inputs(case)
    modes = (False, True) if case.normalizer in STOCHASTIC else (False,)
    for training, (name, mask) in product(modes, MASKS.items()):
        attention.train(training)
        result = call(attention, x, mask)
        weights, visible = result.weights, dense(mask)
        assert (weights >= 0).all() or case.normalizer == "divide-by-length", name
        assert (weights[~visible] == 0).all(), name
        assert (result.scores[~visible] == -torch.inf).all(), name
        some = (result.scores > -torch.inf).any(-1)  # windows may leave a row nothing
        total = weights.sum(-1)
        if case.normalizer == "divide-by-length":  # weighs by the scores themselves, whatever their sum
            visible_sum = result.scores.where(visible & (result.scores > -torch.inf), 0.0).sum(-1)
            places = (result.scores > -torch.inf).sum(-1).clamp(min=1)
            if case.window == "global":
                assert_close(total, visible_sum / places, msg=name)
        elif case.window == "local-predictive":  # the Gaussian is not renormalised
            assert (total <= 1 + UNITS * torch.finfo(total.dtype).eps).all(), name
        else:
            assert_close(total, some.to(total), msg=name)
        assert (weights[~some] == 0).all(), name


@parametrize(PRODUCT)
def test_the_context_is_the_weights_times_the_values(case):
    """Attention is a fully connected layer whose matrix the input generates."""
    attention, x = build(case).train(), inputs(case)
    for name, mask in MASKS.items():
        result = call(attention, x, mask)
        assert_close(result.weights @ x.values, result.context, msg=name)


@parametrize(EACH)
def test_keys_are_the_values_when_no_values_are_given(case):
    attention, x = build(case), inputs(case)
    source = attention.prepare(x.keys, None, LENGTHS)
    result = attention(x.query, source, history=x.history)
    assert_close(result.context, result.weights @ x.keys)


@parametrize(EACH)
def test_align_gives_the_weights_without_the_context(case):
    attention, x = build(case), inputs(case)
    source = attention.prepare(x.keys, x.values, LENGTHS)
    alignment = attention.align(x.query, source, history=x.history)
    result = attention(x.query, source, history=x.history)
    assert_close(alignment.weights, result.weights)
    assert_close(alignment.scores, result.scores)


@parametrize(EACH)
def test_dropout_changes_the_context_and_not_the_weights(case):
    x = inputs(case, s=31) if case.window == "global" and case.score != "location" else inputs(case)
    attention = build(case, dropout=0.5)
    plain = call(attention, x)
    dropped = call(attention.train(), x)
    if case.normalizer not in ("hard", "straight-through", "gumbel-softmax"):  # those draw anew in training
        assert_close(dropped.weights, plain.weights)
    assert not torch.allclose(dropped.weights @ x.values, dropped.context)
    assert_close(call(attention.eval(), x).context, plain.context)


@parametrize(EACH)
def test_what_dropout_keeps_is_scaled_to_keep_the_mean(case):
    attention, x = build(case, dropout=0.5).train(), inputs(case)
    source = attention.prepare(x.keys, torch.eye(S, dtype=torch.float64).expand(B, S, S))  # context = weights
    result = attention(x.query, source, history=x.history)
    kept = result.context != 0
    assert_close(result.context[kept], 2 * result.weights[kept])


@parametrize(EACH)
def test_rows_are_the_rows_of_the_weights(case):
    targets = torch.tensor([2, 0, 2, -1])
    for name, mask in MASKS.items():
        attention, x = build(case), inputs(case)
        lazy = call(attention, x, mask, at=4)
        # every fused case stays fused under every mask, except a mean over positions that differ by query
        fused = case.fused and not (case.runs_on == "mean" and Mask.of(mask).is_by_query)
        assert (lazy.kernel != "reference") == fused
        assert lazy.has_weights == (not fused)
        rows = lazy.rows(targets)
        assert lazy.has_weights == (not fused), "rows must not compute the whole"
        assert_close(rows, call(attention, x, mask, at=4).weights[..., targets, :], msg=name)


@parametrize(EACH)
def test_top_is_the_top_of_the_weights(case):
    attention, x = build(case), inputs(case, t=5)
    for block in (1, 2, 128):
        values, positions = call(attention, x, LENGTHS).top(3, block=block)
        weights = call(attention, x, LENGTHS).weights
        assert_close(values, weights.topk(3, dim=-1).values)
        assert_close(weights.gather(-1, positions), values)
