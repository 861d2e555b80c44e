"""Attention inside a band on a CPU, for products: the loops of local_cpu.cpp, which gather nothing.

Without a compiler, local_attention.py runs the same arguments on gathered slices.
"""

import ctypes
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.kernels.compiler import in_threads, library

if TYPE_CHECKING:
    from regard.kernels.local.local_attention import Band

SHARED = 2**18  # fewer products than this are not worth a second thread


def forward(loops: ctypes.CDLL, band: "Band") -> Tensor:
    """The context, (N, T, Dv)."""
    half, width, scale = band.half, band.width, band.scale
    (N, T, D), (S, V) = band.q.shape, band.values.shape[1:]
    q, k, v, low, high, centre = _inputs(band)
    out = torch.empty(N, T, V)

    def run(first: int, last: int) -> None:
        size = _room(width, S)
        room = torch.empty(size + V)
        loops.local_forward(
            *_at(first, q, k, v, low, high, centre, out),
            *(*_at(0, room), size, last - first, T, S, D, V, half, scale),
        )

    in_threads(run, N, worth=N * T * width * D >= SHARED)
    return out.to(band.values.dtype)


def backward(loops: ctypes.CDLL, grad: Tensor, band: "Band") -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of q, k, values and p."""
    half, width, scale = band.half, band.width, band.scale
    (N, T, D), (S, V) = band.q.shape, band.values.shape[1:]
    q, k, v, low, high, centre = _inputs(band)
    grad = grad.float().contiguous()
    of_q, of_k, of_v = torch.empty(N, T, D), torch.zeros(N, S, D), torch.zeros(N, S, V)
    of_p = None if centre is None else torch.empty(N, T)

    def run(first: int, last: int) -> None:
        size = _room(width, S)
        room = torch.empty(2 * size + D)
        loops.local_backward(
            *_at(first, grad, q, k, v, low, high, centre, of_q, of_k, of_v, of_p),
            *(*_at(0, room), size, last - first, T, S, D, V, half, scale),
        )

    in_threads(run, N, worth=2 * N * T * width * D >= SHARED)
    return of_q.to(band.q.dtype), of_k.to(band.k.dtype), of_v.to(band.values.dtype), of_p


def _inputs(band: "Band") -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """q, k, values, low, high, p: one row of bounds per item, all contiguous."""
    N = len(band.q)
    q, k, v = (x.float().contiguous() for x in (band.q, band.k, band.values))
    low, high = (x.repeat_interleave(N // x.shape[0], 0).contiguous() for x in (band.low, band.high))
    return q, k, v, low, high, None if band.p is None else band.p.float().contiguous()


def _room(width: int, S: int) -> int:
    return min(S, width + 2)  # around a real centre, the loops check one more position on each side


def _at(n: int, *tensors: Tensor | None) -> tuple[ctypes.c_void_p, ...]:
    """The address of item n of each tensor; null for None."""
    return tuple(
        ctypes.c_void_p(None if x is None else x.data_ptr() + n * x.stride(0) * x.element_size())
        for x in tensors
    )


@cache
def compiled() -> ctypes.CDLL | None:
    """The compiled loops; None without a compiler."""
    return library(
        "local/local_cpu.cpp",
        "local attention gathers its slices, slower than compiled",
        local_forward="8p 6l 2f",
        local_backward="12p 6l 2f",
    )
