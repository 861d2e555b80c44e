import math
from typing import Any, get_args

import pytest

from regard.train.config import TrainConfig
from regard.train.schedule import ScheduleName, learning_rate


def rates(**settings: Any) -> list[float]:
    train = TrainConfig(lr=1.0, **settings)
    return [learning_rate(step, train) for step in range(1, train.steps + 1)]


def test_constant_stays() -> None:
    assert rates(schedule="constant", steps=3) == [1.0, 1.0, 1.0]


def test_linear_falls_by_equal_parts_and_never_wastes_a_step() -> None:
    assert rates(schedule="linear", steps=4) == [1.0, 0.75, 0.5, 0.25]
    assert rates(schedule="linear", steps=6, warmup=2) == [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]


def test_cosine_is_half_way_down_in_the_middle() -> None:
    values = rates(schedule="cosine", steps=4)
    assert values == pytest.approx([1.0, 0.5 * (1 + math.sqrt(0.5)), 0.5, 0.5 * (1 - math.sqrt(0.5))])


def test_inverse_sqrt_is_the_transformers_equation_up_to_its_peak() -> None:
    # Vaswani 2017, equation 3: min(step ** -0.5, step * warmup ** -1.5), whose peak is warmup ** -0.5
    paper = [min(step**-0.5, step * 4**-1.5) / 4**-0.5 for step in range(1, 21)]
    assert rates(schedule="inverse-sqrt", steps=20, warmup=4) == pytest.approx(paper)


def test_halve_waits_and_then_halves() -> None:
    assert rates(schedule="halve", steps=7, halve_after=2, halve_every=2) == [
        1,
        1,
        0.5,
        0.5,
        0.25,
        0.25,
        0.125,
    ]


@pytest.mark.parametrize("schedule", get_args(ScheduleName))
def test_every_schedule_warms_up_linearly_and_stays_positive(schedule: str) -> None:
    values = rates(schedule=schedule, steps=50, warmup=5, halve_after=10, halve_every=10)
    assert values[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert all(0 < value <= 1 for value in values)


def test_the_rate_scales_with_lr() -> None:
    assert learning_rate(3, TrainConfig(lr=0.25)) == 0.25
