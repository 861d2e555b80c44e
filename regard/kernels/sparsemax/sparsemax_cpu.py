"""Sparsemax of rows on a CPU without sorting them, and attention with it: sparsemax_cpu.cpp.

    weights = sparsemax(scale · q kᵀ), 0 where hidden       most of them are zero
    context = weights · values

    q       (N, T, D)
    k       (N, S, D)
    values  (N, S, Dv)
    hidden  (N or 1, T or 1, S) bool, or None

If few weights are nonzero, the product with the values and the whole gradient loop over those alone. Without
a compiler rows are sorted, and products are dense.
"""

import ctypes
import struct
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.attention.normalizers.sparsemax import Sparsemax
from regard.kernels.compiler import in_threads, library

SHARED = 2**16  # fewer elements than this are not worth a second thread
SMALL = 2**22  # up to so many multiplications, scores are no slower here than in a product of PyTorch
KEPT = 2**22  # up to so many weights are saved for the backward pass; more are recomputed
PAIRS = 2**20  # and so many at a time
LITTLE = 2**12  # up to so many weights, do not count the zeros
# at most one weight in so many may be nonzero; above that, dense products are faster
FEW, FEW_BACKWARD = 20, 4


class Loop(NamedTuple):
    """A compiled loop, and the packer of its arguments: the first item, one past the last, and the rest."""

    run: Callable[[bytes], None]
    record: Callable[..., bytes]


class Loops(NamedTuple):
    """The loops of sparsemax_cpu.cpp."""

    rows: Loop
    gradient: Loop
    mix: Loop
    attend: Loop
    product_gradient: Loop
    nonzero: Callable[[int, int], int]  # (address, size) -> how many elements are nonzero


def forward(scores: Tensor) -> Tensor:
    """(..., S) float32 -> weights; zeros for a row of -inf."""
    loops = compiled()
    if loops is None:
        return Sparsemax()(scores)
    scores = scores.contiguous()
    return _normalized(loops, scores, torch.empty_like(scores))


