"""Additive attention of a decoder's step on a CPU: few queries, no gradients, a source that is asked again.

    e[t, s] = Σ_d v_d tanh(a[t, d] + b[s, d]),   tanh(a + b) = (x - 1) / (x + 1),   x = e^{2a} e^{2b}

As in additive_cpu.py, but the exponentials of the keys are taken once for a source and kept with it, and
scores, softmax and context of a step are one call into additive_cpu.cpp. Scores and weights come with it.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention import reference
from regard.attention.dispatch import Call, Fused, Kernel
from regard.attention.forms import Additive
from regard.attention.keep import version_of
from regard.attention.normalizers.softmax import Softmax
from regard.catalog import card
from regard.kernels.additive.additive_cpu import LANES, LARGEST, SATURATED, compiled, exponentials, panels_of
from regard.kernels.additive.additive_operands import additive
from regard.kernels.shapes import flat, leading

QUERIES = 16  # more than this are worth what additive_cpu.py does for many


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
            return "not all is float32, or autocast is on"
        trained = (a, b, values, v, v if W is None else W)
        if torch.is_grad_enabled() and any(x.requires_grad for x in trained):
            return "gradients are wanted, and this kernel has none"
        if b is not keys:
            return "the score changes its keys at every call"
        if mask.dense is not None:
            return "the mask has a dense part"
        if keys.shape[-1] % 4 or 0 in (query.numel(), keys.numel(), values.numel()):
            return "the loops take features by fours, and something to attend to"
        if mask.lengths is not None and mask.lengths.shape[0] not in (1, *query.shape[:-2][:1]):
            return "there are not as many lengths as rows"
        return None if compiled() is not None else "there is no C++ compiler"

    def run(self, call: Call) -> Fused:
        form, source, mask = additive(call), call.source, call.source.mask
        ready, a = prepared(call), form.a
        if ready.reach > SATURATED:  # where the exponentials may leave float32
            alignment = reference.align(call)
            return Fused(reference.mixed(call, alignment), alignment)
        T, S, D = a.shape[-2], source.S, a.shape[-1]
        lead = ready.lead if a.shape[:-2] == ready.lead else leading(a, source.keys, source.values)
        a, v = flat(a, lead).contiguous(), form.v.contiguous()
        N, P, Dv = a.shape[0], ready.panels.shape[1], ready.values.shape[-1]
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
        if len(lead) != 1:
            scores, weights, context = (x.view(*lead, *x.shape[1:]) for x in (scores, weights, context))
        return Fused(context, (scores, weights))


ADDITIVE_STEP_CPU = AdditiveStepCPU()


class Prepared(NamedTuple):
    """What is computed of a source once, for all steps that ask it."""

    version: int  # of keys and values, when they were read
    lead: tuple[int, ...]
    panels: Tensor  # (N, P, D, 16): e^{2b}
    values: Tensor  # (N, S, Dv)
    reach: float  # the largest |b|


def prepared(call: Call) -> Prepared:
    """The exponentials of a source's keys, kept with the source; made again if the keys were written to."""
    source = call.source
    keys, values = source.keys, source.values
    version = version_of(keys) + version_of(values)
    lead = leading(call.query, keys, values)
    found: Prepared | None = source.__dict__.get("_exponentials")
    if found is None or found.version != version or found.lead != lead:
        b = flat(keys.detach(), lead)
        own = flat(values.detach(), lead).contiguous()
        found = Prepared(version, lead, panels_of(exponentials(b)), own, float(b.abs().max()))
        source.__dict__["_exponentials"] = found
    return found
