"""Matrices that multiply the same input, one after the other in the memory of a GPU: their products are one.

Launching three products there takes longer than most of them. Each matrix stays a parameter of its own, for
optimizers, gradients and state dicts, as those of nn.LSTM do. Where something has moved one of them (a copy
of the module, weights that were assigned), they are joined by a copy.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def lay_together(*layers: nn.Module) -> None:
    """Move weights and biases of nn.Linear layers of one size next to one another, if they are on a GPU."""
    if all(type(layer) is nn.Linear for layer in layers):
        for name in ("weight", "bias"):
            parts = [layer._parameters[name] for layer in layers]
            if all(type(part) is nn.Parameter and part.is_cuda for part in parts):
                place_together(parts)  # type: ignore[arg-type]


def place_together(parts: Sequence[Tensor]) -> None:
    """The same numbers in one piece of memory, if the tensors are alike and not there already."""
    first = parts[0]
    alike = all(x.shape == first.shape and x.dtype is first.dtype and x.device == first.device for x in parts)
    if alike and not lie_together(parts):
        places = torch.cat([x.detach() for x in parts]).chunk(len(parts))
        for x, place in zip(parts, places, strict=True):
            x.data = place


def lie_together(parts: Sequence[Tensor]) -> bool:
    """They follow one another in one piece of memory, and are of one size."""
    first, last = parts[0], parts[-1]
    place, step = first.data_ptr(), first.numel() * first.element_size()
    for x in parts:
        if x.data_ptr() != place or x.shape != first.shape or not x.is_contiguous():
            return False
        place += step
    return first.untyped_storage().data_ptr() == last.untyped_storage().data_ptr()


def joined(parts: Sequence[Tensor]) -> Tensor:
    """All above one another: without a copy where they lie so."""
    if not lie_together(parts):
        return torch.cat(tuple(parts))
    rows, *rest = parts[0].shape
    return parts[0].as_strided((len(parts) * rows, *rest), parts[0].stride())
