"""Draws a point set with the model's answer and the right one."""

from pathlib import Path

from torch import Tensor

from regard import catalog
from regard.data.points import own_batch
from regard.decode.pointing import Pointed, point
from regard.errors import ConfigError
from regard.models.base import Translating
from regard.tasks.pointing import PointingTask
from regard.train.run import Run
from regard.views.shared import require_picture, whole_number
from regard.viz.points import STEPS, Shape, draw_points

SHAPES: dict[str, Shape] = {"sort": "path", "hull": "cycle", "delaunay": "triangles", "tsp": "cycle"}
LARGEST = 1000  # points of a set: twice the paper's largest


def view(run: Run, text: str | None, out: Path, *, beam: int | None) -> str:
    """Draw a random set: `text` is its size, default the first test size. Returns the order of pointing."""
    task = run.task
    assert isinstance(task, PointingTask)
    points = task.example(task.settings.tests[0] if text is None else _size(text, task.smallest))
    found = answer(run, points, beam=beam)
    draw(task, points, found, out)
    return " ".join(map(str, found.order))


def answer(run: Run, points: Tensor, *, beam: int | None) -> Pointed:
    """The answer of the run's model for one set."""
    task, model = run.task, run.model
    assert isinstance(task, PointingTask)
    assert isinstance(model, Translating)
    batch = own_batch([points]).to(next(model.parameters()).device)
    how = run.config.decode.with_beam(beam)
    [found] = point(model, batch, rule=task.rule, decoding=how, attention=True)
    return found


def draw(task: PointingTask, points: Tensor, found: Pointed, out: Path) -> None:
    """Draw the picture, with the attention if it fits."""
    require_picture(out, "points")
    weights = found.weights
    # the weights of a model with a dictionary do not point: they are not part of its answer
    fits = weights is not None and weights.shape[1] == len(points) + 1 and len(points) <= STEPS
    draw_points(
        points,
        found.order,
        right=task.answer(points),
        shape=SHAPES[task.question],
        weights=weights if fits else None,
        title=f"{catalog.find(task.question, 'task').title}, {len(points)} points",
        path=out,
    )


def _size(text: str, smallest: int) -> int:
    number = whole_number(text)
    if number is None or not smallest <= number <= LARGEST:
        raise ConfigError(f"show: `TEXT` has {text!r}; expected a number of points, {smallest} to {LARGEST}.")
    return number
