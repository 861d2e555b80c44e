"""From point sets to orders of points: what `regard point` and the evaluation do, for Python code.

    run = open_run("runs/pointer-hull")
    [found] = point(run.model, own_batch([points]), rule=run.task.rule)

`found.order` are point numbers, `found.weights` where the model pointed at each step.
"""

from dataclasses import dataclass

from torch import Tensor

from regard.data.points import PointBatch, points_of
from regard.decode.base import GREEDY, Decoding, Lengths
from regard.decode.constrained import Barred, Rule
from regard.decode.greedy import search
from regard.models.base import Translating

# steps for each of 1 + n positions; a triangulation has up to 2 n - 5 triangles of three points
LONGEST: dict[Rule, Lengths] = {"free": Lengths(6.0), "once": Lengths(1.0), "all": Lengths(1.0)}


@dataclass(frozen=True, eq=False)
class Pointed:
    """A model's answer for one set."""

    order: list[int]  # point numbers, from 0
    log_probability: float
    finished: bool  # False: cut at the longest answer there can be
    weights: Tensor | None  # (T, 1 + n), T counts the end, column 0 is the end; None without attention


def point(
    model: Translating,
    batch: PointBatch,
    *,
    rule: Rule,
    decoding: Decoding = GREEDY,
    attention: bool = False,
) -> list[Pointed]:
    """The best answer found for each set of the batch; what the rule forbids is never said."""
    attention = attention and model.aligner is not None
    found = search(Barred(model, rule), batch, decoding, maximum=LONGEST[rule], attention=attention)
    aligner = f"model.{model.aligner}"
    return [
        Pointed(points_of(best.tokens), best.log_probability, best.finished, best.attention.get(aligner))
        for best, *_ in found
    ]
