"""The steps of a search as back-pointers, and the backtrace from a last node to its whole path.

A *row* is a row of the model's batch; a *node* is one continuation of a row. Step t has the row and token of
each node and, for each row, the node of step t - 1 that it continues.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.batches import PairBatch
from regard.data.tokens import EOS
from regard.decode.base import Hypothesis, LengthPenalty
from regard.errors import DataError


@dataclass(frozen=True)
class Track:
    """One path through a search or a given target, step by step."""

    tokens: tuple[int, ...]  # with eos, if the path has one
    log_probabilities: Tensor  # (T,)
    # path -> (..., T, S)
    attention: Mapping[str, Tensor] = field(default_factory=dict, compare=False, repr=False)

    @property
    def log_probability(self) -> float:
        return float(self.log_probabilities.double().sum())

    def hypothesis(self, penalty: LengthPenalty) -> Hypothesis:
        """The path as a result."""
        finished = self.tokens[-1] == EOS
        divisor = float(penalty.divisor(torch.tensor(len(self.tokens))))
        return Hypothesis(
            tokens=self.tokens[:-1] if finished else self.tokens,
            log_probability=self.log_probability,
            score=self.log_probability / divisor,
            finished=finished,
            attention=self.attention,
        )


class Ends(NamedTuple):
    """The last nodes of N paths."""

    sentences: Tensor  # (N,) row of the batch
    lengths: Tensor  # (N,) steps
    nodes: Tensor  # (N,) node of the last step

    @staticmethod
    def join(parts: Sequence["Ends"]) -> "Ends":
        return Ends(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))


class Moves(NamedTuple):
    """One step of R rows and M nodes."""

    origin: Tensor  # (R,) node of the previous step that each row continues
    rows: Tensor  # (M,) row of each node
    tokens: Tensor  # (M,)
    log_probabilities: Tensor  # (M,)
    weights: dict[str, Tensor]  # path -> (R, ..., S)


class Trellis:
    """All steps of a search, added one at a time."""

    def __init__(self) -> None:
        self._steps: list[Moves] = []

    def add(self, step: Moves) -> None:
        self._steps.append(step)

    def nodes(self) -> Iterator[tuple[list[int], list[int], list[float]]]:
        """For each step, over its nodes: the previous nodes, the tokens, their log-probabilities."""
        for step in self._steps:
            yield step.origin[step.rows].tolist(), step.tokens.tolist(), step.log_probabilities.tolist()

    def tracks(self, ends: Ends, batch: PairBatch) -> list[Track]:
        """The whole path to each end."""
        self._steps, ends = _on_the_host(self._steps), Ends(*(tensor.cpu() for tensor in ends))
        nodes, rows = self._trace(ends)
        tokens = torch.stack([s.tokens[n] for s, n in zip(self._steps, nodes, strict=True)], dim=-1)
        each = torch.stack([s.log_probabilities[n] for s, n in zip(self._steps, nodes, strict=True)], dim=-1)
        lengths = ends.lengths.tolist()
        paths = dict.fromkeys(path for step in self._steps for path in step.weights)
        attention = {path: self._along(path, rows, ends, batch) for path in paths}
        found = [
            Track(tuple(row[:T]), each[n, :T].clone(), {path: every[n] for path, every in attention.items()})
            for n, (row, T) in enumerate(zip(tokens.tolist(), lengths, strict=True))
        ]
        if any(track.log_probabilities.isnan().any() for track in found):
            raise DataError("decode: `model.step` returned NaN; expected log-probabilities, finite or -inf.")
        return found

    def _trace(self, ends: Ends) -> tuple[list[Tensor], list[Tensor]]:
        """For every step the (N,) node and row of each path; 0 after a path's end."""
        nodes: list[Tensor] = []
        rows: list[Tensor] = []
        current = torch.zeros_like(ends.nodes)
        for number, step in reversed(list(enumerate(self._steps, start=1))):
            current = torch.where(ends.lengths == number, ends.nodes, current)
            current = torch.where(ends.lengths < number, 0, current)
            nodes.append(current)
            rows.append(step.rows[current])
            current = step.origin[rows[-1]]
        return nodes[::-1], rows[::-1]

    def _along(self, path: str, rows: list[Tensor], ends: Ends, batch: PairBatch) -> list[Tensor]:
        """One module's weights, (..., T, S) for each path."""
        shape = next(step.weights[path].shape for step in self._steps if path in step.weights)
        taken = []
        for step, row in zip(self._steps, rows, strict=True):
            # a module with nothing to attend to in this step, such as an empty tape, has no columns
            seen = step.weights.get(path)
            taken.append(
                torch.zeros(len(row), *shape[1:-1], 0) if seen is None else seen[row.to(seen.device)].cpu()
            )
        widths = [weights.shape[-1] for weights in taken]
        padded = [F.pad(weights, (0, max(widths) - weights.shape[-1])) for weights in taken]
        every = torch.stack(padded, dim=-2)  # (N, ..., T, S)
        lengths, sentences = ends.lengths.tolist(), ends.sentences.tolist()
        own = batch.source_lengths.tolist()
        over_source = set(widths) == {batch.source.shape[1]}
        return [
            every[n, ..., :T, : own[sentence] if over_source else widths[T - 1]].clone()
            for n, (T, sentence) in enumerate(zip(lengths, sentences, strict=True))
        ]


def _on_the_host(steps: list[Moves]) -> list[Moves]:
    """The same steps with all but their weights in host memory: four copies, however many steps."""
    if not steps or steps[0].rows.is_cpu:
        return steps
    columns = [
        torch.split(torch.cat(tensors).cpu(), [len(tensor) for tensor in tensors])
        for tensors in zip(*(step[:4] for step in steps), strict=True)
    ]
    moved = zip(*columns, [step.weights for step in steps], strict=True)
    return [Moves(*parts) for parts in moved]
