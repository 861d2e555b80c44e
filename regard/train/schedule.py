"""Learning rates as pure functions of the step, without state, so that a run can resume at any step.

    lr(step) = lr · warmup(step) · schedule(step)            steps count from 1

Each schedule is a function `(step, train) -> factor`. All of them share the linear warm-up.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from regard.train.config import TrainConfig

ScheduleName = Literal["constant", "linear", "cosine", "inverse-sqrt", "halve"]


def constant(step: int, train: "TrainConfig") -> float:
    """1 at every step."""
    return 1.0


def linear(step: int, train: "TrainConfig") -> float:
    """Linear from 1 after the warm-up to 0, which the step after the last would have."""
    return 1.0 - _progress(step, train)


def cosine(step: int, train: "TrainConfig") -> float:
    """Half a cosine from 1 to 0."""
    return 0.5 * (1.0 + math.cos(math.pi * _progress(step, train)))


def inverse_sqrt(step: int, train: "TrainConfig") -> float:
    """√(warmup / step) after the warm-up (Vaswani 2017, equation 3, with its peak at `lr`)."""
    peak = max(train.warmup, 1)
    return math.sqrt(peak / max(step, peak))


def halve(step: int, train: "TrainConfig") -> float:
    """1 for `halve_after` steps, then halved, and again every `halve_every` steps (Luong 2015, 4.1)."""
    if step <= train.halve_after:
        return 1.0
    return 0.5 ** (1 + (step - train.halve_after - 1) // train.halve_every)


SCHEDULES: dict[ScheduleName, Callable[[int, "TrainConfig"], float]] = {
    "constant": constant,
    "linear": linear,
    "cosine": cosine,
    "inverse-sqrt": inverse_sqrt,
    "halve": halve,
}


def learning_rate(step: int, train: "TrainConfig") -> float:
    """The learning rate of update `step`, counted from 1."""
    warmup = min(1.0, step / train.warmup) if train.warmup else 1.0
    return train.lr * warmup * SCHEDULES[train.schedule](step, train)


def _progress(step: int, train: "TrainConfig") -> float:
    """0 during the warm-up and the first step after it, just below 1 at the last step."""
    total = max(train.steps - train.warmup, 1)
    return min(max(step - train.warmup - 1, 0) / total, 1.0)
