"""A policy learns to pull arms: by attention alone it finds what paid; with attention cut off it does not.

Bandits of three arms and eight pulls: random arms get 4.0, the Gittins index
5.0. The policy has no convolutions here, so that whatever it knows of earlier pulls than the
last came through attention. Expected: 4.6 after training, and 4.2 when what attention reads is made nothing:
what the last pull paid is still seen. So about 0.7 of what is gained over random arms is lost.
"""

from copy import deepcopy

import pytest
import torch
from measures import at_least, at_most

from regard.evaluate.bandit_baselines import RULES, pull_by
from regard.models.snail_policy import SNAILPolicy, SNAILPolicyConfig
from regard.tasks.bandit import BanditSettings, BanditTask
from regard.train.config import RunConfig, TrainConfig
from regard.train.loop import fit
from regard.train.progress import Quiet

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def task():
    return BanditTask(BanditSettings(arms=3, pulls=8, valid=100))


@pytest.fixture(scope="module")
def policy(task, tmp_path_factory):
    sizes = {"hidden": 32, "keys": 32, "values": 32}
    model = SNAILPolicy(SNAILPolicyConfig(**task.sizes(), **sizes, convolutions=False))
    train = TrainConfig(
        seed=torch.initial_seed(),
        steps=500,
        batch=64,
        lr=0.01,
        schedule="linear",
        evaluate_every=0,
        checkpoint_every=0,
    )
    config = RunConfig(model="snail-policy", model_settings={}, task="bandit", task_settings={}, train=train)
    fit(model, task, config, run=tmp_path_factory.mktemp("bandit") / "run", progress=Quiet())
    return model.eval()


def reward(policy, task):
    return float(policy.act(task.batch("test", range(3000))).expected.sum(1).mean())


@pytest.fixture(scope="module")
def random(task):
    return float(pull_by(RULES["random"], task.batch("test", range(3000)))[1].sum(1).mean())


def test_a_policy_learns_to_explore(policy, task, random):
    found = reward(policy, task)
    at_least(found, 4.4, "reward", mean=4.6209, sd=0.0520)
    at_least(found - random, 0.4, "reward above that of random arms", mean=0.6037, sd=0.0520)


def test_with_attention_cut_off_it_forgets_what_paid(policy, task, random):
    cut = deepcopy(policy)
    for parameter in cut.blocks[0].values.parameters():
        torch.nn.init.zeros_(parameter)
    found, left = reward(policy, task), reward(cut, task)
    at_most(left, 4.5, "reward", mean=4.1868, sd=0.0990)
    at_least(
        (found - left) / (found - random),
        0.2,
        "share lost of what was gained over random arms",
        mean=0.7236,
        sd=0.1558,
    )
