"""A Neural Turing Machine's run on an NVIDIA GPU: the launches, with one program per sequence."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.kernels.ntm.ntm_cpu import every_step
from regard.kernels.tuning import power_of_two

if TYPE_CHECKING:
    from regard.kernels.ntm.ntm_sequence import First, Layout, Run

HEADS = 16  # heads are padded to so many rows: the smallest side of a matrix product in Triton
MOST = 2**14  # elements of the memory's tile: above this, registers spill
ROWS, COLUMNS = 64, 128  # of a tile of V or S
# with fewer warps the backward kernel spills more; no loads may be pipelined, since a step reads what the
# previous one stored
OPTIONS = {"num_warps": 16, "num_stages": 1}


def refuses(rows: int, width: int, heads: int) -> str | None:
    """Why a machine of these sizes does not fit, as a clause."""
    if heads > HEADS:
        return f"there are {heads} heads, this kernel has up to {HEADS}"
    if rows < 16 or rows & (rows - 1):
        return f"the memory has {rows} rows, this kernel has a power of two, 16 or more"
    if rows * _padded(width) > MOST:
        return f"the memory has {rows} x {width} cells, this kernel has up to {MOST}"
    return None


def forward(
    projected: Tensor, V: Tensor, S: Tensor, bias: Tensor, first: "First", layout: "Layout", kept: bool
) -> tuple[Tensor, ...]:
    """All steps, as a full `Run`, whether `kept` or not."""
    from regard.kernels.ntm import ntm_triton

    B, T, _ = projected.shape
    runs = [every_step(x, T) for x in first]
    gates, spoken = torch.empty_like(projected), projected.new_empty(B, T, S.shape[0])
    given = (projected, V, S, bias, *runs, gates, spoken)
    ntm_triton.forward_kernel[(B,)](*given, T, *_constants(V, S, first.cells, layout), **OPTIONS)
    return (*runs, gates, spoken)


def backward(grad: Tensor, V: Tensor, S: Tensor, run: "Run", layout: "Layout") -> tuple[Tensor, ...]:
    """The gradients of `gates` and `spoken` of the run, and of the four of `First`."""
    from regard.kernels.ntm import ntm_triton

    B, T, _ = run.spoken.shape
    heard, inner, cells, weights = (x[:, 0] for x in run[:4])
    written = (run.gates, run.spoken, cells, weights)
    of_gates, of_spoken, of_cells, of_weights = (torch.empty_like(x) for x in written)
    carried, of_inner = torch.zeros_like(heard), inner.new_zeros(B, 2, S.shape[1])
    ntm_triton.backward_kernel[(B,)](
        *(grad, V, S, *run, of_gates, of_spoken, carried, of_inner, of_cells, of_weights),
        *(T, *_constants(V, S, cells, layout)),
        **OPTIONS,
    )
    return of_gates, of_spoken, carried, of_inner[:, T % 2], of_cells, of_weights


def _constants(V: Tensor, S: Tensor, cells: Tensor, layout: "Layout") -> tuple[Any, ...]:
    """The sizes for which a kernel is compiled."""
    (P, n), (N, M) = S.shape, cells.shape[1:]
    moves = power_of_two(2 * layout.reach + 1)
    tile = (HEADS, _padded(M), moves, ROWS, COLUMNS)
    return (n, P, N, M, *layout, V.shape[0] == 4 * n, *tile)


def _padded(width: int) -> int:
    """Columns of the memory's tile."""
    return max(16, power_of_two(width))
