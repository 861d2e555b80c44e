"""From pictures to captions: what `regard caption` and the evaluation do, for Python code.

    run = open_run("runs/sat-shapes")
    [found] = describe(run.model, image_batch(run.task.annotate(pictures)))

`found.weights` says where the model looked at each word.
"""

from dataclasses import dataclass

from torch import Tensor

from regard.data.images import ImageBatch
from regard.decode.base import GREEDY, Decoding
from regard.decode.greedy import search
from regard.models.base import Translating

LONGEST = 50  # words, unless a recipe says otherwise: a picture has no length to derive it from


@dataclass(frozen=True, eq=False)
class Caption:
    """A model's caption of one picture."""

    tokens: tuple[int, ...]  # without eos
    log_probability: float
    finished: bool  # False: cut at the longest length allowed
    weights: Tensor | None  # (T, L), T counts eos; None for a model without attention


def describe(model: Translating, batch: ImageBatch, *, decoding: Decoding = GREEDY) -> list[Caption]:
    """The best caption found for each picture of the batch."""
    longest = decoding.max_length or LONGEST
    found = search(model, batch, decoding, maximum=longest, attention=model.aligner is not None)
    return [
        Caption(best.tokens, best.log_probability, best.finished, best.attention.get(model.aligner or ""))
        for best, *_ in found
    ]
