"""Evaluates translation: BLEU, chrF, BLEU by length, and alignment error rate by forced decoding."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from regard.data.tokens import UNK_PIECE, count_words
from regard.decode.base import Credit, Decoding
from regard.decode.forced import forced
from regard.decode.lines import LONGEST, Refused, translate_lines
from regard.decode.translator import Translation, Translator, nothing
from regard.decode.unknown import credited
from regard.errors import DataError
from regard.evaluate.alignment import AlignmentCounts, Gold, Link, Links, argmax_links, count_links
from regard.evaluate.base import Advance, Evaluation, MeasureTable, evaluator
from regard.evaluate.divided import divide, share, together
from regard.evaluate.text import LengthScore, Scores, bleu, score_by_length, score_text
from regard.extras import needs
from regard.models.base import Translating
from regard.tasks.base import Split
from regard.tasks.translation import Owners, TranslationTask

BUDGET = 4096  # padded tokens of a forced batch


@dataclass(frozen=True)
class TranslationEvaluation(Evaluation):
    """The measurements, and the translations on which they were made."""

    beam: int
    text: Scores
    written: float | None  # BLEU with `<unk>` for unknown words; None if none was replaced
    by_length: list[LengthScore]
    alignment: AlignmentCounts | None  # None without gold links or without attention
    alignment_read: AlignmentCounts | None  # the same, each step's attention credited to the word it has read
    exact: float  # share of translations identical to their reference
    translations: list[Translation]
    references: list[str]

    def headline(self) -> tuple[str, float]:
        return "BLEU", self.text.bleu

    def measures(self) -> list[tuple[str, str]]:
        moses = self.text.moses
        found = [
            ("BLEU", f"{self.text.bleu:.2f}"),
            ("BLEU, lower-cased", f"{self.text.lowercased.score:.2f}"),
            *([("BLEU, lower-cased, Moses tokens", f"{moses.score:.2f}")] if moses is not None else []),
            *([("BLEU, unknown words left", f"{self.written:.2f}")] if self.written is not None else []),
            ("chrF", f"{self.text.chrf:.2f}"),
            ("translations without any error", f"{100 * self.exact:.1f} %"),
        ]
        if self.alignment is not None:
            found.append(("alignment error rate", f"{self.alignment.error_rate:.3f}"))
        if self.alignment_read is not None:
            found.append(("alignment error rate, of the word read", f"{self.alignment_read.error_rate:.3f}"))
        return found

    def tables(self) -> list[MeasureTable]:
        rows = [(row.words, str(row.sentences), f"{row.bleu:.2f}") for row in self.by_length]
        return [MeasureTable(("source words", "sentences", "BLEU"), rows)]

    def lines(self) -> list[str]:
        return [translation.text for translation in self.translations]

    def note(self) -> str:
        forms = [self.text.signature, self.text.lowercased.signature]
        if self.text.moses is not None:
            forms.append(self.text.moses.signature)
        signatures = "".join(f"\nsignature: {signature}" for signature in forms)
        return f"{self.text.sentences} sentences, beam {self.beam}{signatures}"

    def summary(self) -> dict[str, Any]:
        return {
            "split": self.split,
            "beam": self.beam,
            "sentences": self.text.sentences,
            "bleu": round(self.text.bleu, 2),
            "bleu_written": None if self.written is None else round(self.written, 2),
            "chrf": round(self.text.chrf, 2),
            "exact": round(self.exact, 4),
            "signature": self.text.signature,
            "chrf_signature": self.text.chrf_signature,
            "bleu_lowercased": self.text.lowercased.summary(),
            "bleu_moses": None if self.text.moses is None else self.text.moses.summary(),
            "by_length": [
                {"low": row.low, "high": row.high, "sentences": row.sentences, "bleu": round(row.bleu, 2)}
                for row in self.by_length
            ],
            "alignment": _rates(self.alignment),
            "alignment_read": _rates(self.alignment_read),
            "seconds": round(self.seconds, 1),
        }


def _rates(counts: AlignmentCounts | None) -> dict[str, float] | None:
    if counts is None:
        return None
    names = ("error_rate", "precision", "recall")
    return {name: round(getattr(counts, name), 4) for name in names}


@evaluator
def evaluate_translation(
    model: Translating, task: TranslationTask, split: Split, decoding: Decoding, progress: Advance
) -> TranslationEvaluation:
    """Translate a split and compare it with references and gold links."""
    needs("train", "sacrebleu")
    examples = task.examples(split)
    if not examples:
        raise DataError(f"evaluate: the {split} split has no sentences; expected one or more.")
    translator = Translator(model, task.source, task.target)
    sources = [example.source for example in examples]
    own = translate_lines(translator, share(sources), decoding, attention=False, progress=progress)
    found = together(own)
    translations = [
        nothing(source, finished=False) if isinstance(own, Refused) else own[0]
        for source, own in zip(sources, found, strict=True)
    ]
    if refused := sum(isinstance(own, Refused) for own in found):
        logging.getLogger("regard").warning(
            "%d of %d sentences of the %s split have more than %d pieces and count as not translated.",
            refused,
            len(found),
            split,
            LONGEST,
        )
    texts = [translation.text for translation in translations]
    references = [example.target for example in examples]
    language = task.languages[1]
    # one character, so that sacrebleu sees one wrong word instead of the three tokens of "<unk>"
    replaced = any(translation.written != translation.text for translation in translations)
    written = [translation.written.replace(UNK_PIECE, "\u2047") for translation in translations]
    lengths = [count_words(example.source, task.languages[0]) for example in examples]
    alignments = measure_alignments(model, task, split)
    return TranslationEvaluation(
        split=split,
        beam=decoding.width,
        text=score_text(texts, references, language=language),
        written=bleu(written, references, language=language).score if replaced else None,
        by_length=score_by_length(texts, references, lengths, language=language),
        alignment=alignments.get("written"),
        alignment_read=alignments.get("read"),
        exact=sum(map(str.__eq__, texts, references)) / len(texts),
        translations=translations,
        references=references,
    )


def measure_alignments(
    model: Translating, task: TranslationTask, split: Split
) -> dict[Credit, AlignmentCounts]:
    """Force the references, link each target piece to its most attended source piece, and count.

    If the gold links use a different word segmentation, two words are linked if any of their pieces are.
    Sentences without gold links are skipped; empty if no sentence has any, or the model has no attention.

    Links are counted in two ways: the attention of step t belongs to the word it writes, or to the word it
    has read, the previous one. Luong 2015 credits content-based scores to the word read (section 5.4): if an
    annotation contains what follows it, a step may attend to the word just translated to find the next.
    """
    examples, aligner = task.examples(split), model.aligner
    if aligner is None or all(example.links is None for example in examples):
        return {}
    device = next(model.parameters()).device
    ways: tuple[Credit, ...] = ("written", "read")

    def count(rows: Sequence[int]) -> list[AlignmentCounts]:
        found = [AlignmentCounts() for _ in ways]
        tracks = forced(model, task.batch(split, rows).to(device), attention=True)
        for example, track in zip((examples[row] for row in rows), tracks, strict=True):
            if example.links is None:
                continue
            gold = Gold(_links(example.links), _links(example.possible))
            weights = track.attention[aligner]
            for n, credit in enumerate(ways):
                # eos is not a word, neither in columns nor in rows
                links = argmax_links(credited(weights, weights.shape[-2] - 1, credit)[:, :-1])
                found[n] += count_links(word_links(links, *task.owners(example)), gold)
        return found

    counts = zip(*divide(task.evaluation_plan(split, batch=BUDGET), count), strict=True)
    return {credit: sum(own, AlignmentCounts()) for credit, own in zip(ways, counts, strict=True)}


def measure_alignment(
    model: Translating, task: TranslationTask, split: Split, *, credit: Credit = "written"
) -> AlignmentCounts | None:
    """The alignment counted in one way; None without gold links or without attention."""
    return measure_alignments(model, task, split).get(credit)


def word_links(pieces: Links, source: Owners, target: Owners) -> Links:
    """Links between pieces -> links between the words that contain them."""
    return frozenset(Link(s, t) for link in pieces for s in source[link.source] for t in target[link.target])


def _links(links: Iterable[tuple[int, int]]) -> Links:
    return frozenset(Link(*link) for link in links)
