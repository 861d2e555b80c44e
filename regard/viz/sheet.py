"""What pictures are made of: a page measured in inches, its title, shaded cells, and their scale."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.viz import style

TITLE, SMALL = 11.0, 8.0  # points
BAR = 0.09  # inches: how wide a scale is
DARK = 0.55  # the shade from which letters are white, unless said otherwise


class Sheet(Figure):
    """A figure whose places are inches from its top left corner."""

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), dpi=style.DPI)

    def write(self, x: float, y: float, text: str, **look: Any) -> None:
        """Write a text at this place."""
        width, height = self.get_size_inches()
        self.text(x / width, 1 - y / height, text, **look)

    def box(self, x: float, y: float, wide: float, high: float, *, framed: bool = False, **look: Any) -> Axes:
        """Axes whose top left corner stands here; `framed` on all four sides."""
        width, height = self.get_size_inches()
        axes = self.add_axes((x / width, 1 - (y + high) / height, wide / width, high / height), **look)
        if framed:
            axes.spines[:].set_visible(True)
        return axes

    def page(self) -> Axes:
        """Axes over the whole page, whose units are inches."""
        width, height = self.get_size_inches()
        axes = self.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
        axes.set_axis_off()
        return axes


def round_up(length: float) -> float:
    """To the next hundredth of an inch, two pixels, so that cells of a PNG have equal, sharp edges."""
    return math.ceil(length * 100) / 100


class Title(NamedTuple):
    """A title in lines, whose first begins `margin` inches from the left edge and from the top."""

    lines: list[str]
    margin: float
    leading: float  # from line to line, in sizes of a letter
    centred: bool  # lines stand around their middles, not on baselines

    @classmethod
    def fit(
        cls, text: str, limit: float, margin: float, leading: float = 1.3, *, centred: bool = False
    ) -> "Title":
        """The title in lines of at most `limit` inches."""
        return cls(style.wrap(text, TITLE, limit), margin, leading, centred)

    @property
    def height(self) -> float:
        return len(self.lines) * TITLE * self.leading / 72

    @property
    def width(self) -> float:
        return style.width(self.lines, TITLE)

    def write(self, sheet: Sheet) -> None:
        part, anchor = (0.5, "center") if self.centred else (0.8, "baseline")
        for number, line in enumerate(self.lines):
            y = self.margin + (number + part) * TITLE * self.leading / 72
            sheet.write(self.margin, y, line, size=TITLE, va=anchor)


def draw_cell(
    axes: Axes,
    x: float,
    y: float,
    wide: float,
    high: float,
    shade: float,
    *,
    line: float = 0.5,
    dark: float = DARK,
) -> str:
    """Fill a cell by its shade (0..1) and return the colour of its letters, white from `dark` on."""
    face = style.WEIGHTS(min(shade, 1.0))
    axes.add_patch(Rectangle((x, y), wide, high, facecolor=face, edgecolor=style.GRID, linewidth=line))
    return "white" if shade >= dark else style.INK


def draw_shades(axes: Axes, weights: Any, **look: Any) -> None:
    """Fill axes with a matrix of weights; hard edges, white for zero."""
    plain: dict[str, Any] = {"cmap": style.WEIGHTS, "vmin": 0, "aspect": "auto", "interpolation": "nearest"}
    axes.imshow(weights, **plain | look)


def draw_scale(
    axes: Axes, x: float, y: float, height: float, top: float, parts: Sequence[float], digits: int
) -> None:
    """The shades of weights from `top` above to 0 below in a frame, and numbers at these parts of it."""
    for part in np.linspace(0, 1, 100, endpoint=False).tolist():
        # each shade reaches down to the end and the next lies on it: no seams between them at any scale
        corner = (x, y + part * height)
        shade = style.WEIGHTS(1 - part)
        axes.add_patch(Rectangle(corner, BAR, height * (1 - part), facecolor=shade, linewidth=0))
    axes.add_patch(Rectangle((x, y), BAR, height, fill=False, edgecolor=style.RULE, linewidth=0.6))
    for part in parts:
        level = y + height * (1 - part) + 0.36 * SMALL / 72
        text = f"{part * top:.{digits}g}"
        axes.text(x + BAR + 0.06, level, text, size=SMALL, color=style.QUIET, va="baseline")
