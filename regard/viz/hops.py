"""Attention over a story, hop by hop: the sentences one below the other, a column of shades for each hop.

Figure 2 of Sukhbaatar et al. End-to-end memory networks. 2015. https://arxiv.org/abs/1503.08895
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from regard.errors import ConfigError, ShapeError
from regard.viz import style
from regard.viz.files import draw
from regard.viz.sheet import SMALL, TITLE, Sheet, Title, draw_cell
from regard.viz.weights import Array, Weights, check_finite, to_array

MARGIN, PAD = 0.16, 0.12  # inches
CELL, STEP = 0.52, 0.27  # inches: a hop's column, a sentence's row
WORDS = 9.5  # points
VISIBLE = 0.005  # a share below it is not written into its cell
DARK = 0.5  # from this share on the number is written in white


def draw_hops(
    weights: Weights,
    sentences: Sequence[str],
    *,
    question: str,
    answer: str,
    supports: Sequence[int] = (),
    title: str | None = None,
    path: str | Path,
) -> Path:
    """Draw weights (K, S) as PNG or SVG; the sentences of `supports`, which hold the answer, are outlined."""
    array = to_array(weights)
    if array.ndim != 2 or array.size == 0 or array.shape[1] != len(sentences):
        raise ShapeError(
            f"draw_hops: `weights` has shape {array.shape}; expected (K, S={len(sentences)}), "
            "a row for each hop."
        )
    check_finite("draw_hops", array)
    if any(not 0 <= s < len(sentences) for s in supports):
        raise ConfigError(
            f"draw_hops: `supports` has {tuple(supports)}; expected positions below {len(sentences)}."
        )
    words = [title or "", question, answer, *sentences]
    compose = partial(_compose, array, sentences, question, answer, supports, title or "")
    return draw("draw_hops", path, words, compose)


def _compose(
    weights: Array, sentences: Sequence[str], question: str, answer: str, supports: Sequence[int], text: str
) -> Sheet:
    K, S = weights.shape
    left = MARGIN + style.width([*sentences, question], WORDS) + PAD
    width = left + max(K * CELL, style.width([answer], TITLE)) + MARGIN
    title = Title.fit(text, width - 2 * MARGIN, MARGIN)
    top = MARGIN + title.height + STEP
    sheet = Sheet(width, top + S * STEP + PAD + STEP + MARGIN)
    title.write(sheet)
    axes = sheet.page()
    for k in range(K):
        middle = left + (k + 0.5) * CELL
        axes.text(middle, top - STEP * 0.3, f"hop {k + 1}", size=SMALL, color=style.QUIET, ha="center")
    for s, sentence in enumerate(sentences):
        y = top + (s + 0.5) * STEP
        axes.text(left - PAD, y, sentence, size=WORDS, ha="right", va="center_baseline", gid="sentence")
        for k in range(K):
            _draw_cell(axes, left + k * CELL, top + s * STEP, float(weights[k, s]))
    for s in supports:
        corner = (left, top + s * STEP)
        axes.add_patch(Rectangle(corner, K * CELL, STEP, fill=False, edgecolor=style.GOLD, linewidth=1.6))
    y = top + S * STEP + PAD + STEP / 2
    axes.text(left - PAD, y, question, size=WORDS, ha="right", va="center_baseline", gid="question")
    axes.text(left, y, answer, size=TITLE, weight="bold", ha="left", va="center_baseline", gid="answer")
    return sheet


def _draw_cell(axes: Axes, x: float, y: float, share: float) -> None:
    ink = draw_cell(axes, x, y, CELL, STEP, share, line=0.8, dark=DARK)
    if share >= VISIBLE:
        middle = (x + CELL / 2, y + STEP / 2)
        axes.text(*middle, f"{share:.2f}", size=SMALL, color=ink, ha="center", va="center_baseline")
