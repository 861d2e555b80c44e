"""The cosine score's query on a GPU: β q / ‖q‖ in one kernel forward and one backward, in half precision.

    y = β u,   u = q / ‖q‖,   β = softplus(z),  z = w · q + b,   or a number

    dβ = dy · u      dz = dβ σ(z)      dq = β / ‖q‖ (dy - u dβ) + dz w      dw = Σ dz q      db = Σ dz

    formula   here          shape
    q y       query, out    (..., D)
    w b       weight, bias  (1, D), (1,)
    β         strength      if it is a number

Everything between reading q and writing y is float32, and y is rounded once. PyTorch would make a dozen
passes, which take longer than the attention that follows.
"""
# mypy: disable-error-code="no-untyped-call"

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.numerics import HALF
from regard.attention.parts import named, unchanged
from regard.attention.scores.cosine import CosineScore
from regard.kernels.compiler import triton_missing
from regard.kernels.launching import launch
from regard.kernels.tuning import power_of_two

WIDEST = 2048  # features that a program holds
PROGRAMS = 528  # of the backward pass, each with its own sums for w and b: four per multiprocessor


class CosineQuery:
    """`CosineScore.directions` in the query's dtype. A call is (score, query)."""

    name = "cosine-query-cuda"

    def refuses(self, call: tuple[CosineScore, Tensor]) -> str | None:
        score, query = call
        if not query.is_cuda or query.dtype not in HALF:
            return f"the query is {query.dtype} on {query.device.type}, not half precision on cuda"
        if torch.compiler.is_compiling():
            return "the graph is being compiled"
        if not 0 < query.shape[-1] <= WIDEST or query.numel() == 0:
            return f"the query has shape {tuple(query.shape)}, this kernel takes 1 to {WIDEST} features"
        if type(score).directions is not CosineScore.directions or (
            score.beta is not None and not unchanged(score.beta)
        ):
            return f"{named(score)} computes its own directions"
        return triton_missing()

    def run(self, call: tuple[CosineScore, Tensor]) -> Tensor:
        score, query = call
        if score.beta is None:
            return _Directions.apply(query, None, None, score.strength)
        return _Directions.apply(query, score.beta.weight, score.beta.bias, 0.0)


COSINE_QUERY = CosineQuery()


class _Directions(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, weight: Tensor | None, bias: Tensor | None, strength: float
    ) -> Tensor:
        from regard.kernels.product.cosine_query_triton import forward_kernel

        query = query.contiguous()
        out = torch.empty_like(query)
        rows, D, block, each = _sizes(query)
        given = _given(query, weight, bias)
        launch(
            *(forward_kernel, (-(-rows // each), 1, 1), given, (out,), (), (rows, float(strength))),
            (D, weight is not None, each, block),
        )
        ctx.save_for_backward(query, weight, bias)
        ctx.strength = strength
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from regard.kernels.product.cosine_query_triton import gradient_kernel

        query, weight, bias = ctx.saved_tensors
        rows, D, block, each = _sizes(query)
        turns = max(1, -(-rows // (each * PROGRAMS)))
        programs = -(-rows // (each * turns))
        of_query = torch.empty_like(query)
        sums = query.new_empty(programs, D + 1, dtype=torch.float32)  # of w and b, for each program
        given = _given(query, weight, bias)
        launch(
            *(gradient_kernel, (programs, 1, 1), (*given, grad.contiguous()), (of_query, sums), ()),
            *((rows, turns, float(ctx.strength)), (D, weight is not None, each, block)),
        )
        if weight is None:
            return of_query, None, None, None
        total = sums.sum(0)
        return of_query, total[None, :D].to(weight.dtype), total[D:].to(bias.dtype), None


def _given(query: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The inputs of the kernels; the query stands in for absent ones."""
    if weight is None or bias is None:
        return query, query, query
    return query, weight.contiguous(), bias


def _sizes(query: Tensor) -> tuple[int, int, int, int]:
    """Rows, features, the power of two that holds these, and the rows of a tile: 16 elements per thread."""
    D = query.shape[-1]
    block = max(16, power_of_two(D))
    return query.numel() // D, D, block, max(1, 2048 // block)
