"""Evaluate pointing by set size: hulls, triangulations, tours, orders.

    hull       accuracy: the same polygon, from any corner and in either direction; area: the share of the
               true hull that simple polygons cover; invalid: outputs that are not simple polygons (the paper
               prints FAIL if these are more than 1 %)
    delaunay   accuracy: the same set of triangles; coverage: the share of the true triangles found
    tsp        length: the mean length of the tours; above: how much longer they are than the solver's
    sort       accuracy: the whole order is right; places: the share of right places

Up to 12 points the solver's tours are optimal; beyond, they come from nearest insertion and 2-opt, and a
model can beat them. The paper's figures are those in tables 1 and 2 of the pointer network trained on sets of
many sizes.

Vinyals, Fortunato, Jaitly. Pointer networks. 2015.
https://arxiv.org/abs/1506.03134
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import Any

from torch import Tensor

from regard.data.geometry import EXACT, area, is_simple, perimeter, same_cycle
from regard.decode.base import Decoding
from regard.decode.pointing import point
from regard.errors import DataError
from regard.evaluate.base import Advance, Evaluation, MeasureTable, by_batch, evaluator
from regard.models.base import Translating
from regard.tasks.base import Split
from regard.tasks.pointing import PointingTask

BATCH = 500  # sets decoded together, divided by the beam

Scores = Mapping[str, float | None]  # of one set; None: does not count
Measure = Callable[[Tensor, list[int], list[int]], Scores]
"""(n, D) points, the right answer, the model's -> the scores of one set."""


def measure_hull(points: Tensor, right: list[int], found: list[int]) -> Scores:
    """A hull of zero area, such as that of collinear points, counts only for accuracy."""
    whole = abs(area(points[right]))
    accuracy = float(same_cycle(found, right))
    if whole == 0:
        return {"accuracy": accuracy, "area": None, "invalid": None}
    # a model with a fixed dictionary may name a point that a small set does not have
    simple = max(found, default=0) < len(points) and is_simple(points[found])
    covered = abs(area(points[found])) / whole if simple else None
    return {"accuracy": accuracy, "area": covered, "invalid": float(not simple)}


def measure_delaunay(points: Tensor, right: list[int], found: list[int]) -> Scores:
    """The order of the triangles and of their corners does not matter."""
    true, said = _triples(right), _triples(found)
    whole = len(found) % 3 == 0 and said == true and len(found) == len(right)
    return {"accuracy": float(whole), "coverage": len(true & said) / len(true) if true else None}


def _triples(order: list[int]) -> set[frozenset[int]]:
    return {frozenset(order[i : i + 3]) for i in range(0, len(order) - 2, 3)}


def measure_tour(points: Tensor, right: list[int], found: list[int]) -> Scores:
    """Only the lengths of tours that visit every point once count."""
    valid = sorted(found) == list(range(len(points)))
    return {
        "length": perimeter(points, found) if valid else None,
        "solver": perimeter(points, right),
        "invalid": float(not valid),
        "accuracy": float(same_cycle(found, right)),
    }


def measure_sort(points: Tensor, right: list[int], found: list[int]) -> Scores:
    """A place is right if it has the right index."""
    hits = sum(a == b for a, b in zip(right, found, strict=False))
    return {"accuracy": float(found == right), "places": hits / len(right)}


MEASURES: dict[str, Measure] = {
    "hull": measure_hull,
    "delaunay": measure_delaunay,
    "tsp": measure_tour,
    "sort": measure_sort,
}

COLUMNS = {
    "hull": ("accuracy", "area", "invalid"),
    "delaunay": ("accuracy", "coverage"),
    "tsp": ("length", "solver", "invalid", "accuracy", "above"),
    "sort": ("accuracy", "places"),
}

# tables 1 and 2, and section 4.3: hull trained on 5-50, tours on 5-20, triangles on the size itself
PAPER: dict[str, dict[int, dict[str, float]]] = {
    "hull": {
        5: {"accuracy": 0.920, "area": 0.996},
        10: {"accuracy": 0.870, "area": 0.998},
        50: {"accuracy": 0.696, "area": 0.999},
        100: {"accuracy": 0.503, "area": 0.999},
        200: {"accuracy": 0.221, "area": 0.999},
        500: {"accuracy": 0.013, "area": 0.992},
    },
    "delaunay": {
        5: {"accuracy": 0.807, "coverage": 0.930},
        10: {"accuracy": 0.226, "coverage": 0.813},
        50: {"accuracy": 0.0, "coverage": 0.528},
    },
    "tsp": {
        5: {"length": 2.12},
        10: {"length": 2.87},
        20: {"length": 3.88},
        25: {"length": 4.30},
        30: {"length": 4.72},
        40: {"length": 5.91},
        50: {"length": 7.66},
    },
    "sort": {},
}


