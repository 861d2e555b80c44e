"""Two sentences and their soft alignment in both directions, side by side on one scale."""

from collections.abc import Sequence
from pathlib import Path

from regard.viz.heatmap import Panel, draw_gallery
from regard.viz.weights import Weights


def draw_pair(
    premise_to_hypothesis: Weights,
    hypothesis_to_premise: Weights,
    premise: Sequence[str],
    hypothesis: Sequence[str],
    *,
    title: str | None = None,
    path: str | Path,
) -> Path:
    """Draw weights (Ta, Tb) and (Tb, Ta) as PNG or SVG; every row sums to one."""
    panels = [
        Panel(premise_to_hypothesis, hypothesis, premise, "each premise word in the hypothesis"),
        Panel(hypothesis_to_premise, premise, hypothesis, "each hypothesis word in the premise"),
    ]
    return draw_gallery(panels, title=title, columns=2, path=path)
