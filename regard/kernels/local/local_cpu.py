"""Attention inside a band on a CPU, for products: the loops of local_cpu.cpp, which gather nothing.

Without a compiler, local_attention.py runs the same arguments on gathered slices.
"""

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.kernels.compiler import in_threads, library

if TYPE_CHECKING:
    from regard.kernels.local.local_attention import Band

SHARED = 2**18  # fewer products than this are not worth a second thread


def forward(loops: ctypes.CDLL, band: "Band") -> Tensor:
    """The context, (N, T, Dv)."""
    V = band.values.shape[-1]
    out = torch.empty(*band.q.shape[:2], V)
    _over(loops.local_forward, band, (*_inputs(band), out), bands=1, row=V)
    return out.to(band.values.dtype)


def backward(loops: ctypes.CDLL, grad: Tensor, band: "Band") -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of q, k, values and p."""
    q, k, values = band.q, band.k, band.values
    of_q, of_k, of_v = torch.empty(q.shape), torch.zeros(k.shape), torch.zeros(values.shape)
    of_p = None if band.p is None else torch.empty(q.shape[:2])
    tensors = (grad.float().contiguous(), *_inputs(band), of_q, of_k, of_v, of_p)
    _over(loops.local_backward, band, tensors, bands=2, row=q.shape[-1])
    return of_q.to(q.dtype), of_k.to(k.dtype), of_v.to(values.dtype), of_p


def _inputs(band: "Band") -> tuple[Tensor | None, ...]:
    """q, k, values, low, high, p: one row of bounds per item, all contiguous."""
    N = len(band.q)
    q, k, v = (x.float().contiguous() for x in (band.q, band.k, band.values))
    low, high = (x.repeat_interleave(N // x.shape[0], 0).contiguous() for x in (band.low, band.high))
    return q, k, v, low, high, None if band.p is None else band.p.float().contiguous()


def _over(loop: Any, band: "Band", tensors: tuple[Tensor | None, ...], *, bands: int, row: int) -> None:
    """Run the loop over all items, with room for so many bands and a row of so many numbers."""
    half, width, scale = band.half, band.width, band.scale
    (N, T, D), (S, V) = band.q.shape, band.values.shape[1:]
    room = min(S, width + 2)  # around a real centre, the loops check one more position on each side

    def run(first: int, last: int) -> None:
        own = (None if x is None else x.data_ptr() + first * x.stride(0) * x.element_size() for x in tensors)
        space = torch.empty(bands * room + row)
        loop(*own, space.data_ptr(), room, last - first, T, S, D, V, half, scale)

    in_threads(run, N, worth=bands * N * T * width * D >= SHARED)


@cache
def compiled() -> ctypes.CDLL | None:
    """The compiled loops; None without a compiler."""
    return library(
        "local/local_cpu.cpp",
        "local attention gathers its slices, slower than compiled",
        local_forward="8p 6l 2f",
        local_backward="12p 6l 2f",
    )
