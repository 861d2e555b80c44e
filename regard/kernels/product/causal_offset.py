"""Causal attention at an offset, from two calls of PyTorch's fused kernels, joined by their log-sum-exps.

    query t sees s <= t + offset: all keys before the offset, and of the others those with s - offset <= t

    out = Σ_i out_i exp(lse_i - lse),  lse = log Σ_i exp(lse_i)

Given the joined out and lse, PyTorch's backward of each piece returns that piece's part of the gradient: it
recomputes the weights as exp(score - lse), and these are the weights of the whole.

All outputs are stored in the order (B, T, H, D), like those of the kernels themselves. CUDA's backward kernel
for half precision reads the context in that order, whatever its strides say.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.ops import operator

ALIGNED = 8  # CUDA's kernel needs a multiple of so many features,
BIAS = 16  # rows of the bias that begin at multiples of this,
ROWS = 32  # and a log-sum-exp padded to a multiple of so many rows


class Causal(NamedTuple):
    """Queries, keys and values under a causal mask at an offset."""

    q: Tensor  # (B, H, T, D)
    k: Tensor  # (B, H, S, D)
    v: Tensor
    bias: Tensor | None  # (B or 1, H or 1, 1, S), added to the scores
    offset: int
    scale: float


def _shapes(given: Causal) -> tuple[Tensor, Tensor]:
    (B, H, T), v = given.q.shape[:3], given.v
    return v.new_empty(B, T, H, v.shape[-1]).transpose(1, 2), v.new_empty(B, H, T, dtype=torch.float32)


def _slopes(grad: Tensor, out: Tensor, lse: Tensor, *given: Any) -> tuple[Tensor, ...]:
    return tuple(x.new_empty(x.transpose(1, 2).shape).transpose(1, 2) for x in given[:3])


RUNS = ("product.causal_offset.forward", "product.causal_offset.backward")
causal_offset_operator = operator(
    "causal_offset",
    Causal,
    "(Tensor, Tensor)",
    of="q k v",
    shapes=_shapes,
    saves=lambda inputs, output: (*output, *inputs),
    kept="Tensor out, Tensor lse, Tensor q, Tensor k, Tensor v, Tensor? bias, SymInt offset, float scale",
    slopes=_slopes,
    cpu=RUNS,
    cuda=RUNS,
)


class Piece(NamedTuple):
    """Queries with some keys: those before the offset, visible to all, or the others, under causality."""

    q: Tensor
    k: Tensor
    v: Tensor
    bias: Tensor | None
    causal: bool
    scale: float


def pieces_of(given: Causal) -> Iterator[Piece]:
    """The piece with the keys before the offset, if any, and the piece with the others."""
    q, k, v, bias, offset, scale = given
    for keys in ([slice(0, offset)] if offset > 0 else []) + [slice(offset, k.shape[2])]:
        part = None if bias is None else bias[..., keys]
        yield Piece(q, k[:, :, keys], v[:, :, keys], part, keys.start == offset, scale)


def forward(given: Causal) -> tuple[Tensor, Tensor]:
    """Context (B, H, T, D) and log-sum-exp (B, H, T); both 0 in a row that sees nothing."""
    (out, lse), *others = map(_seen, pieces_of(given))
    for other, own in others:
        share = torch.sigmoid(own - lse).nan_to_num(0.0).unsqueeze(-1)  # NaN where neither sees anything
        out, lse = torch.lerp(out.float(), other.float(), share), torch.logaddexp(lse, own)
    return ordered(out.to(given.v.dtype)), lse.masked_fill(lse == -torch.inf, 0.0)


def _seen(piece: Piece) -> tuple[Tensor, Tensor]:
    """Context and log-sum-exp of one piece; 0 and -inf where it shows nothing."""
    out, lse = _attend(piece)
    if piece.bias is None:
        return out, lse
    nothing = _sees_nothing(piece, piece.bias)
    return out.masked_fill(nothing.unsqueeze(-1), 0.0), lse.masked_fill(nothing, -torch.inf)


def backward(grad: Tensor, out: Tensor, lse: Tensor, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v."""
    found = []
    for piece in pieces_of(Causal(*inputs)):
        # exp(score - inf) is 0: where this piece shows nothing, it gets no gradient
        bias = piece.bias
        own = lse if bias is None else lse.masked_fill(_sees_nothing(piece, bias), torch.inf)
        found.append(_attend_backward(grad, piece, out, own))
    (of_q, of_k, of_v), *others = found
    for other, further_k, further_v in others:
        of_q = (of_q.float() + other).to(of_q.dtype)
        of_k, of_v = torch.cat([of_k, further_k], 2), torch.cat([of_v, further_v], 2)
    return ordered(of_q), ordered(of_k), ordered(of_v)


