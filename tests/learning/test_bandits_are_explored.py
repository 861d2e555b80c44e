"""A policy learns to pull arms: by attention alone it finds what paid; with attention cut off it does not.

Bandits of three arms and eight pulls: random arms get 4.0, the Gittins index
5.0. The policy has no convolutions here, so that whatever it knows of earlier pulls than the
last came through attention. Expected: 4.7 after training, and 4.3 when what attention reads is made nothing:
what the last pull paid is still seen.
"""

from copy import deepcopy

import pytest
import torch
from measures import at_least, at_most

from regard.evaluate.explorers import RULES, pull_by
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
    sizes = {"hidden": 16, "keys": 16, "values": 16}
    model = SNAILPolicy(SNAILPolicyConfig(**task.sizes(), **sizes, convolutions=False))
    train = TrainConfig(
        seed=torch.initial_seed(),
        steps=500,
        batch=64,
        lr=0.02,
        schedule="linear",
        evaluate_every=0,
        checkpoint_every=0,
    )
    config = RunConfig(model="snail-policy", model_settings={}, task="bandit", task_settings={}, train=train)
    fit(model, task, config, run=tmp_path_factory.mktemp("bandit") / "run", progress=Quiet())
    return model.eval()


def reward(policy, task):
    return float(policy.act(task.batch("test", range(3000))).expected.sum(1).mean())


def test_a_policy_learns_to_explore(policy, task):
    problems = task.batch("test", range(3000))
    random = float(pull_by(RULES["random"], problems)[1].sum(1).mean())
    found = reward(policy, task)
    at_least(found, 4.6, "reward")
    at_least(found - random, 0.4, "reward above that of random arms")


def test_with_attention_cut_off_it_forgets_what_paid(policy, task):
    cut = deepcopy(policy)
    for parameter in cut.blocks[0].values.parameters():
        torch.nn.init.zeros_(parameter)
    left = reward(cut, task)
    at_most(left, 4.5, "reward")
    at_least(reward(policy, task) - left, 0.2, "reward lost")
