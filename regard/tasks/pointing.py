"""Questions about point sets, answered by pointing: sort, convex hull, Delaunay triangulation, shortest tour.

The points are uniform in the unit square (numbers in the unit interval, for sorting), in random order. Sets
of different sizes share a batch. Example numbers are seeds: a set is a function of its split and number
alone. A large training set is solved in the background while the model trains (data/solving.py).
data/geometry.py defines the answers, also for degenerate sets.

Vinyals, Fortunato, Jaitly. Pointer networks. 2015.
https://arxiv.org/abs/1506.03134
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import catalog
from regard.data.batches import in_batches
from regard.data.geometry import QUESTIONS
from regard.data.points import PointBatch, PointSets, Spread, point_batch, positions
from regard.data.solving import Solving, solved
from regard.errors import ConfigError, check_range, check_sizes
from regard.tasks.base import Loss, SettledTask, Split

card = partial(
    catalog.card,
    "task",
    authors="Vinyals, Fortunato, Jaitly",
    year=2015,
    link="https://arxiv.org/abs/1506.03134",
)
WIDTHS = 4  # with groups, training sets are padded to a multiple of this


@dataclass(frozen=True, kw_only=True)
class PointingSettings:
    """How large the sets are, and how many there are."""

    shortest: int = 5  # points of the smallest set in training and validation
    longest: int = 50
    # how these sizes are drawn; log-uniform gives each doubling of the size the same share of the sets
    spread: Spread = "uniform"
    groups: int = 1  # of similar sizes, each in training batches of its own; 1: all sizes in every batch
    train: int = 1_000_000  # as in the paper
    valid: int = 1_000
    test: int = 1_000  # of each of the sizes `tests`
    tests: tuple[int, ...] = (5, 10, 20, 50)  # sizes of the test sets, also such as training never saw
    seed: int = 1
    cache: str = ""  # folder for the training answers; empty: regard's cache
    processes: int = 0  # that solve the training sets ahead of the training; 0 = one a core


class PointingTask(SettledTask):
    """Base of the four questions."""

    Settings = PointingSettings
    gives: ClassVar[str] = "sets of points"
    question: ClassVar[str]
    rule: ClassVar[Literal["free", "once", "all"]]  # constraint on decoding, see decode/constrained.py
    smallest: ClassVar[int] = 1  # fewest points for which the question makes sense

    def __init__(self, settings: PointingSettings) -> None:
        super().__init__(settings)
        least = self.smallest
        check_range(self.question, settings, "shortest", "longest", least)
        if not settings.tests or min(settings.tests) < least:
            raise ConfigError(
                f"{self.question}: `tests` has {list(settings.tests)}; expected sizes of {least} or more."
            )
        check_sizes(self.question, settings, "groups", "train", "valid", "test")
        self._train: Tensor | Solving | None = None
        self._others: dict[tuple[Split, int], Tensor] = {}

    @classmethod
    def create(cls, settings: PointingSettings) -> Self:
        """The task; starts to solve its training sets."""
        task = cls(settings)
        task.train_answers()  # a restored task solves them only if training continues
        return task

    def train_answers(self) -> Tensor | Solving:
        """(train, M), in memory, mapped from the cache, or solved on demand."""
        if self._train is None:
            s = self.settings
            self._train = solved(self._sets("train"), s.train, folder=s.cache, processes=s.processes)
        return self._train

    def _sets(self, split: Split, size: int | None = None) -> PointSets:
        """The sets of a split; those of the test split have one size each."""
        s = self.settings
        if size is None:
            return PointSets(self.question, f"{s.seed} {split}", s.shortest, s.longest, s.spread)
        return PointSets(self.question, f"{s.seed} {split} {size}", size, size)

    def sizes(self) -> dict[str, int]:
        return {"dimension": QUESTIONS[self.question].dimension, "places": self.settings.longest}

    def plan(self, epoch: int, *, seed: int, batch: int) -> list[list[int]]:
        """`batch` counts point sets; an incomplete last batch is dropped.

        With groups, the sets of that many batches are sorted by size before they are cut: batches of small
        sets are cheap.
        """
        import numpy as np  # only training plans an epoch

        chance = np.random.default_rng([seed, epoch])
        order = np.arange(self.settings.train)
        chance.shuffle(order)
        size = min(batch, len(order))
        groups = min(self.settings.groups, len(order) // size)
        pools = order[: len(order) // (groups * size) * groups * size].reshape(-1, groups * size)
        if groups > 1:
            sizes = self._sets("train").sizes(torch.from_numpy(pools.ravel())).view(pools.shape)
            pools = np.take_along_axis(pools, sizes.argsort(stable=True).numpy(), 1)
        batches = pools.reshape(-1, size)
        return [rows.tolist() for rows in (chance.permutation(batches) if groups > 1 else batches)]

    def evaluation_plan(self, split: Split, *, batch: int) -> list[list[int]]:
        """Test sets are grouped by size."""
        count, sizes = self.count(split), len(self.settings.tests) if split == "test" else 1
        starts = range(0, count * sizes, count)
        return [rows for start in starts for rows in in_batches(range(start, start + count), batch)]

    def batch(self, split: Split, rows: Sequence[int]) -> PointBatch:
        points, sizes, answers = self.solved(split, rows)
        return point_batch(points, sizes, answers, width=self._width(sizes) if split == "train" else None)

    def _width(self, sizes: Tensor) -> int:
        """One width for all training batches, or one of a few with groups: a captured step has one width."""
        longest = self.settings.longest
        return longest if self.settings.groups == 1 else min(longest, -(-int(sizes.max()) // WIDTHS) * WIDTHS)

    def solved(self, split: Split, rows: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """(B, N, D) points, (B,) sizes, (B, M) answers padded with -1."""
        numbers = torch.as_tensor(rows, dtype=torch.int64)
        if split == "test":
            return self._test(numbers)
        answers = self.train_answers() if split == "train" else self._answers(split, 0)
        return *self._sets(split).points(numbers), answers[numbers].long()

    def _test(self, numbers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Test set k has the size tests[k // test]."""
        s, question = self.settings, QUESTIONS[self.question]
        N = max(s.tests)
        points = torch.zeros(len(numbers), N, question.dimension)
        sizes = torch.tensor(s.tests)[numbers // s.test]
        answers = torch.full((len(numbers), question.longest(N)), -1)
        for size in set(sizes.tolist()):
            here = sizes == size
            own = numbers[here] % s.test
            points[here, :size] = self._sets("test", size).points(own)[0]
            answers[here, : question.longest(size)] = self._answers("test", size)[own]
        return points, sizes, answers

    def _answers(self, split: Split, size: int) -> Tensor:
        """All answers of a small split, solved once."""
        key = (split, size)
        if key not in self._others:
            self._others[key] = self._sets(split, size or None).answers(torch.arange(self.count(split)))
        return self._others[key]

    def loss(self, model: nn.Module, batch: PointBatch) -> Loss:
        """Minus the log-probability of the right positions and of the end, summed."""
        scores = model(batch)  # (B, T, P)
        t = torch.arange(batch.target.shape[1], device=batch.target.device)
        right = positions(batch.target).masked_fill(t >= batch.target_lengths[:, None], -100)
        total = F.cross_entropy(
            scores.flatten(0, 1).float(), right.flatten(), ignore_index=-100, reduction="sum"
        )
        return Loss(total, batch.target_lengths.sum())

    def example(self, size: int, seed: int = 0) -> Tensor:
        """(n, D) a random set that is in no split, for drawing."""
        drawn = PointSets(self.question, f"{self.settings.seed} example {size}", size, size)
        return drawn.points(torch.tensor([seed]))[0][0]

    def answer(self, points: Tensor) -> list[int]:
        """The canonical answer for one set of (n, D) points."""
        [found] = QUESTIONS[self.question].solve(points[None], torch.tensor([len(points)]))
        return found[found >= 0].tolist()


@card(
    "sort",
    title="Sorting",
    sentence="Numbers in random order, to be pointed at from the smallest to the largest.",
)
class SortTask(PointingTask):
    """Point at numbers from the smallest to the largest."""

    question = "sort"
    rule = "all"


@card(
    "hull",
    title="Convex hull",
    sentence="The corners of the convex hull of random points, counter-clockwise.",
)
class HullTask(PointingTask):
    """The corners of the convex hull, counter-clockwise."""

    question = "hull"
    rule = "once"


@card(
    "delaunay",
    title="Delaunay triangulation",
    sentence="The triangles whose circumcircles are empty, three points each, in a canonical order.",
)
class DelaunayTask(PointingTask):
    """The triangles of the Delaunay triangulation, three points each."""

    question = "delaunay"
    rule = "free"
    smallest = 3  # fewer points have no triangle


@card(
    "tsp",
    title="Travelling salesman",
    sentence="The shortest closed tour through all points: exact up to 12 of them, a heuristic's beyond.",
)
class TourTask(PointingTask):
    """The shortest closed tour through all points."""

    question = "tsp"
    rule = "all"
