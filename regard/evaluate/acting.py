"""Evaluates a policy on unseen problems, with computed baselines and the paper's numbers.

    bandits      total expected reward of all pulls, and the regret so far, Σ (max p - p of the pulled arm)
    processes    expected reward of all episodes as a share of the optimal policy's

An action's expected reward measures the same as its sampled reward, with less noise. A policy is measured
twice: as it was trained, sampling its actions, and taking the most probable ones.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.data.problems import Bandits, DecisionProcesses
from regard.decode.base import Decoding
from regard.evaluate.bandit_baselines import PLANNERS, RULES, act_by, plan_episode, pull_by
from regard.evaluate.base import Advance, Evaluation, MeasureTable, evaluator
from regard.models.base import Model
from regard.tasks.acting import ActingTask
from regard.tasks.bandit import BanditTask
from regard.tasks.base import Split
from regard.tasks.mdp import MDPTask

BATCH = 500  # problems
Ways = dict[str, Tensor]  # explorer -> (B, T) or (B,) what it earned
DRAWN, LIKELIEST = "the policy", "the policy, most probable"

# Mishra et al. 2018, tables 3 and 4; (pulls, arms), and episodes of 10 states, 5 actions, 10 steps
PAPER_BANDITS = {
    (10, 5): {"random": 5.0, "Gittins": 6.6, DRAWN: 6.6},
    (10, 10): {"random": 5.0, "Gittins": 6.6, DRAWN: 6.7},
    (10, 50): {"random": 5.1, "Gittins": 6.5, DRAWN: 6.7},
    (100, 5): {"random": 49.9, "Gittins": 78.3, DRAWN: 79.1},
    (100, 10): {"random": 49.9, "Gittins": 82.8, DRAWN: 83.5},
    (100, 50): {"random": 49.8, "Gittins": 85.2, DRAWN: 85.1},
}
PAPER_PROCESSES = {
    10: {"random": 0.482, "PSRL": 0.665, DRAWN: 0.766},
    25: {"random": 0.482, "PSRL": 0.788, DRAWN: 0.862},
    50: {"random": 0.482, "PSRL": 0.871, DRAWN: 0.908},
    75: {"random": 0.482, "PSRL": 0.910, DRAWN: 0.930},
    100: {"random": 0.482, "PSRL": 0.934, DRAWN: 0.941},
}


@dataclass(frozen=True)
class ExplorerScore:
    """What one explorer earned."""

    name: str
    value: float
    interval: float  # half the width of the 95 % confidence interval
    paper: float | None = None
    curve: tuple[float, ...] = ()  # mean regret up to each step; empty if undefined


@dataclass(frozen=True)
class ActingEvaluation(Evaluation):
    """What each explorer earned on a split."""

    metric: str
    problems: int
    scores: tuple[ExplorerScore, ...]  # the policy first
    digits: int

    def headline(self) -> tuple[str, float]:
        return self.metric, self.scores[0].value

    def measures(self) -> list[tuple[str, str]]:
        return [
            (f"{self.metric}, {s.name}", f"{s.value:.{self.digits}f} ± {s.interval:.{self.digits}f}")
            for s in self.scores
        ]

    def tables(self) -> list[MeasureTable]:
        d = self.digits
        rows = [
            (s.name, f"{s.value:.{d}f}", f"{s.interval:.{d}f}", "" if s.paper is None else str(s.paper))
            for s in self.scores
        ]
        return [MeasureTable(("explorer", self.metric, "±", "paper"), rows)]

    def summary(self) -> dict[str, Any]:
        return {
            "split": self.split,
            self.metric.replace(" ", "_"): round(self.scores[0].value, 4),
            "problems": self.problems,
            "explorers": {
                s.name: {"value": round(s.value, 4), "interval": round(s.interval, 4)}
                | ({} if s.paper is None else {"paper": s.paper})
                | ({"regret": [round(r, 4) for r in s.curve]} if s.curve else {})
                for s in self.scores
            },
            "seconds": round(self.seconds, 1),
        }


@evaluator
def evaluate_bandits(
    model: Model, task: BanditTask, split: Split, decoding: Decoding, progress: Advance
) -> ActingEvaluation:
    """Evaluate the policy and the computed rules on every bandit of a split."""
    paper = PAPER_BANDITS.get((task.settings.pulls, task.settings.arms), {})

    def pull(problems: Bandits, seed: int) -> tuple[Ways, Tensor]:
        ways = act_both_ways(model, problems)
        ways |= {name: pull_by(rule, problems, seed=seed)[1] for name, rule in RULES.items()}
        return ways, problems.means.amax(-1)

    found, best = _explored(task, split, pull, progress)
    scores = []
    for name, expected in found.items():  # (B, N)
        regret = (best[:, None] - expected).cumsum(1).mean(0)
        scores.append(_score(name, expected.sum(1), paper, regret.tolist()))
    return ActingEvaluation(split, "total reward", len(best), tuple(scores), digits=2)


@evaluator
def evaluate_processes(
    model: Model, task: MDPTask, split: Split, decoding: Decoding, progress: Advance
) -> ActingEvaluation:
    """Evaluate the policy and the planners on every decision process of a split."""
    settings = task.settings
    sizes = (settings.states, settings.actions, settings.length)
    paper = PAPER_PROCESSES.get(settings.episodes, {}) if sizes == (10, 5, 10) else {}

    def act(problems: DecisionProcesses, seed: int) -> tuple[Ways, Tensor]:
        _, values = plan_episode(problems.transitions, problems.means, settings.length)
        ways = act_both_ways(model, problems)
        planners = {"random": None, **PLANNERS}
        ways |= {name: act_by(planner, problems, seed=seed) for name, planner in planners.items()}
        earned = {name: expected.sum(1) for name, expected in ways.items()}
        return earned, values[:, 0] * settings.episodes  # (B,) over all episodes, from state 0

    found, best = _explored(task, split, act, progress)
    # a share of the sums, so that no process whose best is near nothing decides
    scores = tuple(_score(name, earned / best.mean(), paper, ()) for name, earned in found.items())
    return ActingEvaluation(split, "share of optimal", len(best), scores, digits=3)


def _explored(
    task: ActingTask, split: Split, explore: Callable[[Any, int], tuple[Ways, Tensor]], progress: Advance
) -> tuple[Ways, Tensor]:
    """What each explorer earns in all problems of a split, and (B,) the optimum."""
    found: dict[str, list[Tensor]] = defaultdict(list)
    best = []
    for seed, rows in enumerate(task.evaluation_plan(split, batch=BATCH)):
        ways, most = explore(task.batch(split, rows), seed)
        for name, earned in ways.items():
            found[name].append(earned)
        best.append(most)
        progress(len(rows))
    return {name: torch.cat(parts) for name, parts in found.items()}, torch.cat(best)


def act_both_ways(model: Model, problems: Bandits | DecisionProcesses) -> Ways:
    """(B, T) expected rewards of a policy's actions, sampled and most probable."""
    there = problems.to(next(model.parameters()).device)
    return {
        name: model.act(there, greedy=greedy).expected.cpu()  # type: ignore[operator]
        for name, greedy in ((DRAWN, False), (LIKELIEST, True))
    }


def _score(name: str, values: Tensor, paper: dict[str, float], curve: Sequence[float]) -> ExplorerScore:
    interval = 1.96 * float(values.std()) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return ExplorerScore(name, float(values.mean()), interval, paper.get(name), tuple(curve))
