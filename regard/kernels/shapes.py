"""Leading axes in the form that kernels expect: one flat axis, or a batch axis and a head axis."""

from math import prod

import torch
from torch import Tensor

LAUNCHED = 2**16 - 1  # most programs along the second or third axis of a launch


def leading(*tensors: Tensor) -> tuple[int, ...]:
    """The broadcast leading axes of tensors (..., T, D)."""
    first = tensors[0].shape[:-2]
    for x in tensors[1:]:
        if x.shape[:-2] != first:
            break
    else:
        return tuple(first)
    return tuple(torch.broadcast_shapes(*(x.shape[:-2] for x in tensors)))  # type: ignore[no-untyped-call]


def fits_launch(*tensors: Tensor) -> bool:
    """Whether a launch can have a program for each item of the broadcast leading axes."""
    return prod(leading(*tensors)) <= LAUNCHED


def number(size: int) -> str:
    """A size that is too small, for a refusal; while compiling, printing it would make it static."""
    return "too few" if torch.compiler.is_compiling() else str(size)


def refuses_lengths(lengths: Tensor | None, lead: tuple[int, ...]) -> str | None:
    """Why these lengths do not fit the leading axis, as a clause; None if they do."""
    first = lead[0] if lead else 1
    if lengths is None or lengths.shape[0] in (1, first):
        return None
    return f"lengths has {lengths.shape[0]} rows where the leading axis has {first}"


def four_axes(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """(..., T, D) -> (B, H, T, D): one batch and one head axis, as fused attention expects."""
    if len(lead) == 2 and x.shape[:-2] == lead:
        return x
    if len(lead) == 1 and x.ndim == 3 and x.shape[0] == lead[0]:
        return x.unsqueeze(1)
    x = x.expand(*lead, *x.shape[-2:])
    return x.reshape(*(lead[:1] or (1,)), prod(lead[1:]), *x.shape[-2:])


def flat(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """(..., T, D) -> (N, T, D): the leading axes flattened."""
    if x.shape[:-2] != lead:
        x = x.expand(*lead, *x.shape[-2:])
    return x if len(lead) == 1 else x.reshape(prod(lead), *x.shape[-2:])


def side_by_side(x: Tensor) -> Tensor:
    """The same tensor with its last axis contiguous."""
    return x if x.stride(-1) == 1 else x.contiguous()
