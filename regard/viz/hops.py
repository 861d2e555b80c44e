"""Attention over a story, hop by hop: sentences below each other, with a column of cells per hop.

Figure 2 of Sukhbaatar et al. End-to-end memory networks. 2015. https://arxiv.org/abs/1503.08895
"""

from collections.abc import Sequence
from pathlib import Path

from regard.errors import ConfigError, ShapeError
from regard.viz import style
from regard.viz.sheet import SMALL, TITLE, Sheet, draw_cell
from regard.viz.weights import Weights, check_finite, to_array

MARGIN, PAD = 0.16, 0.12  # inches
CELL, STEP = 0.52, 0.27  # inches: a hop's column, a sentence's row
WORDS = 9.5  # points
VISIBLE = 0.005  # smaller weights are not written
DARK = 0.5  # from this weight on, numbers are white


def draw_hops(
    weights: Weights,
    sentences: Sequence[str],
    *,
    question: str,
    answer: str,
    supports: Sequence[int] = (),
    path: str | Path,
) -> Path:
    """Draw weights (K, S) as PNG or SVG; the `supports`, sentences that contain the answer, are outlined."""
    array = to_array(weights)
    if array.ndim != 2 or array.numel() == 0 or array.shape[1] != len(sentences):
        raise ShapeError(
            f"draw_hops: `weights` has shape {tuple(array.shape)}; expected (K, S={len(sentences)}), "
            "a row for each hop."
        )
    check_finite("draw_hops", array)
    if any(not 0 <= s < len(sentences) for s in supports):
        raise ConfigError(
            f"draw_hops: `supports` has {tuple(supports)}; expected positions below {len(sentences)}."
        )
    K, S = array.shape
    left = MARGIN + style.width([*sentences, question], WORDS) + PAD
    width = left + max(K * CELL, style.width([answer], TITLE)) + MARGIN
    top = MARGIN + STEP
    sheet = Sheet(width, top + S * STEP + PAD + STEP + MARGIN)
    for k in range(K):
        middle = left + (k + 0.5) * CELL
        sheet.write(middle, top - STEP * 0.3, f"hop {k + 1}", size=SMALL, color=style.QUIET, ha="center")
    for s, sentence in enumerate(sentences):
        y = top + (s + 0.5) * STEP
        sheet.write(left - PAD, y, sentence, size=WORDS, ha="right", middle=True, kind="sentence")
        for k in range(K):
            _draw_cell(sheet, left + k * CELL, top + s * STEP, float(array[k, s]))
    for s in supports:
        sheet.rect((left, top + s * STEP, K * CELL, STEP), edge=style.GOLD, line=1.6, kind="support")
    y = top + S * STEP + PAD + STEP / 2
    sheet.write(left - PAD, y, question, size=WORDS, ha="right", middle=True, kind="question")
    sheet.write(left, y, answer, size=TITLE, bold=True, middle=True, kind="answer")
    return sheet.save("draw_hops", path)


def _draw_cell(sheet: Sheet, x: float, y: float, share: float) -> None:
    ink = draw_cell(sheet, (x, y, CELL, STEP), share, line=0.8, dark=DARK)
    if share >= VISIBLE:
        middle = (x + CELL / 2, y + STEP / 2)
        sheet.write(*middle, f"{share:.2f}", size=SMALL, color=ink, ha="center", middle=True)
