"""Problems to explore: batches of bandits and small Markov decision processes, as tensor operations.

    bandit    K arms, N pulls; arm k pays 1 with probability p_k ~ U[0, 1], else 0
    MDP       S states, A actions, P(·|s, a) flat Dirichlet, reward ~ N(μ_sa, 1), μ ~ N(1, 1)

A batch holds all random numbers, drawn beforehand: the problems, the outcome of each step, and the numbers by
which a policy samples. So a rollout is a function of the batch and the policy.

At step t a policy reads the outcome of the previous step (Duan et al. 2016):

    x_t = [state_t; action_{t-1}; reward_{t-1}; ended_{t-1}]         one-hot, one-hot, number, 0 or 1

A bandit has one state, which is omitted. In a decision process an episode ends every H steps and the next
begins in state 0 of the same problem; the policy keeps what it has learnt.

Duan, Schulman, Chen, Bartlett, Sutskever, Abbeel. RL²: fast reinforcement learning via slow reinforcement
learning. 2016. https://arxiv.org/abs/1611.02779
Mishra, Rohaninejad, Chen, Abbeel. A simple neural attentive meta-learner. 2018.
https://arxiv.org/abs/1707.03141
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.data.tensor_batch import TensorBatch


class Outcome(NamedTuple):
    """The result of one action."""

    state: Tensor  # (B,) the next state
    reward: Tensor  # (B,) as sampled
    expected: Tensor  # (B,) mean reward of that state and action
    ended: bool  # whether an episode is over


class Rollout(NamedTuple):
    """T steps of a policy, with its log-probabilities and values at each, recomputed afterwards."""

    log_policy: Tensor  # (B, T, A) log-probabilities
    values: Tensor  # (B, T) predicted return from here on
    actions: Tensor  # (B, T)
    rewards: Tensor  # (B, T)
    expected: Tensor  # (B, T) mean rewards of the actions


@dataclass(frozen=True)
class Problems(TensorBatch):
    """B problems of T steps each."""

    chance: Tensor  # (B, T) uniform numbers by which a stochastic policy samples its actions

    @property
    def steps(self) -> int:
        return self.chance.shape[1]

    @property
    def states(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} defines no states.")

    @property
    def actions(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} defines no actions.")

    def act(self, t: int, state: Tensor, action: Tensor) -> Outcome:
        """(B,) states, (B,) actions -> the outcome of step t."""
        raise NotImplementedError(f"{type(self).__name__} defines no act(t, state, action).")

    def first(self) -> Tensor:
        """(B,) the state before the first step."""
        return torch.zeros(self.size, dtype=torch.long, device=self.chance.device)

    def read(self, action: Tensor | None, outcome: Outcome) -> Tensor:
        """(B, I) the policy's input: the state, and the outcome of the previous action, if any."""
        parts = [] if self.states == 1 else [_one_hot(outcome.state, self.states)]
        if action is None:
            parts.append(self.chance.new_zeros(self.size, self.actions))
        else:
            parts.append(_one_hot(action, self.actions))
        parts += [outcome.reward[:, None], torch.full_like(outcome.reward, float(outcome.ended))[:, None]]
        return torch.cat([part.to(self.chance.dtype) for part in parts], -1)


def width(*, states: int, actions: int) -> int:
    """I: the size of a policy's input at each step."""
    return (states if states > 1 else 0) + actions + 2


@dataclass(frozen=True)
class Bandits(Problems):
    """Arms that pay 1 or nothing."""

    means: Tensor  # (B, K) p, the probability that an arm pays
    luck: Tensor  # (B, N) uniform: an arm pays at step t when its p is greater

    @property
    def states(self) -> int:
        return 1

    @property
    def actions(self) -> int:
        return self.means.shape[1]

    def act(self, t: int, state: Tensor, action: Tensor) -> Outcome:
        expected = self.means.gather(1, action[:, None])[:, 0]
        return Outcome(state, (self.luck[:, t] < expected).to(expected.dtype), expected, ended=False)


@dataclass(frozen=True)
class DecisionProcesses(Problems):
    """States, actions, transitions and rewards; a new episode begins every `length` steps."""

    transitions: Tensor  # (B, S, A, S') probabilities
    means: Tensor  # (B, S, A) μ
    moves: Tensor  # (B, T) uniform: samples the transitions
    noise: Tensor  # (B, T) normal: difference of a reward from its mean
    length: int  # H, the steps of an episode

    @property
    def states(self) -> int:
        return self.means.shape[1]

    @property
    def actions(self) -> int:
        return self.means.shape[2]

    def act(self, t: int, state: Tensor, action: Tensor) -> Outcome:
        rows = torch.arange(self.size, device=state.device)
        expected = self.means[rows, state, action]
        reward = expected + self.noise[:, t]
        if (t + 1) % self.length == 0:
            return Outcome(self.first(), reward, expected, ended=True)
        return Outcome(draw(self.transitions[rows, state, action], self.moves[:, t]), reward, expected, False)


def draw(probabilities: Tensor, u: Tensor) -> Tensor:
    """(B, A) probabilities, (B,) uniform numbers -> (B,) samples, by inverting the CDF."""
    below = (probabilities.cumsum(-1) <= u[:, None]).sum(-1)
    return below.clamp(max=probabilities.shape[-1] - 1)


def _one_hot(numbers: Tensor, size: int) -> Tensor:
    return numbers[:, None] == torch.arange(size, device=numbers.device)
