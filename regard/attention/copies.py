"""Modules that keep what they own: what becomes of a parameter later does not reach the copy."""

from typing import Any

from torch import nn


def copied(part: nn.Module | None) -> Any:
    """The same module with copies of its parameters and buffers, through which gradients still reach them."""
    if part is None:
        return None
    copy = type(part).__new__(type(part))
    copy.__dict__ = dict(part.__dict__)
    for owned in ("_parameters", "_buffers"):
        tensors = part.__dict__[owned]
        copy.__dict__[owned] = {name: None if x is None else x.clone() for name, x in tensors.items()}
    copy.__dict__["_modules"] = {name: copied(inner) for name, inner in part._modules.items()}
    return copy
