"""Additive attention for few queries at a time on a GPU: decoders that take one step after another.

Each key meets each feature of at most four queries, so reading the keys is the work. The sum a + b is
formed first, in registers, and nothing is prepared: no exponentials, no (T, S, D) tensor. The weights are
as small as one step's scores; they are kept for the backward pass, which reads the keys once more.
"""

import torch
from torch import Tensor

from regard.kernels.additive_cuda import mask_arguments, row_block


def forward(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    values: Tensor,
    lengths: Tensor | None,
    dense: Tensor | None,
    left: int | None,
    right: int | None,
    offset: int,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Context (N, T, Dv) and weights (N, T, S)."""
    from regard.kernels import additive_triton

    N, T, D = a.shape
    S, Dv = values.shape[1:]
    assembler = a.is_cuda and torch.version.hip is None
    scores, weights = a.new_empty(2, N, T, S, dtype=torch.float32)
    context = values.new_empty(N, T, Dv)
    facts = mask_arguments(N, v, lengths, dense, left, right, offset)
    BS, BD = 16, min(256, max(32, 1 << (D - 1).bit_length()))
    additive_triton.step_scores_kernel[(-(-S // BS), T, N)](
        *(a, b, v.contiguous(), facts["lengths"], facts["dense"], scores, T, S, D),
        *(*a.stride(), *b.stride(), *facts["numbers"], scale),
        BS=BS,
        BD=BD,
        **facts["flags"],
        SASS=assembler,
        num_warps=4,
    )
    BD = 64 if N * T >= 32 else 32
    additive_triton.step_context_kernel[(-(-Dv // BD), T, N)](
        *(scores, values, weights, context, T, S, Dv, *values.stride()),
        BS=32,
        BD=BD,
        ROW=row_block(S),
        num_warps=4,
    )
    return context, weights


def backward(
    grad: Tensor,
    weights: Tensor,
    a: Tensor,
    b: Tensor,
    v: Tensor,
    values: Tensor,
    lengths: Tensor | None,
    dense: Tensor | None,
    left: int | None,
    right: int | None,
    offset: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of a, b, v and values. The mask is in the weights already: what is hidden has weight zero."""
    from regard.kernels import additive_triton

    N, T, D = a.shape
    S, Dv = values.shape[1:]
    assembler = a.is_cuda and torch.version.hip is None
    grad_weights = torch.empty_like(weights)
    grad_values = values.new_empty(N, S, Dv)
    BS, BD = 16, min(256, max(32, 1 << (Dv - 1).bit_length()))
    additive_triton.step_values_kernel[(-(-S // BS), N)](
        *(grad, values, weights, grad_weights, grad_values, T, S, Dv, *grad.stride(), *values.stride()),
        BS=BS,
        BD=BD,
        num_warps=4,
    )
    BS, BD = 32, 64
    blocks = -(-S // BS)
    grad_a = a.new_empty(blocks, N, T, D, dtype=torch.float32)
    grad_b = b.new_empty(N, S, D)
    grad_v = a.new_empty(blocks, N, D, dtype=torch.float32)
    additive_triton.step_gradient_kernel[(blocks, -(-D // BD), N)](
        *(a, b, v.contiguous(), weights, grad_weights, grad_a, grad_b, grad_v, N, T, S, D),
        *(*a.stride(), *b.stride(), scale),
        BS=BS,
        BD=BD,
        ROW=row_block(S),
        SASS=assembler,
        num_warps=4,
    )
    of_a = grad_a[0] if blocks == 1 else grad_a.sum(0)
    return of_a.to(a.dtype), grad_b, grad_v.sum((0, 1)).to(v.dtype), grad_values
