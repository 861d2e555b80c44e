"""Who is recording: the traces that are open in this thread or task, and the modules that each follows."""

from contextvars import ContextVar
from typing import NamedTuple

import torch
from torch import nn

from regard.attention.result import AttentionResult


class Trace(dict[str, list[AttentionResult]]):
    """Module path -> the results of its calls, in order."""


class Recording(NamedTuple):
    """A trace, and the path of every module that leaves its results in it."""

    trace: Trace
    paths: dict[int, str]  # by id: the recorded model keeps its modules alive


RECORDINGS: ContextVar[tuple[Recording, ...]] = ContextVar("RECORDINGS", default=())


def leave(module: nn.Module, result: AttentionResult) -> None:
    """Add the result to every open trace that follows the module."""
    for trace, paths in RECORDINGS.get():
        path = paths.get(id(module))
        if path is not None:
            trace.setdefault(path, []).append(result)


def is_recorded(module: nn.Module) -> bool:
    """Somebody records this module, here and now; a compiled graph is never recorded."""
    return not torch.compiler.is_compiling() and any(id(module) in paths for _, paths in RECORDINGS.get())
