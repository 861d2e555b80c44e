"""What is attended to: prepared keys, values and their mask, as one immutable value."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.attention.mask import Mask
from regard.attention.numerics import is_transformed
from regard.errors import MaskError, ShapeError, check_shapes, shown


@dataclass(frozen=True, eq=False)
class Source:
    """Prepared keys and values with their mask. `Attention.prepare` makes one.

        heads = MultiHead(32, 4)
        cache = heads.prepare(torch.randn(1, 5, 32), mask=Mask(causal=True))
        cache = cache.append(heads.prepare(torch.randn(1, 1, 32), mask=Mask(causal=True)))
        heads(torch.randn(1, 1, 32), cache).weights                # one query, at the last of six positions
        cache.select(torch.tensor([0, 0, 0]))                      # three hypotheses of a beam from row 0

    In a source that has grown, T queries stand at the last T positions; otherwise they begin at 0.
    """

    keys: Tensor  # (..., S, Dp), already prepared
    values: Tensor  # (..., S, Dv)
    mask: Mask
    copies: int = 1  # how many consecutive rows of the query share each row
    grown: bool = False  # by `append`: queries stand at the last positions, unless `at` says otherwise
    silent: tuple[Tensor | None, Tensor | None] | None = None  # lengths and dense mask it was zeroed for

    def __post_init__(self) -> None:
        keys, values = self.keys, self.values
        if not (isinstance(keys, Tensor) and isinstance(values, Tensor) and isinstance(self.mask, Mask)):
            given = f"{shown(keys)}, {shown(values)} and {shown(self.mask)}"
            raise ShapeError(
                f"Source: `keys`, `values` and `mask` have {given}; expected two tensors and a Mask. "
                "`Attention.prepare` makes a Source."
            )
        rows = keys.shape[:-1]  # one comparison: a decoder creates sources at every step
        if not rows or values.shape[:-1] != rows:
            _check_pair(keys, values)
        if not (keys.is_floating_point() and values.is_floating_point()):
            name, x = ("values", values) if keys.is_floating_point() else ("keys", keys)
            raise ShapeError(f"Source: `{name}` has dtype {x.dtype}; expected a floating-point dtype.")

    def __repr__(self) -> str:
        keys, values, dtype = tuple(self.keys.shape), tuple(self.values.shape), self.keys.dtype
        grown = ", grown" if self.grown else ""
        copies = f", copies={self.copies}" if self.copies > 1 else ""
        where = f"{str(dtype).removeprefix('torch.')} on {self.keys.device}"
        return f"Source(keys={keys}, values={values}, {where}, {self.mask!r}{copies}{grown})"

    @property
    def S(self) -> int:
        """The number of source positions, padding included."""
        return self.keys.shape[-2]

    @property
    def is_silent(self) -> bool:
        """Whether positions that the mask hides from all queries have been zeroed (hidden.py)."""
        known, mask = self.silent, self.mask
        return known is not None and known[0] is mask.lengths and known[1] is mask.dense

    def known(self, silent: bool) -> "Source":
        """The same source, marked as zeroed for its mask or not."""
        return replace(self, silent=(self.mask.lengths, self.mask.dense) if silent else None)

    def visible(
        self, query: Tensor, positions: Tensor | None = None, sources: slice | None = None
    ) -> Tensor | None:
        """The mask for these queries, broadcastable to (..., T, S); None means everything is visible.

        `positions` and `sources` as in `Mask.to_dense`. A mask that is the same for all queries is cached.
        """
        mask, ndim = self.mask, query.ndim
        if mask.lengths is None and mask.dense is None and not mask.causal and mask.window is None:
            return None
        same = positions is None and sources is None and not mask.is_positional
        if same and (found := self.__dict__.get("_visible")) is not None and found[0] == ndim:
            return found[1]
        shown = mask.to_dense(
            query.shape[-2], self.S, ndim=ndim, device=query.device, positions=positions, sources=sources
        )
        if same and not torch.compiler.is_compiling():
            self.__dict__["_visible"] = (ndim, shown)
        return shown

    def inverse(self, shown: Tensor) -> Tensor:
        """The negated mask; cached for the mask that `visible` caches."""
        kept = self.__dict__.get("_visible")
        if kept is None or kept[1] is not shown:
            return ~shown
        hidden: Tensor | None = self.__dict__.get("_hidden")
        if hidden is None:
            hidden = self.__dict__["_hidden"] = ~shown
        return hidden

    @property
    def no_row_is_empty(self) -> bool:
        """Whether the mask is known to show at least one position to every query."""
        mask, known = self.mask, self.__dict__.get("_no_row_is_empty")
        if known is None or torch.compiler.is_compiling():
            known = self.S > 0 and mask.dense is None and mask.window is None and mask.offset >= 0
            if known and mask.lengths is not None:
                known = _all_positive(mask.lengths)
            if not torch.compiler.is_compiling():
                self.__dict__["_no_row_is_empty"] = known
        return bool(known)

    def at(self, offset: int) -> "Source":
        """The same source for queries that begin at position `offset` (one step at a time)."""
        mask = self.mask.at(offset)
        later = self._with(mask=mask, grown=False)
        if (mask.offset < 0 or self.mask.offset < 0) and not torch.compiler.is_compiling():
            later.__dict__.pop("_no_row_is_empty", None)
        return later

    def serving(self, copies: int) -> "Source":
        """The same source, each row shared by `copies` consecutive rows of the query."""
        return self if copies == self.copies else self._with(copies=copies)

    def _with(self, **changes: Any) -> "Source":
        """A copy with other fields but the same keys and values, and everything cached about them."""
        if torch.compiler.is_compiling():
            return replace(self, **changes)
        self.__dict__.setdefault("_made", {})  # what kernels derive from keys and values, shared by all steps
        other = object.__new__(Source)  # skips the checks, which have passed
        other.__dict__.update(self.__dict__, **changes)
        return other

    def asked_by(self, T: int) -> "Source":
        """The source for T queries; if it has grown, they stand at its last T positions."""
        if not self.grown:
            return self
        mask, first = self.mask, max(0, self.S - T)
        # the last position sees everything before it, so a single query needs no causality
        if T == 1:
            mask = Mask(lengths=mask.lengths, window=mask.window, dense=mask.dense, offset=first)
        else:
            mask = mask.at(first)
        return Source(self.keys, self.values, mask, self.copies, silent=self.silent)

    def append(self, other: "Source") -> "Source":
        """Append along the source axis, for tapes and decoder caches. Each part keeps its own mask.

        The next T queries stand at the last T positions, unless `at` says otherwise.
        """
        check_source("Source.append", "other", other)
        old = (("keys", self.keys, "... S Dp"), ("values", self.values, "... S Dv"))
        new = (("other.keys", other.keys, "... S2 Dp"), ("other.values", other.values, "... S2 Dv"))
        check_shapes("Source.append", *old, *new)
        if self.copies > 1 or other.copies > 1:
            return self.spread().append(other.spread())
        if self.keys.shape[:-2] != other.keys.shape[:-2] or self.values.shape[:-2] != other.values.shape[:-2]:
            raise ShapeError(
                f"Source.append: `other.keys` has shape {tuple(other.keys.shape)}; expected as many "
                f"rows as {tuple(self.keys.shape)}."
            )
        keys = torch.cat([self.keys, other.keys], -2)
        values = torch.cat([self.values, other.values], -2)
        grown = Source(keys, values, self._grown_mask(other), grown=True)
        return grown.known(self.is_silent and other.is_silent)

    def select(self, rows: Tensor) -> "Source":
        """Keep these rows of the batch, in this order, as beam search does with its hypotheses."""
        check_rows("Source.select", rows)
        if self.keys.ndim < 3:
            raise ShapeError(
                f"Source.select: `keys` has shape {tuple(self.keys.shape)}; expected (B, ..., S, Dp), with "
                "rows to choose from."
            )
        mask = self.mask
        if self.copies > 1:
            rows = rows // self.copies
        lengths = mask.lengths
        if lengths is not None and lengths.shape[0] == self.keys.shape[0]:
            lengths = lengths[rows]
        dense = mask.dense
        if dense is not None and dense.ndim >= self.keys.ndim:
            axis = dense.ndim - self.keys.ndim  # of the rows: the query may have more leading axes
            dense = dense.index_select(axis, rows) if dense.shape[axis] > 1 else dense
        keys, values = (chosen("Source.select", x, rows) for x in (self.keys, self.values))
        kept = Source(keys, values, replace(mask, lengths=lengths, dense=dense), grown=self.grown)
        return kept.known(self.is_silent)

    def share(self, rows: Tensor) -> "Source":
        """Like `select`, but hypotheses of a sentence share its row instead of copying it.

        This needs equally many consecutive rows for each source row; otherwise it is `select`.
        """
        check_rows("Source.share", rows)
        B, own = self.keys.shape[0], rows // self.copies
        k = len(rows) // max(B, 1)
        every = torch.arange(B, dtype=own.dtype, device=own.device)
        if k and torch.equal(own, every.repeat_interleave(k)):
            return self.serving(k)
        owners, counts = torch.unique_consecutive(own, return_counts=True)
        if len(owners) == 0 or not bool((counts == counts[0]).all()):
            return self.select(rows)
        return self.serving(1).select(owners).serving(int(counts[0]))

    def spread(self) -> "Source":
        """The same source with shared rows copied, one for each row of the query."""
        if self.copies == 1:
            return self
        return self.select(torch.arange(self.copies * self.keys.shape[0], device=self.keys.device))

    def _grown_mask(self, other: "Source") -> Mask:
        """Causality and window apply to the whole, lengths and dense masks to each part's positions."""
        for mask in (self.mask, other.mask):
            if mask.dense is not None and mask.dense.ndim > 1 and mask.dense.shape[-2] != 1:
                raise MaskError(
                    f"Source.append: `dense` has shape {tuple(mask.dense.shape)}; expected (..., 1, S), "
                    "since a growing source is seen by later queries too."
                )
        if None not in (self.mask.window, other.mask.window) and self.mask.window != other.mask.window:
            raise MaskError(
                f"Source.append: `window` has {self.mask.window} and {other.mask.window}; expected the same."
            )
        causal = self.mask.causal or other.mask.causal
        window = self.mask.window or other.mask.window
        grown = Mask(causal=causal, window=window, offset=self.mask.offset)
        parts = [self._visible(), other._visible()]
        if parts[0] is None and parts[1] is None:
            return grown
        lead = torch.broadcast_shapes(*(part.shape[:-1] for part in parts if part is not None))  # type: ignore[no-untyped-call]
        filled = [
            torch.ones(*lead, source.S, dtype=torch.bool, device=source.keys.device)
            if part is None
            else part.expand(*lead, source.S)
            for part, source in zip(parts, (self, other), strict=True)
        ]
        return replace(grown, dense=torch.cat(filled, -1))

    def _visible(self) -> Tensor | None:
        """(..., 1, S) what `lengths` and `dense` leave visible, or None for everything."""
        facts = Mask(lengths=self.mask.lengths, dense=self.mask.dense)
        return facts.to_dense(1, self.S, ndim=self.keys.ndim, device=self.keys.device)


