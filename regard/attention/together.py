"""Stores three matrices that multiply one input next to each other on a GPU: one product instead of three.

Three launches take longer than most such products. Each matrix stays a parameter of its own for optimizers,
gradients and state dicts, as in nn.LSTM. If one of them has moved (the module was copied, weights were
assigned), they are concatenated.
"""

import torch
from torch import Tensor, nn

PLAIN = (Tensor, nn.Parameter)


def lay_together(*layers: nn.Module) -> None:
    """Make the weights and the biases of three nn.Linear layers contiguous with each other, if on a GPU."""
    if all(type(layer) is nn.Linear for layer in layers):
        for name in ("weight", "bias"):
            parts = [layer._parameters.get(name) for layer in layers]
            if all(type(part) is nn.Parameter and part.is_cuda for part in parts):
                place_together(*parts)  # type: ignore[arg-type]


def place_together(*parts: Tensor) -> None:
    """Move the tensors into one piece of memory, unless they differ in kind or are there already."""
    first = parts[0]
    alike = all(x.shape == first.shape and x.dtype is first.dtype and x.device == first.device for x in parts)
    if alike and not lie_together(*parts):
        places = torch.cat([x.detach() for x in parts]).chunk(len(parts))
        for x, place in zip(parts, places, strict=True):
            x.data = place


def lie_together(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether the three have one shape and follow each other in one piece of memory."""
    if type(q) not in PLAIN:  # a fake tensor has no address
        return False
    place, step = q.data_ptr(), q.nbytes
    return (
        k.data_ptr() == place + step
        and v.data_ptr() == place + 2 * step
        and q.shape == k.shape == v.shape
        and q.is_contiguous()
        and k.is_contiguous()
        and v.is_contiguous()
        and q.untyped_storage().data_ptr() == v.untyped_storage().data_ptr()  # not mere neighbours
    )


def joined(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The three stacked along the first axis; a view if they are stored that way, otherwise a copy."""
    if not lie_together(q, k, v):
        return torch.cat((q, k, v))
    rows, *rest = q.shape
    return q.as_strided((3 * rows, *rest), q.stride())
