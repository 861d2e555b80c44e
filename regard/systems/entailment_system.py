"""Entailment: two sentences in; whether the second follows, and which words were aligned."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from regard.attention.record import record_any
from regard.data.entailment import LABELS
from regard.decode.base import evaluating
from regard.models.pooled import PooledSentences
from regard.systems.drawable import Drawable
from regard.systems.system import System, chunks, same_length, texts_of
from regard.tasks.entailment import SEPARATOR, EntailmentTask
from regard.views.entailment import NOTHING, draw, draw_pooled, looks


@dataclass(frozen=True, eq=False, repr=False)
class Entailed(Drawable):
    """Whether a hypothesis follows from a premise."""

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    probabilities: dict[str, float]  # of entailment, neutral and contradiction
    # each word of the premise over the hypothesis, if the model has that direction, and the reverse
    weights: tuple[Tensor | None, Tensor] | None
    pooled: bool  # the weights are each sentence's over its own words
    title = "Soft alignment"

    @property
    def label(self) -> str:
        return max(self.probabilities, key=self.probabilities.__getitem__)

    def __str__(self) -> str:
        return self.label

    def __repr__(self) -> str:
        sentences = f"{' '.join(self.premise)!r}, {' '.join(self.hypothesis)!r}"
        return f"<Entailed {sentences}: {self.label} ({self.probabilities[self.label]:.0%})>"

    def draw(self, path: Path) -> None:
        if self.weights is None:
            raise self.nothing("the model has no attention")
        show = draw_pooled if self.pooled else draw
        show(*self.weights, [NOTHING, *self.premise], [NOTHING, *self.hypothesis], self.label, path)

    draw_page = draw


class EntailmentSystem(System):
    """A classifier of pairs of sentences: does the second follow from the first?

        pair = load("entailment", device="cpu").entails("w14 w52 w16", "w52 w14")
        pair.label, pair.probabilities

    The weights show which words of the two sentences were aligned; an LSTMN aligns only the hypothesis.
    """

    task: EntailmentTask

    def entails(
        self, premise: str | Sequence[str], hypothesis: str | Sequence[str]
    ) -> Entailed | list[Entailed]:
        """Label a pair of sentences, or each pair of two lists."""
        task, single = self.task, isinstance(premise, str) and isinstance(hypothesis, str)
        first = texts_of("entails", "premise", premise)
        second = texts_of("entails", "hypothesis", hypothesis)
        same_length("entails", premise=first, hypothesis=second)
        pairs = [task.read(f"{a} {SEPARATOR} {b}") for a, b in zip(first, second, strict=True)]
        model, results = self.trained.model, []
        for part in chunks(pairs):
            batch = self.place(task.tensors(part))
            with evaluating(model), self.computing(), record_any(model) as trace:
                shares = model(batch).float().softmax(-1).tolist()
            maps = [r.weights.float().cpu() for r in trace[model.aligner]] if model.aligner else None
            for b, pair in enumerate(part):
                A, B = len(pair.premise) + 1, len(pair.hypothesis) + 1
                weights = None if maps is None else looks(model, maps, b, A, B)
                pooled = isinstance(model, PooledSentences)
                chances = dict(zip(LABELS, shares[b], strict=True))
                results.append(Entailed(pair.premise, pair.hypothesis, chances, weights, pooled))
        return results[0] if single else results
