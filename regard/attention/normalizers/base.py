"""The contract of a normalizer: rows of scores become weights; hidden positions get exactly zero.

The law of rows with nothing visible lives here, because each author forgets it once: their weights are zero,
and so is their gradient.
"""

import math
from typing import ClassVar

import torch
from torch import Tensor

from regard.attention.history import History
from regard.attention.parts import Part
from regard.errors import MaskError, ShapeError, shown


class Normalizer(Part):
    """From scores to weights."""

    stochastic: ClassVar[bool] = False  # True: never recomputed, never fused
    differentiable: ClassVar[bool] = True  # False: gradients reach the values only
    one_hot: bool = False  # True: a row has one weight that is not zero

    def normalize(self, scores: Tensor) -> Tensor:
        """The paper's equation. Hidden positions arrive as -inf; each row has a finite score."""
        raise NotImplementedError(f"{type(self).__name__} defines no normalize(scores).")

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Final. Rows that may attend to nothing become zeros, with zero gradient."""
        scores, empty = open_rows(scores, mask)
        return scores if empty is None else self.normalize(scores).masked_fill(empty, 0.0)


class StochasticNormalizer(Normalizer):
    """A normalizer that draws; its randomness comes from a generator."""

    stochastic = True

    def settled(self) -> Normalizer:
        """The normalizer that this one is as long as it draws nothing."""
        return self

    def normalize(self, scores: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The paper's equation, drawing from the generator."""
        raise NotImplementedError(f"{type(self).__name__} defines no normalize(scores, generator).")

    def forward(
        self, scores: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """Final, as in Normalizer."""
        scores, empty = open_rows(scores, mask)
        return scores if empty is None else self.normalize(scores, generator).masked_fill(empty, 0.0)


class HistoryNormalizer(Part):
    """A normalizer that also sees where earlier steps attended."""

    stochastic: ClassVar[bool] = False
    differentiable: ClassVar[bool] = True
    one_hot: bool = False

    def normalize(self, scores: Tensor, history: History) -> Tensor:
        """The paper's equation. Hidden positions arrive as -inf; each row has a finite score."""
        raise NotImplementedError(f"{type(self).__name__} defines no normalize(scores, history).")

    def forward(self, scores: Tensor, mask: Tensor | None, history: History) -> Tensor:
        """Final, as in Normalizer."""
        scores, empty = open_rows(scores, mask)
        return scores if empty is None else self.normalize(scores, history).masked_fill(empty, 0.0)


def open_rows(scores: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Hide what the mask hides; give rows with nothing visible a harmless score, and say which they are.

    None: there are no positions, and so nothing to normalise.
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
