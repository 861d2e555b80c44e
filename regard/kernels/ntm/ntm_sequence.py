"""A Neural Turing Machine's whole run as one operation, with its gradient.

    heard = machine(projected, V, S, bias, first, layout)

    projected (B, T, G)       the inputs' part of the controller, with its bias; G = n, or 4 n for an LSTM
    V         (G, R M)        its matrix for the reads; (4 n, R M + n) for reads and h of an LSTM
    S bias    (P, n), (P,)    from the controller to the heads, laid out as in attention/memory/heads.py
    heard     (B, T, R M + n) [r_t; h_t]

The reference is `NTM.step`, step by step: 47 operations forward and 97 backward per step with a feed-forward
controller, 57 and 115 with an LSTM, each so small that launch overhead dominates. Here one call runs all
steps forward and one backward: the loops of ntm_cpu.py, or on an NVIDIA GPU the kernels that ntm_cuda.py
launches. Products that do not depend on the step before (of the inputs, and the gradients of V, S and the
bias) are one matrix product each, outside the loop.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.dispatch import TRANSFORMED
from regard.attention.numerics import is_transformed
from regard.catalog import card
from regard.kernels.decoder.decoder_cpu import NO_COMPILER
from regard.kernels.ntm import ntm_cpu, ntm_cuda
from regard.kernels.product.self_attention import PLAIN


class Layout(NamedTuple):
    """The numbers of heads, and their reach."""

    reads: int
    writes: int
    reach: int


class First(NamedTuple):
    """The machine before the first step."""

    heard: Tensor  # (B, R M + n) reads and h
    inner: Tensor  # (B, n) c of an LSTM; not looked at otherwise
    cells: Tensor  # (B, N, M)
    weights: Tensor  # (B, H, N)


class Run(NamedTuple):
    """All steps, with the cells in each kernel's own layout; index 0 of T + 1 is before the first step."""

    heard: Tensor  # (B, T + 1, R M + n)
    inner: Tensor  # (B, T + 1, n)
    cells: Tensor  # (B, T + 1, N, M) or (B, T + 1, M, N)
    weights: Tensor  # (B, T + 1, H, N)
    gates: Tensor  # (B, T, G) pre-activations: of an LSTM's gates, or of h
    spoken: Tensor  # (B, T, P)


class Sequence(NamedTuple):
    """A request to run a machine over a whole sequence."""

    inputs: Tensor  # (B, T, I)
    layers: int
    rows: int
    width: int
    heads: int
    foreign: str | None  # why its parts are not the paper's, as a clause
    operands: Callable[[], tuple[Any, ...]]  # the arguments of `machine`


class NTMKernel:
    """All steps of a Neural Turing Machine as one operation."""

    name = "ntm"

    def refuses(self, call: Sequence) -> str | None:
        x = call.inputs
        if call.foreign is not None:
            return call.foreign
        if not (x.is_cuda or x.is_cpu):
            return f"device is {x.device.type}, this kernel needs cpu or cuda"
        if x.dtype != torch.float32:
            return f"dtype is {x.dtype}, this kernel has float32"
        if torch.is_autocast_enabled(x.device.type):
            return "autocast is on, this kernel has one precision"
        if call.layers > 1:
            return f"the controller has {call.layers} layers, this kernel has one"
        if is_transformed():
            return TRANSFORMED
        if x.is_cuda:
            return ntm_cuda.refuses(call.rows, call.width, call.heads)
        if torch.compiler.is_compiling() or type(x) not in PLAIN:
            return "the call is compiled, or its input is a subclass of Tensor"
        return None if ntm_cpu.compiled() is not None else NO_COMPILER

    def run(self, call: Sequence) -> Tensor:
        return machine(*call.operands())


NTM = NTMKernel()


@card(
    "kernel",
    "ntm",
    title="A Neural Turing Machine's run as one operation",
    authors="regard",
    year=2026,
    link="https://arxiv.org/abs/1410.5401",
    sentence="All steps in one call, forward and backward; `model.kernel` turns it off.",
)
def machine(projected: Tensor, V: Tensor, S: Tensor, bias: Tensor, first: First, layout: Layout) -> Tensor:
    """(B, T, G) -> (B, T, R M + n)."""
    kept = torch.is_grad_enabled()  # save every step's memory for the backward pass
    found: Tensor = _Machine.apply(projected, V, S, bias, *first, layout, kept)  # type: ignore[no-untyped-call]
    return found


class _Machine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, projected: Tensor, V: Tensor, S: Tensor, bias: Tensor, *rest: Any) -> Tensor:
        *first, layout, kept = rest
        projected, V, S, bias = (x.contiguous() for x in (projected, V, S, bias))
        run = Run(*_engine(projected).forward(projected, V, S, bias, First(*first), layout, kept))
        ctx.layout = layout
        ctx.save_for_backward(V, S, *run)
        return run.heard[:, 1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        V, S, *saved = ctx.saved_tensors
        run = Run(*saved)
        told, said, *firsts = _engine(grad).backward(grad.contiguous(), V, S, run, ctx.layout)
        before, after = run.heard[:, :-1, : V.shape[1]], run.heard[:, 1:, -S.shape[1] :]
        every_told, every_said = told.flatten(0, 1), said.flatten(0, 1)
        grad_V, grad_S = every_told.mT @ before.flatten(0, 1), every_said.mT @ after.flatten(0, 1)
        return told, grad_V, grad_S, every_said.sum(0), *firsts, None, None


def _engine(x: Tensor) -> ModuleType:
    return ntm_cuda if x.is_cuda else ntm_cpu
