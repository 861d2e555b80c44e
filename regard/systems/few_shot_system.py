"""Few-shot classification: labelled drawings and a query in, the query's label out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.attention.record import record_any
from regard.data.episodes import EpisodeBatch
from regard.data.images import check_size, square
from regard.data.omniglot import SIDE
from regard.decode.base import evaluating
from regard.errors import DataError
from regard.systems.caption_system import to_array
from regard.systems.drawable import Drawable
from regard.systems.system import System, chunks, same_length
from regard.tasks.fewshot import FewShotTask
from regard.views.episode import draw


@dataclass(frozen=True, eq=False, repr=False)
class Classified(Drawable):
    """The label of a drawing, and what it attended to in each block."""

    label: str
    probabilities: dict[str, float]  # of each label, in the order of the drawings
    images: Tensor  # (T, 28, 28) the labelled drawings, then the query; ink is 255
    labels: tuple[str, ...]  # of the first T - 1
    weights: Tensor  # (L, T) of the query in each attention block
    title = "Few-shot classification"

    def __str__(self) -> str:
        return self.label

    def __repr__(self) -> str:
        return f"<Classified {self.label!r} ({self.probabilities[self.label]:.0%})>"

    def draw(self, path: Path) -> None:
        draw(self.images, list(self.labels), self.weights, answer=self.label, found=None, out=path)


class FewShotSystem(System):
    """A classifier that gets labelled examples of its classes together with the query.

        drawings = [torch.randint(0, 256, (28, 28), dtype=torch.uint8) for _ in range(5)]
        named = load("snail-omniglot", device="cpu").classify(drawings, list("abcde"), drawings[2])
        named.label, named.probabilities

    The weights of an answer show which examples the query attended to.
    """

    task: FewShotTask

    def classify(self, drawings: Sequence[Any], labels: Sequence[Any], query: Any) -> Any:
        """Classify a drawing, or each of a list, given labelled drawings.

        Drawings are files, Pillow images or arrays, dark ink on a light background or the reverse. There must
        be as many classes as the model was trained for, each with the same number of drawings.
        """
        same_length("classify", drawings=drawings, labels=labels)
        names = [str(label) for label in labels]
        classes = list(dict.fromkeys(names))
        ways, shots = self.task.settings.ways, len(names) // max(len(classes), 1)
        most = max(self.task.settings.shots + self.task.settings.tested)
        even = all(names.count(name) == shots for name in classes)
        if len(classes) != ways or not even or not 1 <= shots <= most:
            each = "one drawing each" if most == 1 else f"1 to {most} drawings each, all the same number"
            raise DataError(
                f"classify: `labels` has {len(names)} labels of {len(classes)} classes; "
                f"expected {ways} classes with {each}."
            )
        support = torch.stack([to_drawing(each) for each in drawings])
        single = not isinstance(query, list | tuple)
        queries = [to_drawing(each) for each in ([query] if single else query)]
        found = [each for part in chunks(queries) for each in self._classify(support, names, classes, part)]
        return found[0] if single else found

    def _classify(
        self, support: Tensor, names: list[str], classes: list[str], queries: Sequence[Tensor]
    ) -> list[Classified]:
        """Each query is an episode of its own, all in one batch."""
        model, B = self.trained.model, len(queries)
        numbers = torch.tensor([classes.index(name) for name in names])
        asked = torch.stack(list(queries))[:, None]
        nothing = torch.zeros(B, 1, dtype=torch.long)  # the answers are unknown
        batch = EpisodeBatch(support.expand(B, -1, -1, -1), numbers.expand(B, -1), asked, nothing)
        with evaluating(model), self.computing(), record_any(model) as trace:
            shares = model(self.place(batch))[:, 0].float().softmax(-1)
            blocks = [r.weights[:, -1].float().cpu() for results in trace.values() for r in results]
        weights = torch.stack(blocks, 1) if blocks else torch.zeros(B, 0, len(names) + 1)
        return [
            Classified(
                classes[int(shares[b].argmax())],
                dict(zip(classes, shares[b].tolist(), strict=True)),
                torch.cat([support, asked[b]]),
                tuple(names),
                weights[b],
            )
            for b in range(B)
        ]


def to_drawing(given: Any) -> Tensor:
    """(28, 28) uint8, ink 255, from a file, a Pillow image, an array or a tensor."""
    array = to_array(given)
    shape = tuple(array.shape)
    if array.ndim == 2:
        array = array[..., None].repeat(1, 1, 3)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != torch.uint8:
        raise DataError(
            f"classify: a drawing has shape {shape} and dtype {array.dtype}; expected (H, W) uint8."
        )
    check_size("classify: a drawing", array.shape[1], array.shape[0])
    grey = square(array, SIDE).float().mean(-1).round()
    return (255 - grey if grey.quantile(0.5) > 127 else grey).byte()
