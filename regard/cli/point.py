"""regard point: a model's answer for your own points."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.common import complain, open_task, read_input, require_ending, say
from regard.cli.options import BeamOption, DeviceOption, RunArgument
from regard.data.parallel import read_lines
from regard.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

    from regard.tasks.pointing import PointingTask

SHOWN = 60  # characters of a bad line


def command(
    run: RunArgument,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="POINTS", help="A CSV file with one point a line, x,y; `-` reads standard input."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the answer: a .png or .svg file.")
    ] = None,
    form: Annotated[
        Literal["numbers", "csv", "json"],
        typer.Option("--form", help="Print the points' numbers, the points, or everything as JSON."),
    ] = "numbers",
    beam: BeamOption = None,
    device: DeviceOption = None,
) -> None:
    """Solve your own points with a pointer network: hulls, tours, sorting.

    regard point runs/pointer-hull points.csv
    regard point runs/pointer-tsp points.csv --form csv --out tour.png

    Points are counted from 0, in the order of the file. A first line of words is a header. Points outside the
    unit square are moved and scaled into it together, which does not change the answer.
    """
    from regard.data.geometry import QUESTIONS, check_points, in_unit_square
    from regard.tasks.pointing import PointingTask
    from regard.views.points import LARGEST, answer, draw

    require_ending("point", out)
    opened, task = open_task(run, PointingTask, "a pointing task: sort, hull, …", device=device)
    dimension = QUESTIONS[task.question].dimension
    points = check_points(str(file), read_points(file, dimension), dimension=dimension)
    if not task.smallest <= len(points) <= LARGEST:
        count = "1 point" if len(points) == 1 else f"{len(points):,} points"
        raise DataError(f"{file}: has {count}; expected {task.smallest} to {LARGEST} for {task.question!r}.")
    _warn(points, task)
    unit = in_unit_square(points)
    found = answer(opened, unit, beam=beam)
    if not found.finished:
        complain(f"the model did not end its answer, which was cut off after {len(found.order)} points.")
    if out is not None:
        draw(task, unit, found, out)
        say(f"drawn: {out}")
    if form == "json":
        typer.echo(
            json.dumps(
                {
                    "question": task.question,
                    "points": len(points),
                    "order": found.order,
                    "solver": task.answer(unit),
                    "log_probability": round(found.log_probability, 4),
                    "finished": found.finished,
                }
            )
        )
        return
    for number in found.order:
        typer.echo(number if form == "numbers" else ",".join(f"{x:g}" for x in points[number].tolist()))


def read_points(file: Path, dimension: int) -> "Tensor":
    """(n, D) from lines of comma-separated numbers; empty lines do not count."""
    import torch

    lines = read_input() if str(file) == "-" else read_lines(file)
    rows: list[list[float]] = []
    for number, line in enumerate(lines, 1):
        words = [field.strip().strip('"') for field in line.split(",")]  # some programs quote every field
        if not any(words):
            continue
        try:
            values = [float(word) for word in words]
        except ValueError:
            if number == 1 and len(lines) > 1 and not any(_like_a_number(word) for word in words):
                continue  # a header
            shown = ",".join(words)
            shown = shown if len(shown) <= SHOWN else shown[:SHOWN] + "…"
            raise DataError(f"{file}, line {number}: has {shown!r}; expected {_form(dimension)}.") from None
        if len(values) != dimension:
            count = "1 number" if len(values) == 1 else f"{len(values)} numbers"
            raise DataError(f"{file}, line {number}: has {count}; expected {_form(dimension)}.")
        rows.append(values)
    return torch.tensor(rows, dtype=torch.float64).view(len(rows), dimension)


def _like_a_number(word: str) -> bool:
    """Whether a field begins as a number does: a slip in the first line must not pass for a header."""
    return word.lstrip("+-.")[:1].isdecimal()


def _form(dimension: int) -> str:
    return "two numbers, x,y" if dimension == 2 else "one number"


def _warn(points: "Tensor", task: "PointingTask") -> None:
    """Degenerate input is answered, and said to be so."""
    from torch.linalg import matrix_rank

    distinct = len(set(map(tuple, points.tolist())))
    if distinct < len(points):
        many = len(points) - distinct
        verb = "point coincides" if many == 1 else "points coincide"
        complain(f"{many} {verb} with others; training sets have no duplicates.")
    if points.shape[1] == 2 and len(points) > 2 and matrix_rank(points - points[0]) < 2:
        complain("all points lie on one line; those of training sets never do.")
    s = task.settings
    if not s.shortest <= len(points) <= s.longest:
        count = "1 point" if len(points) == 1 else f"{len(points)} points"
        trained = f"{s.shortest} to {s.longest}" if s.shortest < s.longest else f"{s.shortest}"
        complain(f"{count}; the model was trained on {trained}.")
