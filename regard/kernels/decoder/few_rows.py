"""Products of a few rows with matrices that are constant during a search, on a CPU: decoder_cpu.cpp.

    x Wᵀ + b

BLAS repacks the matrix in every call, which costs more than multiplying it with a few rows. Inside
`steady_weights`, which wraps every search, `product` and `products` read it from packed panels instead. They
are packed at the first product and cached with the module while a digest of its weights stays the same. A
module with hooks, its own `forward` or a class other than `nn.Linear` runs as usual.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import paths
from regard.attention.compose import Attention
from regard.attention.keep import version_of
from regard.attention.parts import is_own
from regard.attention.result import AttentionResult
from regard.attention.source import Source
from regard.attention.trace import WATCHERS
from regard.kernels.decoder.decoder_cpu import NO_COMPILER, Affine, Panels, compiled, packed

FEW = 1024  # with more rows, BLAS is as fast
SENTENCES, LARGE = 4, 2**18  # for more sentences or smaller matrices, `product_with_context` saves nothing
Product = Callable[[Tensor], Tensor]

# module -> its panels, or None if it has to run as usual
_known: ContextVar[dict[nn.Module, tuple[Panels, ...] | None] | None] = ContextVar("known", default=None)


class Matrices(NamedTuple):
    """A request to pack matrices for many products with a few rows."""

    owner: nn.Module  # whose parameters they are made of
    make: Callable[[], Sequence[Affine]]


class FewRows:
    """Packs matrices into panels."""

    name = "few-rows-cpu"

    def refuses(self, call: Matrices) -> str | None:
        for x in call.owner.parameters():
            if not x.is_cpu or x.dtype != torch.float32:
                return f"a matrix is {x.dtype} on {x.device.type}, these loops are for float32 on cpu"
            if type(x) is not nn.Parameter:
                return f"a matrix is a {type(x).__name__}, which may define its own product"
        return None if compiled() is not None else NO_COMPILER

    def run(self, call: Matrices) -> tuple[Panels, ...]:
        weights = call.owner.parameters()
        return packed(call.owner, weights, lambda loops: tuple(Panels(each, loops) for each in call.make()))


FEW_ROWS = FewRows()


@contextmanager
def steady_weights() -> Iterator[None]:
    """Promise that no weight changes inside the block."""
    before = _known.get()
    _known.set({})
    try:
        yield
    finally:
        _known.set(before)


def product(linear: nn.Linear, x: Tensor) -> Tensor:
    """linear(x), from panels where possible."""
    if reads_panels(x) and _is_plain(linear) and x.shape[-1] == linear.in_features:
        panels = _panels(linear, lambda: [(linear.weight, linear.bias)])
        if panels is not None:
            return panels[0](x)
    found: Tensor = linear(x)
    return found


def product_with_context(
    linear: nn.Linear, attention: nn.Module, source: Source, result: AttentionResult
) -> Tensor:
    """linear(result.context), for a result of this attention over this source.

        W c = W Σ_j α_j v_j = Σ_j α_j (W v_j)

    W v_j depends only on the source: for a few sentences it is computed once, so a large W is not read at
    every step.
    """
    large = _is_plain(linear) and linear.in_features * linear.out_features >= LARGE
    if large and linear.bias is None and _is_mixed(attention, source, result):
        weights, values, made = result.weights, source.values, source.__dict__.setdefault("_made", {})
        panels, version = _panels(linear, lambda: [(linear.weight, None)]), version_of(values)
        if panels is not None:
            if made.get(linear, ())[:2] != (panels, version):
                made[linear] = (panels, version, panels[0](values))
            mixed = weights.view(len(values), -1, weights.shape[-1]) @ made[linear][2]
            return mixed.view(*weights.shape[:-1], -1)
    return product(linear, result.context)


def _is_mixed(attention: nn.Module, source: Source, result: AttentionResult) -> bool:
    """Whether the context is weights @ values of a few sentences, with known weights."""
    values = source.values
    few = values.ndim == 3 and len(values) <= SENTENCES and reads_panels(values)
    return few and result.has_weights and is_own(attention, Attention) and not WATCHERS.get()


def _is_plain(linear: nn.Module) -> bool:
    """Whether the module is a plain nn.Linear."""
    return is_own(linear, nn.Linear) and linear._parameters.get("weight") is not None


def products(owner: nn.Module, make: Callable[[], Sequence[Affine]]) -> tuple[Product, ...]:
    """Functions x -> x Wᵀ + b, one for each matrix made from the owner's parameters."""
    panels = _panels(owner, make) if _is_steady() else None
    return panels or tuple(partial(F.linear, weight=weight, bias=bias) for weight, bias in make())


def reads_panels(x: Tensor) -> bool:
    """Whether products with these rows should use panels."""
    return _is_steady() and x.is_cpu and x.dtype == torch.float32 and 0 < x.numel() <= FEW * x.shape[-1]


def _is_steady() -> bool:
    """Whether a search is running, without gradients or autocast."""
    return not (
        torch.compiler.is_compiling()  # first: a compiled graph cannot evaluate the rest
        or _known.get() is None
        or torch.is_grad_enabled()
        or torch.is_autocast_enabled("cpu")
    )


def _panels(owner: nn.Module, make: Callable[[], Sequence[Affine]]) -> tuple[Panels, ...] | None:
    known = _known.get()
    assert known is not None
    if owner not in known:
        call = Matrices(owner, make)
        path = paths.choose("few-rows", call)
        known[owner] = None if path is None else path.run(call)
    return known[owner]
