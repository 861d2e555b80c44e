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
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.dispatch import Call, Kernel
from regard.attention.forms import Additive
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import no_autocast, upcast
from regard.catalog import card
from regard.kernels import ops
from regard.kernels.additive.additive_operands import Operands, operands, refuses_additive, restored, visible
from regard.kernels.compiler import library
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
            return restored(ops.additive(*operands(call)), call)
        return restored(attended(operands(call)), call)


ADDITIVE_CPU = AdditiveCPU()


class Block(NamedTuple):
    """Some rows of some items, small enough that their scores fit the budget."""

    items: slice
    rows: slice


Facts = tuple[Tensor | None, Tensor | None, int | None, int | None, int]


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


def attended(arguments: Operands, normalizer: Rows = SOFTMAX) -> Tensor:
    """The context, (N, T, Dv), with its gradient.

    No operator stands between autograd and what runs: on the machine of the CPU tables it takes 0.1 ms of a
    call with its gradient, as long as the attention of a short sequence.
    """
    if torch.is_grad_enabled():
        return _Attended.apply(normalizer, *arguments)  # type: ignore[no-untyped-call]
    with no_autocast(arguments.a):
        return forward(*arguments, normalizer=normalizer)


class _Attended(torch.autograd.Function):
    """`attended`, as autograd takes it."""

    @staticmethod
    def forward(ctx: Any, normalizer: Rows, *arguments: Any) -> Tensor:
        ctx.save_for_backward(*arguments[:6])
        ctx.normalizer, ctx.rest = normalizer, arguments[6:]
        with no_autocast(arguments[0]):  # the products inside stay float32
            return forward(*arguments, normalizer=normalizer)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        run: Callable[..., tuple[Tensor, ...]] = partial(backward, normalizer=ctx.normalizer)
        # with `create_graph`, the backward of this graph raises
        run = partial(ops.once, run) if torch.is_grad_enabled() else run
        with no_autocast(grad):
            return (None, *run(grad, *ctx.saved_tensors, *ctx.rest), *[None] * 6)


def forward(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    values: Tensor,
    lengths: Tensor | None,
    dense: Tensor | None,
    left: int | None,
    right: int | None,
    offset: int,
    scale: float,
    *,
    normalizer: Rows = SOFTMAX,
) -> Tensor:
    """The context, (N, T, Dv)."""
    N, T, S = *a.shape[:2], b.shape[1]
    context = values.new_empty(N, T, values.shape[-1])
    facts: Facts = (lengths, dense, left, right, offset)
    engine = choose_engine(a, b, v)
    for block in blocks(N, T, S):
        scores = engine.scores(block).mul_(scale)
        shown = visible(block.rows, block.items, (N, T, S), facts, scores.device)
        weights = normalizer.weigh(scores, shown)
        context[block] = (weights @ upcast(values[block.items])).to(values.dtype)
    return context


