"""Learning rates as pure functions of the step, without state, so that a run can resume at any step.

    lr(step) = lr · warmup(step) · schedule(step)            steps count from 1

All schedules share the linear warm-up.
"""

import math
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from regard.train.config import TrainConfig

ScheduleName = Literal["constant", "linear", "cosine", "inverse-sqrt", "halve"]


def learning_rate(step: int, train: "TrainConfig") -> float:
    """The learning rate of update `step`, counted from 1."""
    warmup = min(1.0, step / train.warmup) if train.warmup else 1.0
    return train.lr * warmup * _factor(step, train)


def _factor(step: int, train: "TrainConfig") -> float:
    """The schedule's value at a step."""
    # 0 during the warm-up and the first step after it, just below 1 at the last step
    progress = min(max(step - train.warmup - 1, 0) / max(train.steps - train.warmup, 1), 1.0)
    match train.schedule:
        case "constant":
            return 1.0
        case "linear":
            return 1.0 - progress
        case "cosine":  # half a cosine from 1 to 0
            return 0.5 * (1.0 + math.cos(math.pi * progress))
        case "inverse-sqrt":  # √(warmup / step): Vaswani 2017, equation 3, with its peak at `lr`
            peak = max(train.warmup, 1)
            return math.sqrt(peak / max(step, peak))
        case "halve":  # 1 for `halve_after` steps, halved then and every `halve_every` steps: Luong 2015, 4.1
            halvings = 1 + (step - train.halve_after - 1) // train.halve_every
            return 0.5 ** max(halvings, 0)
