"""The error rule holds for every kernel on fresh problems, and a kernel with a fault breaks it."""

import pytest
import torch
from documentation import benchmark
from kernels.error_rule import assert_rule

from regard import Sparsemax
from regard.bench.rule import Errors, Jittered


@pytest.fixture(scope="module")
def trials():
    """benchmarks/error_rule.py, which draws thousands."""
    return benchmark("error_rule")


def test_it_holds_for_every_kernel_on_fresh_problems(trials):
    first = int(torch.randint(2**30, ()))
    for i, (name, kind) in enumerate(trials.KINDS.items()):
        problem = trials.make(kind, first + i)
        broken = trials.judge(problem).broken
        assert broken is None, f"{name}, seed {first + i}, {trials.describe(problem)}: {broken}"


def test_every_kernel_that_runs_on_a_cpu_has_problems(trials):
    from regard.attention.dispatch import kernels

    here = {kernel.name for kernel in kernels() if "cuda" not in kernel.name}
    # the step of a decoder has no gradients, which the problems ask for: test_additive_step_cpu.py
    assert {kind.kernel for kind in trials.KINDS.values()} == here - {"additive-step-cpu"}


def softmax_attention(q, k, v):
    return (q @ k.mT).softmax(-1) @ v


def additive_attention(a, b, w, values):
    return (torch.tanh(a[:, :, None] + b[:, None]) @ w).softmax(-1) @ values


class ApproximateTanh(torch.autograd.Function):
    """As a GPU has it: off by 2⁻¹¹."""

    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y + 2**-11 * torch.sin(1000 * x)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (1 - y * y)


def running_sum(weights, values, dtype):
    """Values added one after another, the sum rounded each time."""
    total = torch.zeros(*weights.shape[:-1], values.shape[-1])
    for s in range(values.shape[-2]):
        total = (total + weights[..., s, None] * values[..., None, s, :]).to(dtype).float()
    return total


PRODUCT_FAULTS = {
    "a sum in half precision": lambda q, k, v: running_sum((q @ k.mT).softmax(-1), v, torch.bfloat16),
    "scores in half precision": lambda q, k, v: (q @ k.mT).bfloat16().float().softmax(-1) @ v,
    "weights in half precision": lambda q, k, v: (q @ k.mT).softmax(-1).half().float() @ v,
    "the last key is lost": lambda q, k, v: softmax_attention(q, k[:, :-1], v[:, :-1]),
    "the last key is lost by the gradient": lambda q, k, v: softmax_attention(
        q, torch.cat([k[:, :-1], k[:, -1:].detach()], 1), v
    ),
    "no gradient through the weights": lambda q, k, v: (q @ k.mT).softmax(-1).detach() @ v + 0 * q.sum(),
    "a factor of 0.99999": lambda q, k, v: 0.99999 * softmax_attention(q, k, v),
    "the largest score is not taken off": lambda q, k, v: (
        (q @ k.mT + 1e3 - 1e3).exp() / (q @ k.mT + 1e3 - 1e3).exp().sum(-1, keepdim=True) @ v
    ),
    "another normalizer": lambda q, k, v: Sparsemax()(q @ k.mT) @ v,
}
ADDITIVE_FAULTS = {
    "an approximate tanh": lambda a, b, w, values: (
        (ApproximateTanh.apply(a[:, :, None] + b[:, None]) @ w).softmax(-1) @ values
    ),
    "sums in half precision": lambda a, b, w, values: (
        (torch.tanh((a[:, :, None] + b[:, None]).half().float()) @ w).softmax(-1) @ values
    ),
    "the last feature is lost": lambda a, b, w, values: additive_attention(
        a, b, torch.cat([w[:-1], 0 * w[-1:]]), values
    ),
}


def outcome(run, inputs, direction, dtype=torch.float32):
    leaves = [x.to(dtype).requires_grad_() for x in inputs]
    context = run(*leaves)
    grads = torch.autograd.grad(context, leaves, direction.to(dtype), allow_unused=True)
    return [context, *(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, grads, strict=True))]


