"""benchmarks/timed.py plans as many steps as fit into the seconds a training is given."""

import random

import pytest
from documentation import benchmark

STEP, CAPTURE = 0.02, 0.6  # seconds


@pytest.fixture(scope="module")
def timed():
    return benchmark("timed")


def trained(steps: int, shapes: int) -> dict[int, float]:
    """The moments of a training's steps: batches of as many shapes, the first of each is captured."""
    chance, seen, moments = random.Random(1), set(), {0: 5.0}
    for step in range(1, steps + 1):
        shape = chance.randrange(shapes)
        usual = STEP * chance.uniform(0.8, 1.2)
        moments[step] = moments[step - 1] + usual + (0.0 if shape in seen else CAPTURE)
        seen.add(shape)
    return moments


@pytest.mark.parametrize("shapes", [1, 29, 40])
def test_planned_steps_fill_the_time_though_shapes_are_captured_until_the_end_of_the_trial(timed, shapes):
    trial = trained(120, shapes)
    late = [b - a for a, b in zip(list(trial.values())[60:], list(trial.values())[61:], strict=False)]
    assert shapes == 1 or sum(span > CAPTURE for span in late) >= 3
    planned = timed.Speed.of(trial).steps(90.0)
    moments = trained(planned, shapes)
    assert 0.85 * 90 < moments[planned] - moments[0] <= 92


def test_a_beginning_costs_what_it_takes_beyond_its_steps(timed):
    moments = {0: 0.0, 1: 3.0} | {step: 3.0 + 0.5 * (step - 1) for step in range(2, 21)}
    assert timed.Speed.of(moments) == (pytest.approx(2.0), pytest.approx(2.5))
    assert timed.Speed(2.0, 2.5).steps(22.5) == 38
