"""Gradients agree with differences in float64, for everything that has one."""

import torch
from laws.cases import CHOOSING, EACH, Case, Inputs, build, call, inputs, parametrize
from torch.autograd import gradcheck

from regard import Mask, MultiHead

MASK = Mask(lengths=torch.tensor([3, 2])) & torch.tensor([[True] * 4, [False] * 4])
CASES = [case for case in EACH if case.normalizer not in CHOOSING]  # a choice has no gradient to compare
CASES += [
    Case("dot", "gumbel-softmax"),
    Case("cosine", "sparsemax"),
    Case("coverage", window="local-predictive"),
]


@parametrize(CASES)
def test_gradients_of_inputs_and_parameters_agree_with_differences(case):
    attention = build(case).train()  # Gumbel noise comes from a seeded generator: the same in each call
    x = inputs(case, t=2, s=4).requires_grad()
    names = [name for name, _ in attention.named_parameters()]

    def run(query, keys, values, *parameters):
        with torch.nn.utils.stateless._reparametrize_module(
            attention, dict(zip(names, parameters, strict=True))
        ):
            result = call(attention, Inputs(query, keys, values, x.history), MASK)
            return result.context, result.weights

    assert gradcheck(run, (*x.leaves(), *attention.parameters()), fast_mode=True)


@parametrize([case for case in EACH if case.normalizer in (*CHOOSING, "mean")])
def test_what_is_not_differentiable_gives_gradients_to_the_values_alone(case):
    attention, x = build(case).train(), inputs(case).requires_grad()
    result = call(attention, x)
    result.context.sum().backward()
    assert torch.isfinite(x.values.grad).all()
    if attention.normalizer.differentiable:
        assert (x.query.grad != 0).any()
    else:
        assert x.query.grad is None
        assert x.keys.grad is None


def test_gradients_of_heads_agree_with_differences():
    heads = MultiHead(4, 2).double()
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x: heads(x, heads.prepare(x, None, Mask(causal=True))).context, (x,))


def test_a_zero_vector_has_a_cosine_of_zero_and_a_moderate_gradient():
    """Memories begin as zeros; the gradient of their direction must not be 1e15."""
    attention = build(Case("cosine"), torch.float32)
    query, keys = torch.randn(1, 2, 5), torch.zeros(1, 3, 5, requires_grad=True)
    result = attention(query, attention.prepare(keys, torch.randn(1, 3, 2)))
    assert (result.scores == 0).all()
    result.context.sum().backward()
    assert keys.grad.abs().max() < 10