def ordered(x: Tensor) -> Tensor:
    """(B, H, T, D), stored as (B, T, H, D)."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def _sees_nothing(piece: Piece, bias: Tensor) -> Tensor:
    """(B or 1, H or 1, T or 1) rows that see no key of the piece."""
    visible = bias[..., 0, :] == 0  # (B or 1, H or 1, S)
    none = ~visible.any(-1, keepdim=True)
    if not piece.causal:
        return none
    first = visible.int().argmax(-1, keepdim=True)
    return none | (torch.arange(piece.q.shape[2], device=bias.device) < first)


def _attend(piece: Piece) -> tuple[Tensor, Tensor]:
    """One piece: context and log-sum-exp (B, H, T)."""
    q, k, v, bias, causal, scale = piece
    if not q.is_cuda:
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, causal, attn_mask=bias, scale=scale
        )
        return out, lse
    Dv = v.shape[-1]
    out, lse, _, _ = torch.ops.aten._scaled_dot_product_efficient_attention(
        *(_aligned(x) for x in (q, k, v)), _aligned_bias(bias, q, k), True, 0.0, causal, scale=scale
    )
    return out[..., :Dv], lse[..., : q.shape[2]]


def _attend_backward(grad: Tensor, piece: Piece, out: Tensor, lse: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One piece's gradients of q, k and v, from the context and log-sum-exp of the whole."""
    q, k, v, bias, causal, scale = piece
    if not q.is_cuda:
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            grad.contiguous(), q, k, v, out, lse, 0.0, causal, attn_mask=bias, scale=scale
        )
    D, Dv = q.shape[-1], v.shape[-1]
    seed = torch.zeros((), dtype=torch.int64)  # of dropout, which is not used
    of_q, of_k, of_v, _ = torch.ops.aten._scaled_dot_product_efficient_attention_backward(
        *(_aligned(x) for x in (grad, q, k, v)),
        _aligned_bias(bias, q, k),
        ordered(_aligned(out)),
        F.pad(lse, (0, -lse.shape[-1] % ROWS), value=torch.inf),
        *(seed, seed, 0.0, [True, True, True, False], causal),
        scale=scale,
    )
    return of_q[..., :D], of_k[..., :D], of_v[..., :Dv]


def _aligned(x: Tensor) -> Tensor:
    """(B, H, T, D) as CUDA's kernel requires it: features zero-padded to a multiple of ALIGNED."""
    missing = -x.shape[-1] % ALIGNED
    if missing:
        return F.pad(x, (0, missing))
    strides = (stride for stride, size in zip(x.stride()[:3], x.shape[:3], strict=True) if size > 1)
    fits = x.stride(3) == 1 and x.data_ptr() % 16 == 0 and all(stride % ALIGNED == 0 for stride in strides)
    return x if fits else x.clone(memory_format=torch.contiguous_format)


def _aligned_bias(bias: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
    """The bias as CUDA's kernel requires it: expanded over heads and rows, with aligned rows."""
    if bias is None:
        return None
    S = k.shape[2]
    rows = bias.new_zeros(*bias.shape[:-1], S + -S % BIAS)  # a copy: a piece may begin anywhere
    rows[..., :S] = bias
    return rows[..., :S].expand(q.shape[0], q.shape[1], q.shape[2], S)
