"""Generators: pictures of given classes, and the attention between their places."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.attention.record import record_any
from regard.data.images import Pixels
from regard.data.pictures import to_pixels
from regard.decode.base import evaluating
from regard.errors import check_whole
from regard.systems.drawable import Drawable
from regard.systems.system import System
from regard.tasks.pictures import PictureTask
from regard.views.pictures import class_number
from regard.viz.pictures import draw_samples

AT_ONCE = 250


@dataclass(frozen=True, eq=False, repr=False)
class Sampled(Drawable):
    """Pictures that a generator drew."""

    pictures: Pixels  # (n, H, W, 3)
    labels: tuple[str, ...]  # the class of each
    weights: Tensor | None = None  # (m, L, L) of the first m, between places of the feature map
    title = "Samples"

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"<Sampled {len(self)} pictures: {', '.join(dict.fromkeys(self.labels))}>"

    def draw(self, path: Path) -> None:
        """A row for each class; short rows are padded with white."""
        classes = list(dict.fromkeys(self.labels))
        rows = [self.pictures[[label == name for label in self.labels]] for name in classes]
        sheet = pad_sequence(rows, batch_first=True, padding_value=255)
        draw_samples(sheet, classes, [], path=path)


class PictureSystem(System):
    """A generator of pictures.

        drawn = load("sagan-shapes", device="cpu").sample(4, seed=1)
        drawn.pictures, drawn.labels

    The same seed gives the same pictures.
    """

    task: PictureTask

    def sample(
        self, count: int = 1, *, classes: Sequence[str] | None = None, seed: int = 1, maps: int = 0
    ) -> Sampled:
        """Draw `count` pictures, cycling through the classes; the same seed draws the same pictures.

        The result has the last attention layer's weights for the first `maps` pictures, places row by row.
        """
        check_whole("sample", count=count)
        check_whole("sample", least=0, maps=maps)
        model, names = self.trained.model, list(classes or self.task.classes)
        numbers = [class_number(self.task, name, owner="sample: `classes`") for name in names]
        labels = torch.tensor([numbers[i % len(numbers)] for i in range(count)])
        noise = torch.randn(count, model.config.noise, generator=torch.Generator().manual_seed(seed))
        parts = zip(torch.split(noise, AT_ONCE), torch.split(labels, AT_ONCE), strict=True)
        drawn = [self._drawn(*part) for part in parts]
        called = tuple(names[i % len(names)] for i in range(count))
        return Sampled(torch.cat(drawn), called, self._maps(noise[:maps], labels[:maps]))

    def _drawn(self, noise: Tensor, labels: Tensor) -> Tensor:
        """(n, H, W, 3) bytes on the CPU."""
        model, weight = self.trained.model, self._weight()
        with evaluating(model), self.computing():
            made = model.sample(noise.to(weight), labels.to(weight.device))  # type: ignore[operator]
            return to_pixels(made.float()).cpu()

    def _maps(self, noise: Tensor, labels: Tensor) -> Tensor | None:
        """(m, L, L) weights of the generator's last attention layer; None without one, or if m = 0."""
        model = self.trained.model
        if model.aligner is None or not len(labels):
            return None
        with record_any(model) as trace:
            self._drawn(noise, labels)
        [result] = trace[model.aligner]
        weights = result.weights.float().cpu()
        return weights.reshape(len(labels), *weights.shape[-2:])
