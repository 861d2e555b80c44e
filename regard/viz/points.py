"""Points, the figure through them that is right, the one that a model pointed out, and how it pointed.

On the left the points; the right figure is a broad pale band, the model's a thin line with arrows, and the
blue numbers are the order of pointing. On the right the pointer: a row a step, a column a point.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Polygon, Rectangle
from numpy.typing import NDArray

from regard.errors import ShapeError
from regard.viz import style
from regard.viz.files import draw
from regard.viz.sheet import TITLE, Sheet, draw_shades
from regard.viz.weights import Weights

Shape = Literal["cycle", "path", "triangles"]

SIDE = 3.6  # inches of the points' square
SMALL = 7.5  # points
LINE = style.LINES[0]
RIGHT = "#f3c9a4"  # GOLD, pale: it lies under the model's line
NAMED = 25  # points that can still have their number beside them
STEPS = 40  # rows of the pointer that can still be read


def draw_points(
    points: Any,
    found: Sequence[int],
    *,
    right: Sequence[int] | None = None,
    shape: Shape = "cycle",
    weights: Weights | None = None,
    legend: str = "pointed out",
    title: str | None = None,
    path: str | Path,
) -> Path:
    """Draw (n, 2) or (n, 1) points and the numbers pointed at. PNG or SVG by the ending.

    `right` is the solver's answer where it is known, `legend` says what `found` is. `weights` (T, 1 + n) is
    the pointer, its first column the end; T is one more than `found` has numbers, or as many without an end.
    """
    where = _plane(np.asarray(points, dtype=np.float64))
    for name, order in (("found", found), ("right", right or ())):
        if any(not 0 <= number < len(where) for number in order):
            raise ShapeError(
                f"draw_points: `{name}` has a number outside 0 to {len(where) - 1}; "
                f"expected numbers of the {len(where)} points."
            )
    table = None if weights is None else np.asarray(weights, dtype=np.float64)
    if table is not None and (table.ndim != 2 or table.shape[1] != len(where) + 1):
        raise ShapeError(
            f"draw_points: `weights` has shape {table.shape}; expected (T, {len(where) + 1}), the end first."
        )
    return draw(
        "draw_points",
        path,
        [title or ""],
        lambda: _compose(where, list(found), right, shape, table, legend, title or ""),
    )


def _plane(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, D) -> (n, 2): a number is x, its place in the input y, the first on top."""
    if points.ndim != 2 or points.shape[1] not in (1, 2) or len(points) == 0:
        raise ShapeError(f"draw_points: `points` has shape {points.shape}; expected (n, 2) or (n, 1).")
    if points.shape[1] == 2:
        return points
    extent = max(float(np.ptp(points)), 1e-9)
    return np.column_stack([points[:, 0], np.linspace(extent, 0, len(points))])


def _compose(
    points: NDArray[np.float64],
    found: list[int],
    right: Sequence[int] | None,
    shape: Shape,
    weights: NDArray[np.float64] | None,
    legend: str,
    title: str,
) -> Sheet:
    table = np.zeros((0, 0)) if weights is None else weights[:STEPS]
    T, S = table.shape
    cell = min(0.26, SIDE / max(T, S, 1))
    panel = 0.75 + cell * S if weights is not None else 0.0
    sheet = Sheet(0.3 + SIDE + panel + 0.25, SIDE + 0.85)
    top = 0.43  # of the points and of the pointer
    sheet.write(0.3, 0.28, title, size=TITLE, va="center")
    _draw_figure(sheet.box(0.3, top, SIDE, SIDE, framed=True), points, found, right, shape)
    low = SIDE + 0.65
    sheet.write(0.3, low, f"—▸ {legend}", size=SMALL, color=LINE, va="center")
    if right is not None:
        sheet.write(1.45, low, "▬ right", size=SMALL, color=style.GOLD, alpha=0.6, va="center")
    if weights is not None:
        _draw_pointer(sheet.box(0.3 + SIDE + 0.6, top, cell * S, cell * T, framed=True), table, found)
    return sheet


