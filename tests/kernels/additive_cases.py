"""What the tests of the additive kernels share: random calls, and errors measured against float64."""

from dataclasses import replace

import torch
from kernels.error_rule import assert_rule
from torch import Tensor

from regard import AdditiveScore, Attention, Mask, Softmax
from regard.attention.dispatch import Call

HALF = (torch.bfloat16, torch.float16)


def score_of(Dq: int, Dk: int, D: int, dtype: torch.dtype, device: str = "cpu") -> AdditiveScore:
    score = AdditiveScore(query=Dq, keys=Dk, hidden=D)
    with torch.no_grad():
        score.v.weight.mul_(4.0)  # weights of the source that differ, so that errors show
    return score.to(device, dtype)


def call_of(
    score: AdditiveScore,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask=None,
    temperature=1.0,
    normalizer=None,
) -> Call:
    normalizer = Softmax(temperature=temperature) if normalizer is None else normalizer
    source = Attention(score).prepare(keys, values, mask)
    return Call(query, source, score, normalizer, None, None, 0.0)


def reference(call: Call) -> Tensor:
    attention = Attention(call.score, normalizer=call.normalizer, kernel="reference")
    return attention(call.query, call.source).context


def outcomes(
    run, score: AdditiveScore, inputs, grad: Tensor, mask=None, temperature=1.0, normalizer=None
) -> dict[str, Tensor]:
    """The context and every gradient, of `run(call)`."""
    query, keys, values = (x.detach().clone().requires_grad_() for x in inputs)
    score.zero_grad()
    context = run(call_of(score, query, keys, values, mask, temperature, normalizer))
    context.backward(grad.to(context.dtype))
    parameters = {f"grad {name}": p.grad.clone() for name, p in score.named_parameters()}
    return {
        "context": context.detach(),
        "grad query": query.grad,
        "grad keys": keys.grad,
        "grad values": values.grad,
        **parameters,
    }


def assert_as_good_as_reference(
    run, score, inputs, grad, mask=None, temperature=1.0, normalizer=None, draws=8
) -> None:
    """By the error rule, over several draws of the inputs."""
    exact = AdditiveScore(
        query=score.W.in_features, keys=score.U.in_features, hidden=score.W.out_features
    ).to(inputs[0].device, torch.float64)
    exact.load_state_dict({k: v.double() for k, v in score.state_dict().items()})
    rest = (mask, temperature, normalizer)

    def problem(inputs):
        wide = [x.double() for x in inputs]
        return (
            lambda: outcomes(run, score, inputs, grad, *rest),
            lambda: outcomes(reference, score, inputs, grad, *rest),
            lambda: outcomes(reference, exact, wide, grad.double(), *rest),
        )

    assert_rule(problem(inputs), *(problem([torch.randn_like(x) for x in inputs]) for _ in range(draws - 1)))


def random_inputs(lead, T, S, Dq=7, Dk=9, Dv=5, dtype=torch.float32, device="cpu"):
    def randn(*shape):
        return torch.randn(*shape, device=device).to(dtype)

    query, keys, values = randn(*lead, T, Dq), randn(*lead, S, Dk), randn(*lead, S, Dv)
    return [query, keys, values], randn(*lead, T, Dv)


def masks(B: int, T: int, S: int, device: str = "cpu") -> dict[str, Mask]:
    lengths = torch.randint(1, S + 1, (B,), device=device)
    dense = torch.rand(B, T, S, device=device) < 0.7
    return {
        "causal": Mask(causal=True),
        "causal from 3": Mask(causal=True, offset=3),
        "lengths": Mask(lengths=lengths),
        "an empty row": Mask(lengths=torch.where(torch.arange(B, device=device) == 0, 0, lengths)),
        "window": Mask(window=(2, 1)),
        "causal window": Mask(window=(3, 4), causal=True, offset=1),
        "dense": Mask(dense=dense),
        "dense row": Mask(dense=dense[:, :1]),
        "dense shared": Mask(dense=dense[0]),
        "dense last axis": Mask(dense=dense[0, 0]),
        "all": replace(Mask(causal=True, window=(5, 5), lengths=lengths, dense=dense), offset=2),
    }


def extremes(T: int, S: int, D: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Pairs (a, b) whose exponentials leave float32, or whose large parts cancel."""
    a, b = torch.randn(1, T, D), torch.randn(1, S, D)
    large, sign = torch.full((1, 1, D), 1e4), torch.randn(1, 1, D).sign()
    one = a.clone()
    one[:, 0] += 1e4
    return {
        "saturated above": (a + 1e4, b),
        "saturated below": (a - 1e4, b + 20),
        "both far, same sign": (a + 30, b + 30),
        "opposite, moderate": (a + 15, b - 15),
        "opposite, 1e4": (a + large * sign, b - large * sign),
        "one row only": (one, b),
        "past the limit of the exponential": (a * 44, b * 44),
    }


with torch.random.fork_rng(devices=[]):  # for the names
    MASKS, EXTREMES = tuple(masks(1, 1, 1)), tuple(extremes(1, 1, 1))


def far_from_zero(B: int, T: int, S: int, D: int, Dv: int, device: str = "cpu") -> list[Tensor]:
    """a, b, v and values; a and b are far from zero on opposite sides."""
    a, b, values = (torch.randn(B, n, d, device=device) for n, d in ((T, D), (S, D), (S, Dv)))
    return [a + 100, b - 100, torch.randn(D, device=device) * 2 * D**-0.5, values]


def assert_errors_by_norm(context: Tensor, arguments: list[Tensor]) -> None:
    """At most twice the error of the formula, both against float64, without jitter.

    For one tensor of thousands of numbers, whose norm is no matter of luck.
    """

    def plain(a: Tensor, b: Tensor, v: Tensor, values: Tensor) -> Tensor:
        return (torch.tanh(a[:, :, None] + b[:, None]) @ v).softmax(-1) @ values

    truth = plain(*(x.double() for x in arguments))
    error, own = ((x.double() - truth).norm().item() for x in (context, plain(*arguments)))
    assert error <= 2 * own, f"{error:.2e} against {own:.2e}"
