"""Sparsemax of rows on a CPU without sorting them, and attention with it: sparsemax_cpu.cpp.

    weights = sparsemax(scale · q kᵀ), 0 where hidden       most of them are zero anyway
    context = weights · values

    q       (N, T, D)
    k       (N, S, D)
    values  (N, S, Dv)
    hidden  (N or 1, T or 1, S) bool, or None

The product with the values, and the whole gradient, go over the weights that are not zero, if these are few.
Without a compiler rows are sorted, and products are products.
"""

import ctypes
from functools import cache

import torch
from torch import Tensor

from regard.attention.normalizers.sparsemax import Sparsemax
from regard.kernels.compiler import in_threads, library

SHARED = 2**16  # fewer numbers than this are not worth a second thread
SHORT = 4096  # numbers of a row for which the loops need no room; SHORT of sparsemax_cpu.cpp
SMALL = 2**20  # so many multiplications of scores take no longer here than in a product of PyTorch
LITTLE = 2**12  # so many weights, and it does not matter how many are zero
# one weight in so many may be other than zero; with more of them whole products are faster
FEW, FEW_BACKWARD = 20, 6


def forward(scores: Tensor) -> Tensor:
    """(..., S) float32 -> weights; zeros for a row of -inf."""
    loops = compiled()
    if loops is None:
        return Sparsemax()(scores)
    scores = scores.contiguous()
    return _normalized(loops, scores, torch.empty_like(scores))


def _normalized(loops: ctypes.CDLL, scores: Tensor, weights: Tensor) -> Tensor:
    """The weights of the scores, which may share their memory."""
    n = scores.shape[-1]
    z, p = scores.data_ptr(), weights.data_ptr()

    def run(first: int, last: int) -> None:
        kept = scores.new_empty(n)
        at = 4 * first * n
        loops.sparsemax_rows(z + at, p + at, kept.data_ptr(), last - first, n)

    in_threads(run, scores.numel() // n, worth=scores.numel() >= SHARED)
    return weights


def backward(grad: Tensor, weights: Tensor) -> Tensor:
    """The gradient of the scores, from the weights."""
    loops = compiled()
    if loops is None:
        return plain_gradient(grad, weights)
    grad, weights = grad.contiguous(), weights.contiguous()
    out = torch.empty_like(grad)
    n = grad.shape[-1]
    p, g, z = weights.data_ptr(), grad.data_ptr(), out.data_ptr()

    def run(first: int, last: int) -> None:
        at = 4 * first * n
        loops.sparsemax_gradient(p + at, g + at, z + at, last - first, n)

    in_threads(run, grad.numel() // n, worth=grad.numel() >= SHARED)
    return out


def plain_gradient(grad: Tensor, weights: Tensor) -> Tensor:
    """The same in tensors."""
    inside = weights != 0
    count = inside.sum(-1, keepdim=True).clamp_min(1)
    mean = (grad * inside).sum(-1, keepdim=True) / count
    return torch.where(inside, grad - mean, 0.0)


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
    at = [x.data_ptr() for x in (weights, values, context)]

    def run(first: int, last: int) -> None:
        places = weights.new_empty(S, dtype=torch.int32)
        loops.sparsemax_mix(*at, places.data_ptr(), first, last, T, S, d)

    in_threads(run, N * T, worth=weights.numel() >= SHARED)
    return context, weights


def _scores(q: Tensor, k: Tensor, hidden: Tensor | None, scale: float) -> Tensor:
    scores = torch.baddbmm(q.new_empty(1, 1, 1), q, k.mT, beta=0, alpha=scale)
    return scores if hidden is None else scores.masked_fill_(hidden, -torch.inf)


def _attended(
    loops: ctypes.CDLL, q: Tensor, k: Tensor, values: Tensor, hidden: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """Both in one call: for one query or few numbers, each further call costs more than its work."""
    q, k, values = q.contiguous(), k.contiguous(), values.contiguous()
    N, T, D = q.shape
    S, d = values.shape[1:]
    context, weights = q.new_empty(N, T, d), q.new_empty(N, T, S)
    mask, by_item, by_row = None, 0, 0
    if hidden is not None:
        hidden = hidden.expand(*hidden.shape[:2], S).contiguous()
        mask = hidden.data_ptr()
        by_row = S if hidden.shape[1] > 1 else 0
        by_item = S * hidden.shape[1] if hidden.shape[0] > 1 else 0
    at = [x.data_ptr() for x in (q, k, values)]
    to = [x.data_ptr() for x in (weights, context)]

    def run(first: int, last: int) -> None:
        room = q.new_empty(2 * S) if S > SHORT else None
        spare = None if room is None else room.data_ptr()
        loops.sparsemax_attend(*at, mask, *to, spare, scale, by_item, by_row, first, last, T, S, D, d)

    in_threads(run, N * T, worth=weights.numel() >= SHARED)
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
    weights, q, k, values, grad = (x.contiguous() for x in (weights, q, k, values, grad))
    of_q, of_k, of_values = torch.empty_like(q), torch.empty_like(k), torch.empty_like(values)
    at = [x.data_ptr() for x in (weights, q, k, values, grad, of_q, of_k, of_values)]
    N, T, S = weights.shape
    D, d = q.shape[-1], values.shape[-1]

    def run(first: int, last: int) -> None:
        room = q.new_empty(2 * S) if S > SHORT else None
        spare = None if room is None else room.data_ptr()
        loops.sparsemax_product_gradient(*at, spare, scale, first, last, T, S, D, d)

    in_threads(run, N, worth=weights.numel() >= SHARED)
    return of_q, of_k, of_values


def _share(weights: Tensor, loops: ctypes.CDLL) -> float:
    """Of the weights that are not zero."""
    n = weights.numel()
    return float(loops.sparsemax_count(weights.data_ptr(), n) / n)


@cache
def compiled() -> ctypes.CDLL | None:
    """The compiled loops; None without a compiler."""
    loops = library("sparsemax_cpu.cpp", "sparsemax sorts its rows, several times slower than compiled")
    if loops is not None:
        pointer, size = ctypes.c_void_p, ctypes.c_long
        loops.sparsemax_rows.argtypes = [pointer] * 3 + [size] * 2
        loops.sparsemax_gradient.argtypes = [pointer] * 3 + [size] * 2
        loops.sparsemax_mix.argtypes = [pointer] * 4 + [size] * 5
        loops.sparsemax_attend.argtypes = [pointer] * 7 + [ctypes.c_float] + [size] * 8
        loops.sparsemax_product_gradient.argtypes = [pointer] * 9 + [ctypes.c_float] + [size] * 6
        loops.sparsemax_count.argtypes, loops.sparsemax_count.restype = [pointer, size], size
        loops.sparsemax_rows.restype = loops.sparsemax_gradient.restype = None
        loops.sparsemax_attend.restype = None
        loops.sparsemax_mix.restype = loops.sparsemax_product_gradient.restype = None
    return loops
