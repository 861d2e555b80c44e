"""The k largest weights of each query on a GPU, where scores are products and the normalizer is a softmax.

    weight = exp(score - m) / Σ exp(score - m),   m the largest of the row

The first pass computes every score once. Of each row it keeps m, the sum, and the largest score of each 16
positions side by side; the k largest scores stand in the k such groups that have the largest. The second
pass computes those groups again, row by row, and picks. Equals `regard.attention.top_k.largest`.
"""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.attention.looks import Products
from regard.kernels.launching import launch
from regard.kernels.product.softmax_operands import refuses_softmax, softmax_operands
from regard.kernels.tuning import power_of_two

MOST = 16  # weights to a row
LONGEST = 2**17  # source positions: a row's groups are looked at at once
CHUNK = 16  # as in product_top_triton.py
BYTES = 2**30  # of the largest scores of groups, at a time
LAUNCHED = 2**16 - 1  # items of a launch, at most
ROWS, COLUMNS, WARPS = 64, 64, 4  # of a tile of scores
PICKING = 1  # warps that pick from a row


class ProductTopCUDA:
    """Two programs: one for a tile of rows, one for each row."""

    name = "product-top-cuda"

    def refuses(self, call: Products) -> str | None:
        assert call.k is not None
        if call.k > MOST or call.keys.shape[-2] > LONGEST:
            return f"more than {MOST} weights or {LONGEST} positions"
        return refuses_softmax(call)

    def run(self, call: Products) -> tuple[Tensor, Tensor]:
        """(..., T, k) the largest weights, and their positions."""
        assert call.k is not None
        lead, (T, D), S, k = call.query.shape[:-2], call.query.shape[-2:], call.keys.shape[-2], call.k
        given, strides, masked = softmax_operands(call)
        query = given[0]
        B, H = query.shape[:2]
        chunks = -(-S // CHUNK)
        empty = partial(torch.empty, dtype=torch.float32, device=query.device)
        weights = empty(B * H, T, k)
        places = torch.empty(B * H, T, k, dtype=torch.int64, device=query.device)
        # items whose groups are in memory at once
        together = min(max(1, BYTES // (4 * T * chunks)), LAUNCHED, B * H)
        tops, most, total = empty(together, T, chunks), empty(together, T), empty(together, T)
        constants = (H, D, max(16, power_of_two(D)), masked, call.mask.causal)
        tile, own = (*constants, ROWS, COLUMNS), (*constants, k, power_of_two(k), power_of_two(chunks))
        tops_kernel, pick_kernel = _kernels()
        for first in range(0, B * H, together):
            items = min(together, B * H - first)
            numbers = (T, S, first, call.mask.offset, chunks, call.scale / math.log(2))
            grid = (-(-T // ROWS), items, 1)
            launch(tops_kernel, grid, given, (tops, most, total), strides, numbers, tile, warps=WARPS)
            made = (tops, most, total, weights[first:], places[first:])
            launch(pick_kernel, (T, items, 1), given, made, strides, numbers, own, warps=PICKING)
        return weights.view(*lead, T, k), places.view(*lead, T, k)


def _kernels() -> tuple[Any, Any]:
    from regard.kernels.product.product_top_triton import pick_kernel, tops_kernel

    return tops_kernel, pick_kernel


PRODUCT_TOP = ProductTopCUDA()
