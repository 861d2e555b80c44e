"""Exploration rules that are computed, not learnt: the baselines of a learnt policy.

Bandits with arms that pay 1 or 0, p ~ U[0, 1]; an arm's history is (s, f), its numbers of ones and zeros.

    greedy     the largest posterior mean (s + 1) / (s + f + 2)
    Thompson   the largest of one draw from each Beta(s + 1, f + 1)                     Thompson 1933
    UCB1       the largest s / n + √(2 ln t / n), n = s + f; untried arms first          Auer et al. 2002
    Gittins    the largest index G(s, f, m) with m pulls left                            Gittins 1979

    G(s, f, m) = sup over stopping times 1 ≤ τ ≤ m of  E[Σ_{i ≤ τ} r_i] / E[τ]

The index is the price λ per pull at which one more pull makes no difference: for

    W_λ(s, f, m) = max(0, p - λ + p W_λ(s + 1, f, m - 1) + (1 - p) W_λ(s, f + 1, m - 1))
    p = (s + 1) / (s + f + 2)

it is the least λ for which W_λ is 0. This is the index for a known, finite number of pulls without discount.
It is computed for a grid of prices at once, so to within half a grid step.

Decision processes with unknown P and μ:

    greedy     act by the posterior mean of P and μ                    replanned before every episode
    PSRL       act by a sample from the posterior                       Strens 2000; Osband et al. 2013
    optimal    act by P and μ themselves: an upper bound for any learner

Gittins. Bandit processes and dynamic allocation indices. 1979.
Osband, Russo, Van Roy. (More) efficient reinforcement learning via posterior sampling. 2013.
https://arxiv.org/abs/1306.0940
"""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from regard.data.problems import Bandits, DecisionProcesses

PRICES = 512  # grid size for the search of an index

Rule = Callable[[Tensor, Tensor, int, torch.Generator], Tensor]
"""(B, K) ones of each arm, (B, K) zeros, pulls left -> (B, K): the arm with the largest value is pulled."""


# bandits


def thompson(paid: Tensor, not_paid: Tensor, left: int, generator: torch.Generator) -> Tensor:
    """A sample from each Beta(s + 1, f + 1), from two gamma samples."""
    first, second = (torch._standard_gamma(count + 1, generator=generator) for count in (paid, not_paid))
    return first / (first + second)


def ucb1(paid: Tensor, not_paid: Tensor, left: int, generator: torch.Generator) -> Tensor:
    """The upper confidence bounds; infinite for untried arms."""
    n = paid + not_paid
    t = n.sum(-1, keepdim=True)
    bound = paid / n + (2 * t.log() / n).sqrt()
    return torch.where(n > 0, bound, torch.inf)


def gittins(paid: Tensor, not_paid: Tensor, left: int, generator: torch.Generator) -> Tensor:
    """The indices for the total number of pulls."""
    pulls = left + int((paid + not_paid).sum(-1)[0])
    return gittins_indices(pulls)[left, paid.long(), not_paid.long()]


RULES: dict[str, Rule] = {
    "random": lambda paid, not_paid, left, generator: torch.rand(paid.shape, generator=generator),
    "greedy": lambda paid, not_paid, left, generator: (paid + 1) / (paid + not_paid + 2),
    "Thompson": thompson,
    "UCB1": ucb1,
    "Gittins": gittins,
}


@lru_cache(maxsize=4)
def gittins_indices(pulls: int, prices: int = PRICES) -> Tensor:
    """(N + 1, N + 1, N + 1) index for m pulls left, s ones and f zeros, where s + f + m ≤ N."""
    N = pulls
    price = (torch.arange(prices) + 0.5) / prices  # λ, at the centre of each grid step
    s, f = torch.arange(N + 1.0)[:, None], torch.arange(N + 1.0)
    p = (s + 1) / (s + f + 2)  # (s, f)
    worth = torch.zeros(N + 2, N + 2, prices)  # W with no pulls left
    indices = torch.zeros(N + 1, N + 1, N + 1)
    for m in range(1, N + 1):
        size = N - m + 1  # number of values of s and f that are still possible
        here = p[:size, :size, None]
        gain = here - price + here * worth[1 : size + 1, :size] + (1 - here) * worth[:size, 1 : size + 1]
        indices[m, :size, :size] = (gain > 0).sum(-1) / prices
        worth = gain.clamp(min=0)
    return indices


