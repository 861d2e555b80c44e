"""Language models: a sentence in, the probability of each word and what it attended to out."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path

import torch
from torch import Tensor

from regard.attention.record import record_any
from regard.data.ptb import EOS
from regard.data.sentences import Sentences
from regard.data.text_windows import StreamBatch
from regard.decode.base import evaluating
from regard.errors import check_whole
from regard.systems.drawable import Drawable
from regard.systems.system import System, chunks, texts_of
from regard.tasks.sentences import SentenceTask
from regard.views.lookback import START, draw, lookback, of_words


@dataclass(frozen=True, eq=False, repr=False)
class Scored(Drawable):
    """The probability of a sentence, and what each of its words attended to."""

    words: tuple[str, ...]  # as the model knows them
    log_probabilities: Tensor  # (n + 1,) of each word given those before it, then of the end
    weights: Tensor | None  # (n + 1, n + 1) of each word over the start mark and the words
    title = "Looking back"

    @property
    def log_probability(self) -> float:
        return float(self.log_probabilities.sum())

    @property
    def perplexity(self) -> float:
        return exp(-self.log_probability / len(self.log_probabilities))

    def __repr__(self) -> str:
        return f"<Scored {' '.join(self.words)!r}: perplexity {self.perplexity:.1f}>"

    def draw(self, path: Path) -> None:
        if self.weights is None:
            raise self.nothing("the model has no attention")
        draw(self.weights, [START, *self.words], path)

    draw_page = draw


class LanguageSystem(System):
    """A language model of single sentences.

        reader = load("lstmn", device="cpu")
        reader.score("The cat sleeps.").perplexity
        reader.next("The cat")          # the likeliest next words, with their probabilities

    The weights of a scored sentence show what each word attended to.
    """

    task: SentenceTask

    def score(self, text: str | Sequence[str]) -> Scored | list[Scored]:
        """Score a sentence, or each of several."""
        texts = texts_of("score", "text", text)
        results = [found for part in chunks(texts) for found in self._scored(part)]
        return results[0] if isinstance(text, str) else results

    def next(self, text: str = "", count: int = 5) -> list[tuple[str, float]]:
        """The likeliest next words after the beginning of a sentence, with their probabilities."""
        check_whole("next", count=count)
        words = self.task.read(text)[0] if text.strip() else []
        scores = self._scores(self._batch([words]))[0, len(words)]
        best = scores.exp().topk(min(count, len(scores)))
        known = self.task.words.words
        return [(known[i], p) for p, i in zip(best.values.tolist(), best.indices.tolist(), strict=True)]

    def _scored(self, texts: Sequence[str]) -> list[Scored]:
        words = [self.task.read(text)[0] for text in texts]
        batch, model = self._batch(words), self.trained.model
        with record_any(model) as trace:
            log_probabilities = self._scores(batch)
        results = trace[model.aligner] if model.aligner is not None else None
        found = []
        for b, own in enumerate(words):
            n = len(own) + 1
            chosen = log_probabilities[b, :n].gather(1, batch.targets[b, :n, None])[:, 0]
            weights = None if results is None else of_words(lookback(results, b), len(own))
            found.append(Scored(tuple(own), chosen, weights))
        return found

    def _batch(self, sentences: Sequence[Sequence[str]]) -> StreamBatch:
        known, mark = self.task.words, self.task.words.number(EOS)
        numbers = [number for words in sentences for number in known.numbers([*words, EOS])]
        return Sentences(numbers, mark=mark).batch(range(len(sentences)))

    def _scores(self, batch: StreamBatch) -> Tensor:
        """(B, T, V) log-probabilities, on the CPU."""
        with evaluating(self.trained.model), self.computing():
            scores: Tensor = self.trained.model(self.place(batch))
        return torch.log_softmax(scores.float(), -1).cpu()
