"""Base of the acting tasks: an endless supply of problems, and the policy gradient that learns from them.

    δ_t = r_t + γ V_{t+1} - V_t                                 V behind the last step is 0
    Â_t = Σ_l (γ λ)^l δ_{t+l}                                   generalized advantage estimation
    minimise  Σ_t  - Â_t log π(a_t) + c (V_t - (Â_t + V_t)°)² / 2 - β H(π_t)        ° not differentiated

Each batch of problems is used for one update: advantage actor-critic. The paper uses TRPO, which limits how
far an update moves the policy; here small steps and a clipped gradient suffice. In the first term Â is
divided by its standard deviation over the batch.

A policy reads the sampled rewards. It learns (r above) by default from the mean rewards of its actions, which
a simulated problem knows: the same gradient in expectation, with less noise. `learn_from = "drawn"` learns
from the sampled rewards too, as the paper does.

The reported loss is not the sum above, whose value means nothing, but minus the expected reward of the
actions: its gradient is the policy gradient, its value the quantity of interest. Problems never repeat: an
example's number is its seed.

Schulman, Moritz, Levine, Jordan, Abbeel. High-dimensional continuous control using generalized advantage
estimation. 2016. https://arxiv.org/abs/1506.02438
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.data.problems import Problems, Rollout
from regard.errors import check_shares, check_sizes
from regard.tasks.base import DrawnTask, Loss, Split


@dataclass(frozen=True, kw_only=True)
class ActingSettings:
    """How many problems, and how a policy learns from them."""

    train: int = 100_000  # problems an epoch, new ones each time
    valid: int = 1000
    test: int = 4000
    discount: float = 0.99  # γ
    trace: float = 0.9  # λ
    critic: float = 0.5  # c
    entropy: float = 0.02  # β
    learn_from: Literal["expected", "drawn"] = "expected"
    seed: int = 1

    owner: ClassVar[str] = "acting"

    def __post_init__(self) -> None:
        check_sizes(self.owner, self, "train", "valid", "test")
        check_shares(self.owner, self, "discount", "trace")
        check_sizes(self.owner, self, "critic", "entropy", least=0)


class ActingTask(DrawnTask):
    """Problems by their number, and the policy gradient."""

    Settings: ClassVar[type[Any]] = ActingSettings
    gives: ClassVar[str] = "problems to act in"

    def batch(self, split: Split, rows: Sequence[int]) -> Problems:
        """The problems with these numbers."""
        raise NotImplementedError(f"{type(self).__name__} defines no batch(split, rows).")

    def loss(self, model: nn.Module, batch: Problems) -> Loss:
        """Minus the expected reward of the actions, summed; its gradient is the policy gradient."""
        rollout: Rollout = model(batch)
        learnt = policy_gradient(rollout, self.settings)
        lost = -rollout.expected.sum()
        count = torch.ones_like(rollout.expected).sum()
        return Loss(learnt + (lost - learnt).detach(), count)


def policy_gradient(rollout: Rollout, settings: ActingSettings) -> Tensor:
    """() the objective to minimise, summed over problems and steps."""
    rewards = rollout.expected if settings.learn_from == "expected" else rollout.rewards
    advantages = estimate_advantages(
        rewards, rollout.values.detach(), discount=settings.discount, trace=settings.trace
    )
    chosen = rollout.log_policy.gather(-1, rollout.actions[..., None])[..., 0]  # (B, T)
    actor = -(chosen * advantages / (advantages.std() + 1e-6)).sum()
    critic = (rollout.values - (advantages + rollout.values.detach())).square().sum() / 2
    entropy = -(rollout.log_policy.exp() * rollout.log_policy).sum()
    return actor + settings.critic * critic - settings.entropy * entropy


def estimate_advantages(rewards: Tensor, values: Tensor, *, discount: float, trace: float) -> Tensor:
    """(B, T) rewards and values -> (B, T) Â: the sum of later δ, weighted by powers of γ λ."""
    T = rewards.shape[1]
    after = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], 1)
    delta = rewards + discount * after - values
    t = torch.arange(T, device=rewards.device)
    lag = t[:, None] - t  # (T later, T)
    powers = torch.where(lag >= 0, (discount * trace) ** lag.clamp(min=0).to(rewards.dtype), 0.0)
    return delta @ powers


def normal(u: Tensor) -> Tensor:
    """(B, 2 n) uniform numbers -> (B, n) normal ones, by the Box-Muller transform."""
    first, second = u.chunk(2, 1)
    return (-2 * (-first).log1p()).sqrt() * (2 * math.pi * second).cos()
