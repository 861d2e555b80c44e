"""Collect what every attention of a model did, by module path, without a flag passed down."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from regard.attention.compose import Attention
from regard.attention.result import AttentionResult
from regard.errors import ConfigError


class Trace(dict[str, list[AttentionResult]]):
    """Module path -> the results of its calls, in order."""


@contextmanager
def record(model: nn.Module) -> Iterator[Trace]:
    """Every Attention inside `model` leaves its results in the trace while the block runs.

    with record(model) as trace:
        model(batch)
    trace["decoder.attention"][0].weights          # (B, T, S), computed when looked at

    Not of a compiled model: its code was made without these hooks, or would keep them for ever.
    """
    for module in model.modules():
        if hasattr(module, "_orig_mod") or module._compiled_call_impl is not None:
            raise ConfigError(
                f"record: `model` has a compiled {type(module).__name__}, which leaves no results; expected "
                "the modules given to torch.compile. They have the same parameters."
            )
    trace = Trace()
    handles = [
        module.register_forward_hook(_keep(trace, path))
        for path, module in model.named_modules()
        if isinstance(module, Attention)
    ]
    try:
        yield trace
    finally:
        for handle in handles:
            handle.remove()


def _keep(trace: Trace, path: str) -> Any:
    def hook(module: nn.Module, inputs: tuple[Any, ...], result: AttentionResult) -> None:
        trace.setdefault(path, []).append(result)

    return hook
