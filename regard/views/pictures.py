"""Draws a generator's pictures by class, and the attention of some places in them."""

import math
from pathlib import Path

import torch

from regard.attention.record import record
from regard.data.pictures import to_pixels
from regard.decode.base import evaluating
from regard.errors import ConfigError
from regard.evaluate.pictures import draw
from regard.tasks.pictures import PictureTask
from regard.train.run import Run
from regard.views.shared import require_picture
from regard.viz.pictures import Look, draw_samples

ACROSS = 10  # pictures of each class
LOOKS = 3  # pictures whose attention is drawn
PLACES = ((0.5, 0.25), (0.5, 0.75), (0.25, 0.5), (0.85, 0.5))  # down and right


def view(run: Run, text: str | None, out: Path, *, beam: int | None) -> str:
    """Draw samples of every class; `text` is the class whose attention is drawn, default several."""
    task, model = run.task, run.model
    assert isinstance(task, PictureTask)
    require_picture(out, "pictures")
    K = len(task.classes)
    chosen = [class_number(task, text)] * LOOKS if text else list(range(0, K, max(K // LOOKS, 1)))[:LOOKS]
    pictures, _ = draw(model, task, K * ACROSS)
    by_class = pictures.view(ACROSS, K, *pictures.shape[1:]).transpose(0, 1)
    looks = look(run, task, chosen) if model.aligner is not None else []
    named = f"{run.folder.name}, step {run.step}"
    draw_samples(by_class, task.classes, looks, title=named, path=out)
    what = f"{K * ACROSS} pictures of {K} classes"
    return what if looks else f"{what}; the generator has no attention"


def look(run: Run, task: PictureTask, classes: list[int]) -> list[Look]:
    """One picture of each of these classes, with the attention of PLACES in the last attention layer."""
    model = run.model
    assert model.aligner is not None
    device = next(model.parameters()).device
    noise = torch.randn(len(classes), model.config.noise, generator=torch.Generator().manual_seed(2))
    with evaluating(model), record(model) as trace:
        made = model.sample(noise.to(device), torch.tensor(classes, device=device))  # type: ignore[operator]
        [result] = trace[model.aligner]
        side = math.isqrt(result.context.shape[-2])
        targets = [int(down * side) * side + int(right * side) for down, right in PLACES]
        weights = result.rows(torch.tensor(targets, device=device)).squeeze(1).cpu()  # (B, Q, L)
    pictures = to_pixels(made).cpu()
    return [
        Look(picture, PLACES, weights[b], task.classes[number])
        for b, (picture, number) in enumerate(zip(pictures, classes, strict=True))
    ]


def class_number(task: PictureTask, name: str, owner: str = "show: `TEXT`") -> int:
    """The number of a class by its name."""
    if name not in task.classes:
        raise ConfigError(f"{owner} has {name!r}; expected a class: {', '.join(task.classes)}.")
    return task.classes.index(name)
