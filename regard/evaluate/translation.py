"""Measure a translator on a split: BLEU, chrF, BLEU by length, alignment error rate by forced decoding."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from regard.decode.forced import forced
from regard.decode.translator import DEFAULT, Decoding, Translation, Translator
from regard.errors import DataError
from regard.evaluate.alignment import AlignmentCounts, Gold, Link, Links, argmax_links, score_alignment
from regard.evaluate.base import MeasureTable
from regard.evaluate.text import LengthScore, Scores, score_by_length, score_text
from regard.models.base import Translating
from regard.tasks.base import Split
from regard.tasks.translation import TranslationTask

BUDGET = 4096  # padded tokens of a forced batch


@dataclass(frozen=True)
class TranslationEvaluation:
    """What was measured, and the translations it was measured on."""

    split: Split
    beam: int
    text: Scores
    by_length: list[LengthScore]
    alignment: AlignmentCounts | None  # None without gold links or without attention
    exact: float  # share of translations equal to their reference, word for word
    seconds: float
    translations: list[Translation]
    references: list[str]

    def headline(self) -> tuple[str, float]:
        return "BLEU", self.text.bleu

    def measures(self) -> list[tuple[str, str]]:
        found = [
            ("BLEU", f"{self.text.bleu:.2f}"),
            ("chrF", f"{self.text.chrf:.2f}"),
            ("translations without any error", f"{100 * self.exact:.1f} %"),
        ]
        if self.alignment is not None:
            found.append(("alignment error rate", f"{self.alignment.error_rate:.3f}"))
        return found

    def tables(self) -> list[MeasureTable]:
        rows = [(row.words, str(row.sentences), f"{row.bleu:.2f}") for row in self.by_length]
        return [MeasureTable(("source words", "sentences", "BLEU"), rows)]

    def lines(self) -> list[str]:
        return [translation.text for translation in self.translations]

    def note(self) -> str:
        return f"{self.text.sentences} sentences, beam {self.beam}\nsignature: {self.text.signature}"

    def summary(self) -> dict[str, Any]:
        """The numbers as plain values, for JSON."""
        return {
            "split": self.split,
            "beam": self.beam,
            "sentences": self.text.sentences,
            "bleu": round(self.text.bleu, 2),
            "chrf": round(self.text.chrf, 2),
            "exact": round(self.exact, 4),
            "signature": self.text.signature,
            "chrf_signature": self.text.chrf_signature,
            "by_length": [
                {"low": row.low, "high": row.high, "sentences": row.sentences, "bleu": round(row.bleu, 2)}
                for row in self.by_length
            ],
            "alignment": None
            if self.alignment is None
            else {
                "error_rate": round(self.alignment.error_rate, 4),
                "precision": round(self.alignment.precision, 4),
                "recall": round(self.alignment.recall, 4),
            },
            "seconds": round(self.seconds, 1),
        }


def evaluate_translation(
    model: Translating,
    task: TranslationTask,
    split: Split = "test",
    *,
    decoding: Decoding = DEFAULT,
    progress: Callable[[int], None] | None = None,
) -> TranslationEvaluation:
    """Translate a split and compare with its references and gold links."""
    started = time.perf_counter()
    examples = task.examples(split)
    if not examples:
        raise DataError(f"evaluate: the {split} split has no sentences; expected one or more.")
    found = Translator(model, task.source, task.target).translate(
        [example.source for example in examples], decoding, attention=False, progress=progress
    )
    translations = [best for best, *_ in found]
    texts = [translation.text for translation in translations]
    references = [example.target for example in examples]
    language = task.languages[1]
    lengths = [len(translation.source_pieces) for translation in translations]
    return TranslationEvaluation(
        split=split,
        beam=decoding.width,
        text=score_text(texts, references, language=language),
        by_length=score_by_length(texts, references, lengths, language=language),
        alignment=measure_alignment(model, task, split),
        exact=sum(map(str.__eq__, texts, references)) / len(texts),
        seconds=time.perf_counter() - started,
        translations=translations,
        references=references,
    )


def measure_alignment(model: Translating, task: TranslationTask, split: Split) -> AlignmentCounts | None:
    """Force the references, link each target piece to the source piece it attends to most, count.

    Sentences without gold links do not count; None where no sentence has them or the model has no attention.
    """
    gold = [example.links for example in task.examples(split)]
    if model.aligner is None or all(links is None for links in gold):
        return None
    device = next(model.parameters()).device
    found: list[Links] = []
    wanted: list[Gold] = []
    for rows in task.evaluation_plan(split, batch=BUDGET):
        batch = task.batch(split, rows).to(device)
        for row, track in zip(rows, forced(model, batch, attention=True), strict=True):
            links = gold[row]
            if links is None:
                continue
            weights = track.attention[model.aligner]
            # the row and the column of eos stand for no word
            heads = weights.reshape(-1, *weights.shape[-2:])[:, :-1, :-1]
            found.append(argmax_links(heads.mean(0)))
            sure = frozenset(Link(*link) for link in links)
            wanted.append(Gold(sure, sure))
    return score_alignment(found, wanted)
