"""Validates attention weights for the drawing functions and converts them to plain tensors."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from regard.errors import ConfigError, DataError, ShapeError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    Weights = torch.Tensor | ArrayLike
else:
    Weights = Any  # numpy need not be installed
Array = torch.Tensor  # on a CPU


def to_array(weights: Weights, dtype: torch.dtype = torch.float64) -> Array:
    """Any tensor or array as a CPU tensor, float64 by default."""
    if isinstance(weights, torch.Tensor):
        return weights.detach().to(device="cpu", dtype=dtype)
    if hasattr(weights, "astype"):  # numpy: a copy, because torch refuses some strides and byte orders
        return torch.from_numpy(weights.astype("float64", order="C")).to(dtype)
    return torch.tensor(weights, dtype=dtype)


def check_weights(owner: str, weights: Weights, source: Sequence[str], target: Sequence[str]) -> Array:
    """(T, S): finite, not negative, one row per target word, one column per source word."""
    array = to_array(weights)
    T, S = len(target), len(source)
    if array.shape != (T, S) or array.numel() == 0:
        few = " At least one word is needed on each side." if T * S == 0 else ""
        raise ShapeError(
            f"{owner}: `weights` has shape {tuple(array.shape)}; expected (T={T}, S={S}), "
            f"one row per target word and one column per source word.{few}"
        )
    check_finite(owner, array)
    return array


def check_finite(owner: str, array: Array) -> None:
    """Raise DataError for NaN, infinite and negative numbers, naming the first position."""
    bad = (~array.isfinite() | (array < 0)).nonzero()
    if len(bad):
        place = tuple(bad[0].tolist())
        value = float(array[place])
        raise DataError(
            f"{owner}: `weights` has {value:g} at {place}; expected finite numbers from 0. "
            "Give the weights after normalisation, not the scores."
        )


def check_links(owner: str, gold: Iterable[tuple[int, int]] | None, S: int, T: int) -> list[tuple[int, int]]:
    """Gold links as (source, target) positions within the sentence pair."""
    links = sorted({(int(s), int(t)) for s, t in gold or ()})
    for s, t in links:
        if not (0 <= s < S and 0 <= t < T):
            raise ConfigError(
                f"{owner}: `gold` has the link ({s}, {t}); expected (source, target) below (S={S}, T={T})."
            )
    return links


def peak(*arrays: Array) -> float:
    """The weight drawn darkest: 1 for sharp attention, otherwise a round number at or above the largest."""
    largest = max(float(array.max()) for array in arrays)
    if largest > 1 + 1e-6:
        return largest
    steps = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
    return next((step for step in steps if 0 < largest <= step), 1.0)
