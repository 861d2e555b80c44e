"""Beam search: keeps the `width` best hypotheses of each sentence alive.

Every step takes the `width` best continuations of a sentence, eos included. One that ends leaves the beam and
is stored; the others continue, and are `width` again after the next step. A sentence is over when no live
hypothesis can beat the worst that it would return. Log-probabilities never rise, and the divisor of the
length penalty is largest at the maximum length, so no continuation scores above

    log-probability / divisor(maximum)

which makes stopping exact: it never changes the result. With width 1 this is greedy decoding.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from regard.attention import paths
from regard.data.batches import PairBatch
from regard.data.tokens import BOS, EOS
from regard.decode.backpointers import Ends, Moves, Track, Trellis
from regard.decode.base import (
    Hypothesis,
    LengthPenalty,
    Lengths,
    WuPenalty,
    advance,
    best_tokens,
    evaluating,
    limits_of,
)
from regard.errors import ConfigError, DataError
from regard.models.base import State, StepDecoder


def beam_search(
    model: StepDecoder[State],
    batch: PairBatch,
    *,
    width: int,
    nbest: int = 1,
    maximum: int | Lengths,
    minimum: int = 0,
    penalty: LengthPenalty = WuPenalty(0.6),  # noqa: B008 - a frozen value; Vaswani et al. 2017, section 6.1
    attention: bool = False,
) -> list[list[Hypothesis]]:
    """The `nbest` best hypotheses found for each sentence, distinct, the best first.

    `maximum` counts steps, eos too; `minimum` counts tokens that must come before eos. A sentence's result
    does not depend on the others in its batch. Fewer than `nbest` are returned if the model allows no more.
    """
    if not 1 <= nbest <= width:
        raise ConfigError(f"beam_search: `nbest` has {nbest}; expected 1 to `width` = {width}.")
    limits = limits_of(batch, maximum, minimum)
    if batch.size == 0:
        return []
    with evaluating(model):
        call = Call(
            model, batch, Options(width, nbest, minimum, penalty, attention), limits, int(limits.max())
        )
        path = paths.choose("decoding", call)
        tracks, sentences = step_by_step(call) if path is None else path.run(call)
    found: list[list[Hypothesis]] = [[] for _ in range(batch.size)]
    for sentence, track in zip(sentences, tracks, strict=True):
        found[sentence].append(track.hypothesis(penalty))
    if not all(found):
        raise DataError(
            f"beam_search: sentence {found.index([])} has no possible output; every token has -inf."
        )
    return [sorted(each, key=rank)[:nbest] for each in found]


class Node(NamedTuple):
    """A continuation that a beam search kept."""

    step: int  # from 0
    parent: int | None  # the index of the node that it continues; None at the start
    token: int
    log_probability: float  # of the whole path so far


def beam_tree(
    model: StepDecoder[State],
    batch: PairBatch,
    *,
    width: int,
    maximum: int | Lengths,
    penalty: LengthPenalty,
) -> tuple[list[Node], list[list[int]]]:
    """All nodes that the search for one sentence kept, and those of each hypothesis, best first."""
    if batch.size != 1:
        raise ConfigError(f"beam_tree: `batch` has {batch.size} sentences; expected 1.")
    options, limits = Options(width, width, 0, penalty, attention=False), limits_of(batch, maximum, 0)
    with evaluating(model):
        trellis, ends = _search(Call(model, batch, options, limits, int(limits.max())))
        tracks = trellis.tracks(ends, batch)
    nodes: list[Node] = []
    kept: list[list[int | None]] = []  # for each step the index of each of its nodes; None: impossible
    for step, (parents, tokens, each) in enumerate(trellis.nodes()):
        numbers: list[int | None] = []
        for parent, token, own in zip(parents, tokens, each, strict=True):
            before = kept[-1][parent] if kept else None
            total = own + (0.0 if before is None else nodes[before].log_probability)
            # continuations of ended hypotheses, or of probability zero, only fill the beam
            dead = bool(kept) and (before is None or nodes[before].token == EOS)
            if dead or total == -math.inf:
                numbers.append(None)
                continue
            numbers.append(len(nodes))
            nodes.append(Node(step, before, token, total))
        kept.append(numbers)
    ranked = sorted(range(len(tracks)), key=lambda n: rank(tracks[n].hypothesis(penalty)))
    lengths, last = ends.lengths.tolist(), ends.nodes.tolist()
    found = [_path_to(nodes, kept[lengths[n] - 1][last[n]]) for n in ranked[:width]]
    return nodes, found


def _path_to(nodes: list[Node], last: int | None) -> list[int]:
    path = []
    while last is not None:
        path.append(last)
        last = nodes[last].parent
    return path[::-1]


def rank(hypothesis: Hypothesis) -> tuple[bool, float]:
    """Sort key: finished hypotheses first, then by falling score."""
    return not hypothesis.finished, -hypothesis.score


@dataclass(frozen=True)
class Options:
    """The options of a search, as in `beam_search`."""

    width: int
    nbest: int
    minimum: int
    penalty: LengthPenalty
    attention: bool


class Finished(NamedTuple):
    """The best ended hypotheses of each running sentence, by falling score; -inf: none yet."""

    scores: Tensor  # (B, N)
    lengths: Tensor  # (B, N)
    nodes: Tensor  # (B, N)

    @classmethod
    def none(cls, total: Tensor, nbest: int) -> Self:
        nothing = torch.zeros(len(total), nbest, dtype=torch.long, device=total.device)
        return cls(total.new_full((len(total), nbest), -torch.inf), nothing, nothing)

    def offer(self, scores: Tensor, length: int, nodes: Tensor) -> Self:
        """The best of these and (B, K) new ones; ties go to the earlier."""
        N = self.scores.shape[1]
        every, order = torch.cat([self.scores, scores], dim=1).sort(dim=1, descending=True, stable=True)
        lengths = torch.cat([self.lengths, torch.full_like(nodes, length)], dim=1).gather(1, order)
        nodes = torch.cat([self.nodes, nodes], dim=1).gather(1, order)
        return type(self)(every[:, :N], lengths[:, :N], nodes[:, :N])

    def select(self, rows: Tensor) -> Self:
        return type(self)(*(tensor[rows] for tensor in self))


class Continuations(NamedTuple):
    """The best continuations of the live hypotheses."""

    total: Tensor  # (B, K) log-probabilities; -inf: no such continuation
    rows: Tensor  # (B, K) the rows of the model's state that they continue
    tokens: Tensor  # (B, K)
    nodes: Tensor  # (B, K) their own numbers

    def select(self, rows: Tensor) -> Self:
        return type(self)(*(tensor[rows] for tensor in self))


class Beam(NamedTuple):
    """A search between two steps: the live and the finished hypotheses of B sentences."""

    state: Any  # of the model, one row per live hypothesis
    tokens: Tensor  # (B k,) the last token of each
    total: Tensor  # (B, k) its log-probability; -inf: it has ended
    finished: Finished

    @staticmethod
    def start(model: StepDecoder[Any], batch: PairBatch, nbest: int) -> "Beam":
        device = batch.source.device
        total = torch.zeros(batch.size, 1, device=device)
        tokens = torch.full((batch.size,), BOS, device=device)
        return Beam(model.start(batch), tokens, total, Finished.none(total, nbest))


class Step(NamedTuple):
    """One step of a search."""

    beam: Beam  # after the step, except that `best.rows` of its state are still to be selected
    best: Continuations
    log_probabilities: Tensor  # (B K,) of the token of each continuation
    over: Tensor  # (B,) no live hypothesis can change the result any more
    weights: dict[str, Tensor]


def extend(model: StepDecoder[Any], beam: Beam, limits: Tensor, length: int, options: Options) -> Step:
    """Extend the live hypotheses by one token, to `length`."""
    each, state, weights = advance(model, beam.tokens, beam.state, attention=options.attention)
    values, tokens = best_tokens(each, options.width, step=length - 1, minimum=options.minimum)
    best, own = _continuations(beam.total, values, tokens, options.width)
    ended = best.tokens == EOS
    scores = best.total / options.penalty.divisor(torch.full_like(limits[:1], length))
    finished = beam.finished.offer(scores.masked_fill(~ended, -torch.inf), length, best.nodes)
    total = best.total.masked_fill(ended, -torch.inf)
    bound = total.amax(1) / options.penalty.divisor(limits)
    over = (limits <= length) | (bound <= finished.scores[:, -1])
    after = Beam(state, best.tokens.flatten(), total, finished)
    return Step(after, best, own.flatten(), over, weights)


class Call(NamedTuple):
    """The arguments of a search."""

    model: StepDecoder[Any]
    batch: PairBatch
    options: Options
    limits: Tensor  # (B,) steps
    longest: int  # the largest of them


Found = tuple[list[Track], list[int]]  # the paths of all hypotheses that can be returned, their sentences


def step_by_step(call: Call) -> Found:
    """Run the search step by step."""
    trellis, ends = _search(call)
    return trellis.tracks(ends, call.batch), ends.sentences.tolist()


def _search(call: Call) -> tuple[Trellis, Ends]:
    """Search step by step; sentences that are over leave the batch, so that the rest runs faster."""
    model, batch, options, limits, longest = call
    trellis = Trellis()
    ends: list[Ends] = []
    sentences = origin = torch.arange(batch.size, device=limits.device)  # those still running, as are limits
    beam = Beam.start(model, batch, options.nbest)
    for length in range(1, longest + 1):
        step = extend(model, beam, limits, length, options)
        beam, best = step.beam, step.best
        trellis.add(Moves(origin, best.rows.flatten(), beam.tokens, step.log_probabilities, step.weights))
        count = int(step.over.sum())  # waits for the device, once
        if count:
            order = step.over.long().argsort(descending=True, stable=True)
            leaving, staying = order[:count], order[count:]
            finished, lengths = beam.finished.select(leaving), torch.full_like(leaving, length)
            alive = beam.total[leaving], best.nodes[leaving]
            ends.append(ends_of(finished, *alive, sentences[leaving], lengths))
            if len(staying) == 0:
                break
            sentences, limits, best = sentences[staying], limits[staying], best.select(staying)
            beam = Beam(beam.state, best.tokens.flatten(), beam.total[staying], beam.finished.select(staying))
        origin = best.nodes.flatten()
        beam = beam._replace(state=model.select(beam.state, best.rows.flatten()))
    return trellis, Ends.join(ends)


def _continuations(total: Tensor, values: Tensor, tokens: Tensor, width: int) -> tuple[Continuations, Tensor]:
    """(B, k) hypotheses, the (B k, m) best next tokens of each -> the best `width` of their continuations.

    Also returns the log-probabilities (B, K) of their tokens. No hypothesis contributes more than `width`, so
    the best of each are found first: the model's values are compared before a long sum rounds them away.
    """
    (B, k), m = total.shape, values.shape[-1]
    values, tokens = values.reshape(B, k * m), tokens.reshape(B, k * m)
    sums = (total[:, :, None] + values.reshape(B, k, m)).flatten(1)
    best, index = sums.topk(min(width, k * m))  # (B, K)
    rows = torch.arange(B, device=total.device)[:, None] * k + index // m
    nodes = torch.arange(best.numel(), device=total.device).reshape(best.shape)
    return Continuations(best, rows, tokens.gather(1, index), nodes), values.gather(1, index)


def ends_of(finished: Finished, total: Tensor, nodes: Tensor, sentences: Tensor, lengths: Tensor) -> Ends:
    """The results of sentences that are over: ended hypotheses and, if these are too few, cut ones.

    `total` and `nodes` (B, K) are of the live hypotheses at each sentence's last step, number `lengths` (B,).
    """
    there = finished.scores != -torch.inf  # not `>`, which would hide NaN
    ended = Ends(sentences[:, None].expand_as(there)[there], finished.lengths[there], finished.nodes[there])
    enough = finished.scores[:, -1:] != -torch.inf
    best, index = total.masked_fill(enough, -torch.inf).topk(min(finished.scores.shape[1], total.shape[1]))
    there = best != -torch.inf
    owners, last = (x[:, None].expand_as(there)[there] for x in (sentences, lengths))
    return Ends.join([ended, Ends(owners, last, nodes.gather(1, index)[there])])
