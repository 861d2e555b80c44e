"""SNAIL as a policy: it reads the results of its actions, and all that it learns of a problem is in them.

    x_t = [state_t; action_{t-1}; reward_{t-1}; ended_{t-1}]
    h = A(TC_2(TC_1(W_x x + b_x)))                                   causal: step t knows steps up to t
    π(· | x_1 … x_t) = softmax(W_π h_t + b_π)          V(x_1 … x_t) = w_V · h_t + b_V

    paper                 here       shape
    linear, 32            read       (I, 32)
    TCBlock(T, 32) twice  TC         filters 32, T = all steps of a problem, over its episodes
    AttentionBlock(32, 32) A         keys 32, values 32
    π, V                  policy, value

A problem is acted in step by step with cached block states (see layers/temporal.py), without gradients. Then
all steps are read again at once, with gradients. Both give the same numbers.

Mishra, Rohaninejad, Chen, Abbeel. A simple neural attentive meta-learner. 2018, section 4.2.
https://arxiv.org/abs/1707.03141
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.catalog import card
from regard.data.problems import Outcome, Problems, Rollout, draw
from regard.errors import ConfigError
from regard.layers.temporal import AttentionBlock, Blocks, Dilations, TCBlock
from regard.models.base import Model, Settings, Size


@dataclass(frozen=True, kw_only=True)
class SNAILPolicyConfig(Settings, key="snail-policy"):
    """Sizes and choices; the defaults are the paper's."""

    inputs: int  # I, input size of a step
    actions: int  # A
    steps: int  # T; determines the number of dense blocks in a TC block
    hidden: Size = 32
    filters: Size = 32
    keys: Size = 32
    values: Size = 32
    dilations: Dilations = "doubling"  # or "printed", as in the paper's text; see layers/temporal.py
    attention: bool = True
    convolutions: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.attention or self.convolutions):
            raise ConfigError(
                "snail-policy: `attention` and `convolutions` are both false; expected one of them to be "
                "true. Otherwise the policy sees only its last step."
            )


class Acted(NamedTuple):
    """Inputs, actions and rewards, step by step."""

    inputs: Tensor  # (B, T, I)
    actions: Tensor  # (B, T)
    rewards: Tensor  # (B, T)
    expected: Tensor  # (B, T)


@card(
    "model",
    "snail-policy",
    title="SNAIL that acts",
    authors="Mishra, Rohaninejad, Chen, Abbeel",
    year=2018,
    link="https://arxiv.org/abs/1707.03141",
    sentence="Convolutions and attention read the results of a policy's actions: it learns to explore.",
)
class SNAILPolicy(Model):
    """Blocks over the steps of a problem; a policy and a value at each step."""

    Config = SNAILPolicyConfig
    reads = ("problems to act in",)

    def __init__(self, config: SNAILPolicyConfig) -> None:
        super().__init__(config)
        self.read = nn.Linear(config.inputs, config.hidden)
        blocks: list[TCBlock | AttentionBlock] = []
        width = config.hidden
        for _ in range(2 if config.convolutions else 0):
            blocks.append(
                TCBlock(inputs=width, steps=config.steps, filters=config.filters, dilations=config.dilations)
            )
            width = blocks[-1].outputs
        if config.attention:
            blocks.append(AttentionBlock(inputs=width, keys=config.keys, values=config.values))
            width = blocks[-1].outputs
            self.aligner = f"blocks.{len(blocks) - 1}.attention"
        self.blocks = Blocks(*blocks)
        self.policy = nn.Linear(width, config.actions)
        self.value = nn.Linear(width, 1)
        nn.init.zeros_(self.policy.weight)  # all actions equally likely at first
        nn.init.zeros_(self.policy.bias)

    def forward(self, problems: Problems) -> Rollout:
        """Act in the problems, then evaluate policy and value at all steps."""
        acted = self.act(problems)
        h = self.blocks(self.read(acted.inputs))  # (B, T, C)
        log_policy = self.policy(h).float().log_softmax(-1)
        return Rollout(
            log_policy, self.value(h)[..., 0].float(), acted.actions, acted.rewards, acted.expected
        )

    @torch.no_grad()
    def act(self, problems: Problems, *, greedy: bool = False) -> Acted:
        """Act step by step, with sampled or with the most probable actions."""
        state, action = self.blocks.start(problems.size), None
        nothing = torch.zeros_like(problems.chance[:, 0])
        outcome = Outcome(problems.first(), nothing, nothing, ended=False)
        steps = []
        for t in range(problems.steps):
            x = problems.read(action, outcome)  # (B, I)
            h, state = self.blocks.step(self.read(x), state)
            scores = self.policy(h).float()
            action = scores.argmax(-1) if greedy else draw(scores.softmax(-1), problems.chance[:, t])
            outcome = problems.act(t, outcome.state, action)
            steps.append((x, action, outcome.reward, outcome.expected))
        return Acted(*(torch.stack(part, 1) for part in zip(*steps, strict=True)))
