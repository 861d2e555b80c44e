"""Additive attention on a CPU without the (T, S, D) tensor.

    tanh(a + b) = 1 - 2 r,   r = 1 / (1 + e^{2a} e^{2b})

The exponentials belong to one position each and are taken once; the inner loop multiplies, adds and
divides, two features to a division. Blocks of rows bound the memory: it grows with (T + S)·D, never with
T·S.

The loops are additive_cpu.cpp, compiled by the machine's own C++ compiler on first use (under a second).
Without a compiler the same formula runs in blocks of tensors, and says so once. Where |a| and |b| are both
so large that their exponentials leave float32, and only there, the sum is formed first: exact for all
finite inputs.
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

LANES = 16  # positions to a panel, as in additive_cpu.cpp
PAIRS = 2**20  # (t, s) pairs in memory at a time
CELLS = 2**21  # (t, s, d) cells at a time where tensors do the work
SMALL = 2**18  # fewer cells than this are not worth a compiler
LARGEST = 43.0  # e^{2x} is a normal float32 up to here
SATURATED = 33.0  # beyond ±LARGEST the other side must pass this before their sum comes back from saturation


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
    """How rows of scores become weights, and the slopes of the weights those of the scores."""

    weigh: Callable[[Tensor, Tensor | None], Tensor]  # of scores, which it may overwrite, by what is shown
    slope: Callable[[Tensor, Tensor], Tensor]  # of weights, from their slopes, which it may overwrite


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

    No operator stands between autograd and what runs: on the machine of the CPU tables it takes 0.1 ms of a
    call with its gradient, as long as the attention of a short sequence.
    """
    if torch.is_grad_enabled():
        return _Attended.apply(normalizer, *given)  # type: ignore[no-untyped-call]
    with no_autocast(given.a):
        return forward(given, normalizer)


class _Attended(torch.autograd.Function):
    """`attended`, as autograd takes it."""

    @staticmethod
    def forward(ctx: Any, normalizer: Rows, *arguments: Any) -> Tensor:
        ctx.save_for_backward(*arguments[:6])
        ctx.normalizer, ctx.rest = normalizer, arguments[6:]
        with no_autocast(arguments[0]):  # the products inside stay float32
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
    """Gradients of a, b, v and values: the weights are computed again, block by block."""
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
    """Those of a, b and v. Σ g tanh = Σ g - 2 Σ g r, and Σ g, the rest, is zero only up to rounding."""
    grad_a, grad_b, grad_v = engine.gradient()
    return grad_a.to(a.dtype), grad_b.to(b.dtype), (grad_v + rest).to(v.dtype)


def scores(a: Tensor, b: Tensor, v: Tensor) -> Tensor:
    """(N, T, S) float32: the scores of all."""
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
    """Compiled loops where the exponentials fit and the work is worth it, else blocks of tensors."""
    a, b, v = a.float(), b.float(), v.float()
    reach_a, reach_b = a.abs().max(), b.abs().max()
    low, high = torch.minimum(reach_a, reach_b), torch.maximum(reach_a, reach_b)
    if not (high <= LARGEST or low <= SATURATED):  # NaN comes here too
        return Tensors(a, b, v, sum_first=True)
    worth = a.numel() * b.shape[1] >= SMALL and a.shape[-1] >= 4  # the loops take features by fours
    library = compiled() if worth else None
    return Tensors(a, b, v, sum_first=False) if library is None else Loops(a, b, v, library)


def exponentials(x: Tensor) -> Tensor:
    """e^{2x}, kept a normal float32: what is cut off is saturated whatever the other side holds.

    Rounded once, from float64: every product below inherits this error twice.
    """
    return (2.0 * x.clamp(-LARGEST, LARGEST).double()).exp_().float()


class Tensors:
    """The formula in blocks of tensors: without a compiler, and where the sum must be formed first.

    As of `Loops`: `scores` are those of a block (n, R, S), unmasked, in float32; `start_gradient` sets sums
    to zero, `add_gradient` adds what d loss / d score of a block gives to a, b and v, `gradient` has them.
    """

    def __init__(self, a: Tensor, b: Tensor, v: Tensor, *, sum_first: bool) -> None:
        self.v, self.sum_first = v, sum_first
        self.a, self.b = (a, b) if sum_first else (exponentials(a), exponentials(b))

    def _features(self, block: Block) -> Iterator[tuple[slice, Tensor]]:
        """r (n, R, S, d) for as many features at a time as fit."""
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
        self.v = F.pad(v, (0, spare)).contiguous()  # a feature of weight zero changes nothing
        self.a = F.pad(exponentials(a), (0, spare)).contiguous()  # without padding it keeps the order of `a`
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
    """Whole panels of columns, zero where there is none."""
    return F.pad(g, (0, -g.shape[-1] % LANES)).contiguous()


def _pointers(*tensors: Tensor) -> Iterator[int]:
    return (x.data_ptr() for x in tensors)


def _in_threads(run: Callable[[slice, slice], None], items: int, parts: int, *, cells: int) -> None:
    """Of all items all parts, on as many threads as torch uses: whole items, or parts where these are few."""
    worth = cells >= SMALL
    if not worth or items >= torch.get_num_threads():
        in_threads(lambda first, last: run(slice(first, last), slice(0, parts)), items, worth=worth)
        return

    def some(first: int, last: int) -> None:  # two at a time, as rows are taken
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
