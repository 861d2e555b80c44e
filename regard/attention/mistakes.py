"""Explains failed calls, after PyTorch has raised, so that good calls pay nothing.

If a call raises an error that is not ours, its arguments are examined here, and a sentence names the first
that cannot be right. If all of them look right, PyTorch's error stays.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from regard.attention.history import History
from regard.attention.source import Source, broadcasts, check_source
from regard.errors import ConfigError, RegardError, ShapeError, shown

RAW = (RuntimeError, TypeError, AttributeError, IndexError, ValueError)  # PyTorch's, for wrong arguments
F = TypeVar("F", bound=Callable[..., Any])


def explained(owner: str, mistake_of: Callable[..., RegardError | None]) -> Callable[[F], F]:
    """Decorator for methods: PyTorch's errors become what `mistake_of` finds wrong with the arguments."""

    def decorate(run: F) -> F:
        @wraps(run)
        def explaining(self: nn.Module, *given: Any, **named: Any) -> Any:
            if torch.compiler.is_compiling():
                return run(self, *given, **named)
            try:
                return run(self, *given, **named)
            except RAW as error:
                mistake = None if isinstance(error, RegardError) else mistake_of(owner, self, *given, **named)
                if mistake is not None:
                    raise mistake from error
                raise

        return cast(F, explaining)

    return decorate


def of_keys(
    owner: str, module: nn.Module, keys: object = None, values: object = None, *_: Any, **__: Any
) -> RegardError | None:
    """What is wrong with keys and values that could not be prepared."""
    values = keys if values is None else values
    return _foreign(owner, "keys", keys, module, None) or _foreign(owner, "values", values, module, None)


def of_call(
    owner: str,
    module: nn.Module,
    query: object = None,
    source: object = None,
    *_: Any,
    history: object = None,
    generator: object = None,
    **__: Any,
) -> RegardError | None:
    """What is wrong with a call that could not be run."""
    if not isinstance(query, Tensor):
        return ShapeError(f"{owner}: `query` has {shown(query)}; expected a tensor (..., T, Dq).")
    check_source(owner, "source", source)
    assert isinstance(source, Source)
    if generator is not None and not isinstance(generator, torch.Generator):
        return ConfigError(
            f"{owner}: `generator` has {shown(generator)}; expected a torch.Generator. "
            "torch.Generator().manual_seed(…) makes one from a seed."
        )
    return (
        _rows(owner, query, source)
        or _values(owner, query, source)
        or _history(owner, history, source)
        or _foreign(owner, "query", query, module, source.keys)
        or _foreign(owner, "source.keys", source.keys, module, None)
        or _foreign(owner, "source.values", source.values, module, source.keys)
        or _masked(owner, source)
    )


def _rows(owner: str, query: Tensor, source: Source) -> ShapeError | None:
    """The leading axes of query and source do not broadcast."""
    rows = source.keys.shape[:-2]
    if source.copies > 1:
        rows = torch.Size((rows[0] * source.copies, *rows[1:]))
    if broadcasts(query.shape[:-2], rows):
        return None
    lead = ", ".join(map(str, rows))
    return ShapeError(
        f"{owner}: `query` has shape {tuple(query.shape)}; expected ({lead}, …), as many rows as the source."
    )


def _values(owner: str, query: Tensor, source: Source) -> ShapeError | None:
    """The query fits the rows of the keys, but not those of the values."""
    if source.copies > 1 or broadcasts(query.shape[:-2], source.values.shape[:-2]):
        return None
    return ShapeError(
        f"{owner}: `source.values` has shape {tuple(source.values.shape)}; expected as many rows as "
        f"the query {tuple(query.shape)}."
    )


def _history(owner: str, history: object, source: Source) -> ShapeError | None:
    if history is None:
        return None
    if not isinstance(history, History):
        return ShapeError(
            f"{owner}: `history` has {shown(history)}; expected a History. Start with History.start(source)."
        )
    for name, x in history._asdict().items():
        if x.shape[-1] != source.S or not broadcasts(x.shape[:-2], source.keys.shape[:-2]):
            lead = ", ".join(map(str, (*source.keys.shape[:-2], 1, source.S)))
            return ShapeError(f"{owner}: `history.{name}` has shape {tuple(x.shape)}; expected ({lead}).")
    return None


def _foreign(owner: str, name: str, x: object, module: nn.Module, beside: Tensor | None) -> ShapeError | None:
    """A tensor whose device or dtype differs from the parameters', or from the keys' `beside` it."""
    if not isinstance(x, Tensor):
        return ShapeError(f"{owner}: `{name}` has {shown(x)}; expected a tensor.")
    if not x.is_floating_point():
        return ShapeError(f"{owner}: `{name}` has dtype {x.dtype}; expected a floating-point dtype.")
    own = [p for p in module.parameters() if p.is_floating_point()]
    others = [("the parameters", p) for p in own[:1]] + ([] if beside is None else [("the keys", beside)])
    for fact in ("device", "dtype"):
        for whose, other in others:
            found, expected = getattr(x, fact), getattr(other, fact)
            if found != expected:
                return ShapeError(
                    f"{owner}: `{name}` has {fact} {found}; expected {expected}, that of {whose}."
                )
    return None


def _masked(owner: str, source: Source) -> ShapeError | None:
    device = source.keys.device
    for name, x in (("mask.dense", source.mask.dense), ("mask.lengths", source.mask.lengths)):
        if x is not None and x.device != device:
            return ShapeError(
                f"{owner}: `{name}` has device {x.device}; expected {device}, that of the keys."
            )
    return None
