"""Points, the correct figure through them, the model's figure, and its pointer weights.

On the left the points: the correct figure is a broad pale band, the model's a thin line with arrows, and blue
numbers give the order of pointing. On the right the pointer weights: one row per step, one column per point.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch

from regard.errors import ShapeError
from regard.viz import style
from regard.viz.axes import Axes
from regard.viz.sheet import TITLE, Point, Sheet
from regard.viz.weights import Array, Weights, to_array

Shape = Literal["cycle", "path", "triangles"]

SIDE = 3.6  # inches, of the square with the points
SMALL = 7.5  # points
LINE = style.LINES[0]
RIGHT = "#f3c9a4"  # a pale GOLD, under the model's line
LEGEND = "#e69f66"  # between the two, legible as text
NAMED = 25  # most points that are numbered
STEPS = 40  # most rows of the pointer


def draw_points(
    points: Any,
    found: Sequence[int],
    *,
    right: Sequence[int] | None = None,
    shape: Shape = "cycle",
    weights: Weights | None = None,
    title: str = "",
    path: str | Path,
) -> Path:
    """Draw (n, 2) or (n, 1) points and the indices pointed at. PNG or SVG by the suffix.

    `right` is the solver's answer if known. `weights` (T, 1 + n) are the pointer's, column 0 is the end; T is
    len(found), or one more with the end.
    """
    where = _plane(to_array(points))
    for name, order in (("found", found), ("right", right or ())):
        if any(not 0 <= number < len(where) for number in order):
            raise ShapeError(
                f"draw_points: `{name}` has a number outside 0 to {len(where) - 1}; "
                f"expected numbers of the {len(where)} points."
            )
    table = None if weights is None else to_array(weights)
    if table is not None and (table.ndim != 2 or table.shape[1] != len(where) + 1):
        raise ShapeError(
            f"draw_points: `weights` has shape {tuple(table.shape)}; "
            f"expected (T, {len(where) + 1}), the end first."
        )
    drawn = torch.zeros(0, 0) if table is None else table[:STEPS]
    T, S = drawn.shape
    cell = min(0.26, SIDE / max(T, S, 1))
    panel = 0.75 + cell * S if table is not None else 0.0
    sheet = Sheet(0.3 + SIDE + panel + 0.25, SIDE + 0.85)
    top = 0.43  # of points and pointer
    sheet.write(0.3, 0.28, title, size=TITLE, middle=True)
    _draw_figure(sheet, top, where, list(found), right, shape)
    low = SIDE + 0.65
    sheet.write(0.3, low, "—▸ pointed out", size=SMALL, color=LINE, middle=True)
    if right is not None:
        sheet.write(1.45, low, "▬ right", size=SMALL, color=LEGEND, middle=True)
    if table is not None:
        _draw_pointer(sheet, 0.3 + SIDE + 0.6, top, cell, drawn, list(found))
    return sheet.save("draw_points", path)


def _plane(points: Array) -> Array:
    """(n, D) -> (n, 2): numbers become x, and their input order y from top to bottom."""
    if points.ndim != 2 or points.shape[1] not in (1, 2) or len(points) == 0:
        raise ShapeError(f"draw_points: `points` has shape {tuple(points.shape)}; expected (n, 2) or (n, 1).")
    if points.shape[1] == 2:
        return points
    extent = max(float(points.max() - points.min()), 1e-9)
    return torch.stack([points[:, 0], torch.linspace(extent, 0, len(points), dtype=points.dtype)], 1)


def _draw_figure(
    sheet: Sheet,
    top: float,
    points: Array,
    found: list[int],
    right: Sequence[int] | None,
    shape: Shape,
) -> None:
    low, high = points.amin(0), points.amax(0)
    half = max(float((high - low).max()) / 2, 1e-12 * float(points.abs().max()), 1e-9) * 1.16
    x, y = ((low + high) / 2).tolist()
    axes = Axes(sheet, (0.3, top, SIDE, SIDE), (x - half, x + half), (y - half, y + half))
    places = [axes.at(*point) for point in points.tolist()]
    sheet.rect(axes.box, edge=style.RULE, line=0.8)
    if shape == "triangles":
        _draw_triangles(sheet, places, found, right or ())
    elif right:
        band = [places[i] for i in _closed(list(right), shape)]
        sheet.draw([band], edge=RIGHT, line=6, cap="round", kind="right")
    if shape != "triangles":
        _draw_arrows(sheet, places, _closed(found, shape))
    named = len(points) <= NAMED
    for number, place in enumerate(places):
        face, size = ("#ffffff", 9.5) if named else (style.INK, 4.5)
        sheet.dot(place, size, face, edge=style.INK, line=1.0)
        if named:
            sheet.write(*place, str(number), size=5.5, ha="center", middle=True)
    if shape != "triangles":
        _draw_numbers(sheet, places, found)


def _closed(order: list[int], shape: Shape) -> list[int]:
    return order + order[:1] if shape == "cycle" and len(order) > 2 else order


def _draw_triangles(sheet: Sheet, places: list[Point], found: list[int], right: Sequence[int]) -> None:
    for i in range(0, len(right) - 2, 3):
        sheet.draw([[places[k] for k in right[i : i + 3]]], edge=RIGHT, line=6, closed=True, kind="right")
    for i in range(0, len(found) - 2, 3):
        corners = [places[k] for k in found[i : i + 3]]
        sheet.draw([corners], edge=LINE, line=1.3, closed=True, fill=LINE, opacity=0.1)
        _write_step(sheet, sum(x for x, _ in corners) / 3, sum(y for _, y in corners) / 3, i // 3 + 1)


def _write_step(sheet: Sheet, x: float, y: float, step: int) -> None:
    sheet.write(x, y, str(step), size=SMALL, color=LINE, ha="center", middle=True, kind="step")


def _draw_arrows(sheet: Sheet, places: list[Point], order: list[int]) -> None:
    """Arrows from the edge of each point to the next, omitted between touching points."""
    room = (5 if len(places) <= NAMED else 3) / 72
    long, broad = 3.6 / 72, 1.8 / 72  # of the arrowhead
    for (x, y), (u, v) in pairwise([places[i] for i in order]):
        way = math.hypot(u - x, v - y)
        if way <= 2 * room:
            continue
        right, down = (u - x) / way, (v - y) / way
        tip = (u - right * (room + 0.02), v - down * (room + 0.02))
        base = (tip[0] - right * long, tip[1] - down * long)
        sheet.draw([[(x + right * room, y + down * room), base]], edge=LINE, line=1.3)
        sides = [(base[0] - down * each, base[1] + right * each) for each in (broad, -broad)]
        sheet.draw([[tip, *sides]], edge=LINE, line=1.3, closed=True, fill=LINE, kind="arrow")


def _draw_numbers(sheet: Sheet, places: list[Point], found: list[int]) -> None:
    """The step at which each point was pointed at, written on its outer side."""
    x, y = (sum(side) / len(places) for side in zip(*places, strict=True))
    for step, number in enumerate(found, 1):
        u, v = places[number]
        way = math.hypot(u - x, v - y) or 1.0
        away = SIDE * 0.0475 / way
        _write_step(sheet, u + (u - x) * away, v + (v - y) * away, step)


def _draw_pointer(sheet: Sheet, x: float, y: float, cell: float, weights: Array, found: list[int]) -> None:
    T, S = weights.shape
    axes = Axes(sheet, (x, y, S * cell, T * cell), (0, S), (T, 0))
    sheet.shades(weights, axes.box, 1.0, kind="pointer")
    sheet.rect(axes.box, edge=style.RULE, line=0.8)
    upright = S > 12
    for s, name in enumerate(["end", *map(str, range(S - 1))]):
        at, ha = x + (s + 0.5) * cell, "left" if upright else "center"
        turn = 90 if upright else 0
        sheet.write(at, y - 0.05, name, size=SMALL, color=style.QUIET, ha=ha, turn=turn, middle=upright)
    axes.name_y({t + 0.5: str(t + 1) for t in range(T)}, size=SMALL, away=2)
    axes.name_x({}, "where the pointer stands, step by step", size=SMALL)
    for t, number in enumerate([*found, -1][:T]):  # the end is column 0
        sheet.rect(
            (x + (number + 1) * cell, y + t * cell, cell, cell), edge=style.GOLD, line=1.0, kind="found"
        )
