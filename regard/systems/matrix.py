"""Draws any matrix of attention weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import ShapeError
from regard.systems.drawable import Drawable
from regard.viz.heatmap import draw_alignment, draw_heads
from regard.viz.report import AlignmentSection, write_report
from regard.viz.weights import Array, to_array


@dataclass(frozen=True, eq=False, repr=False)
class Matrix(Drawable):
    """Weights (T, S), or (H, T, S) of several heads, with row and column labels."""

    weights: Array
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Matrix {' × '.join(map(str, self.weights.shape))}>"

    def draw(self, path: Path) -> None:
        drawn = draw_alignment if self.weights.ndim == 2 else draw_heads
        drawn(self.weights, self.columns, self.rows, path=path)

    def draw_page(self, path: Path) -> None:
        maps = self.weights[None] if self.weights.ndim == 2 else self.weights
        sections = [
            AlignmentSection(f"Head {h}" if len(maps) > 1 else "", each, self.columns, self.rows)
            for h, each in enumerate(maps, 1)
        ]
        write_report(path, title="Attention", summary="", sections=sections)


def matrix(weights: Any, rows: Sequence[str] | None, columns: Sequence[str] | None) -> Matrix:
    """The matrix, without leading axes of size 1; labels default to indices."""
    try:
        array = to_array(weights)
    except (RuntimeError, TypeError, ValueError):
        raise ShapeError(
            "show: `weights` cannot be read as numbers in rows of one length; expected (T, S) or (H, T, S)."
        ) from None
    while array.ndim > 2 and array.shape[0] == 1:
        array = array[0]
    if array.ndim not in (2, 3):
        raise ShapeError(
            f"show: `weights` has shape {tuple(array.shape)}; expected (T, S), or (H, T, S) of several heads."
        )
    T, S = array.shape[-2:]
    names = [
        tuple(map(str, range(size) if given is None else given)) for given, size in ((rows, T), (columns, S))
    ]
    for name, given, size in (("rows", names[0], T), ("columns", names[1], S)):
        if len(given) != size:
            raise ShapeError(
                f"show: `{name}` has {len(given)} names; expected {size}, for weights {tuple(array.shape)}."
            )
    return Matrix(array, *names)
