"""Bandits: K arms with unknown payoffs, N pulls; find the good arms while pulling.

    [task]
    name = "bandit"
    arms = 5      # K
    pulls = 10    # N

Arm k pays 1 with probability p_k, else nothing; each problem draws its own p_k from U[0, 1]. A policy sees
only which arms it pulled and what they paid, so training teaches it how to explore.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from regard.catalog import card
from regard.data.counter_rng import uniform
from regard.data.problems import Bandits, width
from regard.errors import check_sizes
from regard.tasks.acting import ActingSettings, ActingTask
from regard.tasks.base import Split


@dataclass(frozen=True, kw_only=True)
class BanditSettings(ActingSettings):
    """How many arms and pulls."""

    arms: int = 5  # K
    pulls: int = 10  # N

    owner: ClassVar[str] = "bandit"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes("bandit", self, "arms", least=2)
        check_sizes("bandit", self, "pulls")


@card(
    "task",
    "bandit",
    title="Bandits",
    authors="Duan et al.",
    year=2016,
    link="https://arxiv.org/abs/1611.02779",
    sentence="Arms that pay with unknown probabilities: find the good ones while pulling.",
)
class BanditTask(ActingTask):
    """Which arm to pull next."""

    Settings = BanditSettings
    settings: BanditSettings

    def sizes(self) -> dict[str, int]:
        arms, pulls = self.settings.arms, self.settings.pulls
        return {"inputs": width(states=1, actions=arms), "actions": arms, "steps": pulls}

    def batch(self, split: Split, rows: Sequence[int]) -> Bandits:
        K, N = self.settings.arms, self.settings.pulls
        u = uniform(f"bandit {self.settings.seed} {split}", rows, K + 2 * N).float()
        means, luck, chance = u.split_with_sizes((K, N, N), 1)
        return Bandits(chance, means, luck)
