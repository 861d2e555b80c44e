"""Constrained decoding: what a rule forbids has probability zero.

    free     anything
    once     no number twice
    all      every number of the source once, and only then the end

The paper keeps only valid tours in its beam; that is `all`. The log-probabilities of what is allowed stay
those of the model: they are not renormalized.

Vinyals, Fortunato, Jaitly. Pointer networks. 2015. Section 4.4.
https://arxiv.org/abs/1506.03134
"""

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.data.batches import PairBatch
from regard.data.tokens import EOS, SPECIAL
from regard.models.base import Translating

Rule = Literal["free", "once", "all"]


class BarredState(NamedTuple):
    """The model's own state, and what it has said."""

    inner: Any
    said: Tensor  # (B, V) True: said already
    left: Tensor  # (B,) numbers not said yet


class Barred(nn.Module):
    """A model under a rule: a StepDecoder around a StepDecoder."""

    def __init__(self, model: Translating, rule: Rule) -> None:
        super().__init__()
        self.model, self.rule = model, rule

    def start(self, batch: PairBatch) -> BarredState:
        said = torch.zeros(batch.size, 0, dtype=torch.bool, device=batch.source.device)
        return BarredState(self.model.start(batch), said, batch.source_lengths - 1)

    def step(self, tokens: Tensor, state: BarredState) -> tuple[Tensor, BarredState]:
        """(B,) last numbers -> (B, V) log-probabilities, -inf where the rule forbids."""
        each, inner = self.model.step(tokens, state.inner)
        V = each.shape[-1]
        numbers = torch.arange(V, device=tokens.device)
        # V is unknown before the model's first step
        said = state.said if state.said.shape[1] == V else state.said.new_zeros(len(tokens), V)
        said = said | ((numbers == tokens[:, None]) & (numbers >= len(SPECIAL)))
        left = state.left - (tokens >= len(SPECIAL)).long()
        after = BarredState(inner, said, left)
        if self.rule == "free":
            return each, after
        early = (numbers == EOS) & (left > 0)[:, None]
        return each.masked_fill(said | early if self.rule == "all" else said, -torch.inf), after

    def select(self, state: BarredState, rows: Tensor) -> BarredState:
        return BarredState(self.model.select(state.inner, rows), state.said[rows], state.left[rows])
