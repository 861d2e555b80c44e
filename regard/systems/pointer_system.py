"""Pointer networks: points in, the order of pointing out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.geometry import QUESTIONS, check_points, in_unit_square
from regard.data.points import own_batch
from regard.decode.pointing import Pointed, point
from regard.errors import DataError
from regard.models.base import Translating
from regard.systems.drawable import Drawable
from regard.systems.system import System, chunks, depth
from regard.tasks.pointing import PointingTask
from regard.views.points import LARGEST, draw


@dataclass(frozen=True, eq=False, repr=False)
class PointedOut(Drawable):
    """The points, and the order in which the model pointed at them."""

    points: Tensor  # (n, D) in the unit square
    found: Pointed
    task: PointingTask
    title = "Pointing"

    @property
    def order(self) -> list[int]:
        """Indices of points from 0; for a triangulation, three per triangle."""
        return self.found.order

    @property
    def weights(self) -> Tensor | None:
        """(T, 1 + n) attention at each step; column 0 is the end."""
        return self.found.weights

    @property
    def right(self) -> list[int]:
        """The solver's answer."""
        return self.task.answer(self.points)

    def __repr__(self) -> str:
        return f"<PointedOut {self.task.question} of {len(self.points)} points: {self.order}>"

    def draw(self, path: Path) -> None:
        draw(self.task, self.points, self.found, path)


class PointerSystem(System):
    """A pointer network.

        found = load("hull", device="cpu").point(torch.rand(10, 2))
        found.order, found.right        # the corners it pointed at, and the exact answer
        found.weights                   # (steps, 1 + 10); column 0 is the end

    The shipped models find convex hulls, triangulations and tours, and sort numbers.
    """

    task: PointingTask

    def point(self, points: Any, *, beam: int | None = None) -> PointedOut | list[PointedOut]:
        """Answer for a set of (n, 2) points, or for each of several sets; `sort` takes numbers.

        A set with points outside the unit square is shifted and scaled into it.
        """
        dimension = QUESTIONS[self.task.question].dimension
        single = _is_one_set(points, dimension)
        given = [points] if single else list(points)
        owners = ["point"] if single else [f"point, set {number}" for number in range(len(given))]
        sets = [self._checked(own, each, dimension) for own, each in zip(owners, given, strict=True)]
        model, how = self.trained.model, self.decoding(beam)
        assert isinstance(model, Translating)
        results = []
        for part in chunks(sets):
            batch = self.place(own_batch(part))
            with self.computing():
                found = point(model, batch, rule=self.task.rule, decoding=how, attention=True)
            results += [PointedOut(own, each, self.task) for own, each in zip(part, found, strict=True)]
        return results[0] if single else results

    def _checked(self, owner: str, points: Any, dimension: int) -> Tensor:
        try:
            table = torch.tensor(_plain(points), dtype=torch.float64)
            table = table.view(getattr(points, "shape", table.shape))  # also if there are no rows
        except (TypeError, ValueError, OverflowError, RuntimeError):
            raise DataError(
                f"{owner}: `points` cannot be read as numbers, a row for each point; "
                f"expected (n, {dimension})."
            ) from None
        if dimension == 1 and table.ndim == 1:
            table = table[:, None]
        checked = in_unit_square(check_points(owner, table, dimension=dimension))
        if not self.task.smallest <= len(checked) <= LARGEST:
            raise DataError(
                f"{owner}: has {len(checked)} points; expected {self.task.smallest} to {LARGEST} for "
                f"{self.task.question!r}."
            )
        return checked


def _is_one_set(points: Any, dimension: int) -> bool:
    """Whether this is one set, a matrix (for `sort`, a vector of numbers), and not a list of sets."""
    if hasattr(points, "ndim"):
        return points.ndim < 3 if dimension == 2 else points.ndim == 1 or points.shape[-1] == 1
    return not isinstance(points, Sequence) or not points or depth(points[0]) < dimension


def _plain(points: Any) -> Any:
    """Convert tensors and arrays, also within lists, to lists of numbers."""
    if isinstance(points, Sequence) and not isinstance(points, str | bytes):
        return [_plain(each) for each in points]
    if hasattr(points, "__array__") and not isinstance(points, Tensor):
        points = points.__array__()  # pandas too
    return points.tolist() if hasattr(points, "tolist") else points
