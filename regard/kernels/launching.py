"""Launching a Triton kernel at the least cost on the host.

Triton looks at each argument of each launch to find which of its compiled kernels is meant. For the kernels
of a decoder's step that takes longer than the step. The answer depends on little, and is remembered here.
"""

from typing import Any

from torch import Tensor

_compiled: dict[tuple[Any, ...], Any] = {}
REMEMBERED = 4096


def launch(
    kernel: Any,
    grid: tuple[int, int, int],
    given: tuple[Tensor, ...],
    made: tuple[Tensor, ...],
    sizes: tuple[int, ...],
    numbers: tuple[float, ...],
    constants: tuple[int, ...],
    *,
    warps: int = 4,
    registers: int | None = None,
) -> None:
    """kernel[grid](*given, *made, *sizes, *numbers, *constants).

    The same `sizes`, constants and dtypes mean the same compiled kernel, if the tensors that a caller gave
    begin at multiples of 16 bytes; those that the launching function `made` do. `numbers` are arguments that
    Triton is told not to look at (do_not_specialize). In Triton's interpreter nothing is compiled.
    """
    place = 0
    for x in given:
        place |= x.data_ptr()
    dtypes = tuple([x.dtype for x in (*given, *made)])
    key = (id(kernel), made[0].device, dtypes, sizes, constants, warps, registers)
    ready = None if place % 16 else _compiled.get(key)
    if ready is not None:
        ready[grid](*given, *made, *sizes, *numbers, *constants)
        return
    arguments = (*given, *made, *sizes, *numbers, *constants)
    ready = kernel[grid](*arguments, num_warps=warps, maxnreg=registers)
    if ready is not None and place % 16 == 0:
        if len(_compiled) >= REMEMBERED:
            _compiled.clear()
        _compiled[key] = ready
