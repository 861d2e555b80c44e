"""Base class of trained systems: the run, its device and its precision."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from regard import hub
from regard.decode.base import Decoding
from regard.decode.cancel import check_cancelled
from regard.errors import ConfigError, DataError, check_whole, shown
from regard.shipped.find import RECORD, read_packed, require_system
from regard.shipped.publish import write_folder
from regard.train.run import Run

T = TypeVar("T")
AT_ONCE = 64  # examples per batch


class System(hub.Hubbed):
    """A trained model with everything it needs to run."""

    def __init__(self, run: Run, half: torch.dtype | None = None) -> None:
        """`half` is the autocast dtype; None: no autocast, the dtype of the weights."""
        self.trained, self.half = run, half
        self.task: Any = run.task  # subclasses narrow the type

    @property
    def name(self) -> str:
        """A packed model has the name in its record: a copy from the Hub is in a folder of another name."""
        folder = self.trained.folder
        return read_packed(folder).name if (folder / RECORD).is_file() else folder.resolve().name

    @property
    def device(self) -> torch.device:
        return self._weight().device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of computation; half precision is autocast, with float32 weights."""
        return self.half or self._weight().dtype

    def __repr__(self) -> str:
        size = sum(p.numel() for p in self.trained.model.parameters())
        dtype = str(self.dtype).removeprefix("torch.")
        return (
            f"<{type(self).__name__} {self.name}: {self.trained.config.model}, {size:,} parameters, "
            f"{dtype} on {self.device}>"
        )

    def decoding(self, beam: int | None, *, nbest: int = 1) -> Decoding:
        """The search settings: those of the recipe, with the given overrides."""
        check_whole(type(self).__name__, nbest=nbest, **({} if beam is None else {"beam": beam}))
        return replace(self.trained.config.decode.with_beam(beam), nbest=nbest)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Context for calling the model: autocast, and a clear error if the CPU lacks the dtype."""
        try:
            with torch.autocast(self.device.type, dtype=self.half, enabled=self.half is not None):
                yield
        except RuntimeError as error:
            if self.half is None or "primitive descriptor" not in str(error):
                raise
            raise ConfigError(
                f"{self.name}: `dtype` has {self.half}, in which this CPU cannot run a layer of the model; "
                "expected torch.float32, or none."
            ) from error

    def place(self, batch: Any) -> Any:
        """A batch on the model's device, its floating-point tensors in the dtype of the weights."""
        moved, dtype = batch.to(self.device), self._weight().dtype
        values = {field.name: getattr(moved, field.name) for field in fields(moved)}
        cast = {
            name: value.to(dtype)
            for name, value in values.items()
            if isinstance(value, Tensor) and value.is_floating_point()
        }
        return replace(moved, **cast)

    def _write(self, folder: Path, name: str, card: Mapping[str, Any]) -> None:
        write_folder(self.trained, folder, name, card)

    @classmethod
    def _read(cls, folder: Path, **options: Any) -> Self:
        from regard.systems.loading import load  # circular: it imports all systems

        require_system(folder, str(folder))
        system = load(folder, **options)
        if not isinstance(system, cls):
            raise DataError(f"{folder}: holds a {type(system).__name__}; expected a {cls.__name__}.")
        return system

    def _weight(self) -> Tensor:
        return next(self.trained.model.parameters())


def chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items, AT_ONCE at a time, until the caller cancels."""
    for first in range(0, len(items), AT_ONCE):
        check_cancelled()
        yield items[first : first + AT_ONCE]


def texts_of(owner: str, name: str, given: object) -> list[str]:
    """One text or several, as a list."""
    several = isinstance(given, Iterable) and not isinstance(given, str | bytes)
    found: list[Any] = list(given) if several else [given]  # type: ignore[call-overload]
    for each in found:
        if not isinstance(each, str):
            raise DataError(f"{owner}: `{name}` has {shown(each)}; expected text, or a list of texts.")
    return found


def depth(given: Any) -> int:
    """The number of axes of a tensor, an array or a nested list."""
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return 1 + (depth(given[0]) if given else 0)
    return getattr(given, "ndim", 0)


def same_length(owner: str, **lists: Sequence[Any]) -> None:
    """Raise unless all lists have the same length."""
    (first, items), *others = lists.items()
    for name, other in others:
        if len(other) != len(items):
            raise DataError(
                f"{owner}: `{name}` has {len(other)} entries and `{first}` {len(items)}; expected as many."
            )
