"""Reading word by word: each line is the sentence up to one word, shaded by that word's attention.

Figure 1 of Cheng et al. Long short-term memory-networks for machine reading. 2016.
https://arxiv.org/abs/1601.06733
"""

from collections.abc import Sequence
from pathlib import Path

from regard.errors import ShapeError
from regard.viz import style
from regard.viz.sheet import BAR, Sheet, draw_cell, draw_scale
from regard.viz.weights import Weights, check_finite, to_array

# inches, as in the heat maps
MARGIN, PAD, ROW, SPACE = 0.14, 0.05, 0.27, 0.05
SIZE = 10.0  # points


def draw_lookback(weights: Weights, words: Sequence[str], *, path: str | Path) -> Path:
    """Draw weights (T, T) as PNG or SVG: row t belongs to the word being read, column s < t is attended to.

    Word t ends its line, in orange. Weights on columns t and later are not drawn.
    """
    array = to_array(weights)
    T = len(words)
    if array.shape != (T, T) or T == 0:
        raise ShapeError(
            f"draw_lookback: `weights` has shape {tuple(array.shape)}; expected (T={T}, T={T}), a row and a "
            "column a word, of one word or more."
        )
    check_finite("draw_lookback", array)
    shown = [style.label(word) for word in words]
    widths = [style.width([word], SIZE) + 2 * PAD for word in shown]
    starts = [MARGIN + sum(widths[:s]) + s * SPACE for s in range(T + 1)]
    right = starts[-1] + 0.15
    sheet = Sheet(right + BAR + 0.42 + MARGIN, MARGIN + T * ROW + MARGIN)
    top = float(array.tril(-1).max()) or 1.0
    for t in range(T):
        y = MARGIN + t * ROW
        middle = y + (ROW - SPACE) / 2
        for s in range(t + 1):
            ink = style.GOLD
            if s < t:
                ink = draw_cell(sheet, (starts[s], y, widths[s], ROW - SPACE), float(array[t, s]) / top)
            sheet.write(starts[s] + PAD, middle, shown[s], size=SIZE, color=ink, middle=True)
    draw_scale(sheet, right, MARGIN, min(1.6, T * ROW - SPACE), top, (0.0, 1.0), digits=2)
    return sheet.save("draw_lookback", path)