@dataclass(frozen=True)
class PointingEvaluation(Evaluation):
    """Means over the sets of each size."""

    question: str
    beam: int
    by_size: dict[int, dict[str, float]]  # size -> measure -> mean
    counts: dict[int, int]
    orders: list[list[int]]

    def headline(self) -> tuple[str, float]:
        """The measure at the first test size; NaN if none of its tours counts."""
        first = next(iter(self.by_size))
        return f"{self._measure} at n = {first}", self.by_size[first].get(self._measure, math.nan)

    def over_sizes(self) -> float:
        return fmean(values.get(self._measure, math.nan) for values in self.by_size.values())

    @property
    def _measure(self) -> str:
        return "above" if self.question == "tsp" else "accuracy"

    def measures(self) -> list[tuple[str, str]]:
        name, value = self.headline()
        shown = "no tour counts" if math.isnan(value) else _shown(name.split()[0], value)
        return [(name, shown), ("sets", str(sum(self.counts.values())))]

    def tables(self) -> list[MeasureTable]:
        """Every column of the question; a cell is empty if no set counts."""
        names, paper = COLUMNS[self.question], PAPER[self.question]
        known = [name for name in names if any(name in figures for figures in paper.values())]
        rows = [
            (
                str(n),
                *(_shown(name, values.get(name)) for name in names),
                *(_shown(name, paper.get(n, {}).get(name)) for name in known),
            )
            for n, values in self.by_size.items()
        ]
        return [MeasureTable(("n", *names, *(f"{name}, paper" for name in known)), rows)]

    def summary(self) -> dict[str, Any]:
        return {
            "question": self.question,
            "split": self.split,
            "beam": self.beam,
            "by_size": {
                str(n): {name: round(value, 5) for name, value in values.items()} | {"sets": self.counts[n]}
                for n, values in self.by_size.items()
            },
            "seconds": round(self.seconds, 1),
        }

    def note(self) -> str:
        if self.question == "tsp" and max(self.by_size) > EXACT:
            return f"solver: shortest up to n = {EXACT}, nearest insertion and 2-opt beyond"
        return "paper: the pointer network's figures, trained on many sizes"

    def lines(self) -> list[str]:
        return [" ".join(map(str, order)) for order in self.orders]


@evaluator
def evaluate_pointing(
    model: Translating, task: PointingTask, split: Split, decoding: Decoding, progress: Advance
) -> PointingEvaluation:
    """Point, and compare with the solver's answers, for each size of the split."""
    device = next(model.parameters()).device
    measure = MEASURES[task.question]

    def pointed(rows: Sequence[int]) -> list[tuple[int, Scores, list[int]]]:
        points, sizes, answers = task.solved(split, rows)
        found = point(model, task.batch(split, rows).to(device), rule=task.rule, decoding=decoding)
        return [
            (n, measure(each[:n], answer[answer >= 0].tolist(), own.order), own.order)
            for each, n, answer, own in zip(points, sizes.tolist(), answers, found, strict=True)
        ]

    scores: dict[int, list[Scores]] = {}
    orders: list[list[int]] = []
    size = max(1, BATCH // decoding.beam)
    for n, score, order in chain(*by_batch(task, split, pointed, batch=size, progress=progress)):
        scores.setdefault(n, []).append(score)
        orders.append(order)
    if not scores:
        raise DataError(f"evaluate: the {split} split has no sets; expected one or more.")
    return PointingEvaluation(
        question=task.question,
        split=split,
        beam=decoding.beam,
        by_size={n: _means(each) for n, each in sorted(scores.items())},
        counts={n: len(each) for n, each in sorted(scores.items())},
        orders=orders,
    )


def _means(scores: list[Scores]) -> dict[str, float]:
    """Means over the sets that count; a measure for which none does is left out."""
    means: dict[str, float] = {}
    for name in scores[0]:
        values = [value for each in scores if (value := each[name]) is not None]
        if values:
            means[name] = fmean(values)
    # for tours both means are over the same sets
    pairs = [(s["length"], s["solver"]) for s in scores if s.get("length") is not None and s.get("solver")]
    if pairs:
        found, solved = map(sum, zip(*pairs, strict=True))
        means["above"] = found / solved - 1
    return means


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if name in ("length", "solver") else f"{100 * value:.2f} %"
