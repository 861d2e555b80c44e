"""Additive attention for a decoder's step on a CPU: few queries, a source that is used again.

    e[t, s] = Σ_d v_d tanh(a[t, d] + b[s, d]),   tanh(a + b) = (x - 1) / (x + 1),   x = e^{2a} e^{2b}

Like additive_cpu.py, but the exponentials of the keys are computed once per source and cached with it, and
scores, softmax and context of a step are one call into additive_cpu.cpp. It also returns scores and weights.
With gradients, all of this is one autograd function, whose backward is one call as well.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import reference
from regard.attention.dispatch import Call, Fused, Kernel
from regard.attention.forms import Additive
from regard.attention.keep import version_of
from regard.attention.normalizers.softmax import Softmax
from regard.attention.result import Alignment
from regard.catalog import card
from regard.kernels.additive.additive_cpu import LANES, LARGEST, SATURATED, compiled, exponentials, panels_of
from regard.kernels.additive.additive_operands import additive
from regard.kernels.decoder.few_rows import product, reads_panels
from regard.kernels.ops import once
from regard.kernels.shapes import flat, leading

QUERIES = 16  # above this, additive_cpu.py is faster
TRAINED = 3  # the same limit with gradients


@card(
    "kernel",
    "additive-step-cpu",
    title="A decoder's step of additive attention on a CPU",
    authors="regard",
    year=2026,
    link="https://arxiv.org/abs/1409.0473",
    sentence="Scores, softmax and context of a few queries in one call; exponentials of the keys are kept.",
)
class AdditiveStepCPU(Kernel):
    """The reference's additive attention for the steps of a decoder."""

    name = "additive-step-cpu"
    forms = (Additive,)
    normalizers = (Softmax,)
    device = "cpu"
    aligns = True

    def refuses(self, call: Call) -> str | None:
        query, source = call.query, call.source
        keys, values, mask = source.keys, source.values, source.mask
        if query.shape[-2] > QUERIES:
            return f"more than {QUERIES} queries are for additive-cpu"
        if torch.compiler.is_compiling():
            return "the graph is being compiled"
        (a, b, v, W), float32 = additive(call), torch.float32
        if not a.dtype is keys.dtype is values.dtype is v.dtype is float32 or query.dtype is not float32:
            return "not every tensor is float32, or autocast is on"
        if query.shape[-2] > TRAINED and _is_trained(a, b, values, v, W):
            return f"gradients are needed for more than {TRAINED} queries"
        if b is not keys:
            return "the score changes its keys at every call"
        if mask.dense is not None:
            return "the mask has a dense part"
        if keys.shape[-1] % 4 or 0 in (query.numel(), keys.numel(), values.numel()):
            return "the number of features is not a multiple of four, or there is nothing to attend to"
        if mask.lengths is not None and mask.lengths.shape[0] not in (1, *query.shape[:-2][:1]):
            return "the number of lengths differs from the number of rows"
        return None if compiled() is not None else "there is no C++ compiler"

    def run(self, call: Call) -> Fused:
        (query, keys, v, W), values, ready = additive(call), call.source.values, prepared(call)
        if ready.reach > SATURATED:  # the exponentials may leave float32
            return Fused(*reference.attend(call))
        if not _is_trained(query, keys, values, v, W):
            a = flat(query if W is None else _projected(call.score, query, W), ready.lead)
            return _unflattened(*_loops(call, ready, a, v), ready.lead)
        if len(ready.lead) != 1 or not query.shape[:-2] == keys.shape[:-2] == values.shape[:-2]:
            query, keys, values = (flat(x, ready.lead) for x in (query, keys, values))
        context, scores, weights = _Step.apply(call, ready, query, keys, v, W, values)  # type: ignore[no-untyped-call]
        return _unflattened(context, scores, weights, ready.lead)


def _projected(score: nn.Module, query: Tensor, W: Tensor) -> Tensor:
    """W q; by the score's own matrix, which a search keeps in panels."""
    if reads_panels(query):
        own = score._modules.get("W")
        if isinstance(own, nn.Linear) and own.weight is W:
            return product(own, query)
    return F.linear(query, W)


def _is_trained(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)


def _unflattened(context: Tensor, scores: Tensor, weights: Tensor, lead: tuple[int, ...]) -> Fused:
    if len(lead) != 1:
        context, scores, weights = (x.view(*lead, *x.shape[1:]) for x in (context, scores, weights))
    return Fused(context, Alignment(scores, weights))


