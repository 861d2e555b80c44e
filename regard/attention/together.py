"""Three matrices that multiply one input, side by side in the memory of a GPU: their products are one.

Launching three products there takes longer than most of them. Each matrix stays a parameter of its own, for
optimizers, gradients and state dicts, as those of nn.LSTM do. Where something has moved one of them (a copy
of the module, weights that were assigned), they are joined by a copy.
"""

import torch
from torch import Tensor, nn

PLAIN = (Tensor, nn.Parameter)


def lay_together(*layers: nn.Module) -> None:
    """Move weights and biases of three layers nn.Linear next to one another, if they are on a GPU."""
    if all(type(layer) is nn.Linear for layer in layers):
        for name in ("weight", "bias"):
            parts = [layer._parameters.get(name) for layer in layers]
            if all(type(part) is nn.Parameter and part.is_cuda for part in parts):
                place_together(*parts)  # type: ignore[arg-type]


def place_together(*parts: Tensor) -> None:
    """The same numbers in one piece of memory, if the tensors are alike and not there already."""
    first = parts[0]
    alike = all(x.shape == first.shape and x.dtype is first.dtype and x.device == first.device for x in parts)
    if alike and not lie_together(*parts):
        places = torch.cat([x.detach() for x in parts]).chunk(len(parts))
        for x, place in zip(parts, places, strict=True):
            x.data = place


def lie_together(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """They follow one another in one piece of memory, and are of one size."""
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
        and q.untyped_storage().data_ptr() == v.untyped_storage().data_ptr()  # neighbours are not enough
    )


def joined(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """All above one another: without a copy where they lie so."""
    if not lie_together(q, k, v):
        return torch.cat((q, k, v))
    rows, *rest = q.shape
    return q.as_strided((3 * rows, *rest), q.stride())
