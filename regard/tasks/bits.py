"""Algorithms to be learnt from examples: vectors in, bits out, cost in bits.

    cost = -Σ_t Σ_o [ y log2 p + (1 - y) log2 (1 - p) ]          over the steps that count

An example is of one *shape* (how long, how often), which is its kind as tasks/base.py has it. Test examples
have the shapes of `tested`, which may lie beyond the trained ones.
"""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.bits import BitBatch, join
from regard.data.counter_rng import uniform
from regard.errors import ConfigError, check_range, check_sizes
from regard.tasks.base import DrawnTask, Loss, Split

Shape = tuple[int, ...]


class BitTask(DrawnTask):
    """What the algorithmic tasks share; a subclass says which shapes there are and draws examples of one."""

    Settings: ClassVar[type[Any]]
    name: ClassVar[str]
    units: ClassVar[tuple[str, ...]]  # what the numbers of a shape count
    ranges: ClassVar[tuple[tuple[str, str], ...]]  # the settings between which each lies in training
    least: ClassVar[int] = 1  # of all of them
    sized: ClassVar[tuple[str, ...]] = ("bits",)  # settings that are sizes
    gives: ClassVar[str] = "sequences of bits"

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        check_sizes(self.name, settings, *self.sized, "train", "valid", "test")
        for low, high in self.ranges:
            check_range(self.name, settings, low, high, self.least)
        if not settings.tested:
            raise ConfigError(f"{self.name}: `tested` has no shapes; expected at least one.")
        for shape in self._tested():
            if len(shape) != len(self.units) or min(shape) < 1:
                wanted = " and ".join(self.units)
                raise ConfigError(f"{self.name}: `tested` has {shape}; expected {wanted}, each 1 or more.")
            self.check(shape)

    # what a subclass says

    def sizes(self) -> dict[str, int]:
        """`inputs` channels and `outputs` bits."""
        raise NotImplementedError(f"{type(self).__name__} defines no sizes().")

    def trained(self) -> list[Shape]:
        """The shapes of training and validation, the smallest first."""
        bounds = [(getattr(self.settings, low), getattr(self.settings, high)) for low, high in self.ranges]
        shapes = product(*(range(low, high + 1) for low, high in bounds))
        return sorted(shapes, key=lambda shape: (math.prod(shape), shape))

    def draw(self, shape: Shape, chance: Tensor) -> BitBatch:
        """Examples of one shape from (B, `needs(shape)`) uniform numbers."""
        raise NotImplementedError(f"{type(self).__name__} defines no draw(shape, chance).")

    def needs(self, shape: Shape) -> int:
        """How many uniform numbers an example of this shape is made of."""
        raise NotImplementedError(f"{type(self).__name__} defines no needs(shape).")

    def optimum(self, batch: BitBatch) -> Tensor:
        """(B,) bits that the best possible predictor pays; nothing, where the answer can be computed."""
        return torch.zeros(batch.size)

    def check(self, shape: Shape) -> None:
        """Refuse a shape that has no examples."""

    # plans

    def kinds(self, split: Split) -> int:
        return len(self.shapes(split))

    def shapes(self, split: Split) -> list[Shape]:
        """The shapes of a split; example `row` has the one of number `row` modulo their count."""
        return self._tested() if split == "test" else self.trained()

    def shape(self, split: Split, row: int) -> Shape:
        shapes = self.shapes(split)
        return shapes[row % len(shapes)]

    def batch(self, split: Split, rows: Sequence[int]) -> BitBatch:
        """The examples of these numbers; where their shapes differ, the shorter ones are padded."""
        shapes = [self.shape(split, row) for row in rows]
        stream = f"{self.name} {self.settings.seed} {split}"
        if len(set(shapes)) == 1:
            return self.draw(shapes[0], uniform(stream, rows, self.needs(shapes[0])))
        pairs = zip(shapes, rows, strict=True)
        return join([self.draw(shape, uniform(stream, [row], self.needs(shape))) for shape, row in pairs])

    def example(self, shape: Shape, number: int = 0) -> BitBatch:
        """One example of any shape, apart from all splits: to look at."""
        self.check(shape)
        return self.draw(
            shape, uniform(f"{self.name} {self.settings.seed} shown", [number], self.needs(shape))
        )

    def loss(self, model: nn.Module, batch: BitBatch) -> Loss:
        """Cross-entropy in bits; the mean over the bits that count is 1 for a coin and 0 for the truth."""
        cost = costs(model(batch), batch)
        return Loss(cost.sum(), batch.counted.sum() * batch.targets.shape[-1])

    def _tested(self) -> list[Shape]:
        return [shape if isinstance(shape, tuple) else (shape,) for shape in self.settings.tested]


class GrowingTask(BitTask):
    """A task whose longest sequences may come later: `curriculum` epochs until all shapes are drawn.

    With `until`, only an epoch whose training loss came down to it counts as one of them.
    """

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        check_sizes(self.name, settings, "curriculum", least=0)
        if not 0 <= settings.until < math.inf:
            raise ConfigError(f"{self.name}: `until` has {settings.until}; expected 0 or more.")

    def allowed(self, epoch: int) -> int:
        count, epochs = len(self.trained()), self.settings.curriculum
        return min(count, math.ceil(count * (epoch + 1) / epochs)) if epochs else count

    def learnt(self, loss: float) -> bool:
        return loss <= self.settings.until

    def plan(self, epoch: int, *, seed: int, batch: int, learnt: int | None = None) -> list[list[int]]:
        waits = bool(self.settings.until)
        return super().plan(epoch, seed=seed, batch=batch, learnt=learnt if waits else None)


def costs(logits: Tensor, batch: BitBatch) -> Tensor:
    """(B, T, O) logits -> (B,) bits that each sequence costs."""
    nats = F.binary_cross_entropy_with_logits(logits.float(), batch.targets, reduction="none")
    return (nats.sum(-1) * batch.counted).sum(-1) / math.log(2)
