"""Which positions may be attended, as a fixed set of fields. True means: may attend.

A mask can be printed, compared and checked for causality without building a T × S tensor. Anything unusual
goes into `dense`. Masks combine with `&`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import torch
from torch import Tensor

from regard.errors import MaskError, shown

X = TypeVar("X")


@dataclass(frozen=True, eq=False, kw_only=True)
class Mask:
    """Which positions a query may attend to. True means: may attend. All arguments are keywords.

        Mask(causal=True)                                  # no later positions
        Mask(lengths=[12, 7])                              # padding, one length per row of the batch
        Mask(window=(2, 2))                                # two neighbours on each side
        Mask(causal=True) & Mask(lengths=[12, 7])          # both
        Mask.padding(torch.ones(2, 12, dtype=torch.bool))  # a key-padding mask (B, S)

    `offset` is the position of the first query, in step-by-step decoding.
    """

    causal: bool = False  # s <= t
    # (B,) visible source positions per row: a list, or a tensor of any integer dtype; stored as int64
    lengths: Tensor | None = None
    window: tuple[int, int] | None = None  # t - left <= s <= t + right
    dense: Tensor | None = None  # bool, broadcastable to (..., T, S)
    offset: int = 0  # absolute position of query 0 (incremental decoding)

    def __new__(cls, *given: object, **facts: object) -> Self:
        if given:
            raise MaskError(f"Mask: {shown(given[0])} was given without a name; expected {_named(given[0])}.")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        if not isinstance(self.causal, bool):
            raise MaskError(f"Mask: `causal` has {shown(self.causal)}; expected True or False.")
        if self.dense is not None:
            _check_dense("dense", self.dense)
        if self.lengths is not None:
            lengths = _checked_lengths(self.lengths)
            if lengths is not self.lengths:
                object.__setattr__(self, "lengths", lengths)
        if self.window is not None and not _is_window(self.window):
            raise MaskError(
                f"Mask: `window` has {shown(self.window)}; expected (left, right), both 0 or more."
            )
        if not _is_whole(self.offset):
            raise MaskError(f"Mask: `offset` has {shown(self.offset)}; expected a whole number.")

    def __repr__(self) -> str:
        facts = [
            *(["causal=True"] if self.causal else []),
            *([] if self.lengths is None else [f"lengths={_brief(self.lengths)}"]),
            *([] if self.window is None else [f"window={self.window}"]),
            *([] if self.dense is None else [f"dense={tuple(self.dense.shape)}"]),
            *([f"offset={self.offset}"] if self.offset else []),
        ]
        return f"Mask({', '.join(facts)})"

    @staticmethod
    def padding(visible: Tensor) -> "Mask":
        """A mask from a key-padding mask (B, S), which all queries of a row share. True means: may attend."""
        _check_dense("visible", visible)
        if visible.ndim != 2:
            raise MaskError(f"Mask.padding: `visible` has shape {tuple(visible.shape)}; expected (B, S).")
        return Mask(dense=visible[:, None])

    @staticmethod
    def of(value: "Mask | Tensor | Sequence[int] | None") -> "Mask":
        """A mask from any accepted argument: a Mask, a boolean tensor, a list of lengths, or None."""
        if value is None:
            return Mask()
        if isinstance(value, Mask):
            return value
        if isinstance(value, list | tuple):
            return Mask(lengths=value)  # type: ignore[arg-type]  # converted above
        _check_dense("mask", value)
        assert isinstance(value, Tensor)
        return Mask(dense=value)

    @property
    def is_trivial(self) -> bool:
        """Whether everything is visible."""
        return not self.is_positional and self.lengths is None and self.dense is None

    @property
    def is_positional(self) -> bool:
        """Whether visibility depends on the position of the query."""
        return self.causal or self.window is not None

    @property
    def is_by_query(self) -> bool:
        """Whether queries of one row may see different positions."""
        dense = self.dense is not None and self.dense.ndim > 1 and self.dense.shape[-2] > 1
        return self.is_positional or dense

    def fitting(self, owner: str, keys: Tensor) -> Self:
        """The mask itself; raises MaskError if its lengths or dense part do not fit keys (..., S, Dk)."""
        if torch.compiler.is_compiling():
            return self
        if self.dense is not None and not _broadcasts(self.dense.shape, keys.shape[:-1]):
            raise MaskError(
                f"{owner}: `mask` has shape {tuple(self.dense.shape)}; expected (..., T, S={keys.shape[-2]}) "
                f"or one that broadcasts to it, for keys {tuple(keys.shape)}."
            )
        if self.lengths is not None:
            B = keys.shape[0] if keys.ndim > 2 else 1
            if self.lengths.shape[0] not in (1, B):
                raise MaskError(
                    f"{owner}: `mask.lengths` has shape {tuple(self.lengths.shape)}; expected ({B},), "
                    f"one for each row of keys {tuple(keys.shape)}."
                )
        return self

    def fitting_queries(self, owner: str, T: int) -> None:
        """Raise MaskError if the dense mask is for a number of queries other than T."""
        dense = self.dense
        if dense is None or dense.ndim < 2 or torch.compiler.is_compiling():
            return
        if dense.shape[-2] not in (1, T):
            raise MaskError(
                f"{owner}: `mask` has shape {tuple(dense.shape)}; expected (..., T={T}, S), "
                "or one that broadcasts to it."
            )

    def at(self, offset: int) -> Self:
        """The same mask for queries that begin at another position."""
        if torch.compiler.is_compiling() or not isinstance(offset, int):
            return replace(self, offset=offset)
        later = object.__new__(type(self))  # skips the checks, which have passed
        later.__dict__.update(self.__dict__, offset=offset)
        return later

    def __and__(self, other: "Mask | Tensor | None") -> "Mask":
        other = Mask.of(other)
        return Mask(
            causal=self.causal or other.causal,
            lengths=_both(self.lengths, other.lengths, torch.minimum),
            window=_both(self.window, other.window, lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
            dense=_both(self.dense, other.dense, torch.logical_and),
            offset=_same_offset(self, other),
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Mask)
            and (self.causal, self.window, self.offset) == (other.causal, other.window, other.offset)
            and _same_tensor(self.lengths, other.lengths)
            and _same_tensor(self.dense, other.dense)
        )

    __hash__ = None  # type: ignore[assignment]  # tensors compare by value and have no stable hash

    def positions(self, T: int, device: torch.device) -> Tensor:
        """(T,) absolute positions of T consecutive queries."""
        return torch.arange(self.offset, self.offset + T, device=device)

    def to_dense(
        self,
        T: int,
        S: int,
        *,
        ndim: int,
        device: torch.device,
        positions: Tensor | None = None,
        sources: slice | None = None,
    ) -> Tensor | None:
        """A boolean tensor that broadcasts to (..., T, S) with `ndim` axes; None when everything is visible.

        No axis is larger than needed: lengths alone give (B, 1, ..., 1, S). `positions` (T,) are the absolute
        positions of queries that are not consecutive; `sources` slices the last axis.
        """
        mask: Tensor | None = None
        if self.is_positional or self.lengths is not None:
            s = torch.arange(S, device=device)
            s = s if sources is None else s[sources]
        if self.is_positional:
            t = (self.positions(T, device) if positions is None else positions)[:, None]
            mask = self._visible_by_position(t, s)
        if self.lengths is not None:
            rows = self.lengths.to(device).view(-1, *[1] * (ndim - 1))
            mask = _both(mask, s < rows, torch.logical_and)
        dense = self.dense
        if positions is not None and dense is not None and dense.ndim > 1 and dense.shape[-2] > 1:
            dense = dense[..., positions - self.offset, :]
        if sources is not None and dense is not None and dense.shape[-1] > 1:
            dense = dense[..., sources]
        return _both(mask, dense, torch.logical_and)

    def _visible_by_position(self, t: Tensor, s: Tensor) -> Tensor:
        if self.window is None:
            return s <= t
        left, right = self.window
        right = min(right, 0) if self.causal else right
        return (s >= t - left) & (s <= t + right)


def _both(a: X | None, b: X | None, join: Callable[[X, X], X]) -> X | None:
    return b if a is None else a if b is None else join(a, b)


def _broadcasts(dense: torch.Size, keys: torch.Size) -> bool:
    """Whether a mask (..., T, S) fits keys (..., S); it may have more axes, and broadcasts axes of size 1."""
    if dense[-1] not in (1, keys[-1]):
        return False
    leads = zip(reversed(dense[:-2]), reversed(keys[:-1]), strict=False)
    return all(mask in (1, own) or own == 1 for mask, own in leads)


def _named(given: object) -> str:
    """What the caller probably meant by a positional argument."""
    if isinstance(given, bool):
        return f"Mask(causal={given})"
    if isinstance(given, Mask):
        return "the mask itself, or Mask.of(mask)"
    if isinstance(given, tuple) and len(given) == 2:
        return "Mask(window=(left, right)), or Mask(lengths=…)"
    if isinstance(given, Tensor) and given.dtype == torch.bool:
        return "Mask(dense=…), or Mask.padding(…) for (B, S)"
    return "Mask(lengths=…), Mask(causal=True), Mask(window=(left, right)) or Mask(dense=…)"


def _check_dense(name: str, dense: object) -> None:
    if not isinstance(dense, Tensor):
        raise MaskError(
            f"Mask: `{name}` has {shown(dense)}; expected a boolean tensor (..., T, S) or a Mask."
        )
    if dense.dtype != torch.bool:
        raise MaskError(f"Mask: `{name}` has dtype {dense.dtype}; expected torch.bool, True = may attend.")
    if dense.ndim == 0:
        raise MaskError(f"Mask: `{name}` has shape (); expected (..., T, S) or one that broadcasts to it.")


def _checked_lengths(lengths: object) -> Tensor:
    """A list or tensor of lengths as int64: arithmetic with smaller integers would wrap around."""
    if isinstance(lengths, list | tuple):
        try:
            lengths = torch.tensor(lengths, dtype=None if lengths else torch.int64)  # an empty list is float
        except (TypeError, ValueError, RuntimeError):
            raise MaskError(f"Mask: `lengths` has {shown(lengths)}; expected whole numbers.") from None
    if not isinstance(lengths, Tensor):
        raise MaskError(
            f"Mask: `lengths` has {shown(lengths)}; expected a list or a tensor (B,) of whole numbers."
        )
    dtype = lengths.dtype
    if lengths.ndim != 1 or dtype.is_floating_point or dtype.is_complex or dtype == torch.bool:
        raise MaskError(
            f"Mask: `lengths` has shape {tuple(lengths.shape)} and dtype {dtype}; "
            "expected (B,) whole numbers."
        )
    # on a GPU a negative length hides the row
    if (known := _readable(lengths)) and min(known) < 0:
        raise MaskError(f"Mask: `lengths` has {min(known)}; expected 0 or more.")
    return lengths if dtype == torch.int64 else lengths.long()


def _brief(lengths: Tensor) -> str:
    """The lengths if there are at most eight and they can be read; otherwise their shape."""
    known = _readable(lengths)
    return str(tuple(lengths.shape) if known is None or len(known) > 8 else known)


def _readable(lengths: Tensor) -> list[int] | None:
    """The lengths, if reading them waits for no GPU and breaks no compiled graph."""
    if not lengths.is_cpu or torch.compiler.is_compiling():
        return None
    try:
        return lengths.tolist()
    except RuntimeError:  # inside torch.func.vmap, or a fake tensor: has no data
        return None


def _is_window(window: object) -> bool:
    if not isinstance(window, tuple) or len(window) != 2:
        return False
    return all(_is_whole(side) and side >= 0 for side in window)


def _is_whole(number: object) -> bool:
    return isinstance(number, int | torch.SymInt) and not isinstance(number, bool)


def _same_tensor(a: Tensor | None, b: Tensor | None) -> bool:
    return a is b if a is None or b is None else torch.equal(a, b)


def _same_offset(a: Mask, b: Mask) -> int:
    if a.offset == b.offset:
        return a.offset
    for free, bound in ((a, b), (b, a)):
        if free.offset == 0 and not free.is_positional:
            return bound.offset
    raise MaskError(f"Mask: `offset` has {a.offset} and {b.offset}; expected the same in both masks.")
