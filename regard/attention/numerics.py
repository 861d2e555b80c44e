"""Scores and weights are computed in float32 when the inputs are half precision."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.autograd import forward_ad

HALF = (torch.float16, torch.bfloat16)


def upcast_dtype(dtype: torch.dtype) -> torch.dtype:
    """The precision in which numbers of this dtype are scored: half becomes float32, others stay."""
    return torch.float32 if dtype in HALF else dtype


def upcast(x: Tensor) -> Tensor:
    """The tensor in the precision of its scores."""
    return x.float() if x.dtype in HALF else x


def times(a: Tensor, b: Tensor) -> Tensor:
    """a @ b in full precision, and in the wider one where theirs differ, as every other operator has it."""
    a, b = upcast(a), upcast(b)
    if a.dtype is not b.dtype:
        wider = torch.promote_types(a.dtype, b.dtype)
        a, b = a.to(wider), b.to(wider)
    return a @ b


def is_lowered(x: Tensor) -> bool:
    """Autocast would lower the precision of products on the device of x."""
    # the name of a device takes as long to ask for as all the rest, which short calls feel
    return not x.is_meta and torch.is_autocast_enabled("cpu" if x.is_cpu else x.device.type)


def no_autocast(x: Tensor) -> AbstractContextManager[object]:
    """A context in which autocast lowers no precision: a score rounded to bfloat16 has two digits."""
    if not is_lowered(x):
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)


def is_transformed() -> bool:
    """A transform of torch.func, or forward-mode differentiation, is under way."""
    return forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None


# what torch.compiler.assume_constant_result does, without the compiler that it imports: the answer is known,
# and guarded, while a graph is traced
is_transformed._dynamo_marked_constant = True  # type: ignore[attr-defined]