def pull_by(rule: Rule, problems: Bandits, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """(B, N) arms that a rule pulls, and their mean payoffs. Ties go to the first arm."""
    generator = torch.Generator().manual_seed(seed)
    paid, not_paid = torch.zeros_like(problems.means), torch.zeros_like(problems.means)
    actions, expected = [], []
    for t in range(problems.steps):
        action = rule(paid, not_paid, problems.steps - t, generator).argmax(-1)
        outcome = problems.act(t, problems.first(), action)
        pulled = torch.nn.functional.one_hot(action, problems.actions)
        paid = paid + pulled * outcome.reward[:, None]
        not_paid = not_paid + pulled * (1 - outcome.reward[:, None])
        actions.append(action)
        expected.append(outcome.expected)
    return torch.stack(actions, 1), torch.stack(expected, 1)


# decision processes


def plan_episode(transitions: Tensor, means: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """(B, S, A, S'), (B, S, A) -> (B, H, S) best actions, (B, S) their value from each state."""
    value = torch.zeros_like(means[..., 0])
    plan = []
    for _ in range(length):  # backwards from the last step
        value, best = (means + torch.einsum("bsat,bt->bsa", transitions, value)).max(-1)
        plan.append(best)
    return torch.stack(plan[::-1], 1), value


class Belief:
    """Posterior over processes: transition counts and reward sums. The priors are the task's: a flat
    Dirichlet, and N(1, 1) for means with noise of variance 1."""

    def __init__(self, problems: DecisionProcesses) -> None:
        self.moves = torch.ones_like(problems.transitions)  # Dirichlet parameters
        self.visits = torch.zeros_like(problems.means)
        self.sums = torch.zeros_like(problems.means)

    def see(self, state: Tensor, action: Tensor, reward: Tensor, after: Tensor | None) -> None:
        """Observe one step of every problem; at the end of an episode there is no transition."""
        rows = torch.arange(len(state))
        self.visits[rows, state, action] += 1
        self.sums[rows, state, action] += reward
        if after is not None:
            self.moves[rows, state, action, after] += 1

    def mean(self) -> tuple[Tensor, Tensor]:
        return self.moves / self.moves.sum(-1, keepdim=True), (1 + self.sums) / (1 + self.visits)

    def draw(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        weights = torch._standard_gamma(self.moves, generator=generator)
        centre, spread = (1 + self.sums) / (1 + self.visits), (1 + self.visits).rsqrt()
        noise = torch.randn(centre.shape, generator=generator)
        return weights / weights.sum(-1, keepdim=True), centre + spread * noise


Planner = Callable[[DecisionProcesses, Belief, torch.Generator], tuple[Tensor, Tensor]]

PLANNERS: dict[str, Planner] = {
    "greedy": lambda problems, belief, generator: belief.mean(),
    "PSRL": lambda problems, belief, generator: belief.draw(generator),
    "optimal": lambda problems, belief, generator: (problems.transitions, problems.means),
}


def act_by(planner: Planner | None, problems: DecisionProcesses, *, seed: int = 0) -> Tensor:
    """(B, T) mean payoffs of actions that follow a new plan in each episode; None: random actions."""
    generator = torch.Generator().manual_seed(seed)
    belief, state, expected = Belief(problems), problems.first(), []
    plan = torch.zeros(problems.size, problems.length, problems.states, dtype=torch.long)
    rows = torch.arange(problems.size)
    for t in range(problems.steps):
        step = t % problems.length
        if step == 0 and planner is not None:
            plan, _ = plan_episode(*planner(problems, belief, generator), problems.length)
        if planner is None:
            action = torch.randint(problems.actions, (problems.size,), generator=generator)
        else:
            action = plan[rows, step, state]
        outcome = problems.act(t, state, action)
        belief.see(state, action, outcome.reward, None if outcome.ended else outcome.state)
        state = outcome.state
        expected.append(outcome.expected)
    return torch.stack(expected, 1)
