"""Softmax attention with products for one query per row on a GPU: the step of a Transformer's decoder.

    context = Σ_s softmax(scale q·k_s) v_s

PyTorch's kernels use tiles of 64 queries, of which only one row would be used. Here each row and head has a
program, which reads its keys and values once. Rows that continue the same sentence share its source.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.compiler import triton_missing
from regard.kernels.launching import launch
from regard.kernels.tuning import power_of_two

WIDEST = 256  # features that a program holds


class ProductStep(NamedTuple):
    """One step: its queries and their sources."""

    query: Tensor  # (R, H, D)
    keys: Tensor  # (B, H, S, D)
    values: Tensor  # (B, H, S, D)
    mask: Tensor | None  # (B, S), True: visible; None: all visible
    copies: int  # consecutive rows of the query for each source
    scale: float


class ProductStepCUDA:
    """A decoder's step, with one program per row and head."""

    name = "product-step-cuda"

    def refuses(self, call: ProductStep) -> str | None:
        query, keys, values = call.query, call.keys, call.values
        if not query.is_cuda:
            return f"the query is on {query.device.type}, this kernel is for cuda"
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return "gradients are needed, or the graph is being compiled"
        if query.dtype != keys.dtype or keys.dtype != values.dtype or query.dtype == torch.float64:
            return "dtypes differ, or are float64"
        if keys.shape != values.shape or not 0 < query.shape[-1] <= WIDEST:
            return f"keys and values have different widths, or more than {WIDEST} features"
        rows = (keys, values) if call.mask is None else (keys, values, call.mask)
        if any(x.stride(-1) != 1 for x in rows):
            return "the last axis of the keys, the values or the mask is not contiguous"
        return triton_missing()

    def run(self, call: ProductStep) -> Tensor:
        """(R, H, D)."""
        query, keys, values, mask, copies, scale = call
        from regard.kernels.product.product_step_triton import step_kernel

        R, H, D = query.shape
        query = query.contiguous()
        out = torch.empty_like(query)
        seen = query if mask is None else mask.view(torch.uint8)
        strides = (*keys.stride()[:3], *values.stride()[:3], 0 if mask is None else mask.stride(0))
        numbers = (keys.shape[2], copies, scale)
        constants = (H, D, power_of_two(D), mask is not None, 64 if D <= 64 else 32)
        launch(step_kernel, (R, H, 1), (query, keys, values, seen), (out,), strides, numbers, constants)
        return out


PRODUCT_STEP = ProductStepCUDA()
