"""Additive attention on a CPU without the (T, S, D) tensor.

    tanh(a + b) = 1 - 2 r,   r = 1 / (1 + e^{2a} e^{2b})

Each exponential belongs to one position and is computed once; the inner loop only multiplies, adds and
divides, with one division for two features. Blocks of rows bound the memory: it grows with (T + S)·D, never
with T·S.

The loops are in additive_cpu.cpp, compiled by the local C++ compiler on first use (under a second). Without
a compiler the same formula runs in blocks of tensors, with one warning. Only where |a| and |b| are both so
large that their exponentials leave float32 is the sum formed first: exact for all finite inputs.
"""

import ctypes
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.dispatch import Call, Kernel
from regard.attention.forms import Additive
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import no_autocast, upcast
from regard.catalog import card
from regard.kernels.additive.additive_operands import (
    Block,
    Operands,
    additive_operator,
    blocks,
    operands,
    refuses_additive,
    restored,
    visible,
)
from regard.kernels.compiler import in_threads, library
from regard.kernels.ops import once
from regard.kernels.sparsemax import sparsemax_cpu

LANES = 16  # positions per panel, as in additive_cpu.cpp
PAIRS = 2**20  # (t, s) pairs in memory at a time
CELLS = 2**21  # (t, s, d) cells at a time in the version with tensors
SMALL = 2**18  # fewer cells than this are not worth a compiler
LARGEST = 43.0  # e^{2x} is a normal float32 up to here
SATURATED = 33.0  # if one side is beyond ±LARGEST and the other within this, tanh of the sum is saturated


@card(
    "kernel",
    "additive-cpu",
    title="Fused additive attention on a CPU",
    authors="regard",
    year=2026,
    link="https://arxiv.org/abs/1409.0473",
    sentence="Additive attention without its (T, S, D) tensor: exponentials per position, memory linear.",
)
class AdditiveCPU(Kernel):
    """The reference's additive attention, at memory linear in length."""

    name = "additive-cpu"
    forms = (Additive,)
    normalizers = (Softmax,)
    device = "cpu"

    def refuses(self, call: Call) -> str | None:
        if call.query.shape[-2] < 4:
            return "fewer than four queries share the exponentials of the keys, which gains nothing on a CPU"
        if 0 in (call.query.numel(), call.source.keys.numel()):
            return "there is nothing to attend to"
        return refuses_additive(call)

    def run(self, call: Call) -> Tensor:
        if torch.compiler.is_compiling():
            return restored(additive_operator(*operands(call)), call)
        return restored(attended(operands(call)), call)


ADDITIVE_CPU = AdditiveCPU()


class Rows(NamedTuple):
    """A normalizer of rows: from scores to weights, and from gradients of weights to those of scores."""

    weigh: Callable[[Tensor, Tensor | None], Tensor]  # (scores, mask) -> weights; may overwrite the scores
    slope: Callable[[Tensor, Tensor], Tensor]  # (weights, their gradient) -> the scores'; may overwrite it


def _softmax(scores: Tensor, shown: Tensor | None) -> Tensor:
    if shown is None:
        return scores.softmax(-1)
    empty = ~shown.any(-1, keepdim=True)
    return (
        scores.masked_fill_(~shown, -torch.inf).masked_fill_(empty, 0.0).softmax(-1).masked_fill_(empty, 0.0)
    )


def _softmax_slopes(weights: Tensor, slopes: Tensor) -> Tensor:
    return slopes.sub_((slopes * weights).sum(-1, keepdim=True)).mul_(weights)


def _sparsemax(scores: Tensor, shown: Tensor | None) -> Tensor:
    return sparsemax_cpu.forward(scores if shown is None else scores.masked_fill_(~shown, -torch.inf))


SOFTMAX = Rows(_softmax, _softmax_slopes)
SPARSEMAX = Rows(_sparsemax, lambda weights, slopes: sparsemax_cpu.backward(slopes, weights))