def _normalized(loops: Loops, scores: Tensor, weights: Tensor) -> Tensor:
    """Normalise the scores into `weights`, which may be the same tensor."""
    n, numbers = scores.shape[-1], scores.numel()
    _over(loops.rows, numbers // n, numbers, scores.data_ptr(), weights.data_ptr(), n)
    return weights


def backward(grad: Tensor, weights: Tensor) -> Tensor:
    """The gradient of the scores, from the weights."""
    loops = compiled()
    if loops is None:
        return plain_gradient(grad, weights)
    grad, weights = grad.contiguous(), weights.contiguous()
    out = torch.empty_like(grad)
    n, numbers = grad.shape[-1], grad.numel()
    at = (weights.data_ptr(), grad.data_ptr(), out.data_ptr())
    _over(loops.gradient, numbers // n, numbers, *at, n)
    return out


def plain_gradient(grad: Tensor, weights: Tensor) -> Tensor:
    """The same with PyTorch operations."""
    inside = weights != 0
    count = inside.sum(-1, keepdim=True).clamp_min(1)
    mean = (grad * inside).sum(-1, keepdim=True) / count
    return torch.where(inside, grad - mean, 0.0)


def weigh(q: Tensor, k: Tensor, values: Tensor, hidden: Tensor | None, scale: float) -> Tensor:
    """The weights (N, T, S) of `product` alone."""
    return forward(_scores(q, k, hidden, scale))


def product(
    q: Tensor, k: Tensor, values: Tensor, hidden: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """The context (N, T, Dv) and the weights (N, T, S)."""
    loops = compiled()
    if loops is None:
        weights = Sparsemax()(_scores(q, k, hidden, scale))
        return weights @ values, weights
    if q.shape[1] == 1 or q.numel() * k.shape[1] <= SMALL:
        return _attended(loops, q, k, values, hidden, scale)
    scores = _scores(q, k, hidden, scale)
    weights = _normalized(loops, scores, scores)
    if _share(weights, loops) * FEW > 1:
        return weights @ values, weights
    values = values.contiguous()
    N, T, S = weights.shape
    d = values.shape[-1]
    context = weights.new_empty(N, T, d)
    at = (weights.data_ptr(), values.data_ptr(), context.data_ptr())
    _over(loops.mix, N * T, N * T * S, *at, T, S, d)
    return context, weights


def _scores(q: Tensor, k: Tensor, hidden: Tensor | None, scale: float) -> Tensor:
    scores = torch.baddbmm(q.new_empty(1, 1, 1), q, k.mT, beta=0, alpha=scale)
    return scores if hidden is None else scores.masked_fill_(hidden, -torch.inf)


def _attended(
    loops: Loops, q: Tensor, k: Tensor, values: Tensor, hidden: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """The same in one compiled call: for one query or small sizes, call overhead exceeds the work."""
    q, k, values = q.contiguous(), k.contiguous(), values.contiguous()
    N, T, D = q.shape
    _, S, d = values.shape
    context, weights = q.new_empty(N, T, d), q.new_empty(N, T, S)
    mask, by_item, by_row = 0, 0, 0
    if hidden is not None:
        hidden = hidden.expand(*hidden.shape[:2], S).contiguous()
        mask = hidden.data_ptr()
        by_row = S if hidden.shape[1] > 1 else 0
        by_item = S * hidden.shape[1] if hidden.shape[0] > 1 else 0
    at = (q.data_ptr(), k.data_ptr(), values.data_ptr(), mask, weights.data_ptr(), context.data_ptr())
    _over(loops.attend, N * T, N * T * S, *at, scale, by_item, by_row, T, S, D, d)
    return context, weights


def product_backward(
    grad: Tensor, q: Tensor, k: Tensor, values: Tensor, weights: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and the values."""
    loops = compiled()
    few = loops is not None and (weights.numel() <= LITTLE or _share(weights, loops) * FEW_BACKWARD <= 1)
    if loops is None or not few:
        slopes = backward(grad @ values.mT, weights).mul_(scale)
        return slopes @ k, slopes.mT @ q, weights.mT @ grad
    weights, grad = weights.contiguous(), grad.contiguous()
    q, k, values = q.contiguous(), k.contiguous(), values.contiguous()
    of_q, of_k, of_values = torch.empty_like(q), torch.empty_like(k), torch.empty_like(values)
    given = (weights.data_ptr(), q.data_ptr(), k.data_ptr(), values.data_ptr(), grad.data_ptr())
    to = (of_q.data_ptr(), of_k.data_ptr(), of_values.data_ptr())
    (N, T, S), D, d = weights.shape, q.shape[-1], values.shape[-1]
    _over(loops.product_gradient, N, N * T * S, *given, *to, scale, T, S, D, d)
    return of_q, of_k, of_values


def _over(loop: Loop, items: int, numbers: int, *rest: float) -> None:
    """Run the loop over all items, on several threads if there are many elements."""
    if numbers < SHARED:
        loop.run(loop.record(0, items, *rest))
        return
    in_threads(lambda first, last: loop.run(loop.record(first, last, *rest)), items, worth=True)


def _share(weights: Tensor, loops: Loops) -> float:
    """The share of nonzero weights."""
    n = weights.numel()
    return float(loops.nonzero(weights.data_ptr(), n) / n)


@cache
def compiled() -> Loops | None:
    """The compiled loops; None without a compiler."""
    found = library(
        "sparsemax/sparsemax_cpu.cpp", "sparsemax sorts its rows, several times slower than compiled"
    )
    if found is None:
        return None

    def loop(run: Any, fields: str) -> Loop:
        run.argtypes, run.restype = [ctypes.c_char_p], None
        return Loop(run, struct.Struct(fields).pack)

    found.sparsemax_count.argtypes = [ctypes.c_void_p, ctypes.c_long]
    found.sparsemax_count.restype = ctypes.c_long
    return Loops(
        rows=loop(found.sparsemax_rows, "5q"),
        gradient=loop(found.sparsemax_gradient, "6q"),
        mix=loop(found.sparsemax_mix, "8q"),
        attend=loop(found.sparsemax_attend, "8qd6q"),
        product_gradient=loop(found.sparsemax_product_gradient, "10qd4q"),
        nonzero=found.sparsemax_count,
    )