def backward(
    grad: Tensor,
    a: Tensor,
    b: Tensor,
    v: Tensor,
    values: Tensor,
    lengths: Tensor | None,
    dense: Tensor | None,
    left: int | None,
    right: int | None,
    offset: int,
    scale: float,
    *,
    normalizer: Rows = SOFTMAX,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of a, b, v and values: the weights are computed again, block by block."""
    N, T, S = *a.shape[:2], b.shape[1]
    engine = choose_engine(a, b, v)
    engine.start_gradient()
    grad_values = torch.zeros(values.shape, dtype=torch.float32)
    rest = torch.zeros(())
    facts: Facts = (lengths, dense, left, right, offset)
    for block in blocks(N, T, S):
        scores = engine.scores(block).mul_(scale)
        shown = visible(block.rows, block.items, (N, T, S), facts, scores.device)
        weights = normalizer.weigh(scores, shown)
        outer = upcast(grad[block])
        grad_values[block.items] += weights.mT @ outer
        slopes = outer @ upcast(values[block.items]).mT  # d loss / d weight
        slopes = normalizer.slope(weights, slopes).mul_(scale)
        engine.add_gradient(block, slopes)
        rest += slopes.sum()
    grad_a, grad_b, grad_v = engine.gradient()
    grad_v = grad_v + rest  # Σ g tanh = Σ g - 2 Σ g r, and Σ g is zero only up to rounding
    return grad_a.to(a.dtype), grad_b.to(b.dtype), grad_v.to(v.dtype), grad_values.to(values.dtype)


def scores(a: Tensor, b: Tensor, v: Tensor) -> Tensor:
    """(N, T, S) float32: the scores of all."""
    N, T, S = *a.shape[:2], b.shape[1]
    found = torch.empty(N, T, S)
    engine = choose_engine(a, b, v)
    for block in blocks(N, T, S):
        found[block] = engine.scores(block)
    return found


def scores_backward(grad: Tensor, a: Tensor, b: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of a, b and v."""
    engine = choose_engine(a, b, v)
    engine.start_gradient()
    for block in blocks(*grad.shape):
        engine.add_gradient(block, grad[block])
    grad_a, grad_b, grad_v = engine.gradient()
    return grad_a.to(a.dtype), grad_b.to(b.dtype), (grad_v + grad.sum()).to(v.dtype)


def blocks(N: int, T: int, S: int) -> Iterator[Block]:
    """Whole items while they fit the budget, else rows of one item."""
    items = max(1, PAIRS // (T * S))
    rows = T if T * S <= PAIRS else max(LANES, PAIRS // S // LANES * LANES)
    for n in range(0, N, items):
        for t in range(0, T, rows):
            yield Block(slice(n, min(n + items, N)), slice(t, min(t + rows, T)))


class Engine(Protocol):
    """Scores of a block, and the sums of its gradient."""

    def scores(self, block: Block) -> Tensor:
        """(n, R, S) float32, unmasked: Σ_d v_d tanh(a_d + b_d)."""
        ...

    def start_gradient(self) -> None:
        """Set the sums to zero."""
        ...

    def add_gradient(self, block: Block, slopes: Tensor) -> None:
        """Add what d loss / d score (n, R, S) of a block gives to a, b and v."""
        ...

    def gradient(self) -> tuple[Tensor, Tensor, Tensor]:
        """The sums, float32, in the shapes of a, b and v."""
        ...


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
    """The formula in blocks of tensors: without a compiler, and where the sum must be formed first."""

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
        panels, cells = self.panels[block.items], n * R * P * LANES * D

        def whole(i: slice) -> None:
            at = _pointers(rows[i], panels[i], self.v, out[i])
            self.library.additive_scores_of_items(*at, i.stop - i.start, R, D, P)

        def part(i: int, r: slice) -> None:
            at = _pointers(rows[i, r], panels[i], self.v, out[i, r])
            self.library.additive_scores(*at, r.stop - r.start, D, P)

        _in_threads(whole, part, n, R, cells=cells)
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

        def whole(i: slice) -> None:
            at = _pointers(own[i], other[i], g[i], first[i], slope[i])
            self.library.additive_sums_of_items(*at, i.stop - i.start, M, D, P)

        def part(i: int, p: slice) -> None:
            columns = g[i, :, p.start * LANES :]
            at = _pointers(own[i, p], other[i], columns, first[i, p], slope[i, p])
            self.library.additive_sums(*at, M, D, p.stop - p.start, P * LANES)

        _in_threads(whole, part, n, P, cells=n * P * LANES * M * D)

    def gradient(self) -> tuple[Tensor, Tensor, Tensor]:
        grad_a = self.grad_a.mul_(4.0 * self.v)
        grad_b = _rows(self.slope, self.S).mul_(4.0 * self.v)
        grad_v = self.first.sum((0, 1, 3)).mul_(-2.0)
        return grad_a[..., : self.D], grad_b[..., : self.D], grad_v[: self.D]


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


def _pointers(*tensors: Tensor) -> Iterator[ctypes.c_void_p]:
    return (ctypes.c_void_p(x.data_ptr()) for x in tensors)


def _in_threads(
    whole: Callable[[slice], None], part: Callable[[int, slice], None], items: int, parts: int, *, cells: int
) -> None:
    """All of it on as many threads as torch uses: whole items, or parts of each where there are few."""
    threads = torch.get_num_threads() if cells >= SMALL else 1
    if items >= threads:
        step = -(-items // threads)
        work = [partial(whole, slice(i, min(i + step, items))) for i in range(0, items, step)]
    else:
        step = max(1, -(-parts // -(-2 * threads // items)))
        step += step % 2  # rows are taken two at a time
        cuts = [slice(p, min(p + step, parts)) for p in range(0, parts, step)]
        work = [partial(part, i, cut) for i in range(items) for cut in cuts]
    if len(work) == 1:
        work[0]()
        return
    with ThreadPoolExecutor(threads) as pool:  # the loops run without Python's lock
        for done in [pool.submit(task) for task in work]:
            done.result()


@cache
def compiled() -> ctypes.CDLL | None:
    """The compiled loops, built once per process; None without a compiler."""
    loops = library(
        "additive/additive_cpu.cpp",
        "additive attention runs in blocks of tensors, several times slower than compiled",
    )
    if loops is not None:
        pointer, size = ctypes.c_void_p, ctypes.c_long
        loops.additive_scores.argtypes = [pointer] * 4 + [size] * 3
        loops.additive_sums.argtypes = [pointer] * 5 + [size] * 4
        loops.additive_scores_of_items.argtypes = [pointer] * 4 + [size] * 4
        loops.additive_sums_of_items.argtypes = [pointer] * 5 + [size] * 4
        numbers: list[Any] = [size] * 4 + [ctypes.c_float] * 2
        loops.additive_step.argtypes = [pointer] * 5 + numbers + [pointer] * 5 + [size] * 6
        backward: list[Any] = [pointer] * 8 + [ctypes.c_float] * 2 + [pointer] * 5 + [size] * 5
        loops.additive_step_backward.argtypes = backward
        loops.additive_step.restype = loops.additive_step_backward.restype = None
        for function in ("additive_scores", "additive_sums"):
            getattr(loops, function).restype = getattr(loops, f"{function}_of_items").restype = None
    return loops
