"""Sparsemax of any score, without sorting.

    weights = sparsemax(scores): the threshold by Newton's steps, its gradient in closed form

The scores are the reference's own; sparsemax_cpu.py and sparsemax_cuda.py normalise them. Where the scores of
all queries would be too many for memory, blocks of queries are computed one after another, and again in the
backward pass (blocks.py).
"""

import torch
from torch import Tensor

from regard.attention.compose import mix, scored
from regard.attention.normalizers.sparsemax import Sparsemax
from regard.kernels import ops
from regard.kernels.blocks import in_blocks, is_large
from regard.kernels.compiler import triton_missing
from regard.kernels.dispatch import Call, Fused


class SparsemaxKernel:
    """The reference's scores, normalised without sorting."""

    name = "sparsemax"

    def refuses(self, call: Call) -> str | None:
        if type(call.normalizer) is not Sparsemax:
            return f"normalizer is {type(call.normalizer).__name__}, this kernel computes Sparsemax"
        if call.query.dtype == torch.float64:
            return "dtype is torch.float64, which goes to the reference"
        if 0 in (call.query.shape[-2], call.source.S):
            return "there is nothing to attend to"
        return triton_missing() if call.query.is_cuda else None

    def run(self, call: Call) -> Tensor | Fused:
        if is_large(call) and call.dropout == 0:
            return in_blocks(call, _weights)
        scores, factor = scored(call)
        weights = _weights(scores)
        weights = weights if factor is None else weights * factor
        used = torch.dropout(weights, call.dropout, train=True) if call.dropout else weights
        return Fused(mix(used, call.source.values), alignment=(scores, weights))


SPARSEMAX = SparsemaxKernel()


def _weights(scores: Tensor) -> Tensor:
    return ops.sparsemax(scores.contiguous())
