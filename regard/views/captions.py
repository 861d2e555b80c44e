"""A picture, what the model said of it, and where it looked at each word."""

from pathlib import Path

import numpy as np

from regard.data.images import Pixels, image_batch, read_image
from regard.decode.captions import Caption, describe
from regard.errors import ConfigError
from regard.models.base import Translating
from regard.tasks.captions import CaptionTask
from regard.train.run import Run
from regard.views.shared import require_picture, whole_number
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
    """The picture that `regard show` is asked for."""
    if text is not None and not text.isdecimal():
        return read_image(Path(text), side=task.side)
    number = whole_number(text or "0")
    count = task.count("test")
    if number is None or number >= count:
        raise ConfigError(
            f"show: `TEXT` has {text}; expected a file or a number below {count}, the test set's."
        )
    return task.pictures("test", [number])[0]


def captions(run: Run, pictures: list[Pixels], *, beam: int | None) -> list[Caption]:
    """What the run's model says of these pictures, with its attention."""
    task, model = run.task, run.model
    assert isinstance(task, CaptionTask)
    assert isinstance(model, Translating)
    batch = image_batch(task.annotate(np.stack(pictures))).to(next(model.parameters()).device)
    return describe(model, batch, decoding=run.config.decode.with_beam(beam))


def said(task: CaptionTask, found: Caption) -> str:
    """A caption as text."""
    return task.tokenizer.decode(found.tokens)


def words_of(task: CaptionTask, found: Caption) -> list[str]:
    """The words of a caption, one for each step of the attention."""
    return task.tokenizer.pieces_of(found.tokens)


def weights_of(task: CaptionTask, found: Caption) -> list[list[float]]:
    """Where attention lay at each word, as plain numbers."""
    assert found.weights is not None
    rows = found.weights[: len(words_of(task, found))].tolist()
    return [[round(weight, 4) for weight in row] for row in rows]


def draw(task: CaptionTask, picture: Pixels, found: Caption, out: Path) -> None:
    """The picture once for each word."""
    require_picture(out, "pictures")
    words = words_of(task, found)
    assert found.weights is not None
    draw_caption(picture, words, found.weights[: len(words)], title=said(task, found), path=out)
