"""Chooses the kernel for a call of Attention: the first that does not refuse it, or the reference.

Like paths.py, except that a kernel also declares the forms of scores, normalizers and windows it supports, so
that a short call tries only those that may fit. This file imports no kernel: `regard.kernels` registers them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.forms import Form
from regard.attention.history import History
from regard.attention.normalizers.base import Normalizer, StochasticNormalizer
from regard.attention.numerics import is_transformed
from regard.attention.parts import named, unchanged
from regard.attention.paths import Explanation, check_name, choose_named, explained
from regard.attention.result import Alignment
from regard.attention.scores.base import HistoryScore, Score
from regard.attention.source import Source
from regard.attention.windows.base import Window
from regard.attention.windows.everywhere import Everywhere

GARBAGE = "NaN or infinity stands where some queries may look and others may not"
EXPORTED = "an exported program must fit all sizes and cannot hold operators of this library"
TRANSFORMED = "torch.func and forward-mode differentiation run on the reference"


@dataclass(eq=False)  # a frozen one costs three times as much to create, at every step of a decoder
class Call:
    """One call of Attention."""

    query: Tensor
    source: Source
    score: Score | HistoryScore
    normalizer: Normalizer
    window: Any  # a Window or None; in a later look also `Around`, a window with known centres
    history: History | None
    dropout: float
    keep_weights: bool = False  # the caller needs the weights: skip kernels that do not produce them
    garbage: bool = False  # there is NaN or infinity at positions that only some queries may see
    seen_form: Form | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.normalizer, StochasticNormalizer):
            self.normalizer = self.normalizer.settled()

    @property
    def form_type(self) -> type[Form] | None:
        """The class of the score's form; None if it has none or the instance overrides its class."""
        own: type[Form] | None = getattr(self.score, "FORM", None)
        return own if own is not None and unchanged(self.score) else None

    @property
    def no_row_is_empty(self) -> bool:
        """Whether every query is known to see something: no mask, window or -inf score hides everything."""
        return self.window is None and self.form_type is not None and self.source.no_row_is_empty

    def form(self) -> Form:
        """The form of the scores, cached."""
        if self.seen_form is None:
            assert isinstance(self.score, Score)
            self.seen_form = self.score.form(self.query, self.source.keys)
        return self.seen_form


class Fused(NamedTuple):
    """What a kernel returns if it builds the weights."""

    context: Tensor  # (..., T, Dv)
    alignment: Alignment  # scores and weights (..., T, S)


class Kernel:
    """A fused implementation of Attention. It declares what it supports; `refuses` checks the rest."""

    name: str
    forms: ClassVar[tuple[type, ...] | None] = None  # None: any score
    normalizers: ClassVar[tuple[type, ...] | None] = None
    windows: ClassVar[tuple[type, ...] | None] = ()  # besides no window; None: any
    device: ClassVar[str | None] = None
    aligns = False  # every call returns `Fused`
    drops = False  # supports dropout
    exports = False  # never branches on sizes and runs only PyTorch's operators

    def declared_refusal(self, call: Call) -> str | None:
        """Why the kernel does not support the parts of this call, as a clause; None if it does."""
        if self.forms is not None and call.form_type not in self.forms:
            kinds = " and ".join(form.__name__.lower() for form in self.forms)
            return f"score is {named(call.score)}, this kernel computes {kinds} scores"
        if self.normalizers is not None and _own(call.normalizer) not in self.normalizers:
            kinds = " and ".join(kind.__name__ for kind in self.normalizers)
            return f"normalizer is {named(call.normalizer)}, this kernel computes {kinds}"
        window = _own_window(call.window)
        if self.windows is not None and window is not None and window not in self.windows:
            kinds = " and ".join(kind.__name__ for kind in self.windows)
            return f"window is {named(call.window)}, this kernel " + (
                f"computes {kinds}" if kinds else "has none"
            )
        if self.device is not None and call.query.device.type != self.device:
            return f"the query is on {call.query.device.type}, not {self.device}"
        if call.keep_weights and not self.aligns:
            return "the caller needs the weights, and this kernel never has them"
        return None

    def refuses(self, call: Call) -> str | None:
        """None: can run; otherwise the reason, as a clause. Called after `declared_refusal`."""
        raise NotImplementedError(f"{type(self).__name__} defines no refuses(call).")

    def run(self, call: Call) -> Tensor | Fused:
        """The context (..., T, Dv), alone or with its scores and weights."""
        raise NotImplementedError(f"{type(self).__name__} defines no run(call).")


