"""A Neural Turing Machine's run on a CPU: the loops of ntm_cpu.cpp, with sequences split over threads."""

import ctypes
from functools import cache
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from regard.kernels.compiler import in_threads, library

if TYPE_CHECKING:
    from regard.kernels.ntm.ntm_sequence import First, Layout, Run

SHARED = 64  # steps of all sequences: fewer are not worth a second thread


class _Machine(ctypes.Structure):
    """`Machine` of ntm_cpu.cpp."""

    _fields_ = [
        *((x, ctypes.c_long) for x in ("T", "n", "P", "N", "M", "reads", "writes", "reach", "lstm", "kept")),
        *((x, ctypes.c_void_p) for x in ("projected", "V", "S", "bias")),
        *((x, ctypes.c_void_p) for x in ("heard", "inner", "cells", "weights", "gates", "spoken")),
        *((x, ctypes.c_void_p) for x in ("grad", "of_gates", "of_spoken")),
        *((x, ctypes.c_void_p) for x in ("carried", "of_inner", "of_cells", "of_weights")),
    ]


def forward(
    projected: Tensor, V: Tensor, S: Tensor, bias: Tensor, first: "First", layout: "Layout", kept: bool
) -> tuple[Tensor, ...]:
    """All steps, as a `Run`; memory and weights of only one step unless `kept`."""
    B, T, _ = projected.shape
    heard, inner = (every_step(x, T) for x in first[:2])
    cells, weights = (every_step(x, T if kept else 0) for x in (first.cells.mT, first.weights))
    run = (heard, inner, cells, weights, torch.empty_like(projected), projected.new_empty(B, T, S.shape[0]))
    _run("ntm_forward", layout, kept, (projected, _panels(V.mT), _panels(S.mT), bias), run)
    return run


def backward(grad: Tensor, V: Tensor, S: Tensor, run: "Run", layout: "Layout") -> tuple[Tensor, ...]:
    """The gradients of `gates` and `spoken` of the run, and of the four of `First`."""
    of_gates, of_spoken = torch.empty_like(run.gates), torch.empty_like(run.spoken)
    carried, of_inner, of_cells, of_weights = firsts = [torch.zeros_like(x[:, 0]) for x in run[:4]]
    given = (None, _panels(V), _panels(S), None)
    _run("ntm_backward", layout, True, given, run, grad, of_gates, of_spoken, *firsts)
    return of_gates, of_spoken, carried, of_inner, of_cells.mT, of_weights


def _run(
    name: str,
    layout: "Layout",
    kept: bool,
    given: tuple[Tensor | None, ...],
    run: tuple[Tensor, ...],
    *gradients: Tensor,
) -> None:
    """Run a loop over all sequences, on several threads if there is enough work."""
    _, inner, cells, _, gates, spoken = run
    if isinstance(spoken, FakeTensor):  # only shapes are needed
        return
    (B, T, P), (M, N), n = spoken.shape, cells.shape[2:], inner.shape[2]
    at = (None if x is None else x.data_ptr() for x in (*given, *run, *gradients))
    machine = ctypes.byref(_Machine(T, n, P, N, M, *layout, gates.shape[2] == 4 * n, kept, *at))
    function = getattr(compiled(), name)
    in_threads(lambda first, last: function(machine, first, last), B, worth=B * T >= SHARED)


def every_step(first: Tensor, T: int) -> Tensor:
    """(B, ...) -> (B, T + 1, ...) with the first step filled in."""
    every = first.new_empty(len(first), T + 1, *first.shape[1:])
    every[:, 0] = first
    return every


def _panels(x: Tensor) -> Tensor:
    """Rows padded with zeros to whole vectors."""
    loops = compiled()
    assert loops is not None
    return F.pad(x, (0, -x.shape[1] % loops.ntm_columns())).contiguous()


@cache
def compiled() -> ctypes.CDLL | None:
    """The compiled loops; None without a compiler."""
    return library(
        "ntm/ntm_cpu.cpp",
        "Neural Turing Machines go step by step, slower than compiled",
        ntm_forward="p 2l",
        ntm_backward="p 2l",
    )
