"""Alignments as heat maps: source words above, target words on the left, white for zero.

Figure 3 of Bahdanau et al. Neural machine translation by jointly learning to align and translate. 2014.
https://arxiv.org/abs/1409.0473
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

from regard.errors import ConfigError, ShapeError
from regard.viz import style
from regard.viz.sheet import BAR, SMALL, Point, Sheet, Title, corners, draw_scale
from regard.viz.weights import Array, Weights, check_finite, check_links, check_weights, peak, to_array

# all lengths are inches; a hundredth is two pixels, so that cells of a PNG have equal, sharp edges
MARGIN, GAP, PAD = 0.14, 0.34, 0.07
SQUARE, APART, TOP = 0.5, 0.06, 0.3  # in a grid: a map, the space between two, the room for a title
NAME = 9.0  # points
MANY = 40_000  # cells above which a map becomes an image; as outlines it would take seconds
KEY = "gold link"  # the default meaning of outlined cells
LEADING = 1.25
LINE = LEADING / 72  # inches per line and point of font size


@dataclass(frozen=True)
class Panel:
    """One alignment of a gallery: weights (T, S), its words, and gold links (source, target)."""

    weights: Weights
    source: Sequence[str]
    target: Sequence[str]
    title: str = ""
    gold: Iterable[tuple[int, int]] = ()


def draw_alignment(
    weights: Weights,
    source: Sequence[str],
    target: Sequence[str],
    *,
    title: str = "",
    gold: Iterable[tuple[int, int]] | None = None,
    key: str = KEY,
    path: str | Path,
) -> Path:
    """Draw weights (T, S) as PNG or SVG; `gold` links (source, target) are outlined, and `key` names them."""
    panel = _check("draw_alignment", Panel(weights, source, target, gold=gold or ()))
    return _compose([panel], title, 1, key=key).save("draw_alignment", path)


def draw_gallery(
    panels: Sequence[Panel], *, title: str = "", columns: int | None = None, path: str | Path
) -> Path:
    """Draw several alignments side by side with one colour scale, at most `columns` per row (default 4)."""
    if not panels:
        raise ConfigError("draw_gallery: `panels` has length 0; expected at least one Panel.")
    columns = _check_columns("draw_gallery", columns, min(len(panels), 4))
    checked = [_check("draw_gallery", panel) for panel in panels]
    return _compose(checked, title, columns).save("draw_gallery", path)


def draw_heads(
    weights: Weights,
    source: Sequence[str],
    target: Sequence[str],
    *,
    names: Sequence[str] | None = None,
    columns: int | None = None,
    path: str | Path,
) -> Path:
    """Draw weights (H, T, S) as a grid of small maps that share their words; `names` label the heads."""
    owner = "draw_heads"
    array = to_array(weights)
    H, T, S = len(array) if array.ndim else 0, len(target), len(source)
    if array.shape != (H, T, S) or array.numel() == 0:
        raise ShapeError(
            f"{owner}: `weights` has shape {tuple(array.shape)}; expected (H, T={T}, S={S}), "
            "one map per head."
        )
    check_finite(owner, array)
    names = [f"head {h + 1}" for h in range(H)] if names is None else names
    if len(names) != H:
        raise ShapeError(f"{owner}: `names` has length {len(names)}; expected H={H}, one name per head.")
    columns = _check_columns(owner, columns, _balanced(H))
    panels = [_Map(array[h], source, target, names[h], []) for h in range(H)]
    return _compose(panels, "", columns, shared=True).save(owner, path)


def draw_grid(
    maps: Sequence[Sequence[Weights]], names: Sequence[str], *, title: str, path: str | Path
) -> Path:
    """Draw `maps[layer][head]` as small maps, each on its own scale; `names` label the layers."""
    left = MARGIN + style.width(names, SMALL) + 0.08
    top = MARGIN + (TOP if title else 0.0) + 0.16
    step = SQUARE + APART
    sheet = Sheet(left + max(map(len, maps)) * step + MARGIN, top + len(maps) * step + MARGIN)
    sheet.write(MARGIN, MARGIN + 0.16, title, size=10)
    for row, heads in enumerate(maps):
        y = top + row * step
        sheet.write(left - 0.08, y + SQUARE / 2, names[row], size=SMALL, ha="right", middle=True)
        for column, weights in enumerate(heads):
            x = left + column * step
            shown = to_array(weights) ** 0.5  # the root shows small weights, as in the browser
            sheet.shades(shown, (x, y, SQUARE, SQUARE), float(shown.max()) or 1.0, kind="map")
            sheet.rect((x, y, SQUARE, SQUARE), edge=style.RULE, line=0.6)
            if row == 0:
                middle = x + SQUARE / 2
                sheet.write(middle, y - 3 / 72, str(column), size=SMALL, color=style.QUIET, ha="center")
    return sheet.save("draw_grid", path)


@dataclass(frozen=True)
class _Map:
    """A checked panel."""

    weights: Array
    source: Sequence[str]
    target: Sequence[str]
    name: str
    gold: list[tuple[int, int]]


@dataclass(frozen=True)
class _Plan:
    """Layout of all maps in a picture, in inches, so that they share cell and font sizes."""

    cell: float
    size: float  # font size in points
    turn: int  # rotation of source words in degrees
    every: int  # 1: every word is written; larger if cells are smaller than letters
    shared: bool  # words only at the first column and row

    def height(self, panel: _Map) -> float:
        return len(panel.target) * self.cell

    def widths(self, words: Sequence[str]) -> list[float]:
        return [style.width([word], self.size) for word in _shown(words, self.every)]

    def left(self, panel: _Map) -> float:
        return max(self.widths(panel.target)) + PAD

    def worded(self, index: int) -> bool:
        """Whether the row or column with this index has its own words."""
        return index == 0 or not self.shared

    def above(self, row: Sequence[_Map]) -> float:
        height = self.size / 72
        if not self.turn:
            return height + 2 * PAD
        widest = max(max(self.widths(panel.source)) for panel in row)
        return widest * math.sin(math.radians(self.turn)) + height + PAD

    def overhang(self, panel: _Map) -> float:
        """How far rotated words extend beyond the last column."""
        angle = math.radians(self.turn)
        ends = [
            (s * self.every + 0.5) * self.cell + width * math.cos(angle)
            for s, width in enumerate(self.widths(panel.source))
        ]
        return max(0.0, max(ends) - len(panel.source) * self.cell) if 0 < self.turn < 90 else 0.0


@dataclass(frozen=True)
class _Spot:
    """A map and its position: the top left corner of its cells, measured from below the title."""

    panel: _Map
    x: float
    y: float
    right: float
    name: tuple[float, float]
    above: bool  # whether source words are written here
    beside: bool  # whether target words are


def _check(owner: str, panel: Panel) -> _Map:
    weights = check_weights(owner, panel.weights, panel.source, panel.target)
    gold = check_links(owner, panel.gold, len(panel.source), len(panel.target))
    return _Map(weights, panel.source, panel.target, panel.title, gold)


def _check_columns(owner: str, columns: int | None, otherwise: int) -> int:
    if columns is not None and columns < 1:
        raise ConfigError(f"{owner}: `columns` has the value {columns}; expected 1 or more.")
    return columns or otherwise


def _balanced(count: int) -> int:
    """Columns for a grid without a ragged last row, if possible."""
    if count <= 4:
        return count
    return next((c for c in (4, 5, 3) if count % c == 0), 4)


def _shown(words: Sequence[str], every: int) -> list[str]:
    return [style.label(word) for word in words[::every]]


def _plan(panels: Sequence[_Map], shared: bool) -> _Plan:
    longest = max(max(panel.weights.shape) for panel in panels)
    sizes = [0.26, 0.17, 0.13, 0.115, 0.08] if shared else [0.44, 0.34, 0.25, 0.19, 0.16]
    cell = _between(longest, list(zip([4, 12, 24, 40, 70], sizes, strict=True)))
    cell = max(0.02, round(min(cell, 24 / longest), 2))  # wider than 24 inches fits no screen
    size = min(max(cell * 72 * 0.6, 6.0 if shared else 6.5), 8.5 if shared else 11.0)
    every = math.ceil(size * LINE * 0.9 / cell - 1e-6)
    widest = max(style.width(_shown(panel.source, every), size) for panel in panels)
    return _Plan(cell, size, _turn(widest, cell * every, size), every, shared)


def _between(count: int, known: Sequence[tuple[int, float]]) -> float:
    """The size for this count, by linear interpolation between known sizes."""
    for (low, a), (high, b) in pairwise(known):
        if count <= high:
            return a + (b - a) * (max(count, low) - low) / (high - low)
    return known[-1][1]


def _turn(widest: float, step: float, size: float) -> int:
    """0 if words fit above their columns, 45 if slanted words do not overlap, 90 otherwise."""
    if widest <= step * 0.82:
        return 0
    return 45 if step * math.sin(math.radians(45)) >= size * LINE else 90


def _compose(
    panels: Sequence[_Map], text: str, columns: int, *, shared: bool = False, key: str = KEY
) -> Sheet:
    plan = _plan(panels, shared)
    rows = [panels[i : i + columns] for i in range(0, len(panels), columns)]
    top = peak(*(panel.weights for panel in panels))
    spots, bottom = _place(rows, plan)
    bar = max(spot.right for spot in spots) + 0.2
    edge = max(bar + BAR + 0.42, *(spot.right + plan.overhang(spot.panel) + MARGIN for spot in spots))
    title = Title.fit(text, max(edge - 2 * MARGIN, 3.2), MARGIN, LEADING)
    edge = max(edge, title.width + 2 * MARGIN)
    head = round(MARGIN + title.height + (PAD if title.lines else 0), 2)
    foot = SMALL * LINE + PAD if any(panel.gold for panel in panels) else 0.0
    sheet = Sheet(edge, head + bottom + foot + MARGIN)
    title.write(sheet)
    for spot in spots:
        _draw_map(sheet, spot.panel, plan, spot.x, head + spot.y, top)
        _draw_words(sheet, spot, plan, head)
    _draw_bar(sheet, bar, head + spots[0].y, min(2.0, plan.height(panels[0])), top)
    if foot:
        _draw_key(sheet, spots[0].x, head + bottom + foot - SMALL * LINE, key)
    return sheet


def _place(rows: Sequence[Sequence[_Map]], plan: _Plan) -> tuple[list[_Spot], float]:
    """The position of each map below the title, and the end of the last row."""
    spots: list[_Spot] = []
    y = 0.0
    for i, row in enumerate(rows):
        name = NAME * LINE + PAD if any(panel.name for panel in row) else 0.0
        above = plan.above(row) if plan.worded(i) else 0.0
        y = round(y + above + (0.0 if plan.shared else name), 2)
        name_y = y + plan.height(row[0]) + NAME * LINE if plan.shared else y - above - PAD
        spots += _place_row(row, plan, y, name_y, above=plan.worded(i))
        y += max(map(plan.height, row)) + (name if plan.shared else 0.0)
        if i < len(rows) - 1:
            y += PAD if plan.shared else GAP * 0.8
    return spots, y


def _place_row(row: Sequence[_Map], plan: _Plan, y: float, name_y: float, *, above: bool) -> Iterator[_Spot]:
    x = MARGIN
    for j, panel in enumerate(row):
        left = plan.left(panel) if plan.worded(j) else 0.0
        name_x = x if not plan.shared else x + left
        corner = round(x + left, 2)
        right = max(corner + len(panel.source) * plan.cell, name_x + style.width([panel.name], NAME))
        yield _Spot(panel, corner, y, right, (name_x, name_y), above=above, beside=plan.worded(j))
        x = right + (GAP * 0.6 if plan.shared else GAP)


def _draw_map(sheet: Sheet, panel: _Map, plan: _Plan, x: float, y: float, top: float) -> None:
    T, S = panel.weights.shape
    width, height, cell = S * plan.cell, T * plan.cell, plan.cell
    _paint(sheet, panel.weights / top, x, y, cell)
    if cell >= 0.06:
        down = [[(x + s * cell, y), (x + s * cell, y + height)] for s in range(1, S)]
        across = [[(x, y + t * cell), (x + width, y + t * cell)] for t in range(1, T)]
        sheet.draw(down + across, edge=style.GRID, line=0.5)
    sheet.rect((x, y, width, height), edge=style.RULE, line=0.8)
    inset = 0.14 * cell
    for s, t in panel.gold:
        box = (x + s * cell + inset, y + t * cell + inset, cell - 2 * inset, cell - 2 * inset)
        sheet.rect(box, edge=style.GOLD, line=min(1.6, cell * 72 * 0.1), kind="gold")


def _paint(sheet: Sheet, shades: Array, x: float, y: float, cell: float) -> None:
    """Fill cells by shade (0..1): one path per grey level, and none for white, keeps an SVG small."""
    levels = (shades * 255).round().clamp(0, 255)
    T, S = levels.shape
    if levels.numel() > MANY:
        sheet.shades(levels / 256, (x, y, S * cell, T * cell), 1.0, kind="map")
        return
    boxes: dict[int, list[list[Point]]] = {}
    for t, row in enumerate(levels.int().tolist()):
        for level, start, stop in _runs(row):
            box = (x + start * cell, y + t * cell, (stop - start) * cell, cell)
            boxes.setdefault(level, []).append(corners(box))
    for level, parts in sorted(boxes.items()):
        sheet.draw(parts, fill=style.WEIGHTS[level], closed=True, kind="cells")


def _runs(row: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(level, start, stop) of each run of equal cells, without white ones."""
    start = 0
    for level, cells in groupby(row):
        stop = start + len(list(cells))
        if level:
            yield level, start, stop
        start = stop