def judge(run, formula, inputs, direction):
    assert_rule(
        (
            lambda: outcome(run, inputs, direction),
            lambda: outcome(formula, inputs, direction),
            lambda: outcome(formula, inputs, direction, torch.float64),
        )
    )


@pytest.mark.parametrize("fault", [None, *PRODUCT_FAULTS])
def test_a_kernel_of_products_with_a_fault_breaks_it(fault):
    inputs = [torch.randn(2, n, d) for n, d in ((9, 8), (20, 8), (20, 6))]
    direction = torch.randn(2, 9, 6)
    judge(softmax_attention, softmax_attention, inputs, direction)
    if fault is not None:
        with pytest.raises(AssertionError, match="is off by"):
            judge(PRODUCT_FAULTS[fault], softmax_attention, inputs, direction)


HALF_FAULTS = ("a sum in half precision", "the last key is lost", "another normalizer")


@pytest.mark.parametrize("fault", HALF_FAULTS)
def test_a_kernel_of_half_precision_with_a_fault_breaks_it(fault):
    # many weights of one size: a sum of few digits stops counting
    inputs = [(torch.randn(2, n, 8) * 0.3 + x).bfloat16() for n, x in ((9, 0.0), (300, 0.0), (300, 1.0))]
    direction = torch.randn(2, 9, 8).bfloat16()

    def full(run, dtype=torch.float32):
        def context(*leaves):
            made = run(*(x.to(dtype) for x in leaves))
            return made.bfloat16() if dtype == torch.float32 else made

        return context

    def found(run, dtype=torch.bfloat16):
        return lambda: outcome(run, inputs, direction, dtype)

    plain, exact = found(full(softmax_attention)), found(softmax_attention, torch.float64)
    assert_rule((plain, plain, exact))
    with pytest.raises(AssertionError, match="is off by"):
        assert_rule((found(full(PRODUCT_FAULTS[fault])), plain, exact))


@pytest.mark.parametrize("fault", ADDITIVE_FAULTS)
def test_an_additive_kernel_with_a_fault_breaks_it(fault):
    inputs = [torch.randn(2, 9, 16), torch.randn(2, 20, 16), torch.randn(16), torch.randn(2, 20, 6)]
    direction = torch.randn(2, 9, 6)
    with pytest.raises(AssertionError, match="is off by"):
        judge(ADDITIVE_FAULTS[fault], additive_attention, inputs, direction)


def test_one_wrong_number_among_thousands_breaks_it():
    inputs, direction = [torch.randn(4, n, 8) for n in (60, 30, 30)], torch.randn(4, 60, 8)

    def wrong(q, k, v):
        context = softmax_attention(q, k, v)
        spot = torch.zeros_like(context)
        spot[2, 17, 3] = 5e-4  # 2e-4 is seen with 25 seeds of 25
        return context + spot

    with pytest.raises(AssertionError, match="is off by"):
        judge(wrong, softmax_attention, inputs, direction)


def test_a_number_that_is_not_finite_or_missing_breaks_it():
    exact = {"context": torch.ones(3, dtype=torch.float64)}
    for kernel in ({"context": torch.tensor([1.0, torch.nan, 1.0])}, {}):
        errors = Errors()
        errors.add(kernel, lambda: {"context": torch.ones(3)}, exact)
        assert errors.verdict().broken is not None


def test_jitter_moves_what_is_computed_and_nothing_that_is_copied():
    x = torch.randn(50)
    with Jittered(0, torch.float32):
        copied, computed = x.clone().view(5, 10).mT.contiguous(), x * 1.0
        hidden = torch.full((3,), -torch.inf) / 2
    assert torch.equal(copied, x.view(5, 10).mT)
    assert (hidden == -torch.inf).all()
    off = ((computed - x) / x).abs()
    assert off.min() > 0
    assert off.max() < 5 * torch.finfo(torch.float32).eps
