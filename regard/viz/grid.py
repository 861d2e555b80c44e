"""Heads of many layers as one grid of small maps."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from regard.viz import style
from regard.viz.files import check_ending, save
from regard.viz.weights import Array

CELL, GAP, MARGIN, TITLE = 0.5, 0.06, 0.14, 0.3  # inches


def draw_grid(maps: Sequence[Sequence[Array]], names: Sequence[str], *, title: str, path: str | Path) -> Path:
    """Draw `maps[layer][head]`, each on its own scale; `names` label the layers."""
    path = check_ending("draw_grid", path)
    with style.look([title, *names]):
        left = MARGIN + style.width(list(names), 8.0) + 0.08
        top = MARGIN + (TITLE if title else 0.0) + 0.16
        step = CELL + GAP
        width = left + max(map(len, maps)) * step + MARGIN
        height = top + len(maps) * step + MARGIN
        figure = Figure(figsize=(width, height), dpi=style.DPI)
        if title:
            figure.text(MARGIN / width, 1 - (MARGIN + 0.16) / height, title, size=10)
        for row, heads in enumerate(maps):
            y = 1 - (top + row * step + CELL) / height
            middle = y + CELL / 2 / height
            figure.text((left - 0.08) / width, middle, names[row], size=8, ha="right", va="center")
            for column, weights in enumerate(heads):
                box = ((left + column * step) / width, y, CELL / width, CELL / height)
                axes = figure.add_axes(box)
                # the root shows small weights, as in the browser
                axes.imshow(weights**0.5, cmap=style.WEIGHTS, vmin=0, aspect="auto", interpolation="nearest")
                axes.set(xticks=[], yticks=[])
                for spine in axes.spines.values():
                    spine.set(visible=True, color=style.RULE, linewidth=0.6)
                if row == 0:
                    axes.set_title(str(column), size=8, pad=3, color=style.QUIET)
        return save(figure, path)
