"""A row that may attend to nothing: zero weights, zero context, zero gradient, never NaN, on every path."""

from dataclasses import replace

import pytest
import torch
from laws.cases import CHOOSING, DV, EACH, PRODUCT, B, S, T, build, call, inputs, parametrize

from regard import Attention, DotScore, GumbelSoftmax, Mask


def gradients(attention, x):
    tensors = [*x.leaves(), *attention.parameters()]
    return [tensor.grad for tensor in tensors if tensor.grad is not None]


def loss_of(result):
    """A loss that reaches context and weights, and no row of it by accident with weight zero."""
    return (result.context.sin() + 1).sum() + (result.weights.cos()).sum()


@parametrize(PRODUCT)
def test_rows_with_nothing_visible_are_zero_with_zero_gradient(case):
    attention, x = build(case, torch.float32).train(), inputs(case, dtype=torch.float32).requires_grad()
    visible = torch.ones(B, T, S, dtype=torch.bool)
    visible[0, 1] = False
    result = call(attention, x, Mask(lengths=torch.tensor([5, 0])) & visible)
    for empty in (result.weights[0, 1], result.weights[1], result.context[0, 1], result.context[1]):
        assert (empty == 0).all()
    loss_of(result).backward()
    assert all(torch.isfinite(grad).all() for grad in gradients(attention, x))
    assert x.query.grad is None or (x.query.grad[0, 1] == 0).all()
    assert x.query.grad is None or (x.query.grad[1] == 0).all()
    assert x.keys.grad is None or (x.keys.grad[1] == 0).all()
    assert (x.values.grad[1] == 0).all()


@parametrize(PRODUCT)
def test_hidden_positions_get_no_gradient(case):
    attention, x = build(case).train(), inputs(case).requires_grad()
    loss_of(call(attention, x, Mask(lengths=torch.tensor([5, 2])))).backward()
    for grad in (x.keys.grad, x.values.grad):
        assert grad is None or ((grad[0, 5:] == 0).all() and (grad[1, 2:] == 0).all())


@parametrize(PRODUCT)
def test_a_source_with_nothing_visible_gives_no_gradient_at_all(case):
    attention, x = build(case).train(), inputs(case).requires_grad()
    result = call(attention, x, torch.zeros(T, S, dtype=torch.bool))
    assert (result.weights == 0).all()
    assert (result.context == 0).all()
    loss_of(result).backward()
    assert all((grad == 0).all() for grad in gradients(attention, x))


@parametrize(EACH)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_empty_rows_are_zero_in_half_precision_too(case, dtype):
    attention, x = build(case, dtype).train(), inputs(case, dtype=dtype).requires_grad()
    result = call(attention, x, Mask(lengths=torch.tensor([5, 0])))
    assert (result.context[1] == 0).all()
    assert (result.weights[1] == 0).all()
    loss_of(result).backward()
    assert all(torch.isfinite(grad).all() for grad in gradients(attention, x))
    assert (x.values.grad[1] == 0).all()


@parametrize(EACH)
def test_what_stands_in_hidden_positions_changes_nothing(case):
    """Any finite number, however large. NaN and infinity in padding are not covered: 0 · NaN is NaN."""
    attention, x = build(case), inputs(case)
    mask = Mask(lengths=torch.tensor([5, 2]))
    clean = call(attention, x, mask)
    hidden = ~mask.to_dense(T, S, ndim=2, device=torch.device("cpu"))[..., None]
    for garbage in (1e30, -1e30):
        keys, values = (tensor.masked_fill(hidden, garbage) for tensor in (x.keys, x.values))
        dirty = attention(x.query, attention.prepare(keys, values, mask), history=x.history)
        torch.testing.assert_close(dirty.weights, clean.weights)
        torch.testing.assert_close(dirty.context, clean.context)


@parametrize(PRODUCT)
def test_no_positions_or_no_queries_give_zeros_of_the_common_shape(case):
    """A batch that only the keys have counts too."""
    for t, s, rows in ((T, 0, B), (T, 0, 1), (0, S, 1), (0, 0, 1)):
        attention, x = build(case).train(), inputs(case, t=t, s=s).requires_grad()
        for mask in (None, Mask(lengths=torch.full((B,), s)), Mask(causal=True)):
            result = call(attention, replace(x, query=x.query[:rows]), mask)
            assert result.context.shape == (B, t, DV)
            assert result.weights.shape == result.scores.shape == (B, t, s)
            assert not result.context.any()
            result.context.sum().backward()
        if case.normalizer in CHOOSING:
            assert torch.equal(result.log_probability, torch.zeros(B, t, dtype=torch.float64))


@pytest.mark.parametrize("training", [True, False])
def test_a_hard_gumbel_choice_among_no_positions_is_zero(training):
    attention = Attention(DotScore(), normalizer=GumbelSoftmax(hard=True)).train(training)
    result = attention(torch.randn(B, T, 4), attention.prepare(torch.randn(B, 0, 4)))
    assert result.weights.shape == (B, T, 0)
    assert torch.equal(result.context, torch.zeros(B, T, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_fused_kernel_gives_nothing_the_common_shape(dtype, dropout):
    attention = Attention(DotScore(), kernel="sdpa", dropout=dropout)
    for t, s in ((T, 0), (0, S), (0, 0)):
        for mask in (Mask(lengths=torch.full((B,), s)), Mask(window=(1, 1)), torch.ones(B, 1, s).bool()):
            source = attention.prepare(torch.randn(B, s, 4, dtype=dtype), mask=mask)
            context = attention(torch.randn(1, t, 4, dtype=dtype), source).context
            assert torch.equal(context, torch.zeros(B, t, 4, dtype=dtype))
