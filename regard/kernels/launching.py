"""Launches Triton kernels with minimal host overhead.

Triton inspects every argument of every launch to select the compiled kernel. For a decoder's step this takes
longer than the kernels themselves. The selection depends on few arguments, so it is cached here, and the
compiled kernel is run with raw addresses instead of tensors.
"""

import sys
from collections.abc import Callable, Iterable
from functools import reduce
from operator import itemgetter, or_
from typing import Any, NamedTuple

import torch
from torch import Tensor

_compiled: dict[tuple[Any, ...], Any] = {}
_together: dict[tuple[Any, ...], tuple[Any, ...]] = {}
REMEMBERED = 4096
DIRECT = ("3.6", "3.7", "3.8", "3.9")  # releases of Triton whose compiled kernels run as they do below


def launch(
    kernel: Any,
    grid: tuple[int, int, int],
    given: tuple[Tensor, ...],
    made: tuple[Tensor, ...],
    sizes: tuple[int, ...],
    numbers: tuple[float, ...],
    constants: tuple[int, ...],
    *,
    inside: tuple[Tensor, tuple[int, ...]] | None = None,
    warps: int = 4,
    registers: int | None = None,
) -> Any:
    """kernel[grid](*given, *inside, *made, *sizes, *numbers, *constants); return the cache entry, or None.

    Equal `sizes`, constants and dtypes select the same compiled kernel if all tensors are 16-byte aligned and
    on one device. `given` are the caller's inputs; `made` are tensors that the caller allocated on their
    device. `inside` is a float32 tensor with offsets in elements: buffers that share one allocation.
    `numbers` are arguments on which Triton does not specialize (do_not_specialize).
    """
    device = given[0].get_device()  # -1 is the CPU: Triton's interpreter, which compiles nothing
    known = device >= 0
    for x in given:
        known = known and x.get_device() == device
    addresses = [x.data_ptr() for x in given]
    if inside is not None:
        space = inside[0].data_ptr()
        addresses += [space + 4 * place for place in inside[1]]
    addresses += [x.data_ptr() for x in made]
    joint = 0
    for address in addresses:
        joint |= address
    if joint % 16 or not known or torch._C._cuda_getDevice() != device:
        tensors = _tensors(given, inside, made)
        kernel[grid](*tensors, *sizes, *numbers, *constants, num_warps=warps, maxnreg=registers)
        return None
    dtypes = [x.dtype for x in given] + [x.dtype for x in made]
    key = (id(kernel), device, sizes, constants, warps, registers, *dtypes)
    ready = _compiled.get(key)
    if ready is not None:
        run, function, metadata, found = ready
        if run is None:
            found[grid](*_tensors(given, inside, made), *sizes, *numbers, *constants)
            return ready
        stream = torch._C._cuda_getCurrentRawStream(device)
        # skips Triton's profiler hooks
        run(*grid, stream, function, metadata, None, None, None, *addresses, *sizes, *numbers, *constants)
        return ready
    tensors = _tensors(given, inside, made)
    found = kernel[grid](*tensors, *sizes, *numbers, *constants, num_warps=warps, maxnreg=registers)
    if len(_compiled) >= REMEMBERED:
        _compiled.clear()
    run = found.run if _release() in DIRECT else None
    ready = _compiled[key] = (run, found.function, found.packed_metadata, found)
    return ready


class Launch(NamedTuple):
    """Arguments of `launch` for one of several kernels; tensors and numbers are indices into shared ones."""

    kernel: Any
    grid: tuple[int, int, int]
    tensors: tuple[int, ...]  # two or more
    sizes: tuple[int, ...]
    numbers: tuple[int, ...]
    constants: tuple[int, ...]
    warps: int = 4


def launch_together(
    plan: Callable[[Any], Iterable[Launch]],
    facts: tuple[Any, ...],
    given: tuple[Tensor, ...],
    made: tuple[Tensor, ...],
    numbers: tuple[float, ...] = (),
) -> None:
    """Run the launches that plan(facts) returns, in order, on the tensors `given` and `made`.

    The plan depends on the facts alone. It is cached by facts and dtypes, under the conditions of `launch`.
    """
    device, tensors = given[0].get_device(), (*given, *made)
    known = device >= 0
    for x in given:
        known = known and x.get_device() == device
    addresses = [x.data_ptr() for x in tensors]
    if reduce(or_, addresses) % 16 or not known or torch._C._cuda_getDevice() != device:
        _launch_each(plan(facts), tensors, numbers)
        return
    key = (plan, device, facts, *[x.dtype for x in tensors])
    ready = _together.get(key)
    if ready is None:
        found = _launch_each(plan(facts), tensors, numbers)
        if found is not None:
            if len(_together) >= REMEMBERED:
                _together.clear()
            _together[key] = found
        return
    stream = torch._C._cuda_getCurrentRawStream(device)
    for run, grid, about, picked, sizes, own, constants in ready:
        more = [numbers[place] for place in own]
        run(*grid, stream, *about, None, None, None, *picked(addresses), *sizes, *more, *constants)


def _launch_each(
    launches: Iterable[Launch], tensors: tuple[Tensor, ...], numbers: tuple[float, ...]
) -> tuple[Any, ...] | None:
    """Run them one by one; return cache entries for the next call, or None if one cannot be cached."""
    ready: list[Any] = []
    for kernel, grid, places, sizes, own, constants, warps in launches:
        some, more = tuple(tensors[place] for place in places), tuple(numbers[place] for place in own)
        found = launch(kernel, grid, some, (), sizes, more, constants, warps=warps)
        if found is not None and found[0] is not None:
            ready.append((found[0], grid, found[1:3], itemgetter(*places), sizes, own, constants))
        else:
            ready.append(None)
    return None if None in ready else tuple(ready)


def _tensors(
    given: tuple[Tensor, ...], inside: tuple[Tensor, tuple[int, ...]] | None, made: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    if inside is None:
        return (*given, *made)
    return (*given, *(inside[0][place:] for place in inside[1]), *made)


def _release() -> str:
    return ".".join(sys.modules["triton"].__version__.split(".")[:2])