def _all_positive(lengths: Tensor) -> bool:
    """Whether all are known to be 1 or more; False if reading them would wait for a device."""
    can_look = type(lengths) is Tensor and lengths.is_cpu
    if not can_look or torch.compiler.is_compiling() or is_transformed():
        return False
    return lengths.numel() > 0 and int(lengths.min()) >= 1


def _check_pair(keys: Tensor, values: Tensor) -> None:
    check_shapes("Source", ("keys", keys, "... S Dk"), ("values", values, "... S Dv"))
    if not broadcasts(values.shape[:-2], keys.shape[:-2]):
        raise ShapeError(
            f"Source: `values` has shape {tuple(values.shape)}; expected as many rows as keys "
            f"{tuple(keys.shape)}."
        )


def broadcasts(a: torch.Size, b: torch.Size) -> bool:
    """Whether two shapes of leading axes broadcast: aligned at the end, they are equal or one is 1."""
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


def chosen(owner: str, x: Tensor, rows: Tensor) -> Tensor:
    """(B, ...), (R,) -> (R, ...): these rows of a batch."""
    try:
        return x.index_select(0, rows)
    except IndexError as error:  # on a CPU; a GPU raises its own error, later
        raise ShapeError(
            f"{owner}: `rows` has {rows.tolist()}; expected row numbers below {x.shape[0]}."
        ) from error


def check_rows(owner: str, rows: Tensor) -> None:
    """Raise ShapeError if these are not (R,) whole numbers."""
    if not isinstance(rows, Tensor):
        raise ShapeError(f"{owner}: `rows` has {shown(rows)}; expected a tensor (R,) of whole numbers.")
    if rows.ndim != 1 or rows.dtype not in (torch.int64, torch.int32):
        raise ShapeError(
            f"{owner}: `rows` has shape {tuple(rows.shape)} and dtype {rows.dtype}; "
            "expected (R,) whole numbers."
        )


def check_source(owner: str, name: str, found: object) -> None:
    """Raise ShapeError if this is not a Source."""
    if not isinstance(found, Source):
        raise ShapeError(
            f"{owner}: `{name}` has {shown(found)}; expected a Source. "
            "`prepare(keys, values, mask)` makes one."
        )
