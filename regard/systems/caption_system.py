"""Captioners: a picture in, a sentence out, and where the model looked at each word."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.images import Pixels, as_colours, check_size, image_batch, open_image, square
from regard.decode.captions import Caption, describe
from regard.errors import DataError
from regard.models.base import Translating
from regard.systems.drawable import Drawable
from regard.systems.system import System, chunks
from regard.tasks.captions import CaptionTask
from regard.views.captions import draw, said, words_of


@dataclass(frozen=True, eq=False, repr=False)
class Captioned(Drawable):
    """A caption, and where the model looked."""

    picture: Pixels  # (H, W, 3) as the model saw it
    found: Caption
    task: CaptionTask
    title = "Caption"

    @property
    def text(self) -> str:
        return said(self.task, self.found)

    @property
    def words(self) -> list[str]:
        """One for each row of the weights."""
        return words_of(self.task, self.found)

    @property
    def weights(self) -> Tensor | None:
        """(T, L) attention of each word over the places of the picture, row by row."""
        return None if self.found.weights is None else self.found.weights[: len(self.words)]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Captioned {self.text!r}>"

    def draw(self, path: Path) -> None:
        if self.weights is None or not self.words:
            raise self.nothing("there is no attention or no word")
        draw(self.task, self.picture, self.found, path)


class CaptionSystem(System):
    """A captioner: soft or hard attention over a picture.

        captioner = load("shapes-captions", device="cpu")
        captioner.caption(captioner.example(3)).text

    `shapes-captions-hard` is the same with hard attention.
    """

    task: CaptionTask

    def caption(self, picture: Any, *, beam: int | None = None) -> Captioned | list[Captioned]:
        """Describe a picture, or each of a list: files, Pillow images, or (H, W, 3) arrays of bytes.

        The picture is cropped to its central square.
        """
        single = not isinstance(picture, list | tuple)
        given: Sequence[Any] = [picture] if single else picture
        pictures = [square(to_pixels(each), self.task.side) for each in given]
        model, how = self.trained.model, self.decoding(beam)
        assert isinstance(model, Translating)
        results = []
        for part in chunks(pictures):
            batch = self.place(image_batch(self.task.annotate(torch.stack(list(part)))))
            with self.computing():
                found = describe(model, batch, decoding=how)
            results += [Captioned(own, each, self.task) for own, each in zip(part, found, strict=True)]
        return results[0] if single else results

    def example(self, number: int = 0) -> Pixels:
        """A picture of the test set."""
        return self.task.pictures("test", [number])[0]


def to_pixels(picture: Any) -> Pixels:
    """(H, W, 3) bytes from a file, a Pillow image, an array or a tensor."""
    array = to_array(picture)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != torch.uint8:
        raise DataError(
            f"caption: `picture` has shape {tuple(array.shape)} and dtype {array.dtype}; "
            "expected (H, W, 3) uint8."
        )
    check_size("caption: `picture`", array.shape[1], array.shape[0])
    return array


def to_array(given: Any) -> Tensor:
    """A file or a Pillow image as (H, W, 3), an array or a tensor as it is."""
    if isinstance(given, str | Path):
        return open_image(Path(given))
    if hasattr(given, "convert"):
        return as_colours(given)
    try:  # copy: torch rejects NumPy arrays with negative strides
        return torch.as_tensor(given.copy() if hasattr(given, "strides") else given).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"a picture has {type(given).__name__}, which cannot be read as numbers; expected a file, a "
            "Pillow image, an array or a tensor."
        ) from error
