"""How many elements of additive attention a GPU could compute a second if only arithmetic took time.

Operands stay in registers, and each turn is the arithmetic of the kernel's inner loop: four features share a
reciprocal. The result of a turn is an operand of the next, so that the compiler cannot remove or hoist any.
"""
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.bench.clock import interleaved
from regard.kernels.additive.additive_triton.arithmetic import add_quotients

BLOCK = 1024  # elements per program, eight per thread: so many turns are in flight at once
TURNS, PROGRAMS, FEATURES = 1024, 4096, 4


@triton.jit
def turns(operands, out, TURNS: tl.constexpr, BLOCK: tl.constexpr, SASS: tl.constexpr):
    """total ← total + Σ 1 / (c + a total) over four features, TURNS times."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a1 = tl.load(operands + at)
    a2 = a1 * 1.25
    a3 = a1 * 1.5
    a4 = a1 * 1.75
    c1 = a1 + 1.0
    c2 = a2 + 1.0
    c3 = a3 + 1.0
    c4 = a4 + 1.0
    total = a1
    for _ in range(TURNS):
        total = add_quotients(
            total, a1, a2, a3, a4, total, total, total, total, c1, c2, c3, c4, SASS
        )  # fmt: skip
    tl.store(out + at, total)


def run(operands: Tensor, turns_: int, *, assembler: bool) -> Tensor:
    """(n,) -> (n,) after `turns_` turns; n is a multiple of BLOCK."""
    out = torch.empty_like(operands)
    turns[(operands.numel() // BLOCK,)](operands, out, turns_, BLOCK, assembler, num_warps=4)
    return out


def elements_per_second() -> float:
    """The ceiling, measured on this GPU."""
    operands = torch.rand(PROGRAMS * BLOCK, device="cuda") * 1e-3
    if not run(operands, TURNS, assembler=True).isfinite().all():
        raise RuntimeError("the kernel of the ceiling gave numbers that are not finite")
    took = interleaved({"turns": lambda: run(operands, TURNS, assembler=True)}, "cuda", budget=0.3)["turns"]
    return PROGRAMS * BLOCK * TURNS * FEATURES / (took / 1000)
