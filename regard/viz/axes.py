"""Axes: a rectangle of the page with data coordinates, and its ticks."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from regard.viz import style
from regard.viz.sheet import Box, Point, Sheet

TEXT = 9.0  # points
ASCENT = 0.76  # height above the baseline, as a fraction of the font size
STEPS = (1, 2, 2.5, 5, 10)  # tick steps, times a power of ten
LABEL = 5.0  # points between tick labels and the axis label


class Axes(NamedTuple):
    """A rectangle of the page; `across` holds the values at left and right, `up` those at bottom and top."""

    sheet: Sheet
    box: Box
    across: tuple[float, float]
    up: tuple[float, float]
    log: tuple[bool, bool] = (False, False)

    def at(self, u: float, v: float) -> Point:
        """The position on the page of a pair of values."""
        x, y, wide, high = self.box
        right, above = (
            math.log(value / a) / math.log(b / a) if log else (value - a) / (b - a)
            for value, (a, b), log in zip((u, v), (self.across, self.up), self.log, strict=True)
        )
        return x + wide * right, y + high * (1 - above)

    def lines(self, *, x: Sequence[float] = (), y: Sequence[float] = (), edge: str = style.GRID) -> None:
        """Grid lines at these values."""
        upright = [[self.at(u, v) for v in self.up] for u in x]
        level = [[self.at(u, v) for u in self.across] for v in y]
        self.sheet.draw([*upright, *level], edge=edge, line=0.8, cap="square")

    def name_x(
        self,
        names: dict[float, str],
        label: str = "",
        *,
        size: float = TEXT,
        tick: float = 0,
        away: float = 5,
    ) -> None:
        """Draw ticks (lengths in points), tick labels and the axis label below the axes."""
        low, large = self.box[1] + self.box[3], max(size, 8)
        base = low + (tick + away + ASCENT * size) / 72
        for u, name in names.items():
            x, _ = self.at(u, self.up[0])
            self.sheet.write(x, base, name, size=size, color=style.QUIET, ha="center", kind="x")
            if tick:
                self.sheet.draw([[(x, low), (x, low + tick / 72)]], edge=style.RULE, line=0.8)
        x, y = self.box[0] + self.box[2] / 2, base + (LABEL + large) / 72 * any(names.values())
        self.sheet.write(x, y, label, size=large, color=style.QUIET, ha="center", kind="label")

    def name_y(
        self,
        names: dict[float, str],
        label: str = "",
        *,
        size: float = TEXT,
        tick: float = 0,
        away: float = 5,
        color: str = style.QUIET,
    ) -> None:
        """The same for the left side, where the axis label is rotated."""
        edge, large = self.box[0] - (tick + away) / 72, max(size, 8)
        for v, name in names.items():
            x, y = self.at(self.across[0], v)
            self.sheet.write(edge, y, name, size=size, color=color, ha="right", middle=True, kind="y")
            if tick:
                self.sheet.draw([[(x - tick / 72, y), (x, y)]], edge=style.RULE, line=0.8)
        x, y = edge - style.width(names.values(), size) - LABEL / 72, self.box[1] + self.box[3] / 2
        x -= 0.24 * large / 72  # descender height
        self.sheet.write(x, y, label, size=large, color=style.QUIET, ha="center", turn=90, kind="label")


def ticks(low: float, high: float, most: int = 6, *, whole: bool = False) -> list[float]:
    """Round values from at most `low` to at least `high`, about `most` steps."""
    rough = max((high - low) / most or 1.0, float(whole))
    steps = [each * 10.0 ** math.floor(math.log10(rough)) for each in (*STEPS, 20, 50)]
    step = next(each for each in steps if each >= rough * (1 - 1e-9) and not (whole and each % 1))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def within(values: Sequence[float], ends: tuple[float, float]) -> list[float]:
    """The values between these ends."""
    slack = 1e-9 * abs(ends[1] - ends[0])
    return [value for value in values if min(ends) - slack <= value <= max(ends) + slack]


def log_ticks(ends: tuple[float, float], multiples: Sequence[float] = (1,), base: int = 10) -> list[float]:
    """The multiples of powers of the base; if those are too many, powers only, and not all of them."""
    powers = range(math.floor(math.log(ends[0], base)), math.ceil(math.log(ends[1], base)) + 1)
    found = within([each * float(base) ** k for k in powers for each in multiples], ends)
    every = -(-len(powers) // 10)
    return found if len(found) <= 12 else within([float(base) ** k for k in powers[::every]], ends)


def numbers(values: Sequence[float]) -> dict[float, str]:
    """The values as labels: equal decimals, a space between thousands."""
    if max(map(abs, values), default=1.0) < 1e-4:
        return {v: f"{v:g}".replace("-", "−") for v in values}
    decimals = max((len(f"{value:.6f}".rstrip("0").partition(".")[2]) for value in values), default=0)
    return {v: f"{v:,.{decimals}f}".replace(",", " ").replace("-", "−") for v in values}
