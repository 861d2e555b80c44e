"""Bandits and decision processes: how they fall out, and the policy gradient that learns from them."""

import math

import pytest
import torch
from seeds import offset_seed

from regard.data.problems import Rollout, draw
from regard.errors import ConfigError
from regard.tasks.acting import estimate_advantages, policy_gradient
from regard.tasks.bandit import BanditSettings, BanditTask
from regard.tasks.mdp import MDPSettings, MDPTask


def test_an_arm_pays_as_often_as_its_probability_says():
    problems = BanditTask(BanditSettings(arms=3, pulls=400)).batch("train", range(50))
    assert abs(float(problems.means.mean()) - 0.5) < 0.08  # 150 numbers of U[0, 1]
    for arm in range(3):
        pulled = torch.full((50,), arm)
        paid = torch.stack([problems.act(t, problems.first(), pulled).reward for t in range(400)], 1)
        assert ((paid.mean(1) - problems.means[:, arm]).abs() < 0.1).all()  # standard deviation 0.025 or less
    assert torch.equal(problems.act(7, problems.first(), pulled).expected, problems.means[:, 2])


def test_a_process_moves_and_pays_as_its_tables_say():
    task = MDPTask(MDPSettings(states=3, actions=2, length=500, episodes=2))
    problems = task.batch("train", range(40))
    assert torch.allclose(problems.transitions.sum(-1), torch.ones(40, 3, 2))
    assert abs(float(problems.means.mean()) - 1) < 0.26  # 240 numbers of N(1, 1)
    assert abs(float(problems.means.std()) - 1) < 0.2
    state, action = torch.full((40,), 1), torch.ones(40, dtype=torch.long)
    outcomes = [problems.act(t, state, action) for t in range(499)]
    went = torch.stack([outcome.state for outcome in outcomes], 1)
    for after in range(3):
        share = (went == after).float().mean(1)
        assert ((share - problems.transitions[:, 1, 1, after]).abs() < 0.1).all()
    gained = torch.stack([outcome.reward for outcome in outcomes], 1)
    assert ((gained.mean(1) - problems.means[:, 1, 1]).abs() < 0.2).all()  # standard deviation 0.045
    assert ((gained.std(1) - 1).abs() < 0.2).all()


def test_an_episode_ends_after_its_steps_and_the_next_begins_in_the_first_state():
    problems = MDPTask(MDPSettings(states=4, length=3, episodes=2)).batch("train", range(30))
    action = torch.zeros(30, dtype=torch.long)
    ended = [problems.act(t, torch.full((30,), 2), action) for t in range(6)]
    assert [outcome.ended for outcome in ended] == [False, False, True, False, False, True]
    assert not ended[2].state.any()
    assert len(set(ended[0].state.tolist())) == 4


@pytest.mark.parametrize(
    "task", [BanditTask(BanditSettings()), MDPTask(MDPSettings())], ids=["bandit", "mdp"]
)
def test_a_problem_is_the_same_in_whichever_batch_and_another_in_every_split(task):
    alone, among = task.batch("train", [7]), task.batch("train", [3, 7])
    assert torch.equal(alone.means[0], among.means[1])
    assert torch.equal(alone.chance[0], among.chance[1])
    assert not torch.equal(alone.means, task.batch("test", [7]).means)
    plan = task.plan(0, seed=1, batch=50)
    assert plan == task.plan(0, seed=1, batch=50)
    assert not set(plan[0]) & set(task.plan(1, seed=1, batch=50)[0])


def test_numbers_are_drawn_as_their_probabilities_say():
    probabilities = torch.tensor([[0.2, 0.0, 0.5, 0.3]]).expand(5, 4)
    u = torch.tensor([0.0, 0.19, 0.21, 0.69, 0.9999999])
    assert draw(probabilities, u).tolist() == [0, 0, 2, 2, 3]


def test_advantages_are_the_sums_of_the_paper():
    torch.manual_seed(offset_seed(0))
    rewards, values = torch.randn(2, 6).double(), torch.randn(2, 6).double()
    found = estimate_advantages(rewards, values, discount=0.9, trace=0.7)
    for b in range(2):
        for t in range(6):
            total = 0.0
            for later in range(t, 6):
                after = values[b, later + 1] if later + 1 < 6 else 0.0
                delta = rewards[b, later] + 0.9 * after - values[b, later]
                total += (0.9 * 0.7) ** (later - t) * float(delta)
            assert math.isclose(float(found[b, t]), total, rel_tol=1e-9)


def test_the_gradient_makes_an_action_with_an_advantage_more_probable():
    scores = torch.zeros(2, 1, 2, requires_grad=True)
    rollout = Rollout(
        scores.log_softmax(-1),
        torch.zeros(2, 1),
        torch.tensor([[0], [1]]),
        torch.tensor([[1.0], [-1.0]]),
        torch.tensor([[-1.0], [1.0]]),
    )
    policy_gradient(rollout, BanditSettings(learn_from="drawn")).backward(retain_graph=True)
    assert scores.grad[0, 0, 0] < 0  # was chosen and gained: its score goes up
    assert scores.grad[1, 0, 1] > 0  # was chosen and lost
    scores.grad = None
    policy_gradient(rollout, BanditSettings()).backward()
    assert scores.grad[0, 0, 0] > 0  # on average it loses


def test_the_loss_is_minus_the_expected_reward_and_has_the_gradient_of_the_policy():
    task = BanditTask(BanditSettings(arms=3, pulls=4))
    problems = task.batch("train", range(10))
    scores, values = torch.randn(10, 4, 3, requires_grad=True), torch.randn(10, 4, requires_grad=True)
    actions = torch.randint(3, (10, 4))
    expected = problems.means.gather(1, actions)

    def rollout(_):
        return Rollout(scores.log_softmax(-1), values, actions, expected, expected)

    loss = task.loss(rollout, problems)
    assert math.isclose(loss.total.item(), -float(expected.sum()), rel_tol=1e-5)
    assert int(loss.count) == 40
    found = torch.autograd.grad(loss.total, [scores, values])
    wanted = torch.autograd.grad(policy_gradient(rollout(None), task.settings), [scores, values])
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BanditSettings(arms=1), r"^bandit: `arms` has 1; expected 2 or more\.$"),
        (lambda: BanditSettings(pulls=0), r"^bandit: `pulls` has 0; expected 1 or more\.$"),
        (lambda: BanditSettings(discount=1.5), r"^bandit: `discount` has 1\.5; expected 0 to 1\.$"),
        (lambda: BanditSettings(entropy=-1), r"^bandit: `entropy` has -1; expected 0 or more\.$"),
        (lambda: BanditSettings(test=0), r"^bandit: `test` has 0; expected 1 or more\.$"),
        (lambda: MDPSettings(states=1), r"^mdp: `states` has 1; expected 2 or more\.$"),
        (lambda: MDPSettings(episodes=0), r"^mdp: `episodes` has 0; expected 1 or more\.$"),
        (lambda: MDPSettings(trace=-0.1), r"^mdp: `trace` has -0\.1; expected 0 to 1\.$"),
    ],
    ids=["arms", "pulls", "discount", "entropy", "test", "states", "episodes", "trace"],
)
def test_what_is_wrong_with_a_problem_is_said(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
