"""Which implementation runs a call: the first fused kernel that does not refuse it, or the reference.

A kernel asked for by name runs or raises KernelRefused with the reason; it never falls back. Nothing is
decided at import time and no environment variable is consulted. The choice can be asked for beforehand:
`Attention.explain` for one call, `table` for the whole catalogue.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from regard.attention.numerics import is_transformed
from regard.errors import KernelRefused, shown

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
    keep_weights: bool = False  # the caller needs the weights: skip kernels that do not produce them
    garbage: bool = False  # NaN or infinity stands where some queries may look, and others may not
    seen: "Call | None" = None
    """What a later look at the weights is computed from, where a kernel has said it: the query as it was
    projected, and a score and a window without parameters, which may have other values by then."""

    def saw(self, query: Tensor, score: Any, window: Any = None) -> None:
        """A kernel reads this query through this score and window, and no parameter beside them."""
        window = self.window if window is None else window
        self.seen = Call(query, self.source, score, self.normalizer, window, self.history, 0.0)


class Fused(NamedTuple):
    """What a kernel hands back that built the weights."""

    context: Tensor  # (..., T, Dv)
    alignment: tuple[Tensor, Tensor]  # scores and weights (..., T, S)


class Kernel(Protocol):
    """A fused implementation.

    One that hands back `Fused` from every call also says `aligns = True`; one that computes a single class of
    normalizers says which, `normalizer = Softmax`, and `auto` does not ask it about others; one for NVIDIA's
    GPUs alone says `cuda = True`, and is not asked elsewhere. One that decides
    nothing by sizes, and runs PyTorch's operators only, says `exports = True`.
    """

    name: str

    def refuses(self, call: Call) -> str | None:
        """None: can run; otherwise the reason, as a clause."""
        ...

    def run(self, call: Call) -> Tensor | Fused:
        """The context, (..., T, Dv), alone or with the weights it was mixed with."""
        ...


_kernels: tuple[Kernel, ...] = ()  # what `kernels` has found: a decoder asks at every step


def kernels() -> tuple[Kernel, ...]:
    """All kernels that `auto` may take, in order of preference."""
    global _kernels
    if not _kernels:
        _kernels = _all_kernels()
    return _kernels


def _all_kernels() -> tuple[Kernel, ...]:
    # imported here, because kernels import the algebra and the algebra imports this file
    from regard.kernels.additive.additive_cpu import ADDITIVE_CPU
    from regard.kernels.additive.additive_cuda import ADDITIVE_CUDA, ADDITIVE_STEP_CUDA
    from regard.kernels.additive.additive_scores import ADDITIVE_SCORES
    from regard.kernels.local.local_attention import LOCAL
    from regard.kernels.product.blocks import BLOCKS
    from regard.kernels.product.sdpa import SDPA
    from regard.kernels.sparsemax.sparsemax_attention import SPARSEMAX

    additive = (ADDITIVE_CPU, ADDITIVE_CUDA, ADDITIVE_STEP_CUDA, ADDITIVE_SCORES)
    return (LOCAL, SDPA, *additive, SPARSEMAX, BLOCKS)


def is_own(part: nn.Module | None, *classes: type[nn.Module]) -> bool:
    """The part is of one of these classes, no subclass of it, and computes what the class says.

    A kernel replaces what its class computes. What a subclass, a hook or a `forward` set on the instance
    computes it cannot know.
    """
    return type(part) in classes and unchanged(part)  # type: ignore[arg-type]


def unchanged(part: nn.Module) -> bool:
    """The instance has no hooks, and no `forward` or `normalize` that its class has not."""
    own = part.__dict__
    return not (
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
        or "forward" in own
        or "normalize" in own
    )


def named(part: nn.Module | None) -> str:
    """The part as a reason names it."""
    name = type(part).__name__
    return name if part is None or unchanged(part) else f"{name} with hooks or methods of its own"


GARBAGE = "NaN or infinity stands where some queries may look and others may not"
EXPORTED = "an exported program is for all sizes and knows no operators of this library"
TRANSFORMED = "torch.func or forward-mode differentiation is at work, which goes to the reference"


def refusal(kernel: Kernel, call: Call) -> str | None:
    """None: the kernel runs the call; otherwise the reason, as a clause."""
    if is_transformed():
        return TRANSFORMED
    if torch.compiler.is_exporting() and not getattr(kernel, "exports", False):
        return EXPORTED
    return GARBAGE if call.garbage else _refusal(kernel, call)


def _refusal(kernel: Kernel, call: Call) -> str | None:
    if call.keep_weights and not getattr(kernel, "aligns", False):
        return "the scores are read in any case, and this kernel never has them"
    return kernel.refuses(call)


def choose_kernel(call: Call, requested: str = "auto") -> Kernel | None:
    """The kernel that will run the call; None is the reference."""
    if requested == "reference":
        return None
    if requested != "auto":
        return _named(call, requested)
    if call.garbage or is_transformed():
        return None
    own, exporting, on_gpu = type(call.normalizer), torch.compiler.is_exporting(), call.query.is_cuda
    for kernel in kernels():
        if not on_gpu and getattr(kernel, "cuda", False):
            continue
        if exporting and not getattr(kernel, "exports", False):
            continue
        if getattr(kernel, "normalizer", own) is own and _refusal(kernel, call) is None:
            return kernel
    return None


def _named(call: Call, requested: str) -> Kernel:
    for kernel in kernels():
        if kernel.name == requested:
            reason = refusal(kernel, call)
            if reason is None:
                return kernel
            raise KernelRefused(f"kernel {requested!r} cannot run this call: {reason}.")
    check_name(requested)
    raise AssertionError(f"kernel {requested!r} is known and was not found.")


def check_name(requested: str) -> None:
    """Raise KernelRefused if no kernel has this name."""
    if isinstance(requested, str) and requested in ("auto", "reference"):
        return
    names = ["auto", "reference", *(kernel.name for kernel in kernels())]
    if not isinstance(requested, str) or requested not in names:
        raise KernelRefused(f"unknown kernel {shown(requested)}; known: {', '.join(names)}.")


@dataclass(frozen=True)
class Explanation:
    """Which implementation would run a call, and why the others would not."""

    kernel: str  # the name of what would run; "reference" where no kernel does
    reasons: tuple[tuple[str, str], ...]  # (kernel, clause) of each kernel that would not, in order
    why: str = ""  # why the reference runs; empty where a kernel does

    def __str__(self) -> str:
        first = self.kernel if not self.why else f"{self.kernel}: {self.why}"
        return "\n".join([first, *(f"  not {kernel}: {reason}" for kernel, reason in self.reasons)])


def explain(call: Call, requested: str = "auto") -> Explanation:
    """What `choose_kernel` would answer, with the reasons."""
    chosen = choose_kernel(call, requested)
    reasons = [(kernel.name, refusal(kernel, call)) for kernel in kernels()]
    refusals = tuple((name, reason) for name, reason in reasons if reason is not None)
    if chosen is not None:
        return Explanation(chosen.name, refusals)
    if requested == "reference":
        return Explanation("reference", refusals, "it was asked for")
    return Explanation("reference", refusals, _why(call) or "; ".join(_distinct(refusals)))


def _why(call: Call) -> str | None:
    """What about the mechanism itself keeps it on the reference, whatever the kernels say."""
    from regard.attention.normalizers.base import HistoryNormalizer
    from regard.attention.scores.base import HistoryScore
    from regard.attention.scores.location import LocationScore

    if isinstance(call.score, HistoryScore) or isinstance(call.normalizer, HistoryNormalizer):
        return "each step reads the alignment of the step before, so the weights are built anyway"
    if is_transformed():
        return TRANSFORMED
    if call.garbage:
        return GARBAGE
    if call.normalizer.one_hot:
        return "a choice is kept and never made again; without gradients only the chosen value is read"
    if call.normalizer.stochastic:
        return "the weights are drawn, so they are kept and never computed again"
    if call.query.dtype == torch.float64:
        return "float64 is what the kernels are judged by"
    if isinstance(call.score, LocationScore):
        return "the scores are one product of the query with a matrix, there is nothing to fuse"
    return None


def _distinct(refusals: tuple[tuple[str, str], ...]) -> list[str]:
    """Each clause once: several kernels refuse for one reason."""
    return list(dict.fromkeys(reason for _, reason in refusals))


class Choice(NamedTuple):
    """One line of the table of choices."""

    score: str
    normalizer: str
    window: str
    device: str
    kernel: str  # "reference" where no kernel runs
    reason: str  # why the reference runs; empty where a kernel does


def table(*, T: int = 64, S: int = 64, training: bool = False) -> Iterator[Choice]:
    """Every score × normalizer × window × device of the catalogue, by asking the kernels.

    The tensors are fake, float32, (2, T, 32), and nothing is computed: a machine without a GPU can be asked
    about one too.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    from regard import catalog
    from regard.attention.build import Sizes, build_attention
    from regard.attention.history import History
    from regard.attention.mask import Mask
    from regard.attention.source import Source

    sizes = Sizes(query=32, keys=32, hidden=32, positions=S, half_width=4)
    parts = (catalog.names("score"), catalog.names("normalizer"), catalog.names("window"))
    for score, normalizer, window in product(*parts):
        with torch.device("meta"):
            attention = build_attention(score, sizes, normalizer=normalizer, window=window).train(training)
        for device in ("cpu", "cuda"):
            with FakeTensorMode():
                keys = torch.empty(2, S, 32, device=device)
                source = Source(keys, keys, Mask())
                query = torch.empty(2, T, 32, device=device)
                choice = attention.explain(query, source, history=History.start(source))
            yield Choice(score, normalizer, window, device, choice.kernel, choice.why)
