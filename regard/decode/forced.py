"""Forced decoding: the log-probabilities and the attention of given targets, step by step."""

from torch import Tensor

from regard.data.batches import PairBatch
from regard.decode.backpointers import Track
from regard.decode.rollout import walk
from regard.models.base import State, StepDecoder


def forced(model: StepDecoder[State], batch: PairBatch, *, attention: bool = True) -> list[Track]:
    """Log-probabilities and attention of `batch.target`; T counts its eos.

    This is how alignment error rate is measured: force the reference, read off the attention.
    """

    def pick(step: int, rows: Tensor, log_probabilities: Tensor) -> Tensor:
        return batch.target[rows, step]

    return walk(model, batch, pick=pick, limits=batch.target_lengths, attention=attention)