def attended(given: Operands, normalizer: Rows = SOFTMAX) -> Tensor:
    """The context, (N, T, Dv), with its gradient.

    It bypasses the registered operator, which costs 0.1 ms per call with gradient on the machine of the CPU
    tables: as long as the attention of a short sequence.
    """
    if torch.is_grad_enabled():
        return _Attended.apply(normalizer, *given)  # type: ignore[no-untyped-call]
    with no_autocast(given.a):
        return forward(given, normalizer)


class _Attended(torch.autograd.Function):
    """The autograd function of `attended`."""

    @staticmethod
    def forward(ctx: Any, normalizer: Rows, *arguments: Any) -> Tensor:
        ctx.save_for_backward(*arguments[:6])
        ctx.normalizer, ctx.rest = normalizer, arguments[6:]
        with no_autocast(arguments[0]):  # keep the products inside in float32
            return forward(Operands(*arguments), normalizer)

    @staticmethod
    @once
    def backward(ctx: Any, saved: tuple[Any, ...], grad: Tensor) -> tuple[Any, ...]:
        with no_autocast(grad):
            return (None, *backward(grad, Operands(*saved, *ctx.rest), ctx.normalizer), *[None] * 6)


def forward(given: Operands, normalizer: Rows = SOFTMAX) -> Tensor:
    """The context, (N, T, Dv)."""
    values = given.values
    context = values.new_empty(*given.a.shape[:2], values.shape[-1])
    engine = choose_engine(*given[:3])
    for block in _blocks(given.a, given.b):
        weights = _weights(engine, given, block, normalizer)
        context[block] = (weights @ upcast(values[block.items])).to(values.dtype)
    return context


