"""What a later look at the weights starts from: the call, with the parameters and precision that it had."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.dispatch import Call


def remembered(call: Call) -> Call:
    """The call as a later look needs it, whatever becomes of the parameters and of autocast.

    Most kernels made the score's form, which holds all that is needed. For the others, which are for large
    calls, what the parts own is copied.
    """
    if call.seen_form is not None:
        if not call.keep_weights:
            call.seen_form = call.seen_form.kept()
        if owns_nothing(call.window):
            return call
        return replace(call, window=_copied_under_autocast(call.window, call.query))
    if owns_nothing(call.score) and owns_nothing(call.normalizer) and owns_nothing(call.window):
        return call
    score, window = (_copied_under_autocast(part, call.query) for part in (call.score, call.window))
    return replace(call, score=score, normalizer=copied(call.normalizer), window=window)


def copied(part: nn.Module | None) -> Any:
    """The same module with copies of its parameters and buffers, through which gradients still reach them."""
    if part is None:
        return None
    copy = type(part).__new__(type(part))
    copy.__dict__ = dict(part.__dict__)
    for owned in ("_parameters", "_buffers"):
        tensors = part.__dict__[owned]
        copy.__dict__[owned] = {name: None if x is None else x.clone() for name, x in tensors.items()}
    copy.__dict__["_modules"] = {name: copied(inner) for name, inner in part._modules.items()}
    return copy


def owns_nothing(part: object) -> bool:
    """The part has neither parameters nor buffers nor inner modules."""
    return not isinstance(part, nn.Module) or not (part._parameters or part._buffers or part._modules)


def _copied_under_autocast(part: nn.Module | None, query: Tensor) -> Any:
    """A copy that runs under what autocast is now, whatever it is when it is called."""
    copy = copied(part)
    if copy is None:
        return None
    device = query.device.type
    lowered, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    run = copy.forward

    def later(*given: Any) -> Any:
        with torch.autocast(device, dtype, enabled=lowered):
            return run(*given)

    copy.forward = later
    return copy
