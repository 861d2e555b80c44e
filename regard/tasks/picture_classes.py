"""Picture classification: drawn scenes, Fashion-MNIST or CIFAR-10.

    [task]
    name = "picture-classes"
    corpus = "shapes"     # generated, no data needed; or "fashion-mnist", "cifar10"
    data = "/data"        # the folder that holds the data set; empty: REGARD_DATA

    loss = -Σ log p(class | picture)

A drawn scene has one coloured shape among up to eight grey ones; its class is the shape of the coloured one.
The object is small, and what surrounds it misleads. From the training part of a data set, the last pictures
are held out for validation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, Self

from torch import Tensor, nn

from regard.catalog import card
from regard.data import cifar10, fashion_mnist, shapes
from regard.data.pictures import PictureBatch
from regard.errors import ConfigError, check_sizes
from regard.tasks.base import Loss, SettledTask, Split, class_loss

CLASSES = {"shapes": shapes.SHAPES, "fashion-mnist": fashion_mnist.CLASSES, "cifar10": cifar10.CLASSES}
SIDES = {"shapes": shapes.SIDE, "fashion-mnist": fashion_mnist.SIDE, "cifar10": cifar10.SIDE}


@dataclass(frozen=True, kw_only=True)
class PictureClassesSettings:
    """Which pictures, and how many."""

    corpus: Literal["shapes", "fashion-mnist", "cifar10"] = "shapes"
    data: str = ""
    clutter: int = 8  # shapes: most grey things in a scene
    train: int = 20_000  # shapes: scenes an epoch; of a data set, at most so many
    valid: int = 1000
    test: int = 4000  # of a data set, at most so many
    seed: int = 1

    def __post_init__(self) -> None:
        check_sizes("picture-classes", self, "train", "valid", "test")
        if not 0 <= self.clutter < shapes.CELLS**2:
            raise ConfigError(
                f"picture-classes: `clutter` has {self.clutter}; expected 0 to {shapes.CELLS**2 - 1}."
            )


@card(
    "task",
    "picture-classes",
    title="Pictures and their classes",
    authors="Xiao, Rasul, Vollgraf; Krizhevsky",
    year=2017,
    link="https://github.com/zalandoresearch/fashion-mnist",
    sentence="Name what a picture is of: drawn shapes, Fashion-MNIST or CIFAR-10.",
)
class PictureClassesTask(SettledTask):
    """The class of a picture."""

    Settings = PictureClassesSettings
    gives: ClassVar[str] = "labelled pictures"

    def __init__(self, settings: PictureClassesSettings) -> None:
        self.settings = settings
        self.labels: tuple[str, ...] = CLASSES[settings.corpus]

    @classmethod
    def create(cls, settings: PictureClassesSettings) -> Self:
        task = cls(settings)
        if settings.corpus != "shapes":
            kept = len(task.pictures["train"][1])
            if kept <= settings.valid:
                raise ConfigError(
                    f"picture-classes: `valid` has {settings.valid}; expected less than the {kept} pictures "
                    "of the training part."
                )
        return task

    def sizes(self) -> dict[str, int]:
        return {"classes": len(self.labels), "side": SIDES[self.settings.corpus]}

    @cached_property
    def pictures(self) -> Mapping[str, tuple[Tensor, Tensor]]:
        """The parts `train` and `test` of a data set."""
        if self.settings.corpus == "cifar10":
            return cifar10.read_cifar10(self.settings.data)[0]
        read = fashion_mnist.read_fashion_mnist
        return {name: read(self.settings.data, name) for name in ("train", "test")}

    def count(self, split: Split) -> int:
        """Pictures of a split."""
        wanted: int = getattr(self.settings, split)
        if self.settings.corpus == "shapes" or split == "valid":
            return wanted
        held = self.settings.valid if split == "train" else 0
        return min(wanted, len(self.pictures[split][1]) - held)

    def batch(self, split: Split, rows: Sequence[int]) -> PictureBatch:
        if self.settings.corpus == "shapes":
            key = f"picture classes {self.settings.seed} {split}"
            scenes = shapes.draw_scenes(key, rows, fewest=1, most=1, clutter=self.settings.clutter)
            return PictureBatch(scenes.pictures(), scenes.shapes[:, 0])
        pictures, labels = self.pictures["test" if split == "test" else "train"]
        first = len(labels) - self.settings.valid if split == "valid" else 0
        numbers = [first + row for row in rows]
        return PictureBatch(pictures[numbers], labels[numbers])

    def loss(self, model: nn.Module, batch: PictureBatch) -> Loss:
        """Cross-entropy, summed over the pictures."""
        return class_loss(model(batch), batch.labels)
