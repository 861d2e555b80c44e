"""Refuses a model that needs more memory than the machine has, before it is allocated."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from regard.errors import ConfigError
from regard.train import fields

_MAKERS = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)
_LIMIT = Path("/sys/fs/cgroup/memory.max")  # the container's limit


class WithinMemory(TorchFunctionMode):
    """While a model is built, raise once its tensors need more memory than the machine has."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self._settings, self._bytes, self._most = settings, 0, machine_memory()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _MAKERS:
            self._bytes += 4 * _count(args, kwargs or {})
            if self._bytes > self._most:
                raise ConfigError(self._sentence())
        return func(*args, **(kwargs or {}))

    def _sentence(self) -> str:
        numbers = {key: value for key, value in fields.flatten(self._settings).items() if type(value) is int}
        largest = max(numbers, key=numbers.__getitem__, default="")
        what = f"'model.{largest}' is {numbers[largest]}" if largest else "the model is too large"
        return (
            f"{what}; the weights need at least {_size(self._bytes)} of memory, and this machine has "
            f"{_size(self._most)}. Set it lower."
        )


def machine_memory() -> float:
    """Bytes of memory available to this process; infinite if unknown."""
    try:
        total = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return math.inf
    try:
        return min(total, float(_LIMIT.read_text()))
    except (OSError, ValueError):  # no container, or no limit
        return total


def _count(args: Any, kwargs: Mapping[str, Any]) -> int:
    """The number of elements of the tensor that a factory function would make."""
    size = args[0] if args and not isinstance(args[0], int) else kwargs.get("size", args)
    return math.prod(n for n in size if isinstance(n, int))


def _size(number: float) -> str:
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if number >= scale:
            return f"{number / scale:,.1f} {unit}"
    return f"{number:,.0f} bytes"