def _draw_figure(
    axes: Axes,
    points: NDArray[np.float64],
    found: list[int],
    right: Sequence[int] | None,
    shape: Shape,
) -> None:
    low, high = points.min(0), points.max(0)
    half = max(float((high - low).max()) / 2, 1e-9) * 1.16
    centre = (low + high) / 2
    axes.set(xlim=(centre[0] - half, centre[0] + half), ylim=(centre[1] - half, centre[1] + half))
    axes.set(xticks=[], yticks=[], aspect="equal")
    if shape == "triangles":
        _draw_triangles(axes, points, found, right or ())
    elif right is not None:
        band = points[_closed(list(right), shape)]
        axes.plot(*band.T, color=RIGHT, linewidth=6, solid_capstyle="round", zorder=1)
    if shape != "triangles":
        _draw_arrows(axes, points, _closed(found, shape))
    named = len(points) <= NAMED
    axes.plot(
        *points.T,
        "o",
        markersize=9.5 if named else 4.5,
        color="white" if named else style.INK,
        markeredgecolor=style.INK,
        zorder=4,
    )
    for number, (x, y) in enumerate(points.tolist() if named else []):
        axes.text(x, y, str(number), size=5.5, color=style.INK, ha="center", va="center_baseline", zorder=5)
    _draw_numbers(axes, points, found if shape != "triangles" else [], half)


def _closed(order: list[int], shape: Shape) -> list[int]:
    return order + order[:1] if shape == "cycle" and len(order) > 2 else order


def _draw_triangles(axes: Axes, points: NDArray[np.float64], found: list[int], right: Sequence[int]) -> None:
    for i in range(0, len(right) - 2, 3):
        corners = points[list(right[i : i + 3])]
        under = Polygon(corners, fill=False, edgecolor=RIGHT, linewidth=6, joinstyle="round", zorder=1)
        axes.add_patch(under)
    for i in range(0, len(found) - 2, 3):
        corners = points[found[i : i + 3]]
        axes.add_patch(Polygon(corners, facecolor=(LINE, 0.10), edgecolor=LINE, linewidth=1.3, zorder=2))
        _write_step(axes, corners.mean(0), i // 3 + 1)


def _write_step(axes: Axes, at: NDArray[np.float64], step: int) -> None:
    axes.text(at[0], at[1], str(step), size=SMALL, color=LINE, ha="center", va="center", zorder=5)


def _draw_arrows(axes: Axes, points: NDArray[np.float64], order: list[int]) -> None:
    room = 5 if len(points) <= NAMED else 3
    for a, b in pairwise(order):
        axes.add_patch(
            FancyArrowPatch(
                tuple(points[a]),
                tuple(points[b]),
                arrowstyle="-|>",
                mutation_scale=9,
                shrinkA=room,
                shrinkB=room,
                linewidth=1.3,
                color=LINE,
                zorder=3,
            )
        )


def _draw_numbers(axes: Axes, points: NDArray[np.float64], found: list[int], half: float) -> None:
    """The step at which each point was pointed at, on the side away from the middle."""
    middle = points.mean(0)
    for step, number in enumerate(found, 1):
        away = points[number] - middle
        away = away / max(float(np.linalg.norm(away)), 1e-9)
        _write_step(axes, points[number] + away * half * 0.095, step)


def _draw_pointer(axes: Axes, weights: NDArray[np.float64], found: list[int]) -> None:
    T, S = weights.shape
    draw_shades(axes, weights, vmax=1)
    axes.set_xticks(range(S), ["end", *map(str, range(S - 1))], size=SMALL, rotation=90 if S > 12 else 0)
    axes.set_yticks(range(T), [str(t + 1) for t in range(T)], size=SMALL)
    axes.tick_params(length=0, labeltop=True, labelbottom=False, pad=2)
    axes.set_xlabel("where the pointer stands, step by step", size=SMALL, labelpad=4)
    for t, number in enumerate([*found, -1][:T]):  # the end stands first
        corner = (number + 0.5, t - 0.5)
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=style.GOLD, linewidth=1.0))
