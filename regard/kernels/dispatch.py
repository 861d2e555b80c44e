"""Which implementation runs a call: the first fused kernel that does not refuse it, or the reference.

A kernel asked for by name runs or raises KernelRefused with the reason; it never falls back. Nothing is
decided at import time and no environment variable is consulted.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from regard.errors import KernelRefused

if TYPE_CHECKING:
    from regard.attention.history import History
    from regard.attention.normalizers.base import HistoryNormalizer, Normalizer
    from regard.attention.scores.base import HistoryScore, Score
    from regard.attention.source import Source
    from regard.attention.windows.base import Window


@dataclass(eq=False)  # not frozen: that would triple the cost of making one, at every step of a decoder
class Call:
    """One call of Attention, as a kernel sees it."""

    query: Tensor
    source: "Source"
    score: "Score | HistoryScore"
    normalizer: "Normalizer | HistoryNormalizer"
    window: "Window | None"
    history: "History | None"
    dropout: float


class Kernel(Protocol):
    """A fused implementation."""

    name: str

    def refuses(self, call: Call) -> str | None:
        """None: can run; otherwise the reason, as a clause."""
        ...

    def run(self, call: Call) -> Tensor:
        """The context, (..., T, Dv)."""
        ...


def kernels() -> tuple[Kernel, ...]:
    """All kernels that `auto` may take, in order of preference."""
    # imported here, because kernels import the algebra and the algebra imports this file
    from regard.kernels.additive_cpu import ADDITIVE_CPU
    from regard.kernels.sdpa import SDPA

    return (SDPA, ADDITIVE_CPU)


def named_kernels() -> tuple[Kernel, ...]:
    """Kernels that run only when asked for by name: their tests on the device have not all passed yet."""
    from regard.kernels.additive_cuda import ADDITIVE_CUDA

    return (ADDITIVE_CUDA,)


def choose_kernel(call: Call, requested: str = "auto") -> Kernel | None:
    """The kernel that will run the call; None is the reference."""
    if requested == "reference":
        return None
    if requested != "auto":
        return _named(call, requested, (*kernels(), *named_kernels()))
    for kernel in kernels():
        if kernel.refuses(call) is None:
            return kernel
    return None


def _named(call: Call, requested: str, known: tuple[Kernel, ...]) -> Kernel:
    for kernel in known:
        if kernel.name == requested:
            reason = kernel.refuses(call)
            if reason is None:
                return kernel
            raise KernelRefused(f"kernel {requested!r} cannot run this call: {reason}.")
    names = ", ".join(["auto", "reference", *(kernel.name for kernel in known)])
    raise KernelRefused(f"unknown kernel {requested!r}; known: {names}.")
