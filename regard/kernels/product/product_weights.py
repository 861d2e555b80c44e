"""All weights of a softmax of products on a GPU, from half precision, in one program a block of rows.

    weight = exp(score - m) / Σ exp(score - m),   m the largest of the row

A program computes the scores of its rows twice: first for m and the sum, then for the weights. It stores no
scores. Products of half-precision numbers are summed in float32, as the reference does.
Equals `regard.attention.reference.align`.
"""

import math

import torch
from torch import Tensor

from regard.attention.looks import Products
from regard.attention.numerics import HALF
from regard.kernels.launching import launch
from regard.kernels.product.softmax_operands import refuses_softmax, softmax_operands
from regard.kernels.tuning import power_of_two

ROWS, COLUMNS, WARPS = 128, 64, 8  # of a tile of scores
LAUNCHED = 2**16 - 1  # items of a launch, at most


class ProductWeightsCUDA:
    """The weights alone; scores are the reference's."""

    name = "product-weights-cuda"

    def refuses(self, call: Products) -> str | None:
        if call.query.dtype not in HALF:
            return "the query is not in half precision, for which the tensor cores would round"
        if math.prod(call.query.shape[:-2]) > LAUNCHED:
            return f"more than {LAUNCHED} rows of sources"
        return refuses_softmax(call)

    def run(self, call: Products) -> Tensor:
        """(..., T, S) float32."""
        from regard.kernels.product.product_weights_triton import weights_kernel

        lead, (T, D), S = call.query.shape[:-2], call.query.shape[-2:], call.keys.shape[-2]
        given, strides, masked = softmax_operands(call)
        query = given[0]
        B, H = query.shape[:2]
        weights = torch.empty(*lead, T, S, dtype=torch.float32, device=query.device)
        if weights.numel():
            grid = (-(-T // ROWS), B * H, 1)
            numbers = (call.mask.offset, call.scale / math.log(2))
            constants = (H, D, max(16, power_of_two(D)), masked, call.mask.causal, ROWS, COLUMNS)
            launch(weights_kernel, grid, given, (weights,), (*strides, T, S), numbers, constants, warps=WARPS)
        return weights


PRODUCT_WEIGHTS = ProductWeightsCUDA()
