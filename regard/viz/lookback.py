"""Reading word by word: each line is the sentence up to its word, shaded by what that word looked back at.

Figure 1 of Cheng et al. Long short-term memory-networks for machine reading. 2016.
https://arxiv.org/abs/1601.06733
"""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.errors import ShapeError
from regard.viz import style
from regard.viz.files import check_ending, save
from regard.viz.weights import Array, Weights, check_finite, to_array

# inches, as in the heat maps
MARGIN, PAD, ROW, SPACE = 0.14, 0.05, 0.27, 0.05
TITLE, SIZE, SMALL = 11.0, 10.0, 8.0  # points
LINE = 1.25 / 72
BAR = 0.09
DARK = 0.55  # shades beyond this carry white letters


def draw_lookback(
    weights: Weights, words: Sequence[str], *, title: str | None = None, path: str | Path
) -> Path:
    """Draw weights (T, T): row t is the word being read, column s < t what it weighs; PNG or SVG.

    Word t stands at the end of its line, in orange. What a row gives to columns t and beyond is not drawn.
    """
    path = check_ending("draw_lookback", path)
    array = to_array(weights)
    T = len(words)
    if array.shape != (T, T) or T == 0:
        raise ShapeError(
            f"draw_lookback: `weights` has shape {array.shape}; expected (T={T}, T={T}), a row and a column "
            "a word, of one word or more."
        )
    check_finite("draw_lookback", array)
    shown = [style.label(word) for word in words]
    with style.look([title or "", *words]):
        return save(_compose(array, shown, title or ""), path)


def _compose(weights: Array, words: Sequence[str], title: str) -> Figure:
    widths = [width + 2 * PAD for width, _ in style.measure(words, SIZE)]
    starts = [MARGIN + sum(widths[:s]) + s * SPACE for s in range(len(words) + 1)]
    right = starts[-1] + 0.15
    lines = style.wrap(title, TITLE, max(right - 2 * MARGIN, 3.2))
    width = max(right + BAR + 0.42 + MARGIN, style.width(lines, TITLE) + 2 * MARGIN)
    head = MARGIN + len(lines) * TITLE * LINE + (PAD if lines else 0)
    axes = style.sheet(width, head + len(words) * ROW + MARGIN)
    for number, line in enumerate(lines):
        axes.text(MARGIN, MARGIN + (number + 0.8) * TITLE * LINE, line, size=TITLE, va="baseline")
    top = max((float(weights[t, s]) for t in range(len(words)) for s in range(t)), default=0.0) or 1.0
    for t in range(len(words)):
        y = head + t * ROW
        for s in range(t):
            _word(axes, words[s], starts[s], y, widths[s], float(weights[t, s]) / top)
        _letters(axes, words[t], starts[t], y, style.GOLD)
    _bar(axes, right, head, min(1.6, len(words) * ROW - SPACE), top)
    return axes.figure  # type: ignore[return-value]


def _word(axes: Axes, word: str, x: float, y: float, width: float, shade: float) -> None:
    shade = min(max(shade, 0.0), 1.0)
    axes.add_patch(
        Rectangle(
            (x, y), width, ROW - SPACE, facecolor=style.WEIGHTS(shade), edgecolor=style.GRID, linewidth=0.5
        )
    )
    _letters(axes, word, x, y, "white" if shade > DARK else style.INK)


def _letters(axes: Axes, word: str, x: float, y: float, color: str) -> None:
    middle = y + (ROW - SPACE) / 2 + 0.36 * SIZE / 72
    axes.text(x + PAD, middle, word, size=SIZE, color=color, va="baseline")


def _bar(axes: Axes, x: float, y: float, height: float, top: float) -> None:
    """The scale of the shades."""
    style.draw_scale(axes, x, y, BAR, height)
    for part in (0.0, 1.0):
        place = y + height * (1 - part) + 0.36 * SMALL / 72
        axes.text(x + BAR + 0.06, place, f"{part * top:.2g}", size=SMALL, color=style.QUIET, va="baseline")
