"""Rules of exploration against small cases worked out by enumeration."""

from functools import cache
from itertools import product

import pytest
import torch

from regard.evaluate.acting import evaluate_bandits, evaluate_processes
from regard.evaluate.bandit_baselines import (
    PLANNERS,
    RULES,
    Belief,
    act_by,
    gittins_indices,
    plan_episode,
    pull_by,
)
from regard.models.snail_policy import SNAILPolicy, SNAILPolicyConfig
from regard.tasks.bandit import BanditSettings, BanditTask
from regard.tasks.mdp import MDPSettings, MDPTask


def best_of_two_arms(pulls):
    """What an optimal learner gets in so many pulls of two arms, by enumeration of all pasts."""

    @cache
    def worth(s0, f0, s1, f1, left):
        if left == 0:
            return 0.0
        found = []
        for arm, (s, f) in enumerate(((s0, f0), (s1, f1))):
            p = (s + 1) / (s + f + 2)
            paid, not_paid = ((s + 1, f), (s, f + 1))
            after = [
                worth(*(new if arm == 0 else (s0, f0)), *(new if arm == 1 else (s1, f1)), left - 1)
                for new in (paid, not_paid)
            ]
            found.append(p * (1 + after[0]) + (1 - p) * after[1])
        return max(found)

    return worth(0, 0, 0, 0, pulls)


def index_by_search(s, f, pulls):
    """The least price at which pulling once more is not worth it, found by halving."""
    low, high = 0.0, 1.0
    for _ in range(30):
        price = (low + high) / 2

        def worth(s, f, m, price=price):
            if m == 0:
                return 0.0
            p = (s + 1) / (s + f + 2)
            return max(0.0, gain(s, f, m, p, price))

        def gain(s, f, m, p, price=price, worth=worth):
            return p - price + p * worth(s + 1, f, m - 1) + (1 - p) * worth(s, f + 1, m - 1)

        if gain(s, f, pulls, (s + 1) / (s + f + 2)) > 0:
            low = price
        else:
            high = price
    return low


@pytest.mark.parametrize(("s", "f", "left"), [(0, 0, 1), (0, 0, 6), (2, 1, 4), (0, 3, 5)])
def test_an_index_is_the_price_at_which_a_pull_makes_no_difference(s, f, left):
    assert abs(float(gittins_indices(9)[left, s, f]) - index_by_search(s, f, left)) < 1.5 / 512


def test_an_index_grows_with_the_pulls_that_are_left_and_exceeds_the_mean():
    indices = gittins_indices(20)
    assert (indices[2:, 1, 1].diff()[:16] >= 0).all()
    assert indices[15, 1, 1] > 0.55  # the mean is 0.5


def test_gittins_gets_nearly_what_the_best_learner_gets_and_no_rule_gets_more():
    problems = BanditTask(BanditSettings(arms=2, pulls=8)).batch("test", range(20_000))
    best = best_of_two_arms(8)
    totals = {name: float(pull_by(rule, problems)[1].sum(1).mean()) for name, rule in RULES.items()}
    assert abs(totals["Gittins"] - best) < 0.04  # the standard error is 0.013
    assert all(total < best + 0.04 for total in totals.values())
    assert abs(totals["random"] - 4) < 0.04
    assert totals["Thompson"] > totals["random"] + 0.3


def test_ucb1_tries_every_arm_first():
    problems = BanditTask(BanditSettings(arms=6, pulls=8)).batch("test", range(30))
    actions, _ = pull_by(RULES["UCB1"], problems)
    assert actions[:, :6].sort(1).values.tolist() == [list(range(6))] * 30


def test_a_plan_is_the_best_of_all_plans():
    problems = MDPTask(MDPSettings(states=2, actions=2, length=2, episodes=1)).batch("test", range(5))
    plan, value = plan_episode(problems.transitions, problems.means, 2)
    for b in range(5):
        P, mu = problems.transitions[b], problems.means[b]
        worths = {}
        for first, *then in product(range(2), repeat=3):
            later = sum(float(P[0, first, s] * mu[s, then[s]]) for s in range(2))
            worths[first, *then] = float(mu[0, first]) + later
        best = max(worths, key=worths.get)
        assert abs(worths[best] - float(value[b, 0])) < 1e-5
        assert (int(plan[b, 0, 0]), *plan[b, 1].tolist()) == best


def test_what_was_seen_moves_the_belief_from_its_prior():
    problems = MDPTask(MDPSettings(states=2, actions=2)).batch("test", range(1))
    belief = Belief(problems)
    zero, one = torch.tensor([0]), torch.tensor([1])
    for _ in range(3):
        belief.see(zero, one, torch.tensor([5.0]), one)
    belief.see(zero, one, torch.tensor([5.0]), None)
    transitions, means = belief.mean()
    assert torch.allclose(transitions[0, 0, 1], torch.tensor([1 / 5, 4 / 5]))
    assert float(means[0, 0, 1]) == pytest.approx(21 / 5)
    assert float(means[0, 0, 0]) == 1
    drawn = torch.stack([belief.draw(torch.Generator().manual_seed(i))[1][0, 0, 1] for i in range(300)])
    assert abs(float(drawn.mean()) - 4.2) < 0.12
    assert abs(float(drawn.std()) - 5**-0.5) < 0.08


def test_who_knows_the_process_gets_what_planning_promises_and_learners_get_less():
    task = MDPTask(MDPSettings(states=4, actions=3, length=6, episodes=8))
    problems = task.batch("test", range(400))
    best = float(plan_episode(problems.transitions, problems.means, 6)[1][:, 0].mean()) * 8
    got = {name: float(act_by(planner, problems).sum(1).mean()) for name, planner in PLANNERS.items()}
    assert abs(got["optimal"] / best - 1) < 0.01
    random = float(act_by(None, problems).sum(1).mean())
    assert random < 0.8 * got["PSRL"] < 0.8 * got["optimal"]


@pytest.mark.parametrize(
    ("task", "evaluate", "names"),
    [
        (BanditTask(BanditSettings(pulls=10, test=60)), evaluate_bandits, ["random", *list(RULES)[1:]]),
        (MDPTask(MDPSettings(test=6)), evaluate_processes, ["random", *PLANNERS]),
    ],
    ids=["bandit", "mdp"],
)
def test_a_policy_stands_beside_the_rules_and_the_paper(task, evaluate, names):
    model = SNAILPolicy(SNAILPolicyConfig(**task.sizes(), hidden=8, filters=4, keys=4, values=4))
    counted = []
    found = evaluate(model, task, progress=counted.append)
    assert sum(counted) == found.problems == task.settings.test
    assert [score.name for score in found.scores] == ["the policy", "the policy, most probable", *names]
    assert found.headline() == (found.metric, found.scores[0].value)
    table = found.tables()[0]
    assert table.columns == ("explorer", found.metric, "±", "paper")
    assert {row[0] for row in table.rows if row[3]} == {
        "the policy",
        "random",
        *({"Gittins", "PSRL"} & set(names)),
    }
    assert found.summary()["explorers"]["random"]["paper"] in (5.0, 0.482)
    assert len(found.measures()) == len(names) + 2
