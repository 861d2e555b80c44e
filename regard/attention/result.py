"""What comes back from attention: the context now; scores, weights, rows and top-k when looked at."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import ConfigError, ShapeError

NUMBERS = 2**25  # of a block of rows, while it is computed


class Alignment(NamedTuple):
    """Scores and the weights made of them; the weights are those before dropout."""

    scores: Tensor  # (..., T, S); -inf where hidden
    weights: Tensor  # (..., T, S)


class AttentionResult:
    """The context, and everything else on demand.

    A fused kernel never builds the T × S weights; here they are recomputed by the reference on first access.
    `rows` and `top` compute only what they return; where each score needs one key alone, `top` makes no whole
    row either. A result holds its inputs alive until it is dropped.
    """

    __slots__ = ("_align", "_alignment", "_log_probability", "_numbers", "_rows", "_top", "context", "kernel")

    def __init__(
        self,
        context: Tensor,
        *,
        kernel: str,
        rows: int,
        align: Callable[[Tensor | None], Alignment],
        alignment: Alignment | None = None,
        log_probability: Callable[[Alignment], Tensor] | None = None,
        top: Callable[[int], tuple[Tensor, Tensor] | None] | None = None,
        numbers: int = 1,
    ) -> None:
        self.context = context  # (..., T, Dv)
        self.kernel = kernel  # "reference" or the fused kernel that ran
        self._rows = rows
        self._align = align
        self._alignment = alignment
        self._log_probability = log_probability
        self._top = top
        self._numbers = numbers  # of the keys: what a query multiplies at most, when its row is computed

    def with_context(self, context: Tensor) -> "AttentionResult":
        """The same alignment under another context: what a projection after attention returns."""
        return AttentionResult(
            context,
            kernel=self.kernel,
            rows=self._rows,
            align=self._align,
            alignment=self._alignment,
            log_probability=self._log_probability,
            top=self._top,
            numbers=self._numbers,
        )

    @property
    def has_weights(self) -> bool:
        """The weights are there already; looking at them costs nothing."""
        return self._alignment is not None

    @property
    def weights(self) -> Tensor:
        """(..., T, S) the alignment, before dropout."""
        return self._full().weights

    @property
    def scores(self) -> Tensor:
        """(..., T, S) what was normalised; -inf where hidden. Pointer losses read this."""
        return self._full().scores

    @property
    def log_probability(self) -> Tensor:
        """(..., T) log-probability of what a hard normalizer chose; REINFORCE follows its gradient."""
        if self._log_probability is None:
            raise ConfigError("AttentionResult: `log_probability` needs a normalizer that chooses: Hard.")
        return self._log_probability(self._full())

    def rows(self, targets: Tensor) -> Tensor:
        """(R,) query positions -> (..., R, S); only these rows are computed."""
        if targets.ndim != 1 or targets.dtype.is_floating_point:
            raise ShapeError(
                f"AttentionResult.rows: `targets` has shape {tuple(targets.shape)} and dtype "
                f"{targets.dtype}; expected (R,) whole numbers."
            )
        targets = torch.where(targets < 0, targets + self._rows, targets)  # -1 is the last, as in indexing
        if self._alignment is not None:
            return self._alignment.weights[..., targets, :]
        return self._align(targets).weights

    def top(self, k: int, *, block: int | None = None) -> tuple[Tensor, Tensor]:
        """(..., T, k) largest weights and their source positions; never T × S at once.

        `block` is how many rows are computed at a time; by default as many as fit a bounded memory, or tiles
        of rows where they will do.
        """
        if self._alignment is not None:
            best = self._alignment.weights.topk(k, dim=-1)
            return best.values, best.indices
        # weights that carry gradients are made of whole rows: autograd would keep every tile
        gradient = torch.is_grad_enabled() and self.context.requires_grad
        if self._top is not None and block is None and not gradient:
            found = self._top(k)
            if found is not None:
                return found
        device = self.context.device
        block = max(1, min(128, NUMBERS // max(1, self._numbers))) if block is None else block
        starts = range(0, self._rows, block)
        blocks = [
            self.rows(torch.arange(start, min(start + block, self._rows), device=device)).topk(k, dim=-1)
            for start in starts
        ]
        return torch.cat([b.values for b in blocks], -2), torch.cat([b.indices for b in blocks], -2)

    def _full(self) -> Alignment:
        if self._alignment is not None:
            return self._alignment
        alignment = self._align(None)
        # a look without gradients, as a drawing takes, must not take them from a loss that reads later
        if torch.is_grad_enabled() or not self.context.requires_grad:
            self._alignment = alignment
        return alignment

    def __repr__(self) -> str:
        state = "computed" if self.has_weights else "on demand"
        shape = tuple(self.context.shape)
        return f"AttentionResult(context={shape}, kernel={self.kernel!r}, weights {state})"
