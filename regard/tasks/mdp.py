"""Small Markov decision processes: explore one for some episodes, and earn as much as possible meanwhile.

    [task]
    name = "mdp"
    states = 10     # S
    actions = 5     # A
    length = 10     # H, the steps of an episode
    episodes = 10   # of each problem

For every problem the transitions are drawn from a flat Dirichlet distribution, the mean rewards from N(1, 1);
a reward has noise of variance 1. Every episode begins in state 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from regard.catalog import card
from regard.data.counter_rng import uniform
from regard.data.problems import DecisionProcesses, width
from regard.errors import check_sizes
from regard.tasks.acting import ActingSettings, ActingTask, normal
from regard.tasks.base import Split


@dataclass(frozen=True, kw_only=True)
class MDPSettings(ActingSettings):
    """The sizes of a problem."""

    states: int = 10  # S
    actions: int = 5  # A
    length: int = 10  # H
    episodes: int = 10

    owner: ClassVar[str] = "mdp"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes("mdp", self, "states", "actions", least=2)
        check_sizes("mdp", self, "length", "episodes")


@card(
    "task",
    "mdp",
    title="Small decision processes",
    authors="Duan et al.",
    year=2016,
    link="https://arxiv.org/abs/1611.02779",
    sentence=(
        "States, actions and rewards drawn at random: explore a process for some episodes and do well in it."
    ),
)
class MDPTask(ActingTask):
    """Acting in a process that is not known yet."""

    Settings = MDPSettings
    settings: MDPSettings

    def sizes(self) -> dict[str, int]:
        S, A = self.settings.states, self.settings.actions
        return {
            "inputs": width(states=S, actions=A),
            "actions": A,
            "steps": self.settings.length * self.settings.episodes,
        }

    def batch(self, split: Split, rows: Sequence[int]) -> DecisionProcesses:
        settings, B = self.settings, len(rows)
        S, A, T = settings.states, settings.actions, settings.length * settings.episodes
        counts = (T, S * A * S, 2 * S * A, T, 2 * T)
        u = uniform(f"mdp {settings.seed} {split}", rows, sum(counts))
        chance, flat, means, moves, noise = u.split_with_sizes(counts, 1)
        weights = -(-flat.reshape(B, S, A, S)).log1p()  # exponential; divided by their sum: flat Dirichlet
        drawn = {
            "chance": chance,
            "transitions": weights / weights.sum(-1, keepdim=True),
            "means": 1 + normal(means).reshape(B, S, A),
            "moves": moves,
            "noise": normal(noise),
        }
        return DecisionProcesses(**{name: x.float() for name, x in drawn.items()}, length=settings.length)
