"""SNAIL that acts: step by step it does what it would do when it reads everything at once."""

import pytest
import torch
from seeds import offset_seed

from regard.data.problems import draw
from regard.errors import ConfigError
from regard.models.snail_policy import SNAILPolicy, SNAILPolicyConfig
from regard.tasks.bandit import BanditSettings, BanditTask
from regard.tasks.mdp import MDPSettings, MDPTask

SMALL = {"hidden": 6, "filters": 4, "keys": 4, "values": 4}


def bandits():
    return BanditTask(BanditSettings(arms=3, pulls=9))


def processes():
    return MDPTask(MDPSettings(states=3, actions=2, length=4, episodes=3))


def policy(task, **choices):
    torch.manual_seed(offset_seed(0))
    model = SNAILPolicy(SNAILPolicyConfig(**task.sizes(), **SMALL | choices))
    torch.nn.init.normal_(model.policy.weight)  # a new policy finds all actions equal
    return model


@pytest.mark.parametrize("make", [bandits, processes])
@pytest.mark.parametrize(
    "choices", [{}, {"attention": False}, {"convolutions": False}], ids=["full", "convolutions", "attention"]
)
def test_what_was_done_step_by_step_is_what_the_whole_sequence_says(make, choices):
    task = make()
    model, problems = policy(task, **choices), task.batch("train", range(20))
    rollout = model(problems)
    for t in range(problems.steps):
        chosen = draw(rollout.log_policy[:, t].exp(), problems.chance[:, t])
        assert torch.equal(chosen, rollout.actions[:, t])
    assert len(set(rollout.actions.flatten().tolist())) == problems.actions


def test_the_most_probable_actions_are_those_of_the_whole_sequence():
    task = bandits()
    model, problems = policy(task), task.batch("train", range(20))
    acted = model.act(problems, greedy=True)
    scores = model.policy(model.blocks(model.read(acted.inputs)))
    assert torch.equal(scores.argmax(-1), acted.actions)


def test_what_is_read_is_what_came_of_the_step_before():
    task = processes()
    acted = policy(task).act(task.batch("train", range(5)))
    state, action, reward, ended = acted.inputs.split([3, 2, 1, 1], -1)
    assert torch.equal(state.sum(-1), torch.ones(5, 12))
    assert not action[:, 0].any()
    assert torch.equal(action[:, 1:].argmax(-1), acted.actions[:, :-1])
    assert torch.equal(reward[:, 1:, 0], acted.rewards[:, :-1])
    assert ended[0, :, 0].tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]
    assert state[:, ::4].argmax(-1).tolist() == [[0, 0, 0]] * 5


def test_a_new_policy_finds_every_action_as_likely():
    task = bandits()
    model = SNAILPolicy(SNAILPolicyConfig(**task.sizes()))
    assert torch.allclose(model(task.batch("train", [0])).log_policy.exp(), torch.tensor(1 / 3))


def test_the_sizes_are_the_paper_s():
    model = SNAILPolicy(SNAILPolicyConfig(inputs=7, actions=5, steps=100))
    assert [block.outputs for block in model.blocks] == [32 + 7 * 32, 32 + 14 * 32, 32 + 14 * 32 + 32]
    assert model.aligner == "blocks.2.attention"


def test_a_policy_without_both_kinds_of_blocks_is_refused():
    message = (
        r"^snail-policy: `attention` and `convolutions` are both false; expected one of them to be true\."
    )
    with pytest.raises(ConfigError, match=message):
        SNAILPolicyConfig(inputs=3, actions=2, steps=4, attention=False, convolutions=False)
