"""Collect what every attention of a model did, by module path, without a flag passed down."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from regard.attention.compose import Attention
from regard.attention.trace import RECORDINGS, Recording, Trace
from regard.errors import ConfigError, check_part


@contextmanager
def record(model: nn.Module) -> Iterator[Trace]:
    """Every Attention inside `model` leaves its results in the trace while the block runs.

    with record(model) as trace:
        model(batch)
    trace["decoder.attention"][0].weights          # (B, T, S), computed when looked at

    What other threads and tasks do with the same model goes into their own traces. A compiled model is
    refused: its code was made without recording. So is a model without any Attention.
    """
    check_part("record", "model", model, (nn.Module,), "Give the model that will run in the block.")
    if not _paths(model):
        raise ConfigError(
            f"record: `model` has no Attention inside its {type(model).__name__}; expected one or more. "
            "Only regard.Attention, and what is built on it such as MultiHead, leaves results."
        )
    with record_any(model) as trace:
        yield trace


@contextmanager
def record_any(model: nn.Module) -> Iterator[Trace]:
    """`record` for callers that take any model: one without attention leaves the trace empty."""
    for module in model.modules():
        if hasattr(module, "_orig_mod") or module._compiled_call_impl is not None:
            raise ConfigError(
                f"record: `model` has a compiled {type(module).__name__}, which leaves no results; expected "
                "the modules given to torch.compile. They have the same parameters."
            )
    recording = Recording(Trace(), _paths(model))
    RECORDINGS.set((*RECORDINGS.get(), recording))
    try:
        yield recording.trace
    finally:
        RECORDINGS.set(tuple(other for other in RECORDINGS.get() if other is not recording))
        recording.paths.clear()  # tasks that were started in the block and outlive it know it too


def _paths(model: nn.Module) -> dict[int, str]:
    """id -> module path of every Attention inside the model."""
    return {id(module): path for path, module in model.named_modules() if isinstance(module, Attention)}
