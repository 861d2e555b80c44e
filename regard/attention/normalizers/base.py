"""The contract of a normalizer: rows of scores become weights; hidden positions get exactly zero.

Rows with nothing visible are handled here, because every author forgets them once: their weights and their
gradients are zero.
"""

import math
from typing import ClassVar

import torch
from torch import Tensor

from regard.attention.parts import Part
from regard.errors import MaskError, ShapeError, shown


class Normalizer(Part):
    """From scores to weights."""

    stochastic: ClassVar[bool] = False  # True: never recomputed, never fused
    differentiable: ClassVar[bool] = True  # False: gradients reach the values only
    one_hot: bool = False  # True: a row has a single nonzero weight

    def normalize(self, scores: Tensor) -> Tensor:
        """The paper's equation. Hidden positions are -inf; each row has a finite score."""
        raise NotImplementedError(f"{type(self).__name__} defines no normalize(scores).")

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Final: do not override. Rows with nothing visible become zeros, with zero gradient."""
        scores, empty = open_rows(scores, mask)
        return scores if empty is None else self.normalize(scores).masked_fill(empty, 0.0)


class StochasticNormalizer(Normalizer):
    """A normalizer that samples, from a generator."""

    stochastic = True

    def settled(self) -> Normalizer:
        """An equivalent deterministic normalizer, if this one samples nothing now; otherwise itself."""
        return self

    def normalize(self, scores: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The paper's equation, sampling from the generator."""
        raise NotImplementedError(f"{type(self).__name__} defines no normalize(scores, generator).")

    def forward(
        self, scores: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """Final, as in Normalizer."""
        scores, empty = open_rows(scores, mask)
        return scores if empty is None else self.normalize(scores, generator).masked_fill(empty, 0.0)


def open_rows(scores: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Apply the mask; give rows with nothing visible a score of 0, and return which rows they are.

    None instead of the rows: there are no positions, so nothing to normalise.
    """
    _check_scores(scores, mask)
    if scores.shape[-1] == 0:
        return scores, None
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    empty = torch.isneginf(scores).all(-1, keepdim=True)
    return scores.masked_fill(empty, 0.0), empty


def _check_scores(scores: Tensor, mask: Tensor | None) -> None:
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        found = f"dtype {scores.dtype}" if isinstance(scores, Tensor) else shown(scores)
        raise ShapeError(f"Normalizer: `scores` has {found}; expected a floating-point tensor (..., T, S).")
    if mask is None:
        return
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        found = f"dtype {mask.dtype}" if isinstance(mask, Tensor) else shown(mask)
        raise MaskError(f"Normalizer: `mask` has {found}; expected torch.bool, True = may attend.")
    if mask.shape[-1] not in (1, scores.shape[-1]):
        raise MaskError(
            f"Normalizer: `mask` has shape {tuple(mask.shape)}; expected one that broadcasts to "
            f"{tuple(scores.shape)}."
        )