def _draw_words(sheet: Sheet, spot: _Spot, plan: _Plan, head: float) -> None:
    if spot.beside:
        for t, word in enumerate(_shown(spot.panel.target, plan.every)):
            y = head + spot.y + (t * plan.every + 0.5) * plan.cell
            sheet.write(spot.x - PAD, y, word, size=plan.size, ha="right", middle=True, kind="target")
    if spot.above:
        _draw_source(sheet, spot.panel, plan, spot.x, head + spot.y - PAD)
    x, y = spot.name
    sheet.write(x, head + y, spot.panel.name, size=NAME, color=style.QUIET, kind="name")


def _draw_source(sheet: Sheet, panel: _Map, plan: _Plan, x: float, y: float) -> None:
    side = "left" if plan.turn else "center"
    for s, word in enumerate(_shown(panel.source, plan.every)):
        middle = x + (s * plan.every + 0.5) * plan.cell
        upright = plan.turn == 90  # rotated words are centred on the point; others start there
        sheet.write(middle, y, word, size=plan.size, turn=plan.turn, ha=side, middle=upright, kind="source")


def _draw_bar(sheet: Sheet, x: float, y: float, height: float, top: float) -> None:
    parts = (0.0, 0.5, 1.0) if height > 0.6 else (0.0, 1.0)
    draw_scale(sheet, x, y, height, top, parts, digits=3)
    levels = (y + height * (1 - part) for part in parts)
    sheet.draw([[(x + BAR, level), (x + BAR + 0.03, level)] for level in levels], edge=style.RULE, line=0.6)


def _draw_key(sheet: Sheet, x: float, y: float, key: str) -> None:
    side = 0.09
    sheet.rect((x, y + 0.01, side, side), edge=style.GOLD, line=1.2, kind="gold")
    sheet.write(x + side + 0.07, y + 0.01 + side, key, size=SMALL, color=style.QUIET)
