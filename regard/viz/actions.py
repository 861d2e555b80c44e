"""What a policy did in one problem, step by step, and which of its steps each later one attended to.

Above: a row for each action, a mark for each step; a full mark gained more than is usual (the mean of this
problem, or what the caller says), an empty one not. Below: row t is shaded by the weights that step t gave to
the steps up to itself.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.errors import ShapeError
from regard.viz import style
from regard.viz.files import draw
from regard.viz.sheet import Sheet, Title, draw_shades
from regard.viz.weights import Array, Weights, check_finite, to_array

SMALLEST, LARGEST, WIDE = 0.055, 0.3, 6.0  # inches: of a step, and of all steps if that is possible
MARGIN, BELOW, GAP = 0.2, 0.5, 0.16
TEXT = 9.0  # points


def draw_actions(
    actions: Sequence[int],
    rewards: Sequence[float],
    weights: Weights,
    path: str | Path,
    *,
    names: Sequence[str],
    title: str | None = None,
    xlabel: str = "step",
    usual: float | None = None,
) -> Path:
    """Draw T actions, numbers into `names`, their rewards, and weights (T, T); (0, 0) weights: none.

    Rewards beyond `usual` have full marks; None: beyond their mean.
    """
    array, T = to_array(weights), len(actions)
    if len(rewards) != T or T == 0:
        raise ShapeError(f"draw_actions: `rewards` has length {len(rewards)}; expected T={T} of 1 or more.")
    if array.shape not in ((T, T), (0, 0)):
        raise ShapeError(f"draw_actions: `weights` has shape {array.shape}; expected (T={T}, T={T}).")
    check_finite("draw_actions", array)
    usual = float(np.mean(rewards)) if usual is None else usual
    filled = [reward > usual for reward in rewards]
    return draw(
        "draw_actions",
        path,
        [title or "", xlabel, *names],
        lambda: _compose(list(actions), filled, array, names, title or "", xlabel),
    )


def _compose(
    actions: list[int],
    filled: list[bool],
    weights: Array,
    names: Sequence[str],
    text: str,
    xlabel: str,
) -> Sheet:
    T, A = len(actions), len(names)
    cell = min(max(WIDE / T, SMALLEST), LARGEST)
    left = MARGIN + style.width([*names, "asked by"], TEXT) + 0.1
    wide, upper = T * cell, A * max(cell, 0.2)
    lower = wide if len(weights) else 0.0
    title = Title.fit(text, max(wide + left, 4.0), MARGIN, 1.35, centred=True)
    head = MARGIN + title.height
    sheet = Sheet(
        max(left + wide, left + title.width) + MARGIN, head + upper + (GAP + lower if lower else 0) + BELOW
    )
    title.write(sheet)
    above = sheet.box(left, head, wide, upper, xlim=(0.5, T + 0.5), ylim=(A - 0.5, -0.5))
    for full in (True, False):
        chosen = [t for t in range(T) if filled[t] == full]
        above.scatter(
            [t + 1 for t in chosen],
            [actions[t] for t in chosen],
            s=(cell * 72 * 0.55) ** 2,
            facecolors=style.LINES[0] if full else "white",
            edgecolors=style.LINES[0],
            linewidths=0.8,
            zorder=3,
        )
    above.set_yticks(range(A), names, size=TEXT)
    above.grid(axis="y", color=style.GRID)
    above.tick_params(length=0)
    last = above
    if lower:
        above.set_xticklabels([])
        last = sheet.box(left, head + upper + GAP, wide, lower)
        shown, top = np.where(np.tri(T, dtype=bool), weights, np.nan), max(float(weights.max()), 1e-9)
        draw_shades(last, shown, vmax=top, extent=(0.5, T + 0.5, T + 0.5, 0.5))
        last.set_ylabel("asked by", size=TEXT)
        last.tick_params(length=0)
    last.set_xlabel(xlabel, size=TEXT)
    return sheet