def _loops(call: Call, ready: "Prepared", a: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(N, T, D) -> context (N, T, Dv), scores and weights (N, T, S), by the compiled loops."""
    mask, a, v = call.source.mask, a.contiguous(), v.contiguous()
    (N, T, D), S = a.shape, call.source.S
    P, Dv = ready.panels.shape[1], ready.values.shape[-1]
    left, right = mask.window if mask.window is not None else (-1, -1)
    right = 0 if mask.causal else right
    lengths = None if mask.lengths is None else mask.lengths.contiguous()
    share = 1 if lengths is None else N // lengths.shape[0]
    room = a.new_empty(T * (D + P * LANES))
    scores, weights, context = a.new_empty(N, T, S), a.new_empty(N, T, S), a.new_empty(N, T, Dv)
    loops = compiled()
    assert loops is not None
    assert isinstance(call.normalizer, Softmax)
    loops.additive_step(
        *(a.data_ptr(), ready.panels.data_ptr(), v.data_ptr(), ready.values.data_ptr()),
        None if lengths is None else lengths.data_ptr(),
        *(share, left, right, mask.offset, 1.0 / call.normalizer.temperature, LARGEST),
        *(room.data_ptr(), room.data_ptr() + 4 * T * D),
        *(scores.data_ptr(), weights.data_ptr(), context.data_ptr(), N, T, S, D, P, Dv),
    )
    return context, scores, weights


class _Step(torch.autograd.Function):
    """Query (N, T, Dq), keys (N, S, D), v, W and values (N, S, Dv) -> context, scores and weights."""

    @staticmethod
    def forward(ctx: Any, call: Call, ready: "Prepared", *given: Any) -> tuple[Tensor, ...]:
        query, _, v, W, _ = given
        a = query if W is None else F.linear(query, W)
        context, scores, weights = _loops(call, ready, a, v)
        ctx.save_for_backward(*given, a, scores, weights)
        ctx.set_materialize_grads(False)
        assert isinstance(call.normalizer, Softmax)
        ctx.ready, ctx.scale = ready, 1.0 / call.normalizer.temperature
        return context, scores, weights

    @staticmethod
    @once
    def backward(ctx: Any, saved: tuple[Any, ...], *slopes: Tensor | None) -> tuple[Any, ...]:
        ready, (of_context, of_scores, of_weights) = ctx.ready, slopes
        query, _, v, W, _, a, scores, weights = saved
        if of_scores is not None:
            of_scores = of_scores.masked_fill(scores.isneginf(), 0.0)
        (N, T, D), (S, Dv) = a.shape, ready.values.shape[1:]
        a, v = a.contiguous(), v.contiguous()
        slopes = tuple(None if x is None else x.contiguous() for x in (of_context, of_scores, of_weights))
        room, grad_a, grad_v = a.new_empty(S + 3 * D), a.new_zeros(N, T, D), a.new_zeros(N, T, D)
        grad_keys, grad_values = a.new_zeros(N, S, D), a.new_zeros(N, S, Dv)
        loops = compiled()
        assert loops is not None
        loops.additive_step_backward(
            *(a.data_ptr(), ready.keys.data_ptr(), v.data_ptr(), ready.values.data_ptr(), weights.data_ptr()),
            *(None if x is None else x.data_ptr() for x in slopes),
            *(ctx.scale, LARGEST, room.data_ptr()),
            *(x.data_ptr() for x in (grad_a, grad_keys, grad_v, grad_values)),
            *(N, T, S, D, Dv),
        )
        of_values = None if of_context is None else grad_values
        grad_v = (grad_v if N * T == 1 else grad_v.sum((0, 1))).view(1, D)
        if W is None:
            return None, None, grad_a, grad_keys, grad_v, None, of_values
        grad_W = grad_a.view(-1, D).mT @ query.reshape(-1, query.shape[-1])
        return None, None, grad_a @ W, grad_keys, grad_v, grad_W, of_values


ADDITIVE_STEP_CPU = AdditiveStepCPU()


class Prepared(NamedTuple):
    """What is computed once per source, for all steps that use it."""

    version: int  # of keys and values when they were read
    lead: tuple[int, ...]
    keys: Tensor  # (N, S, D): e^{2b}
    panels: Tensor  # (N, P, D, 16): the same in the layout of the loops
    values: Tensor  # (N, S, Dv)
    reach: float  # the largest |b|


def prepared(call: Call) -> Prepared:
    """The exponentials of a source's keys, cached with the source; recomputed after in-place writes.

    Inference tensors have no version counter: after writing to one in place, create a new source.
    """
    source = call.source
    keys, values = source.keys, source.values
    version = version_of(keys) + version_of(values)
    lead = leading(call.query, keys, values)
    made: dict[str, Prepared] = source.__dict__.setdefault("_made", {})  # shared by the steps of a decoder
    found = made.get("exponentials")
    if found is None or found.version != version or found.lead != lead:
        b = flat(keys.detach(), lead)
        own = flat(values.detach(), lead).contiguous()
        e = exponentials(b)
        found = Prepared(version, lead, e, panels_of(e), own, float(b.abs().max()))
        made["exponentials"] = found
    return found
