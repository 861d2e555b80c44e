"""The reference in blocks of queries: the same operations, memory that does not grow with T · S.

Each block computes scores, weights and context of some queries, discards the first two, and recomputes them
in the backward pass. It serves every score and normalizer without a kernel of its own, if the weights of all
queries would be large.
"""

from collections.abc import Callable
from math import prod

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.attention.dispatch import Call, Kernel
from regard.attention.forms import Additive
from regard.attention.reference import masked_scores, normalize, weighted_sum
from regard.attention.scores.base import HistoryScore
from regard.catalog import card
from regard.kernels.product.products import draws
from regard.kernels.shapes import leading, number

CELLS = 2**24  # elements of the largest tensor of a block
ON_GPU = 8  # factor on CELLS there: a launch costs as much as thousands of elements
LARGE = 2**27  # elements of the reference's largest tensor from which blocks are worth it


@card(
    "kernel",
    "blocks",
    title="The reference in blocks of queries",
    authors="regard",
    year=2026,
    link="https://arxiv.org/abs/1409.0473",
    sentence="For large calls that no other kernel takes: computed twice in training, memory bounded.",
)
class BlocksKernel(Kernel):
    """The reference, some queries at a time."""

    name = "blocks"
    windows = None

    def refuses(self, call: Call) -> str | None:
        if isinstance(call.score, HistoryScore):
            return "each step reads the alignment of the step before"
        if call.normalizer.stochastic:
            return f"normalizer is {type(call.normalizer).__name__}, whose choice must be kept"
        if call.form_type is None and draws(call.score):
            return "the score draws its own dropout, which cannot be drawn again in the backward pass"
        if not is_large(call):
            found = number(cells(call))
            return f"the largest tensor has {found} numbers, fewer than {LARGE}, which fit into memory"
        return None

    def run(self, call: Call) -> Tensor:
        return in_blocks(call, lambda scores: normalize(call, scores))


BLOCKS = BlocksKernel()


def cells(call: Call) -> int:
    """The number of elements of the reference's largest tensor."""
    query, keys = call.query, call.source.keys
    pairs = prod(leading(query, keys)) * query.shape[-2] * keys.shape[-2]
    return pairs * (keys.shape[-1] if _is_wide(call) else 1)


def _is_wide(call: Call) -> bool:
    """Whether each pair of query and key has a vector rather than one number."""
    return call.form_type is Additive or isinstance(call.score, HistoryScore)


def is_large(call: Call) -> bool:
    """Whether the reference would need too much memory, and the call can be computed twice."""
    if call.query.numel() * call.source.keys.numel() < LARGE:  # a cheap upper bound on `cells`
        return False
    again = call.form_type is not None or not draws(call.score)
    return call.query.shape[-2] > 1 and cells(call) >= LARGE and again


def in_blocks(call: Call, normalize: Callable[[Tensor], Tensor]) -> Tensor:
    """The context (..., T, Dv), computed in blocks of queries and again in the backward pass."""
    if call.form_type is not None:
        call.form()  # once, not in every block

    def one(rows: slice) -> Tensor:
        scores, factor = masked_scores(call, torch.arange(rows.start, rows.stop, device=call.query.device))
        weights = normalize(scores)
        return weighted_sum(weights if factor is None else weights * factor, call.source.values)

    T = call.query.shape[-2]
    most = CELLS * (ON_GPU if call.query.is_cuda else 1)
    rows = max(1, most * T // cells(call))
    parts = []
    for start in range(0, T, rows):
        block = slice(start, min(start + rows, T))
        if torch.is_grad_enabled():
            parts.append(checkpoint(one, block, use_reentrant=False, preserve_rng_state=False))
        else:
            parts.append(one(block))
    return torch.cat(parts, -2)
