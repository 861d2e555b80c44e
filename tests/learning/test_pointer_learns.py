"""A pointer network learns convex hulls of five points; with its pointer cut off it says nothing right.

Expected: accuracy above 0.45 and area above 0.9 after 450 steps; below 0.1 without the pointer.
"""

import pytest
import torch
from measures import at_least, at_most

from regard.evaluate.pointing import evaluate_pointing
from regard.models.pointer import PointerConfig, PointerNetwork
from regard.tasks.pointing import HullTask, PointingSettings
from regard.train.config import RunConfig, TrainConfig
from regard.train.loop import fit
from regard.train.progress import Quiet

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def task():
    return HullTask.create(
        PointingSettings(shortest=5, longest=5, train=32_000, valid=64, test=400, tests=(5,))
    )


def train(model, task, run):
    settings = TrainConfig(
        seed=torch.initial_seed(),
        steps=450,
        batch=64,
        lr=0.01,
        clip=2.0,
        schedule="cosine",
        evaluate_every=0,
        checkpoint_every=0,
    )
    config = RunConfig(model="pointer", model_settings={}, task="hull", task_settings={}, train=settings)
    fit(model, task, config, run=run, progress=Quiet())
    return model.eval()


@pytest.fixture(scope="module")
def pointer(task, tmp_path_factory):
    model = PointerNetwork(PointerConfig(dimension=2, hidden=64))
    return train(model, task, tmp_path_factory.mktemp("pointer") / "run")


def test_it_finds_hulls(pointer, task):
    found = evaluate_pointing(pointer, task).by_size[5]
    at_least(found["accuracy"], 0.45, "accuracy", mean=0.5929, sd=0.0250)
    at_least(found["area"], 0.9, "area", mean=0.9493, sd=0.0077)


def test_cutting_the_pointer_off_breaks_it(pointer, task):
    """The scores are what is learnt: where they no longer depend on the points, the output cannot either."""
    v = pointer.attention.score.v.weight
    learnt = v.detach().clone()
    try:
        with torch.no_grad():
            v.zero_()
        at_most(
            evaluate_pointing(pointer, task).by_size[5]["accuracy"], 0.1, "accuracy", mean=0.0275, sd=0.0000
        )
    finally:
        with torch.no_grad():
            v.copy_(learnt)
