"""What is attended to: prepared keys, values and their mask, as one value that is passed and returned."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.attention.mask import Mask
from regard.errors import MaskError, check_shapes


@dataclass(frozen=True, eq=False)
class Source:
    """Prepared keys, values, and what of them may be seen."""

    keys: Tensor  # (..., S, Dp), already prepared
    values: Tensor  # (..., S, Dv)
    mask: Mask
    copies: int = 1  # each row serves so many rows of the query, one after the other
    silent: tuple[Tensor | None, Tensor | None] | None = (
        None  # lengths and dense mask that it was cleaned for
    )

    @property
    def S(self) -> int:
        """The number of source positions, padding included."""
        return self.keys.shape[-2]

    @property
    def is_silent(self) -> bool:
        """No harm can come from positions that this mask hides from all queries (hidden.py)."""
        known, mask = self.silent, self.mask
        return known is not None and known[0] is mask.lengths and known[1] is mask.dense

    def known(self, silent: bool) -> "Source":
        """The same source, of which this is known."""
        return replace(self, silent=(self.mask.lengths, self.mask.dense) if silent else None)

    def at(self, offset: int) -> "Source":
        """The same source for queries that begin at position `offset` (one step at a time)."""
        return replace(self, mask=self.mask.at(offset))

    def append(self, other: "Source") -> "Source":
        """Grow along the source axis: tapes and decoder caches. Each part keeps its positions' mask."""
        old = (("keys", self.keys, "... S Dp"), ("values", self.values, "... S Dv"))
        new = (("other.keys", other.keys, "... S2 Dp"), ("other.values", other.values, "... S2 Dv"))
        check_shapes("Source.append", *old, *new)
        if self.copies > 1 or other.copies > 1:
            return self.spread().append(other.spread())
        keys = torch.cat([self.keys, other.keys], -2)
        values = torch.cat([self.values, other.values], -2)
        return Source(keys, values, self._grown_mask(other)).known(self.is_silent and other.is_silent)

    def select(self, rows: Tensor) -> "Source":
        """Keep these rows of the batch, in this order; beam search reorders its hypotheses so."""
        mask = self.mask
        if self.copies > 1:
            rows = rows // self.copies
        lengths = mask.lengths
        if lengths is not None and lengths.shape[0] == self.keys.shape[0]:
            lengths = lengths[rows]
        dense = mask.dense
        if dense is not None and dense.ndim == self.keys.ndim and dense.shape[0] > 1:
            dense = dense[rows]
        keys, values = self.keys.index_select(0, rows), self.values.index_select(0, rows)
        return Source(keys, values, replace(mask, lengths=lengths, dense=dense)).known(self.is_silent)

    def share(self, rows: Tensor) -> "Source":
        """As `select`, but copying nothing that stays: hypotheses of a sentence share the sentence's source.

        Rows that continue the same source row must follow one another, as many for each; else this selects.
        """
        owners, counts = torch.unique_consecutive(rows // self.copies, return_counts=True)
        if len(owners) == 0 or not bool((counts == counts[0]).all()):
            return self.select(rows)
        B = self.keys.shape[0]
        if len(owners) == B and bool((owners == torch.arange(B, device=owners.device)).all()):
            return replace(self, copies=int(counts[0]))
        kept = replace(self, copies=1).select(owners)
        return replace(kept, copies=int(counts[0]))

    def spread(self) -> "Source":
        """The same source with a row of its own for each row of the query."""
        if self.copies == 1:
            return self
        return self.select(torch.arange(self.copies * self.keys.shape[0], device=self.keys.device))

    def _grown_mask(self, other: "Source") -> Mask:
        """Causality and window hold for the whole; lengths and dense masks for each part's positions."""
        for mask in (self.mask, other.mask):
            if mask.dense is not None and mask.dense.ndim > 1 and mask.dense.shape[-2] != 1:
                raise MaskError(
                    f"Source.append: `dense` has shape {tuple(mask.dense.shape)}; expected (..., 1, S), "
                    "since a growing source is seen by later queries too."
                )
        if None not in (self.mask.window, other.mask.window) and self.mask.window != other.mask.window:
            raise MaskError(
                f"Source.append: `window` has {self.mask.window} and {other.mask.window}; expected one."
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
        """(..., 1, S) what lengths and dense leave visible, or None for everything."""
        facts = Mask(lengths=self.mask.lengths, dense=self.mask.dense)
        return facts.to_dense(1, self.S, ndim=self.keys.ndim, device=self.keys.device)
