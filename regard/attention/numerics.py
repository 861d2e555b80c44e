"""Precision: scores and weights of half-precision inputs are computed in float32."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.autograd import forward_ad

HALF = (torch.float16, torch.bfloat16)


def upcast_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of scores for inputs of this dtype: float32 for half precision, otherwise unchanged."""
    return torch.float32 if dtype in HALF else dtype


def upcast(x: Tensor) -> Tensor:
    """The tensor in the dtype of its scores."""
    return x.float() if x.dtype in HALF else x


def times(a: Tensor, b: Tensor) -> Tensor:
    """a @ b in full precision, with type promotion, which other operators do and matmul does not."""
    a, b = upcast(a), upcast(b)
    if a.dtype is not b.dtype:
        wider = torch.promote_types(a.dtype, b.dtype)
        a, b = a.to(wider), b.to(wider)
    return a @ b


def is_lowered(x: Tensor) -> bool:
    """Whether autocast would lower the precision of products on the device of x."""
    # reading the device's name takes as long as all the rest, which matters in short calls
    return not x.is_meta and torch.is_autocast_enabled("cpu" if x.is_cpu else x.device.type)


def lowered(x: Tensor) -> Tensor:
    """The tensor in the dtype of autocast's products: autocast does not cache casts of non-parameters."""
    return x.to(torch.get_autocast_dtype(x.device.type)) if is_lowered(x) else x


def no_autocast(x: Tensor) -> AbstractContextManager[object]:
    """A context without autocast: a score rounded to bfloat16 has two digits."""
    if not is_lowered(x):
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)


def is_transformed() -> bool:
    """Whether a torch.func transform or forward-mode differentiation is active."""
    return forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None


# as torch.compiler.assume_constant_result does, without importing the compiler: while a graph is traced, the
# answer is a constant, and guarded
is_transformed._dynamo_marked_constant = True  # type: ignore[attr-defined]
