"""What a policy did in one problem, step by step, and which earlier steps each step attended to.

Above: one row per action and one mark per step, filled if the reward exceeds `usual` (by default the mean of
this problem). Below: row t is shaded by the weights of step t over the steps up to itself.
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from regard.errors import ShapeError
from regard.viz import style
from regard.viz.axes import TEXT, Axes, numbers, ticks, within
from regard.viz.sheet import Sheet, Title
from regard.viz.weights import Weights, check_finite, to_array

SMALLEST, LARGEST, WIDE = 0.055, 0.3, 6.0  # inches: limits for a step, and the preferred width of all steps
MARGIN, BELOW, GAP = 0.2, 0.5, 0.16


def draw_actions(
    actions: Sequence[int],
    rewards: Sequence[float],
    weights: Weights,
    path: str | Path,
    *,
    names: Sequence[str],
    title: str = "",
    usual: float | None = None,
) -> Path:
    """Draw T actions (indices into `names`), their rewards, and weights (T, T); weights (0, 0) mean none.

    Marks are filled where the reward exceeds `usual`; None is the mean reward.
    """
    array, T = to_array(weights), len(actions)
    if len(rewards) != T or T == 0:
        raise ShapeError(f"draw_actions: `rewards` has length {len(rewards)}; expected T={T} of 1 or more.")
    if array.shape not in ((T, T), (0, 0)):
        raise ShapeError(f"draw_actions: `weights` has shape {tuple(array.shape)}; expected (T={T}, T={T}).")
    check_finite("draw_actions", array)
    usual = sum(map(float, rewards)) / T if usual is None else usual
    filled = [reward > usual for reward in rewards]
    A = len(names)
    cell = min(max(WIDE / T, SMALLEST), LARGEST)
    left = MARGIN + style.width([*names, "asked by"], TEXT) + 0.1
    wide, upper = T * cell, A * max(cell, 0.2)
    lower = wide if len(array) else 0.0
    heading = Title.fit(title, max(wide + left, 4.0), MARGIN, 1.35)
    head = MARGIN + heading.height
    sheet = Sheet(
        max(left + wide, left + heading.width) + MARGIN, head + upper + (GAP + lower if lower else 0) + BELOW
    )
    heading.write(sheet)
    across = (0.5, T + 0.5)
    above = Axes(sheet, (left, head, wide, upper), across, (A - 0.5, -0.5))
    above.lines(y=range(A))
    above.lines(x=across[:1], y=above.up[:1], edge=style.RULE)
    above.name_y(dict(enumerate(names)), away=3.5)
    for t, (action, full) in enumerate(zip(actions, filled, strict=True), 1):
        face = style.LINES[0] if full else "#ffffff"
        sheet.dot(above.at(t, action), cell * 72 * 0.55, face, edge=style.LINES[0], line=0.8)
    steps, last = numbers(within(ticks(1, T, 7, whole=True), (1, T))), above
    if lower:
        last = Axes(sheet, (left, head + upper + GAP, wide, lower), across, (T + 0.5, 0.5))
        sheet.shades(torch.tril(array), last.box, max(float(array.max()), 1e-9), kind="weights")
        last.lines(x=across[:1], y=last.up[:1], edge=style.RULE)
        last.name_y(steps, "asked by", away=3.5)
    last.name_x(steps, "step", away=3.5)
    return sheet.save("draw_actions", path)
