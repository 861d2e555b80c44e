"""One path per row: what greedy, sampled and forced decoding have in common."""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.data.batches import PairBatch
from regard.data.tokens import BOS, EOS
from regard.decode.backpointers import Ends, Moves, Track, Trellis
from regard.decode.base import advance, evaluating
from regard.models.base import State, StepDecoder

Pick = Callable[[int, Tensor, Tensor], Tensor]
"""(step, (R,) indices of the rows still running, (R, V) log-probabilities) -> (R,) tokens."""


def walk(
    model: StepDecoder[State],
    batch: PairBatch,
    *,
    pick: Pick,
    limits: Tensor,
    copies: int = 1,
    attention: bool,
) -> list[Track]:
    """Follow `pick` until eos or the sentence's limit, `copies` times for each; tracks in sentence order.

    Rows that are over leave the batch, so that the rest runs faster.
    """
    if batch.size == 0:
        return []
    sentences = torch.arange(batch.size, device=limits.device).repeat_interleave(copies)
    limits = limits[sentences]
    rows = torch.arange(len(sentences), device=limits.device)  # indices of the running rows
    lengths, nodes = torch.zeros_like(rows), torch.zeros_like(rows)
    tokens = torch.full_like(rows, BOS)
    origin = here = rows  # `here`: positions of the running rows in the batch
    trellis = Trellis()
    with evaluating(model):
        state = model.start(batch)
        if copies > 1:
            state = model.select(state, sentences)
        for step in range(int(limits.max())):
            log_probabilities, state, weights = advance(model, tokens, state, attention=attention)
            tokens = pick(step, rows, log_probabilities)
            own = log_probabilities.gather(-1, tokens[:, None]).squeeze(-1)
            trellis.add(Moves(origin, here, tokens, own, weights))
            running = (tokens != EOS) & (limits > step + 1)
            origin = running.nonzero().squeeze(-1)
            if len(origin) == len(rows):
                continue
            over = rows[~running]
            lengths[over], nodes[over] = step + 1, here[~running]
            if len(origin) == 0:
                break
            rows, limits, tokens = rows[origin], limits[origin], tokens[origin]
            here, state = here[: len(rows)], model.select(state, origin)
        return trellis.tracks(Ends(sentences, lengths, nodes), batch)