def backward(
    grad: Tensor, given: Operands, normalizer: Rows = SOFTMAX
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of a, b, v and values; recomputes the weights block by block."""
    a, b, v, values = given[:4]
    engine = choose_engine(a, b, v)
    engine.start_gradient()
    grad_values = torch.zeros(values.shape, dtype=torch.float32)
    rest = torch.zeros(())
    for block in _blocks(a, b):
        weights = _weights(engine, given, block, normalizer)
        outer = upcast(grad[block])
        grad_values[block.items] += weights.mT @ outer
        slopes = outer @ upcast(values[block.items]).mT  # d loss / d weight
        slopes = normalizer.slope(weights, slopes).mul_(given.scale)
        engine.add_gradient(block, slopes)
        rest += slopes.sum()
    return *_gradients(engine, a, b, v, rest), grad_values.to(values.dtype)


def _weights(engine: "Engine", given: Operands, block: Block, normalizer: Rows) -> Tensor:
    scores = engine.scores(block).mul_(given.scale)
    return normalizer.weigh(scores, visible(given.b, given[4:], block))


def _blocks(a: Tensor, b: Tensor) -> Iterator[Block]:
    return blocks(a.shape[0], a.shape[1], b.shape[1], PAIRS, LANES)


def _gradients(
    engine: "Engine", a: Tensor, b: Tensor, v: Tensor, rest: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of a, b and v. Σ g tanh = Σ g - 2 Σ g r, where Σ g, `rest`, is zero only up to rounding."""
    grad_a, grad_b, grad_v = engine.gradient()
    return grad_a.to(a.dtype), grad_b.to(b.dtype), (grad_v + rest).to(v.dtype)


def scores(a: Tensor, b: Tensor, v: Tensor) -> Tensor:
    """(N, T, S) float32: all scores."""
    found = torch.empty(*a.shape[:2], b.shape[1])
    engine = choose_engine(a, b, v)
    for block in _blocks(a, b):
        found[block] = engine.scores(block)
    return found


def scores_backward(grad: Tensor, a: Tensor, b: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of a, b and v."""
    engine = choose_engine(a, b, v)
    engine.start_gradient()
    for block in _blocks(a, b):
        engine.add_gradient(block, grad[block])
    return _gradients(engine, a, b, v, grad.sum())


def choose_engine(a: Tensor, b: Tensor, v: Tensor) -> "Engine":
    """Compiled loops if the exponentials fit float32 and the work is worth it, else blocks of tensors."""
    a, b, v = a.float(), b.float(), v.float()
    reach_a, reach_b = a.abs().max(), b.abs().max()
    low, high = torch.minimum(reach_a, reach_b), torch.maximum(reach_a, reach_b)
    if not (high <= LARGEST or low <= SATURATED):  # true for NaN as well
        return Tensors(a, b, v, sum_first=True)
    worth = a.numel() * b.shape[1] >= SMALL and a.shape[-1] >= 4  # the loops read features in fours
    library = compiled() if worth else None
    return Tensors(a, b, v, sum_first=False) if library is None else Loops(a, b, v, library)


def exponentials(x: Tensor) -> Tensor:
    """e^{2x}, clamped to normal float32: clamped values are saturated whatever the other side is.

    Computed in float64 and rounded once, because every product inherits this error twice.
    """
    return (2.0 * x.clamp(-LARGEST, LARGEST).double()).exp_().float()


class Tensors:
    """The formula in blocks of tensors, for machines without a compiler and where the sum is formed first.

    As in `Loops`: `scores` returns those of a block (n, R, S), unmasked, in float32; `start_gradient` zeroes
    the gradients of a, b and v, `add_gradient` adds those from d loss / d score of a block, `gradient`
    returns them.
    """

    def __init__(self, a: Tensor, b: Tensor, v: Tensor, *, sum_first: bool) -> None:
        self.v, self.sum_first = v, sum_first
        self.a, self.b = (a, b) if sum_first else (exponentials(a), exponentials(b))

    def _features(self, block: Block) -> Iterator[tuple[slice, Tensor]]:
        """r (n, R, S, d), for as many features at a time as fit in memory."""
        a, b = self.a[block], self.b[block.items]
        D = self.v.shape[0]
        step = max(1, CELLS // (a.shape[0] * a.shape[1] * b.shape[1]))
        for start in range(0, D, step):
            d = slice(start, min(start + step, D))
            left, right = a[:, :, None, d], b[:, None, :, d]
            if self.sum_first:
                yield d, ((left + right) * -2.0).sigmoid_()
            else:
                yield d, (left * right).add_(1.0).reciprocal_()

    def scores(self, block: Block) -> Tensor:
        scores = torch.zeros(())
        for d, r in self._features(block):
            scores = scores + r.mul_(-2.0).add_(1.0) @ self.v[d]
        return scores

    def start_gradient(self) -> None:
        self.grad_a, self.grad_b = torch.zeros_like(self.a), torch.zeros_like(self.b)
        self.grad_v = torch.zeros_like(self.v)

    def add_gradient(self, block: Block, slopes: Tensor) -> None:
        for d, r in self._features(block):
            first = slopes[..., None] * r
            self.grad_v[d] -= 2.0 * first.sum((0, 1, 2))
            slope = first.sub_(first * r).mul_(4.0 * self.v[d])
            self.grad_a[(*block, d)] += slope.sum(2)
            self.grad_b[block.items, :, d] += slope.sum(1)

    def gradient(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.grad_a, self.grad_b, self.grad_v


class Loops:
    """The formula in compiled loops, over rows (n, R, D) and panels (n, P, D, 16)."""

    def __init__(self, a: Tensor, b: Tensor, v: Tensor, library: ctypes.CDLL) -> None:
        self.library = library
        self.D, self.S = a.shape[-1], b.shape[1]
        spare = -self.D % 4
        self.v = F.pad(v, (0, spare)).contiguous()  # a feature of weight zero has no effect
        self.a = F.pad(exponentials(a), (0, spare)).contiguous()  # F.pad with 0 keeps the strides of `a`
        self.b = F.pad(exponentials(b), (0, spare)).contiguous()
        self.panels = panels_of(self.b)

    def scores(self, block: Block) -> Tensor:
        rows = self.a[block]
        n, R, D = rows.shape
        P = self.panels.shape[1]
        out = torch.empty(n, R, P * LANES)
        panels = self.panels[block.items]

        def run(i: slice, r: slice) -> None:
            at = _pointers(rows[i, r], panels[i], self.v, out[i, r])
            self.library.additive_scores(*at, i.stop - i.start, r.stop - r.start, D, P)

        _in_threads(run, n, R, cells=n * R * P * LANES * D)
        return out[..., : self.S].contiguous()

    def start_gradient(self) -> None:
        self.grad_a = torch.zeros_like(self.a)
        self.first, self.slope = torch.zeros_like(self.panels), torch.zeros_like(self.panels)

    def add_gradient(self, block: Block, slopes: Tensor) -> None:
        first, slope = self.first[block.items], self.slope[block.items]
        self._sums(self.panels[block.items], self.a[block], _padded(slopes), first, slope)
        own = panels_of(self.a[block])
        unused, slope = torch.zeros_like(own), torch.zeros_like(own)
        self._sums(own, self.b[block.items], _padded(slopes.mT), unused, slope)
        self.grad_a[block] = _rows(slope, slopes.shape[1])

    def _sums(self, own: Tensor, other: Tensor, g: Tensor, first: Tensor, slope: Tensor) -> None:
        n, P, D, _ = own.shape
        M = other.shape[1]

        def run(i: slice, p: slice) -> None:
            columns = g[i, :, p.start * LANES :]
            at = _pointers(own[i, p], other[i], columns, first[i, p], slope[i, p])
            self.library.additive_sums(*at, i.stop - i.start, M, D, p.stop - p.start, P * LANES)

        _in_threads(run, n, P, cells=n * P * LANES * M * D)

    def gradient(self) -> tuple[Tensor, Tensor, Tensor]:
        grad_a = self.grad_a.mul_(4.0 * self.v)
        grad_b = _rows(self.slope, self.S).mul_(4.0 * self.v)
        grad_v = self.first.sum((0, 1, 3)).mul_(-2.0)
        return grad_a[..., : self.D], grad_b[..., : self.D], grad_v[: self.D]


Engine = Tensors | Loops


def panels_of(x: Tensor) -> Tensor:
    """(n, S, D) -> (n, P, D, 16)."""
    x = F.pad(x, (0, 0, 0, -x.shape[1] % LANES))
    return x.reshape(x.shape[0], -1, LANES, x.shape[2]).mT.contiguous()


def _rows(panels: Tensor, S: int) -> Tensor:
    """(n, P, D, 16) -> (n, S, D)."""
    return panels.mT.flatten(1, 2)[:, :S]


def _padded(g: Tensor) -> Tensor:
    """Columns padded with zeros to whole panels."""
    return F.pad(g, (0, -g.shape[-1] % LANES)).contiguous()


def _pointers(*tensors: Tensor) -> Iterator[int]:
    return (x.data_ptr() for x in tensors)


def _in_threads(run: Callable[[slice, slice], None], items: int, parts: int, *, cells: int) -> None:
    """Run over all parts of all items on torch's number of threads; splits items only if they are few."""
    worth = cells >= SMALL
    if not worth or items >= torch.get_num_threads():
        in_threads(lambda first, last: run(slice(first, last), slice(0, parts)), items, worth=worth)
        return

    def some(first: int, last: int) -> None:  # in pairs, because the loops take rows by twos
        for i in range(items):
            run(slice(i, i + 1), slice(2 * first, min(2 * last, parts)))

    in_threads(some, -(-parts // 2), worth=True)


@cache
def compiled() -> ctypes.CDLL | None:
    """The compiled loops, built once per process; None without a compiler."""
    return library(
        "additive/additive_cpu.cpp",
        "additive attention runs in blocks of tensors, several times slower than compiled",
        additive_scores="4p 4l",
        additive_sums="5p 5l",
        additive_step="5p 4l 2f 5p 6l",
        additive_step_backward="8p 2f 5p 5l",
    )