def _own(part: nn.Module) -> type | None:
    """The part's class; None if the instance overrides it."""
    return type(part) if unchanged(part) else None


def _own_window(window: Any) -> type | None:
    """The window's class; None if it hides nothing, `object` if the instance overrides it."""
    if window is None or (type(window) is Everywhere and unchanged(window)):
        return None
    return type(window) if isinstance(window, Window) and unchanged(window) else object


_kernels: list[Kernel] = []
_candidates: dict[tuple[Any, ...], tuple[Kernel, ...]] = {}


def register(kernel: Kernel) -> None:
    """Add a kernel of Attention; kernels are tried in order of registration."""
    _kernels.append(kernel)
    _candidates.clear()


def kernels() -> tuple[Kernel, ...]:
    """All kernels that `auto` may choose, in order of preference."""
    return tuple(_kernels)


def refusal(kernel: Kernel, call: Call) -> str | None:
    """None: the kernel runs the call; otherwise the reason, as a clause."""
    if is_transformed():
        return TRANSFORMED
    if torch.compiler.is_exporting() and not kernel.exports:
        return EXPORTED
    if call.garbage:
        return GARBAGE
    return kernel.declared_refusal(call) or _refusal(kernel, call)


def _refusal(kernel: Kernel, call: Call) -> str | None:
    if call.dropout > 0 and not kernel.drops:
        return f"dropout is {call.dropout:g}, this kernel has none"
    return kernel.refuses(call)


def choose_kernel(call: Call, requested: str = "auto") -> Kernel | None:
    """The kernel that will run the call; None means the reference."""
    if requested != "auto":
        return choose_named(requested, _kernels, lambda kernel: refusal(kernel, call))
    if call.garbage or is_transformed():
        return None
    for kernel in _candidates_for(call):
        if _refusal(kernel, call) is None:
            return kernel
    return None


def _candidates_for(call: Call) -> tuple[Kernel, ...]:
    """The kernels that support these parts on this device, cached."""
    if torch.compiler.is_compiling():  # a compiled graph has no cache
        return tuple(_fitting(call))
    facts = (
        call.form_type,
        _own(call.normalizer),
        _own_window(call.window),
        "cpu" if call.query.is_cpu else call.query.device.type,  # is_cpu is the faster one
        call.keep_weights,
    )
    found = _candidates.get(facts)
    if found is None:
        found = _candidates[facts] = tuple(_fitting(call))
    return found


def _fitting(call: Call) -> Iterator[Kernel]:
    exporting = torch.compiler.is_exporting()
    for kernel in _kernels:
        if kernel.declared_refusal(call) is None and (kernel.exports or not exporting):
            yield kernel


def check_kernel(requested: str) -> None:
    """Raise KernelRefused if no kernel has this name."""
    check_name(requested, _kernels)


def explain(call: Call, requested: str = "auto") -> Explanation:
    """What `choose_kernel` would return, with the reasons."""
    reasons = ((kernel.name, refusal(kernel, call)) for kernel in _kernels)
    return explained(choose_kernel(call, requested), requested, reasons, _why(call))


def _why(call: Call) -> str | None:
    """Why the mechanism itself needs the reference, whatever the kernels support."""
    if isinstance(call.score, HistoryScore):
        return "each step reads the alignment of the step before, so the weights are built anyway"
    if is_transformed():
        return TRANSFORMED
    if call.garbage:
        return GARBAGE
    if call.normalizer.one_hot:
        return "a sampled choice is kept, not drawn again; without gradients only the chosen value is read"
    if call.normalizer.stochastic:
        return "the weights are drawn, so they are kept and never computed again"
    if call.query.dtype == torch.float64:
        return "float64 runs on the reference, which the kernels are compared with"
    return call.score.why_reference or None
