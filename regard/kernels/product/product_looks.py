"""Weights on demand for a softmax of products on a GPU: all of them, or the k largest of each query.

    weight = exp(score - m) / Σ exp(score - m),   m the largest of the row

All weights: a program computes the scores of its rows twice, first for m and the sum, then for the weights,
and stores no scores. Half-precision products are accumulated in float32, as in the reference. Equals
`regard.attention.reference.align`.

The k largest: the first pass computes every score once. For each row it keeps m, the sum, and the largest
score of every 16 consecutive positions; the k largest scores are in the k such groups with the largest
maxima. The second pass recomputes those groups, row by row, and picks. Equals
`regard.attention.top_k.largest`.
"""

import math
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.looks import Products
from regard.attention.numerics import HALF
from regard.kernels.compiler import triton_missing
from regard.kernels.launching import launch
from regard.kernels.product.products import has_rows, row_mask
from regard.kernels.shapes import LAUNCHED, fits_launch, four_axes, side_by_side
from regard.kernels.tuning import power_of_two

WIDEST = 256  # features that a program holds
MOST = 16  # weights per row
LONGEST = 2**17  # source positions: a program loads all groups of a row
CHUNK = 16  # as in product_top_triton.py
BYTES = 2**30  # for the maxima of groups, at a time
WEIGHTS = (128, 64, 8)  # rows and columns of a tile of scores, and its warps
TOP = (64, 128, 4)
PICKING = 1  # warps that pick from a row


class ProductWeightsCUDA:
    """All weights; scores come from the reference."""

    name = "product-weights-cuda"

    def refuses(self, call: Products) -> str | None:
        if call.query.dtype not in HALF:
            return "the query is not in half precision, so tensor cores would round it"
        if not fits_launch(call.query):
            return f"more than {LAUNCHED} rows of sources"
        return _refuses(call)

    def run(self, call: Products) -> Tensor:
        """(..., T, S) float32."""
        from regard.kernels.product.product_weights_triton import weights_kernel

        (lead, T, S), given, strides, constants = _operands(call)
        rows, columns, warps = WEIGHTS
        weights = torch.empty(*lead, T, S, dtype=torch.float32, device=call.query.device)
        if weights.numel():
            grid = (-(-T // rows), math.prod(lead), 1)
            numbers = (call.mask.offset, call.scale / math.log(2))
            own = (*constants, rows, columns)
            launch(weights_kernel, grid, given, (weights,), (*strides, T, S), numbers, own, warps=warps)
        return weights


class ProductTopCUDA:
    """The k largest, by two kernels: one for tiles of rows, one for single rows."""

    name = "product-top-cuda"

    def refuses(self, call: Products) -> str | None:
        assert call.k is not None
        if call.k > MOST or call.keys.shape[-2] > LONGEST:
            return f"more than {MOST} weights or {LONGEST} positions"
        return _refuses(call)

    def run(self, call: Products) -> tuple[Tensor, Tensor]:
        """(..., T, k) the largest weights, and their positions."""
        from regard.kernels.product.product_top_triton import pick_kernel, tops_kernel

        assert call.k is not None
        (lead, T, S), given, strides, constants = _operands(call)
        k, every, chunks, (rows, columns, warps) = call.k, math.prod(lead), -(-S // CHUNK), TOP
        empty = partial(torch.empty, dtype=torch.float32, device=call.query.device)
        weights, places = empty(every, T, k), empty(every, T, k, dtype=torch.int64)
        # items whose groups are in memory at once
        together = min(max(1, BYTES // (4 * T * chunks)), LAUNCHED, every)
        tops, most, total = empty(together, T, chunks), empty(together, T), empty(together, T)
        tile, own = (*constants, rows, columns), (*constants, k, power_of_two(k), power_of_two(chunks))
        for first in range(0, every, together):
            items = min(together, every - first)
            numbers = (T, S, first, call.mask.offset, chunks, call.scale / math.log(2))
            grid = (-(-T // rows), items, 1)
            launch(tops_kernel, grid, given, (tops, most, total), strides, numbers, tile, warps=warps)
            made = (tops, most, total, weights[first:], places[first:])
            launch(pick_kernel, (T, items, 1), given, made, strides, numbers, own, warps=PICKING)
        return weights.view(*lead, T, k), places.view(*lead, T, k)


def _refuses(call: Products) -> str | None:
    """Why the weights of these products cannot be fused, as a clause."""
    query, keys = call.query, call.keys
    if not query.is_cuda:
        return f"the query is on {query.device.type}, this kernel is for cuda"
    if torch.is_grad_enabled() and (query.requires_grad or keys.requires_grad):
        return "gradients are needed"
    if torch.compiler.is_compiling():
        return "the graph is being compiled"
    if query.dtype != keys.dtype or query.dtype == torch.float64:
        return "dtypes differ, or are float64"
    if query.ndim > 4 or not 0 < query.shape[-1] <= WIDEST:
        return f"more than {WIDEST} features or two leading axes"
    if call.mask.window is not None or has_rows(call.mask):
        return "the mask has a window, or differs for each query"
    return triton_missing()


class _Launched(NamedTuple):
    sizes: tuple[tuple[int, ...], int, int]  # the leading axes, T and S
    given: tuple[Tensor, Tensor, Tensor]  # query, keys (B, H, T or S, D) and row mask (B, H, S), 0 or 1
    strides: tuple[int, ...]
    constants: tuple[int, ...]


def _operands(call: Products) -> _Launched:
    """The arguments of the kernels, with contiguous features and positions."""
    lead, (T, D), S = tuple(call.query.shape[:-2]), call.query.shape[-2:], call.keys.shape[-2]
    query, keys = (four_axes(side_by_side(x), lead) for x in (call.query, call.keys))
    shown, seen = row_mask(call.mask, lead, S, query.device), query
    along: tuple[int, ...] = (0, 0)
    if shown is not None:
        seen = side_by_side(shown.expand(*query.shape[:2], 1, S)[:, :, 0]).view(torch.uint8)
        along = seen.stride()[:2]
    strides = (*query.stride()[:3], *keys.stride()[:3], *along)
    constants = (query.shape[1], D, max(16, power_of_two(D)), shown is not None, call.mask.causal)
    return _Launched((lead, T, S), (query, keys, seen), strides, constants)


PRODUCT_WEIGHTS, PRODUCT_TOP = ProductWeightsCUDA(), ProductTopCUDA()
