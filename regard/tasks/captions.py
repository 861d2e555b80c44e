"""Pictures and sentences about them: embedded scenes of coloured shapes, and Flickr8k.

An example is a picture with one of its captions. A model reads the pixels, or annotations that a frozen
encoder (`encoder`) computes once, before training.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from regard.catalog import card
from regard.data.batches import Plan, in_batches, plan_by_rows
from regard.data.features import FrozenEncoder, build_encoder, cached_features
from regard.data.flickr8k import Flickr8k, open_flickr8k
from regard.data.images import ImageBatch, Pixels, image_batch
from regard.data.shapes import COLOURS, SHAPES, SIDE, Scenes, draw_scenes
from regard.data.tokens import Tokenizer
from regard.errors import ConfigError, check_range, check_sizes
from regard.tasks.base import Loss, Scored, Split, own_card
from regard.tasks.translation import cross_entropy

ENCODER = "encoder.safetensors"  # in a run folder


class Named(NamedTuple):
    """A thing that a caption names: its words, and its place in the picture, if it is there."""

    words: range
    mask: Tensor | None  # (side, side)


class CaptionTask:
    """Base of the captioning tasks; a subclass provides pictures and captions."""

    Settings: ClassVar[type[Any]]
    gives: ClassVar[str] = "pictures with captions"
    side: int  # pixels of a picture's side
    encoder: FrozenEncoder | None = None
    longest = sys.maxsize  # words of a training caption; longer ones are left out

    def __init__(self, settings: Any, tokenizer: Tokenizer) -> None:
        self.settings, self.tokenizer = settings, tokenizer
        self._examples: dict[Split, tuple[list[int], list[list[int]]]] = {}

    def count(self, split: Split) -> int:
        """Pictures of a split."""
        raise NotImplementedError(f"{type(self).__name__} defines no count(split).")

    def pictures(self, split: Split, numbers: Sequence[int]) -> Pixels:
        """(B, side, side, 3) the numbered pictures of a split."""
        raise NotImplementedError(f"{type(self).__name__} defines no pictures(split, numbers).")

    def references(self, split: Split) -> list[list[str]]:
        """All captions of each picture of a split."""
        raise NotImplementedError(f"{type(self).__name__} defines no references(split).")

    def named(self, split: Split, number: int, words: Sequence[str]) -> list[Named]:
        """What a caption names and where it is; empty if unknown, as for photographs."""
        return []

    def sizes(self) -> dict[str, int]:
        return {"target_vocab": len(self.tokenizer)}

    def examples(self, split: Split) -> tuple[list[int], list[list[int]]]:
        """For each example the number of its picture, and the ids of its caption without eos."""
        if split not in self._examples:
            pairs = [(n, text) for n, texts in enumerate(self.references(split)) for text in texts]
            captions = self.tokenizer.encode_all([text for _, text in pairs])
            longest = self.longest if split == "train" else sys.maxsize
            kept = [n for n, caption in enumerate(captions) if len(caption) <= longest]
            self._examples[split] = [pairs[n][0] for n in kept], [captions[n] for n in kept]
        return self._examples[split]

    def plan(self, epoch: int, *, seed: int, batch: int) -> Plan:
        """`batch` counts captions; those in a batch have similar lengths."""
        lengths = [len(caption) for caption in self.examples("train")[1]]
        return plan_by_rows(lengths, rows=batch, epoch=epoch, seed=seed)

    def evaluation_plan(self, split: Split, *, batch: int) -> list[list[int]]:
        return in_batches(range(len(self.examples(split)[1])), batch)

    def batch(self, split: Split, rows: Sequence[int]) -> ImageBatch:
        numbers, captions = self.examples(split)
        sources = self.sources(split, [numbers[row] for row in rows])
        return image_batch(sources, [captions[row] for row in rows])

    def sources(self, split: Split, numbers: Sequence[int]) -> Tensor:
        """The model's input for these pictures."""
        return self.annotate(self.pictures(split, numbers))

    def annotate(self, pictures: Pixels) -> Tensor:
        """(B, side, side, 3) pictures -> a model's input: the pixels, or the frozen encoder's annotations."""
        return pictures if self.encoder is None else self.encoder(pictures)

    def loss(self, model: nn.Module, batch: ImageBatch) -> Loss:
        """Cross-entropy, summed over the words and eos, plus the model's extra loss."""
        found: Scored = model(batch)
        loss = cross_entropy(found.scores, batch)
        return Loss(loss.total + found.extra, loss.count)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / "tokenizer.json")
        if self.encoder is not None:
            self.encoder.save(folder / ENCODER)


@dataclass(frozen=True, kw_only=True)
class ShapesSettings:
    """How many scenes, and what is in them."""

    fewest: int = 2  # things that a sentence names
    most: int = 3
    clutter: int = 1  # grey things that no sentence names, at most
    train: int = 50_000
    valid: int = 500
    test: int = 1000
    seed: int = 1

    def __post_init__(self) -> None:
        check_sizes("shapes", self, "train", "valid", "test")
        check_range("shapes", self, "fewest", "most")
        if self.clutter < 0 or self.most + self.clutter > 9:
            raise ConfigError(
                f"shapes: `most` has {self.most} and `clutter` {self.clutter}; expected 9 things at most, "
                "one a cell."
            )


