"""Sharded tensors (DTensors of FSDP2): gather them and split them again.

All processes must call these functions together.
"""

from typing import Any

from torch import Tensor, nn


def is_sharded(model: nn.Module) -> bool:
    """Whether each process has a part of the model: then all must take part in whatever reads it."""
    return any(hasattr(parameter, "device_mesh") for parameter in model.parameters())


def whole(value: Any) -> Any:
    """The whole of a tensor of which this process may have a part."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def part_of(value: Tensor, parameter: Any) -> Tensor:
    """Of a whole tensor the part that this process has of the parameter; a scalar stays whole."""
    if not hasattr(parameter, "device_mesh") or value.dim() == 0:
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value.to(parameter.device), parameter.device_mesh, parameter.placements)
