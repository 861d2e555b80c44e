"""The k largest weights of each query, without building all weights.

    weight = exp(score / temperature - m) / Σ exp(score / temperature - m),   m the largest of the row

Scores that are products are computed in tiles along both axes. For each row the k best, m and the running sum
are kept; the sum is rescaled when a tile has a larger m, as in an online softmax. A kernel may do it in one
pass. Other scores that have a kernel are computed in blocks of whole rows.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention import paths
from regard.attention.dispatch import Call
from regard.attention.looks import look, looked_form, products_of
from regard.attention.normalizers.softmax import Softmax
from regard.attention.reference import masked_scores

NUMBERS = 2**25  # scores in memory at a time, where whole rows are computed
TILE = 256  # a tile has so many queries, and eight times as many source positions


def largest(call: Call, k: int) -> tuple[Tensor, Tensor] | None:
    """(..., T, k) largest weights and their positions; None if whole rows of the reference are needed."""
    T, S = call.query.shape[-2], call.source.S
    if k > S or T == 0:
        return None
    products = products_of(call, k)
    if products is None:
        return _of_fused_rows(call, k)
    kernel = paths.choose("top-k", products)
    if kernel is not None:
        found: tuple[Tensor, Tensor] = kernel.run(products)
        return found
    assert isinstance(call.normalizer, Softmax)
    temperature, rows = call.normalizer.temperature, []
    for start in range(0, T, TILE):
        targets = torch.arange(start, min(start + TILE, T), device=call.query.device)
        best: _Best | None = None
        for first in range(0, S, 8 * TILE):
            scores, _ = masked_scores(call, targets, slice(first, min(first + 8 * TILE, S)))
            best = _better(best, scores if temperature == 1.0 else scores / temperature, first, k)
        assert best is not None
        total = best.total.masked_fill(best.total == 0, 1.0)  # 0 in a row that sees nothing
        rows.append((_exp(best.scores, best.most) / total, best.places))
    return torch.cat([x for x, _ in rows], -2), torch.cat([x for _, x in rows], -2)


def _of_fused_rows(call: Call, k: int) -> tuple[Tensor, Tensor] | None:
    """The same from blocks of whole rows whose scores a kernel computes; None if there is no such kernel."""
    form, T = looked_form(call), call.query.shape[-2]
    if form is None or paths.choose("scores", form) is None:
        return None
    block = max(1, NUMBERS * call.source.keys.shape[-1] // max(1, call.source.keys.numel()))
    found = []
    for start in range(0, T, block):
        targets = torch.arange(start, min(start + block, T), device=call.query.device)
        found.append(look(call, targets).weights.topk(k, -1))
    return torch.cat([best.values for best in found], -2), torch.cat([best.indices for best in found], -2)


class _Best(NamedTuple):
    """Running result for a block of rows."""

    scores: Tensor  # (..., R, k) the largest
    places: Tensor  # (..., R, k) their positions
    most: Tensor  # (..., R, 1) the very largest
    total: Tensor  # (..., R, 1) Σ exp(score - most)


def _better(best: _Best | None, scores: Tensor, first: int, k: int) -> _Best:
    """`best` updated with another tile of scores (..., R, W), whose positions begin at `first`."""
    found = scores.topk(min(k, scores.shape[-1]), dim=-1)
    values, places = found.values, found.indices + first
    most = values[..., :1]
    # the largest weight is 1 / sum; one softmax pass instead of three for exponentials and their sum
    total = scores.softmax(-1).gather(-1, found.indices[..., :1]).reciprocal()
    total = total.masked_fill(most == -math.inf, 0.0)
    if best is None:
        return _Best(values, places, most, total)
    values, places = torch.cat([best.scores, values], -1), torch.cat([best.places, places], -1)
    kept = values.topk(min(k, values.shape[-1]), dim=-1)
    joint = torch.maximum(best.most, most)
    total = best.total * _exp(best.most, joint) + total * _exp(most, joint)
    return _Best(kept.values, places.gather(-1, kept.indices), joint, total)


def _exp(scores: Tensor, most: Tensor) -> Tensor:
    """exp(score - most); 0 where `most` is -inf, since nothing is visible there."""
    return (scores - most.masked_fill(most == -math.inf, 0.0)).exp()
