"""SNAIL names blots of classes it never saw, from one example each; with attention cut off it does not.

Expected on new 5-way 1-shot episodes: above 0.75 with all blocks; near chance (0.2) with the trained
attention cut off, with the convolutions or without; below 0.5 for convolutions trained alone. The images are
blots at places that differ by class: simple enough to be learnt in seconds.
"""

from copy import deepcopy

import numpy as np
import pytest
import torch
from measures import at_least, at_most

from regard.attention.normalizers.mean import Mean
from regard.evaluate.fewshot import evaluate_fewshot
from regard.layers.temporal import AttentionBlock, DenseBlock
from regard.models.snail import SNAIL, SNAILConfig
from regard.tasks.fewshot import FewShotSettings, FewShotTask
from regard.train.config import RunConfig, TrainConfig
from regard.train.loop import fit
from regard.train.progress import Quiet

pytestmark = pytest.mark.slow
SMALL = {"embedding": 16, "channels": 8, "keys": (16, 16, 16), "values": (8, 8, 8), "filters": 8}
STEPS = 300


def blots(classes, seed):
    """(classes, 20, 28, 28): three blots a class, each drawing moved by a pixel or not."""
    chance = np.random.default_rng(seed)
    images = np.zeros((classes, 20, 32, 32), dtype=np.uint8)
    for image, places in zip(images, chance.integers(3, 25, (classes, 3, 2)), strict=True):
        for drawing in image:
            for y, x in places + chance.integers(-1, 2, 2):
                drawing[y : y + 6, x : x + 6] = 255
    return torch.from_numpy(images[:, :, 2:30, 2:30])


@pytest.fixture(scope="module")
def task():
    made = FewShotTask(FewShotSettings(queries=5, valid=50, test=400))
    made.__dict__["drawings"] = {"train": blots(300, 1), "valid": blots(20, 2), "test": blots(60, 3)}
    return made


def train(task, run, **choices):
    model = SNAIL(SNAILConfig(**task.sizes(), **SMALL, **choices))
    settings = TrainConfig(
        seed=torch.initial_seed(),
        steps=STEPS,
        batch=8,
        lr=8e-3,
        warmup=30,
        schedule="linear",
        evaluate_every=0,
        checkpoint_every=0,
    )
    config = RunConfig(model="snail", model_settings={}, task="few-shot", task_settings={}, train=settings)
    fit(model, task, config, run=run, progress=Quiet())
    return model.eval()


@pytest.fixture(scope="module")
def snail(task, tmp_path_factory):
    return train(task, tmp_path_factory.mktemp("snail") / "run")


def accuracy(model, task):
    return evaluate_fewshot(model, task).headline()[1]


def cut(model, *, attention, convolutions):
    """A copy whose attention weighs all alike, whose convolutions find nothing."""
    model = deepcopy(model)
    for module in model.modules():
        if attention and isinstance(module, AttentionBlock):
            module.attention.normalizer = Mean()
        if convolutions and isinstance(module, DenseBlock):
            for parameter in module.parameters():
                torch.nn.init.zeros_(parameter)
    return model


def test_new_classes_are_named_from_one_example(snail, task):
    found = evaluate_fewshot(snail, task).scores[0]
    at_least(found.right, 0.75, "accuracy", mean=0.9057, sd=0.0260)
    at_least(
        min(found.looked.values()), 0.3, "looked at the class", mean=0.5339, sd=0.0390
    )  # by chance 1 in 6: every block looks at the query's class


@pytest.mark.parametrize("convolutions", [False, True], ids=["attention", "both"])
def test_with_attention_cut_off_it_is_chance(snail, task, convolutions):
    at_most(
        accuracy(cut(snail, attention=True, convolutions=convolutions), task),
        0.35,
        "accuracy",
        mean=0.1928,
        sd=0.0152,
    )


def test_convolutions_trained_alone_do_not_learn_it_at_this_budget(task, tmp_path):
    at_most(
        accuracy(train(task, tmp_path / "run", attention=False), task),
        0.5,
        "accuracy",
        mean=0.1989,
        sd=0.0172,
    )
