"""Greedy decoding, the most probable token at each step; and `search`, which follows the settings."""

from torch import Tensor

from regard.attention import paths
from regard.data.batches import PairBatch
from regard.decode.base import Decoding, Hypothesis, Lengths, PowerPenalty, best_tokens, evaluating, limits_of
from regard.decode.beam import Call, Options, beam_search
from regard.decode.rollout import walk
from regard.models.base import State, StepDecoder


def greedy(
    model: StepDecoder[State],
    batch: PairBatch,
    *,
    maximum: int | Lengths,
    minimum: int = 0,
    attention: bool = False,
) -> list[Hypothesis]:
    """One hypothesis for each sentence.

    `maximum` counts steps, eos too; `minimum` counts tokens that must come before eos. With `attention`, the
    weights of every attention in the model's step are returned too.
    """

    def pick(step: int, rows: Tensor, log_probabilities: Tensor) -> Tensor:
        # not argmax: this breaks ties as beam search does
        return best_tokens(log_probabilities, 1, step=step, minimum=minimum)[1].squeeze(-1)

    limits = limits_of(batch, maximum, minimum)
    sum_of_all = PowerPenalty(0.0)
    if batch.size:
        call = Call(model, batch, Options(1, 1, minimum, sum_of_all, attention), limits, int(limits.max()))
        if (path := paths.choose("decoding", call)) is not None:
            with evaluating(model):
                tracks, sentences = path.run(call)
            found = dict(zip(sentences, tracks, strict=True))
            return [found[row].hypothesis(sum_of_all) for row in range(batch.size)]
    tracks = walk(model, batch, pick=pick, limits=limits, attention=attention)
    return [track.hypothesis(sum_of_all) for track in tracks]


def search(
    model: StepDecoder[State],
    batch: PairBatch,
    decoding: Decoding,
    *,
    maximum: int | Lengths,
    attention: bool = False,
) -> list[list[Hypothesis]]:
    """The `nbest` outputs of each sentence, the best first; greedy if one hypothesis is kept."""
    width, nbest = decoding.width, decoding.nbest
    if width == 1:
        return [[found] for found in greedy(model, batch, maximum=maximum, attention=attention)]
    return beam_search(
        model, batch, width=width, nbest=nbest, maximum=maximum, penalty=decoding.rule, attention=attention
    )
