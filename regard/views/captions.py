"""Draws a picture with the model's caption or class, and where it attended."""

from pathlib import Path

import torch

from regard.attention.record import record
from regard.data.images import Pixels, image_batch, read_image
from regard.decode.base import evaluating
from regard.decode.captions import Caption, describe
from regard.models.base import Translating
from regard.tasks.captions import CaptionTask
from regard.tasks.picture_classes import PictureClassesTask
from regard.train.run import Run
from regard.views.shared import example_number, require_picture
from regard.viz.pictures import draw_caption


def view(run: Run, text: str | None, out: Path, *, beam: int | None) -> str:
    """Draw one picture: `text` is a file, or the number of a test picture, default 0; its caption."""
    task = run.task
    assert isinstance(task, CaptionTask)
    picture = chosen(task, text)
    [found] = captions(run, [picture], beam=beam)
    draw(task, picture, found, out)
    return said(task, found)


def chosen(task: CaptionTask, text: str | None) -> Pixels:
    """The picture that `text` names for `regard show`."""
    if text is not None and not text.isdecimal():
        return read_image(Path(text), side=task.side)
    return task.pictures("test", [example_number(text, task.count("test"), "picture", ", or a file")])[0]


def captions(run: Run, pictures: list[Pixels], *, beam: int | None) -> list[Caption]:
    """The captions of the run's model for these pictures, with attention."""
    task, model = run.task, run.model
    assert isinstance(task, CaptionTask)
    assert isinstance(model, Translating)
    batch = image_batch(task.annotate(torch.stack(pictures))).to(next(model.parameters()).device)
    return describe(model, batch, decoding=run.config.decode.with_beam(beam))


def said(task: CaptionTask, found: Caption) -> str:
    """A caption as text."""
    return task.tokenizer.decode(found.tokens)


def words_of(task: CaptionTask, found: Caption) -> list[str]:
    """The words of a caption, one for each step of the attention."""
    return task.tokenizer.pieces_of(found.tokens)


def weights_of(task: CaptionTask, found: Caption) -> list[list[float]]:
    """The attention weights of each word, as plain numbers."""
    assert found.weights is not None
    rows = found.weights[: len(words_of(task, found))].tolist()
    return [[round(weight, 4) for weight in row] for row in rows]


def draw(task: CaptionTask, picture: Pixels, found: Caption, out: Path) -> None:
    """Draw the picture once for each word."""
    require_picture(out, "pictures")
    words = words_of(task, found)
    assert found.weights is not None
    draw_caption(picture, words, found.weights[: len(words)], title=said(task, found), path=out)


def view_class(run: Run, text: str | None, out: Path, *, beam: int | None) -> str:
    """Draw a test picture with the weights of its pooling; `text` is its number, default 0."""
    task, model = run.task, run.model
    assert isinstance(task, PictureClassesTask)
    require_picture(out, "pictures")
    batch = task.batch("test", [example_number(text, task.count("test"), "picture")])
    with evaluating(model), record(model) as trace:
        shares = model(batch.to(next(model.parameters()).device))[0].float().softmax(-1)
        (result,) = (result for results in trace.values() for result in results)
        weights = result.weights[0].float().cpu()  # (1, L)
    said, right = int(shares.argmax()), int(batch.labels[0])
    draw_caption(
        batch.pictures[0],
        [task.labels[said]],
        weights,
        title=f"{task.labels[right]}, called {task.labels[said]}",
        path=out,
    )
    verdict = "right" if said == right else f"it is {task.labels[right]}"
    return f"{task.labels[said]} ({verdict}), probability {float(shares[said]):.3f}"