@own_card(
    "shapes",
    title="Scenes of coloured shapes",
    sentence="Drawn scenes, each with a sentence about its shapes; the place of every shape is known.",
)
class ShapesTask(CaptionTask):
    """Scenes of coloured shapes, each with one sentence; the place of every shape is known."""

    Settings = ShapesSettings
    side = SIDE

    @classmethod
    def create(cls, settings: ShapesSettings) -> Self:
        words = " ".join(["a above left of", *COLOURS, *SHAPES])
        return cls(settings, Tokenizer.train([words], kind="words", language="en", lowercase=True))

    @classmethod
    def restore(cls, settings: ShapesSettings, folder: Path) -> Self:
        return cls(settings, Tokenizer.load(folder / "tokenizer.json"))

    def count(self, split: Split) -> int:
        return int(getattr(self.settings, split))

    def scenes(self, split: str, numbers: Sequence[int]) -> Scenes:
        """The scenes with these numbers."""
        s, key = self.settings, f"shapes {self.settings.seed} {split}"
        return draw_scenes(key, numbers, fewest=s.fewest, most=s.most, clutter=s.clutter)

    def pictures(self, split: Split, numbers: Sequence[int]) -> Pixels:
        return self.scenes(split, numbers).pictures()

    def references(self, split: Split) -> list[list[str]]:
        scenes = self.scenes(split, range(self.count(split)))
        return [[scenes.sentence(n)] for n in range(len(scenes))]

    def named(self, split: Split, number: int, words: Sequence[str]) -> list[Named]:
        """A colour followed by a shape names a thing; one that is not in the scene has no mask."""
        scene, found = self.scenes(split, [number]), []
        for t in range(len(words) - 1):
            if words[t] in COLOURS and words[t + 1] in SHAPES:
                thing = scene.find(0, words[t], words[t + 1])
                found.append(Named(range(t, t + 2), None if thing is None else scene.mask(0, thing)))
        return found


@dataclass(frozen=True, kw_only=True)
class Flickr8kSettings:
    """Which words, and how the photographs are read."""

    data: str = ""  # the data folder; default: the one that REGARD_DATA names
    encoder: str = "squeezenet"  # "small": pixels for the model's own net; or "torchvision:NAME"
    side: int = 128  # pixels of a photograph's side
    minimum: int = 5  # how often a word must be seen to be learnt
    longest: int = 30  # words of a training caption; longer ones are left out of training

    def __post_init__(self) -> None:
        check_sizes("flickr8k", self, "side", least=32)
        check_sizes("flickr8k", self, "minimum", "longest")


@card(
    "task",
    "flickr8k",
    title="Flickr8k",
    authors="Hodosh, Young, Hockenmaier",
    year=2013,
    link="https://doi.org/10.1613/jair.3994",
    sentence="Photographs with five captions each, read as pixels or through a frozen encoder.",
)
class Flickr8kTask(CaptionTask):
    """Photographs with five captions each; every caption of the training split is an example."""

    Settings = Flickr8kSettings

    def __init__(
        self, settings: Flickr8kSettings, tokenizer: Tokenizer, encoder: FrozenEncoder | None
    ) -> None:
        super().__init__(settings, tokenizer)
        self.encoder, self.side, self.longest = encoder, settings.side, settings.longest

    @classmethod
    def create(cls, settings: Flickr8kSettings) -> Self:
        photographs = open_flickr8k(settings.data)
        texts = [text for row in photographs.rows("train") for text in photographs.captions[row]]
        learnt = Tokenizer.train(texts, kind="words", language="en", minimum=settings.minimum, lowercase=True)
        small = settings.encoder == "small"
        task = cls(settings, learnt, None if small else build_encoder(settings.encoder, data=settings.data))
        task.photographs = photographs
        return task

    @classmethod
    def restore(cls, settings: Flickr8kSettings, folder: Path) -> Self:
        """The data folder is needed only when its photographs are used."""
        small = settings.encoder == "small"
        encoder = None if small else build_encoder(settings.encoder, saved=folder / ENCODER)
        return cls(settings, Tokenizer.load(folder / "tokenizer.json"), encoder)

    @cached_property
    def photographs(self) -> Flickr8k:
        """The data set, opened on first use."""
        return open_flickr8k(self.settings.data)

    @cached_property
    def features(self) -> int:
        """The number of features per place from the encoder; 0 without one."""
        blank = torch.zeros(1, self.side, self.side, 3, dtype=torch.uint8)
        return 0 if self.encoder is None else self.encoder(blank).shape[-1]

    @cached_property
    def annotations(self) -> Tensor:
        """The encoder's annotations of all photographs, computed once."""
        assert self.encoder is not None
        photographs, side = self.photographs, self.side
        return cached_features(
            self.encoder,
            lambda rows: photographs.pictures(rows, side=side),
            len(photographs),
            of=f"{photographs.digest()} {side}",
        )

    def sizes(self) -> dict[str, int]:
        return {**super().sizes(), "features": self.features}

    def count(self, split: Split) -> int:
        return len(self.photographs.rows(split))

    def pictures(self, split: Split, numbers: Sequence[int]) -> Pixels:
        rows = self.photographs.rows(split)
        return self.photographs.pictures([rows[number] for number in numbers], side=self.side)

    def references(self, split: Split) -> list[list[str]]:
        return [self.photographs.captions[row] for row in self.photographs.rows(split)]

    def sources(self, split: Split, numbers: Sequence[int]) -> Tensor:
        if self.encoder is None:
            return super().sources(split, numbers)
        rows = self.photographs.rows(split)
        return self.annotations[[rows[number] for number in numbers]]
