"""Additive scores themselves, with their gradient, without the (T, S, D) tensor: for models that read them.

    e[t, s] = Σ_d v_d tanh(a[t, d] + b[s, d]) = Σ v - 2 Σ_d v_d r,   -inf where hidden

A kernel that computes the context never has the scores of all queries, so a model that outputs them, such as
the pointer network, would compute them twice. Here they are computed once, and weights and context from them:
on a CPU by the loops of additive_cpu.py, on a GPU by the kernels of additive_launch.py. Outside compiled
graphs this is one autograd function, including the query's projection and the mask.
"""

from math import prod
from typing import Any

import torch
from torch import Tensor

from regard.attention.dispatch import Call, Fused, Kernel
from regard.attention.forms import Additive, Form
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import is_transformed, no_autocast
from regard.attention.reference import normalize, weighted_sum
from regard.attention.result import Alignment
from regard.catalog import card
from regard.kernels.additive import additive_cpu, additive_launch
from regard.kernels.additive.additive_cpu import ADDITIVE_CPU, SMALL
from regard.kernels.additive.additive_cuda import ADDITIVE_CUDA, arguments, back_to_query, like, projected
from regard.kernels.additive.additive_operands import DTYPES, additive_scores_operator, operands, restored
from regard.kernels.compiler import triton_missing
from regard.kernels.ops import once
from regard.kernels.product.blocks import cells
from regard.kernels.product.products import hidden_pairs
from regard.kernels.shapes import LAUNCHED, fits_launch, flat, leading, number


@card(
    "kernel",
    "additive-scores",
    title="Scores of additive attention on a CPU",
    authors="regard",
    year=2026,
    link="https://arxiv.org/abs/1506.03134",
    sentence=(
        "For models that output scores: computed once, with the gradient, without a tensor of all features."
    ),
)
class AdditiveScores(Kernel):
    """The reference's scores, weights and context of additive attention."""

    name = "additive-scores"
    forms = (Additive,)
    normalizers = (Softmax,)
    aligns = True

    def refuses(self, call: Call) -> str | None:
        if not call.keep_weights:
            return "nobody reads the scores of this call, and other kernels do without them"
        reason = (ADDITIVE_CUDA if call.query.is_cuda else ADDITIVE_CPU).refuses(call)
        if reason is not None:
            return reason
        if cells(call) < SMALL:
            found = number(cells(call))
            return f"the largest tensor has {found} numbers, fewer than {SMALL}, which gain nothing"
        return None

    def run(self, call: Call) -> Fused:
        scores = _scores(call)
        weights = normalize(call, scores)
        return Fused(weighted_sum(weights, call.source.values), Alignment(scores, weights))


class AdditiveLook:
    """The scores for weights on demand, without gradients. The reference is `Additive.scores`."""

    name = "additive-look"

    def refuses(self, form: Form) -> str | None:
        if not isinstance(form, Additive):
            return "the scores are products"
        query, keys = form.query, form.keys
        if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in form):
            return "gradients are needed"
        if query.device != keys.device or query.device.type not in ("cpu", "cuda"):
            return f"the tensors are on {query.device.type} and {keys.device.type}"
        if any(x is not None and x.dtype not in DTYPES for x in form):
            return "a dtype goes to the reference"
        if torch.compiler.is_compiling() or is_transformed():
            return "the call is compiled or transformed"
        numbers = prod(leading(query, keys)) * query.shape[-2] * prod(keys.shape[-2:])
        if numbers < SMALL:
            return f"the largest tensor has {numbers} numbers, fewer than {SMALL}, which gain nothing"
        if query.is_cuda and not fits_launch(query, keys):
            return f"more than {LAUNCHED} rows of sources"
        return triton_missing() if query.is_cuda else None

    def run(self, form: Form) -> Tensor:
        """(..., T, S) float32."""
        assert isinstance(form, Additive)
        a, lead = form.a, leading(form.query, form.keys)
        own = additive_launch if a.is_cuda else additive_cpu
        with no_autocast(a):
            found = own.scores(flat(a, lead), flat(form.keys, lead), form.v.view(-1))
        return found.view(*lead, *found.shape[1:])


ADDITIVE_SCORES, ADDITIVE_LOOK = AdditiveScores(), AdditiveLook()


def _scores(call: Call) -> Tensor:
    """(..., T, S), -inf where hidden."""
    if torch.compiler.is_compiling():
        a, b, v, *_ = operands(call)
        return _shown(restored(additive_scores_operator(a, b, v), call), call)
    query, W, b, v, *_ = arguments(call)
    if b.shape[:-2] != call.query.shape[:-2]:  # leading axes had to be flattened first
        return _shown(restored(_Scores.apply(query, W, b, v, None), call), call)  # type: ignore[no-untyped-call]
    return _Scores.apply(query, W, b, v, hidden_pairs(call, call.query.ndim))  # type: ignore[no-untyped-call]


def _shown(scores: Tensor, call: Call) -> Tensor:
    hidden = hidden_pairs(call, scores.ndim)
    return scores if hidden is None else scores.masked_fill(hidden, -torch.inf)


class _Scores(torch.autograd.Function):
    """The operator regard::additive_scores, from the query (..., T, Dq) and W (D, Dq), or from a and None."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, W: Tensor | None, b: Tensor, v: Tensor, hidden: Tensor | None
    ) -> Tensor:
        a, lead = projected(query, W), b.shape[:-2]
        ctx.save_for_backward(query, W, a, b, v, hidden)
        own = additive_launch if a.is_cuda else additive_cpu
        scores = own.scores(a, flat(b, lead), v.view(-1))
        scores = scores if len(lead) == 1 else scores.view(*lead, *scores.shape[1:])
        return scores if hidden is None else scores.masked_fill_(hidden, -torch.inf)

    @staticmethod
    @once
    def backward(ctx: Any, saved: tuple[Any, ...], grad: Tensor) -> tuple[Any, ...]:
        query, W, a, b, v, hidden = saved
        lead = b.shape[:-2]
        grad = flat(grad if hidden is None else grad.masked_fill(hidden, 0.0), lead)
        run = (additive_launch if a.is_cuda else additive_cpu).scores_backward
        with no_autocast(grad):  # backward may be called under autocast
            of_a, of_b, of_v = run(grad, a, flat(b, lead), v.view(-1))
            of_query, of_W = back_to_query(of_a, query, W, ctx.needs_input_grad)
        return of_query, of_W, like(of_b, b), like(of_v, v), None
