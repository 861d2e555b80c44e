"""From pictures to captions: what `regard caption` and the evaluation do, for Python code.

    run = open_run("runs/sat-shapes")
    [found] = describe(run.model, image_batch(run.task.annotate(pictures)))

`found.weights` says where the model looked at each word.
"""

from dataclasses import dataclass

from torch import Tensor

from regard.data.images import ImageBatch
from regard.decode.base import GREEDY, Decoding, Hypothesis
from regard.decode.beam import beam_search
from regard.decode.greedy import greedy
from regard.models.base import Translating

LONGEST = 50  # words, unless a recipe says otherwise: a picture has no length that could tell


@dataclass(frozen=True, eq=False)
class Caption:
    """What a model said of one picture."""

    tokens: tuple[int, ...]  # without eos
    log_probability: float
    finished: bool  # False: cut at the longest length allowed
    weights: Tensor | None  # (T, L), T counts eos; None if not asked for


def describe(
    model: Translating, batch: ImageBatch, *, decoding: Decoding = GREEDY, attention: bool = True
) -> list[Caption]:
    """The best caption found for each picture of the batch."""
    longest = decoding.max_length or LONGEST
    attention = attention and model.aligner is not None
    if decoding.beam == 1:
        found = greedy(model, batch, maximum=longest, attention=attention)
    else:
        beams = beam_search(
            model,
            batch,
            width=decoding.beam,
            maximum=longest,
            penalty=decoding.rule,
            attention=attention,
        )
        found = [best for best, *_ in beams]
    return [_caption(hypothesis, model.aligner) for hypothesis in found]


def _caption(hypothesis: Hypothesis, path: str | None) -> Caption:
    weights = hypothesis.attention.get(path or "")
    return Caption(hypothesis.tokens, hypothesis.log_probability, hypothesis.finished, weights)
