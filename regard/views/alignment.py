"""A translation and what the model looked at while it wrote each word."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

from torch import Tensor

from regard.analysis.alignments import merge_subwords
from regard.decode.translator import Translation, Translator
from regard.errors import DataError
from regard.models.base import Translating
from regard.tasks.translation import TranslationTask
from regard.train.run import Run
from regard.views.shared import is_page, require_attention
from regard.viz.letters import has_chinese

LONGEST = 150  # pieces of a sentence; a longer one makes too wide a picture


def view(run: Run, text: str | None, out: Path, *, beam: int | None) -> str:
    """Translate a sentence, or the first of the test set, and draw its alignment; return the translation."""
    task, model = run.task, run.model
    assert isinstance(task, TranslationTask)
    assert isinstance(model, Translating)
    require_attention(run)
    sentence = task.examples("test")[0].source if text is None else text
    if (count := len(task.source.encode(sentence))) > LONGEST:
        raise DataError(f"show: the sentence has {count:,} pieces; expected at most {LONGEST}, to be drawn.")
    translator = Translator(model, task.source, task.target)
    [[translation]] = translator.translate([sentence], run.config.decode.with_beam(beam))
    if translation.weights is None or not translation.pieces:
        raise DataError("show: the sentence is empty; expected words.")
    draw(translation, out)
    return translation.text


def draw(translation: Translation, out: Path) -> None:
    """Draw the alignment of words as a picture, or as a page if the file ends in .html."""
    from regard.viz.heatmap import draw_alignment
    from regard.viz.report import AlignmentSection, write_report

    weights, source_words, words = word_weights(translation)
    if is_page(out):
        section = AlignmentSection(translation.source, weights, source_words, words)
        write_report(out, title="Alignment", summary=translation.text, sections=[section])
        return
    draw_alignment(weights, source_words, words, path=out)


def word_weights(translation: Translation) -> tuple[Tensor, list[str], list[str]]:
    """Weights between words, the source words, and the words written.

    Weights are summed over the pieces of a source word and averaged over those of a target word.
    """
    assert translation.weights is not None
    rows = word_numbers(translation.pieces, translation.written)
    columns = word_numbers(translation.source_pieces, translation.source)
    weights = merge_subwords(translation.weights, rows, columns)
    return weights, _joined(translation.source_pieces, columns), _joined(translation.pieces, rows)


def word_numbers(pieces: Sequence[str], text: str) -> list[int]:
    """For each piece of a text the index of its word: subwords such as " ver", "te" share one.

    Chinese characters, punctuation, and pieces without their spaces, which are whole words, have one each.
    """
    with_spaces = "".join(pieces).casefold().split() == text.casefold().split()
    begins = (not (with_spaces and _continues(left, right)) for left, right in pairwise(pieces))
    return list(accumulate(begins, initial=0)) if pieces else []


def _continues(left: str, right: str) -> bool:
    """True if a word continues from one piece to the next."""
    edge = left[-1:], right[:1]
    return all(each.isalnum() and not has_chinese(each) for each in edge)


def _joined(pieces: Sequence[str], numbers: Sequence[int]) -> list[str]:
    words = [""] * (max(numbers, default=-1) + 1)
    for piece, number in zip(pieces, numbers, strict=True):
        words[number] += piece
    return words
