"""Few-shot classification: N classes never seen before, K drawings of each, and one drawing to classify.

    [task]
    name = "few-shot"
    characters = "omniglot"      # or "strokes", which are generated and need no data
    ways = 5                     # N
    shots = [1, 2, 3, 4, 5]      # K of the training episodes, one of them a batch
    tested = [1, 5]              # K of the test episodes, the headline's first
    data = "/data"               # the folder that holds omniglot/; empty: REGARD_DATA

Training, validation and test have different classes. Of Omniglot's 1,623 characters, a fixed random choice of
1,200 is for learning: 1,140 for training and 60 for validation; turned by 90, 180 and 270 degrees they count
as further classes (4,560 and 240 in all). The other 423 are the test, upright.

The label of a class changes from episode to episode, so labels cannot be learnt, only looked up. No episode
repeats: an example's number is its seed, and its remainder determines its K.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from random import Random
from typing import Literal, Self

import torch
from torch import Tensor, nn

from regard.catalog import card
from regard.data.counter_rng import uniform
from regard.data.episodes import DealtEpisodes, EpisodeBatch, Sheets
from regard.data.omniglot import DRAWINGS, SIDE, find_omniglot, read_omniglot
from regard.data.strokes import draw_characters
from regard.errors import ConfigError, check_sizes
from regard.tasks.base import SPLITS, DrawnTask, Loss, Split, class_loss

LEARNT, HELD_OUT = 1200, 60  # Omniglot's characters for training, and how many of these for validation
STROKE_CLASSES: dict[Split, int] = {"train": 600, "valid": 40, "test": 160}


@dataclass(frozen=True, kw_only=True)
class FewShotSettings:
    """Which characters, how many classes and drawings an episode has, how many episodes."""

    characters: Literal["strokes", "omniglot"] = "strokes"
    data: str = ""
    ways: int = 5
    shots: tuple[int, ...] = (1,)
    tested: tuple[int, ...] = (1,)
    queries: int = 1  # of each training episode; tests have one, as in the paper
    shift: int = 0  # pixels by which a training drawing may be moved, each way
    bend: float = 0.0  # largest entry of the matrix by which every second is turned, stretched and slanted
    train: int = 20_000  # episodes an epoch, new ones each time
    valid: int = 500
    test: int = 2000  # of each K
    seed: int = 1

    def __post_init__(self) -> None:
        check_sizes("few-shot", self, "ways", least=2)
        for name in ("shots", "tested"):
            numbers = getattr(self, name)
            if not numbers or min(numbers) < 1 or max(numbers) >= DRAWINGS:
                raise ConfigError(
                    f"few-shot: `{name}` has {list(numbers)}; expected numbers of 1 to {DRAWINGS - 1}, since "
                    f"a class has {DRAWINGS} drawings and one of them is the query."
                )
        if not 1 <= self.queries <= DRAWINGS - max(self.shots):
            raise ConfigError(
                f"few-shot: `queries` has {self.queries}; expected 1 to {DRAWINGS - max(self.shots)}, the "
                "drawings of a class that are not shown."
            )
        if not 0 <= self.shift < SIDE:
            raise ConfigError(f"few-shot: `shift` has {self.shift}; expected 0 to {SIDE - 1} pixels.")
        if not 0 <= self.bend < 0.5:
            raise ConfigError(f"few-shot: `bend` has {self.bend}; expected 0 or more and less than 0.5.")
        check_sizes("few-shot", self, "train", "valid", "test")


@card(
    "task",
    "few-shot",
    title="Few-shot classification",
    authors="Lake, Salakhutdinov, Tenenbaum",
    year=2015,
    link="https://github.com/brendenlake/omniglot",
    sentence=(
        "Name a drawing of a class never seen before, from a few labelled ones: Omniglot or random strokes."
    ),
)
class FewShotTask(DrawnTask):
    """Name the class of a drawing, among the N classes of an episode."""

    Settings = FewShotSettings
    gives = "episodes of few examples"
    settings: FewShotSettings

    @classmethod
    def create(cls, settings: FewShotSettings) -> Self:
        if settings.characters == "omniglot":
            find_omniglot(settings.data)  # report missing files first
        task = cls(settings)
        for split in SPLITS:
            if len(task.drawings[split]) < settings.ways:
                raise ConfigError(
                    f"few-shot: `ways` has {settings.ways}; expected at most {len(task.drawings[split])}, "
                    f"the classes of the {split} split."
                )
        return task

    def sizes(self) -> dict[str, int]:
        settings = self.settings
        return {"ways": settings.ways, "steps": settings.ways * max(settings.shots + settings.tested) + 1}

    @cached_property
    def drawings(self) -> dict[Split, Tensor]:
        """(classes, 20, 28, 28) of each split."""
        if self.settings.characters == "strokes":
            return draw_strokes(self.settings.seed)
        characters = read_omniglot(self.settings.data)
        order = Random("omniglot").sample(range(len(characters)), len(characters))
        kept = LEARNT - HELD_OUT
        return {
            "train": turned(characters[order[:kept]]),
            "valid": turned(characters[order[kept:LEARNT]]),
            "test": characters[order[LEARNT:]],
        }

    @cached_property
    def sheets(self) -> dict[Split, Sheets]:
        """All drawings of each split, from which episodes are cropped; training crops may be shifted."""
        return {
            split: Sheets(images.reshape(-1, SIDE, SIDE), self.settings.shift if split == "train" else 0)
            for split, images in self.drawings.items()
        }

    # plans

    def shots(self, split: Split) -> tuple[int, ...]:
        """The values of K in a split; example `row` has the one at `row` modulo their count."""
        return self.settings.tested if split == "test" else self.settings.shots

    def kinds(self, split: Split) -> int:
        return len(self.shots(split))

    def batch(self, split: Split, rows: Sequence[int]) -> DealtEpisodes:
        """The episodes with these numbers, which must have the same K."""
        shots = self.shots(split)
        found = {row % len(shots) for row in rows}
        if len(found) > 1:
            raise ConfigError(f"few-shot: `rows` has {len(found)} numbers of shots; expected one.")
        K = shots[found.pop()] if found else shots[0]
        return self.deal(split, rows, K, queries=self.settings.queries if split == "train" else 1)

    def episodes(self, split: Split, rows: Sequence[int], K: int) -> EpisodeBatch:
        """The numbered episodes of a split with K shots and one query."""
        return self.deal(split, rows, K, queries=1).to("cpu")

    def deal(self, split: Split, rows: Sequence[int], K: int, *, queries: int) -> DealtEpisodes:
        """The numbered episodes of a split with K shots: random classes, labels, order and drawings."""
        sheets, N, B, Q = self.sheets[split], self.settings.ways, len(rows), queries
        images, bend = N * K + Q, self.settings.bend if split == "train" else 0.0
        counts = (N, N, N * DRAWINGS, N * K, Q, 2 * images if sheets.margin else 0, 5 * images if bend else 0)
        u = uniform(f"few-shot {self.settings.seed} {split} {K}", rows, sum(counts))
        classes, labels, drawn, order, asked, move, turn = u.split_with_sizes(counts, 1)
        # the class of each label: both the N classes and their labels are random
        chosen = distinct(classes, len(self.drawings[split])).gather(1, labels.argsort(1))
        drawing = drawn.reshape(B, N, DRAWINGS).argsort(-1)  # (B, N, 20) a permutation for each class
        number = chosen[..., None] * DRAWINGS + drawing  # (B, N, 20) of all drawings
        place = order.argsort(1)  # (B, N K) label and shot of each step
        label, shot = place // K, place % K
        row = torch.arange(B)[:, None]
        answer = (asked * N).long()  # (B, Q)
        support, query = number[row, label, shot], number[row, answer, K + torch.arange(Q)]
        corners = None
        if sheets.margin:
            corners = (move * (2 * sheets.margin + 1)).long().reshape(B, images, 2)
        bends = None
        if bend:
            turn = turn.reshape(B, images, 5)
            entries = torch.where(turn[..., :1] < 0.5, bend * (2 * turn[..., 1:] - 1), 0.0)
            bends = entries.float().reshape(B, images, 2, 2)
        return DealtEpisodes(sheets, support, label, query, answer, corners, bends)

    def loss(self, model: nn.Module, batch: EpisodeBatch) -> Loss:
        """Cross-entropy of the queries' classes, summed; the support has no loss."""
        return class_loss(model(batch).flatten(0, 1), batch.answers.flatten())


@lru_cache(maxsize=1)
def draw_strokes(seed: int) -> dict[Split, Tensor]:
    """The generated characters of each split."""
    return {
        split: draw_characters(f"strokes {seed} {split}", count, DRAWINGS)
        for split, count in STROKE_CLASSES.items()
    }


def turned(drawings: Tensor) -> Tensor:
    """(C, 20, 28, 28) -> (4 C, 20, 28, 28): every class, then all turned by 90, 180 and 270 degrees."""
    return torch.cat([drawings.rot90(k, (2, 3)) for k in range(4)])


def distinct(u: Tensor, size: int) -> Tensor:
    """(B, N) uniform numbers -> N distinct numbers below `size` in each row, all sets equally likely.

    Floyd's algorithm: the i-th number is drawn below size - N + i + 1; a duplicate is replaced by the
    largest. Their order is not uniform.
    """
    B, N = u.shape
    chosen = torch.full((B, N), -1)
    for i in range(N):
        most = size - N + i
        drawn = (u[:, i] * (most + 1)).long()
        taken = (chosen == drawn[:, None]).any(1)
        chosen[:, i] = drawn.masked_fill(taken, most)
    return chosen
