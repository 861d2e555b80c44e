"""Picture generation: CIFAR-10, and drawn pairs of coloured shapes, which need no data.

An example is a picture and its class. A model has its own loss (in a GAN, each player has one): the task
passes it pictures scaled to [-1, 1] and sums the losses that it returns. Held-out pictures have no loss, so
there is no validation; `evaluate/pictures.py` measures generated pictures.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from regard.catalog import card
from regard.data import cifar10
from regard.data.pictures import DRAWN, PictureBatch, draw_pairs, flipped, halves_agree, to_network
from regard.data.shapes import SHAPES
from regard.errors import ConfigError, check_sizes
from regard.tasks.base import Loss, SettledTask, Split, own_card


@dataclass(frozen=True)
class Referee:
    """How to train the classifier whose features are used to compare pictures."""

    width: int  # channels of its first stage; its features are four times as many
    steps: int
    batch: int
    lr: float = 0.1
    spoils: bool = False  # whether its training pictures are randomly speckled and blurred


class PictureTask(SettledTask):
    """Base of the picture tasks; a subclass provides the pictures."""

    Settings: ClassVar[type[Any]]
    gives: ClassVar[str] = "pictures to imitate"
    classes: ClassVar[tuple[str, ...]]
    referee: ClassVar[Referee]
    flips: ClassVar[bool] = False  # whether a mirrored picture is as good
    side: int

    def batch(self, split: Split, rows: Sequence[int]) -> PictureBatch:
        raise NotImplementedError(f"{type(self).__name__} defines no batch(split, rows).")

    def digest(self) -> str:
        """Identifies the pictures: the cache key of a classifier trained on them."""
        raise NotImplementedError(f"{type(self).__name__} defines no digest().")

    def checks(self, pictures: Tensor) -> dict[str, float]:
        """Checks of pictures (B, H, W, 3) that need no classifier: name -> share from 0 to 1."""
        return {}

    def sizes(self) -> dict[str, int]:
        return {"classes": len(self.classes), "side": self.side}

    def evaluation_plan(self, split: Split, *, batch: int) -> list[list[int]]:
        """Empty: held-out pictures have no loss."""
        return []

    def loss(self, model: nn.Module, batch: PictureBatch) -> Loss:
        """The sum of the model's own losses over the pictures."""
        pictures = to_network(batch.pictures)
        losses = model(flipped(pictures) if self.flips else pictures, batch.labels)
        return Loss(losses.sum(), torch.full((), len(losses), device=losses.device))


@dataclass(frozen=True, kw_only=True)
class Cifar10Settings:
    """Where the photographs are, and how many are held out for validation."""

    data: str = ""  # the data folder; default: the one that REGARD_DATA names
    valid: int = 5000  # spread evenly over the training part, which may be sorted by class

    def __post_init__(self) -> None:
        if not 1 <= self.valid <= 25_000:
            raise ConfigError(f"cifar10: `valid` has {self.valid}; expected 1 to 25000.")


@card(
    "task",
    "cifar10",
    title="CIFAR-10",
    authors="Krizhevsky",
    year=2009,
    link="https://www.cs.toronto.edu/~kriz/cifar.html",
    sentence="Photographs of ten classes, 32 × 32: generate pictures of a given class.",
)
class Cifar10Task(PictureTask):
    """Photographs of ten classes, 32 × 32."""

    Settings = Cifar10Settings
    classes = cifar10.CLASSES
    referee = Referee(width=64, steps=1400, batch=512)
    flips = True
    side = cifar10.SIDE

    @classmethod
    def create(cls, settings: Cifar10Settings) -> Self:
        task = cls(settings)
        task._data  # noqa: B018 - report a missing file at once
        return task

    @cached_property
    def _data(self) -> tuple[dict[str, cifar10.Photographs], str]:
        """The parts `train` and `test`, and their digest."""
        return cifar10.read_cifar10(self.settings.data)

    @cached_property
    def _numbers(self) -> dict[Split, Tensor]:
        """The indices of each split's pictures in their part of the data set."""
        parts, valid = self._data[0], self.settings.valid
        train, test = (torch.arange(len(parts[name].labels)) for name in ("train", "test"))
        if valid >= len(train):
            raise ConfigError(
                f"cifar10: `valid` has {valid}; expected fewer than the {len(train)} training pictures."
            )
        held = torch.arange(valid) * len(train) // valid
        kept = torch.ones(len(train), dtype=torch.bool).index_fill(0, held, False)
        return {"train": train[kept], "valid": held, "test": test}

    def count(self, split: Split) -> int:
        return len(self._numbers[split])

    def batch(self, split: Split, rows: Sequence[int]) -> PictureBatch:
        part = self._data[0]["test" if split == "test" else "train"]
        numbers = self._numbers[split][list(rows)]
        return PictureBatch(part.pictures[numbers], part.labels[numbers])

    def digest(self) -> str:
        return f"cifar10 {self._data[1]} {self.settings.valid}"


@dataclass(frozen=True, kw_only=True)
class PairedShapesSettings:
    """How many pictures, and how large."""

    side: int = 16  # pixels
    train: int = 50_000
    valid: int = 2000
    test: int = 4000
    seed: int = 1

    def __post_init__(self) -> None:
        if self.side not in (8, 16, 32):
            raise ConfigError(f"paired-shapes: `side` has {self.side}; expected 8, 16 or {DRAWN}.")
        check_sizes("paired-shapes", self, "train", "valid", "test")


@own_card(
    "paired-shapes",
    title="Paired shapes",
    sentence="A shape twice, left and right, in one colour: to paint one half, a network must see the other.",
)
class PairedShapesTask(PictureTask):
    """The same shape in the same colour, left and right; the class is the shape."""

    Settings = PairedShapesSettings
    classes = SHAPES
    # drawn pictures are clean: a classifier trained on them alone puts noise no farther than a blurred shape
    referee = Referee(width=16, steps=300, batch=64, lr=0.05, spoils=True)

    def __init__(self, settings: PairedShapesSettings) -> None:
        self.settings, self.side = settings, settings.side

    def batch(self, split: Split, rows: Sequence[int]) -> PictureBatch:
        key = f"paired shapes {self.settings.seed} {split}"
        return PictureBatch(*draw_pairs(key, rows, side=self.side))

    def digest(self) -> str:
        return f"paired shapes {asdict(self.settings)}"

    def checks(self, pictures: Tensor) -> dict[str, float]:
        """How often both halves have the same colour; one in six by chance."""
        return {"halves of one colour": float(halves_agree(pictures).double().mean())}
