"""Additive scores themselves, with their gradient, without the (T, S, D) tensor: for models that read them.

    e[t, s] = Σ_d v_d tanh(a[t, d] + b[s, d]) = Σ v - 2 Σ_d v_d r,   -inf where hidden

A kernel that goes on to the context never has the scores of all queries, so that a model whose output they
are, such as the pointer network, would compute them twice. Here they are made once, and weights and context
follow from them: on a CPU by the loops of additive_cpu.py, on a GPU by the kernels of additive_cuda.py.
"""

import torch
from torch import Tensor

from regard.attention.compose import mix, normalized
from regard.kernels import ops
from regard.kernels.additive import operands, restored
from regard.kernels.additive_cpu import ADDITIVE_CPU, SMALL
from regard.kernels.additive_cuda import ADDITIVE_CUDA
from regard.kernels.blocks import cells
from regard.kernels.dispatch import Call, Fused


class AdditiveScores:
    """The reference's scores, weights and context of additive attention."""

    name = "additive-scores"
    aligns = True

    def refuses(self, call: Call) -> str | None:
        reason = (ADDITIVE_CUDA if call.query.is_cuda else ADDITIVE_CPU).refuses(call)
        if reason is not None:
            return reason
        if not call.keeps:
            return "nobody reads the scores of this call, and other kernels do without them"
        if cells(call) < SMALL:
            return f"the largest tensor has {cells(call)} numbers, fewer than {SMALL}, which gain nothing"
        return None

    def run(self, call: Call) -> Fused:
        given = operands(call)
        scores: Tensor = restored(ops.additive_scores(given.a, given.b, given.v), call)
        shown = call.source.mask.to_dense(*scores.shape[-2:], ndim=scores.ndim, device=scores.device)
        if shown is not None:
            scores = scores.masked_fill(~shown, -torch.inf)
        weights = normalized(call, scores)
        return Fused(mix(weights, call.source.values), (scores, weights))


ADDITIVE_SCORES = AdditiveScores()
