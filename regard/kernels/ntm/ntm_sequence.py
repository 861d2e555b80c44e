"""A Neural Turing Machine's whole run as one operation on an NVIDIA GPU, with its gradient.

    heard = machine(projected, V, S, bias, first, layout)

    projected (B, T, G)       what the inputs add to the controller, with its bias; G = n, or 4 n for an LSTM
    V         (G, R M)        the same from the reads; (4 n, R M + n) from reads and h for an LSTM
    S bias    (P, n), (P,)    what the controller says to the heads, laid out as in attention/memory/heads.py
    heard     (B, T, R M + n) [r_t; h_t]

The reference is `NTM.step`, one step after the other: 47 operations forward and 97 backward a step with a
feed-forward controller, 57 and 115 with an LSTM, each so small that starting it is what takes time. Here one
launch runs all steps forward and one backward. A program has one sequence, whose memory stays in registers.
The products that are the same for all steps (of the inputs, and the gradients of V, S and the bias) are one
matrix product each outside.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.catalog import card
from regard.kernels.tuning import power_of_two

HEADS = 16  # rows that heads are padded to: the smallest side of a matrix product in Triton
MOST = 2**14  # elements of one tile of the memory: beyond, registers are spilt
ROWS, COLUMNS = 64, 128  # of a tile of V or S
WARPS = 16  # with fewer, the backward kernel spills more


class Layout(NamedTuple):
    """How many heads of which kind there are."""

    reads: int
    writes: int
    reach: int


class First(NamedTuple):
    """The machine before the first step."""

    heard: Tensor  # (B, R M + n) reads and h
    inner: Tensor  # (B, n) c of an LSTM; not looked at otherwise
    cells: Tensor  # (B, N, M)
    weights: Tensor  # (B, H, N)


class Sequence(NamedTuple):
    """A machine that is to run over a whole sequence."""

    inputs: Tensor  # (B, T, I)
    layers: int
    rows: int
    width: int
    heads: int
    foreign: str | None  # why its parts are not the paper's, as a clause
    operands: Callable[[], tuple[Any, ...]]  # those of `machine`


class NTMKernel:
    """All steps of a Neural Turing Machine as one operation."""

    name = "ntm"

    def refuses(self, call: Sequence) -> str | None:
        return call.foreign or _refuses(call.inputs, call.layers, call.rows, call.width, call.heads)

    def run(self, call: Sequence) -> Tensor:
        return machine(*call.operands())


NTM = NTMKernel()


def _refuses(x: Tensor, layers: int, rows: int, width: int, heads: int) -> str | None:
    if not x.is_cuda:
        return f"device is {x.device.type}, this kernel needs cuda"
    if x.dtype != torch.float32:
        return f"dtype is {x.dtype}, this kernel has float32"
    if torch.is_autocast_enabled(x.device.type):
        return "autocast is on, this kernel has one precision"
    if layers > 1:
        return f"the controller has {layers} layers, this kernel has one"
    if heads > HEADS:
        return f"there are {heads} heads, this kernel has up to {HEADS}"
    if rows < 16 or rows & (rows - 1):
        return f"the memory has {rows} rows, this kernel has a power of two, 16 or more"
    if rows * _padded(width) > MOST:
        return f"the memory has {rows} x {width} cells, this kernel has up to {MOST}"
    return None


@card(
    "kernel",
    "ntm",
    title="A Neural Turing Machine's run as one operation on an NVIDIA GPU",
    authors="regard",
    year=2026,
    link="https://arxiv.org/abs/1410.5401",
    sentence="All steps in one launch, forward and backward; `model.kernel` turns it off.",
)
def machine(projected: Tensor, V: Tensor, S: Tensor, bias: Tensor, first: First, layout: Layout) -> Tensor:
    """(B, T, G) -> (B, T, R M + n)."""
    found: Tensor = _Machine.apply(projected, V, S, bias, *first, layout)  # type: ignore[no-untyped-call]
    return found


class _Machine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, projected: Tensor, V: Tensor, S: Tensor, bias: Tensor, *rest: Any) -> Tensor:
        from regard.kernels.ntm import ntm_triton

        *first, layout = rest
        projected, V, S, bias = (x.contiguous() for x in (projected, V, S, bias))
        B, T, _ = projected.shape
        runs = [_run(x, T) for x in first]
        gates, spoken = torch.empty_like(projected), projected.new_empty(B, T, S.shape[0])
        ctx.constants = _constants(V, S, First(*first).cells, layout)
        ntm_triton.forward_kernel[(B,)](
            *(projected, V, S, bias, *runs, gates, spoken),
            T,
            *ctx.constants,
            num_warps=WARPS,
            num_stages=1,  # nothing may be loaded ahead: a step reads what the one before it stored
        )
        ctx.save_for_backward(V, S, *runs, gates, spoken)
        return runs[0][:, 1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from regard.kernels.ntm import ntm_triton

        V, S, heard, inner, cells, weights, gates, spoken = ctx.saved_tensors
        B, T, _ = spoken.shape
        n = S.shape[1]
        grad_projected, grad_spoken = torch.empty_like(gates), torch.empty_like(spoken)
        carried, grad_inner = torch.zeros_like(heard[:, 0]), inner.new_zeros(B, 2, n)
        grad_cells, grad_weights = torch.empty_like(cells[:, 0]), torch.empty_like(weights[:, 0])
        ntm_triton.backward_kernel[(B,)](
            *(grad.contiguous(), V, S, heard, inner, cells, weights, gates, spoken),
            *(grad_projected, grad_spoken, carried, grad_inner, grad_cells, grad_weights),
            T,
            *ctx.constants,
            num_warps=WARPS,
            num_stages=1,
        )
        told, said = grad_projected.flatten(0, 1), grad_spoken.flatten(0, 1)
        grad_V = told.mT @ heard[:, :-1, : V.shape[1]].flatten(0, 1)
        grad_S = said.mT @ heard[:, 1:, -n:].flatten(0, 1)
        firsts = (carried, grad_inner[:, T % 2], grad_cells, grad_weights)
        return grad_projected, grad_V, grad_S, said.sum(0), *firsts, None


def _run(first: Tensor, T: int) -> Tensor:
    """(B, ...) -> (B, T + 1, ...) whose first step is there."""
    every = first.new_empty(len(first), T + 1, *first.shape[1:])
    every[:, 0] = first
    return every


def _constants(V: Tensor, S: Tensor, cells: Tensor, layout: Layout) -> tuple[int | bool, ...]:
    """Sizes that a compiled kernel is made for."""
    (P, n), (N, M) = S.shape, cells.shape[1:]
    moves = power_of_two(2 * layout.reach + 1)
    tile = (HEADS, _padded(M), moves, ROWS, COLUMNS)
    return (n, P, N, M, *layout, V.shape[0] == 4 * n, *tile)


def _padded(width: int) -> int:
    """Columns of the memory's tile."""
    return max(16, power_of_two(width))
