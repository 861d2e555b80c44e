"""A translation and what the model looked at while it wrote each word."""

from pathlib import Path

from regard.decode.translator import Translation, Translator
from regard.errors import DataError
from regard.models.base import Translating
from regard.tasks.translation import TranslationTask
from regard.train.run import Run
from regard.views.shared import is_page, require_attention

LONGEST = 150  # pieces of a sentence: its picture is already as wide as a wall


def view(run: Run, text: str | None, out: Path, *, beam: int | None) -> str:
    """Translate a sentence, or the first of the test set, and draw its alignment; the translation."""
    task, model = run.task, run.model
    assert isinstance(task, TranslationTask)
    assert isinstance(model, Translating)
    require_attention(run)
    sentence = task.examples("test")[0].source if text is None else text
    if (count := len(task.source.encode(sentence))) > LONGEST:
        raise DataError(
            f"show: the sentence has {count:,} pieces; expected {LONGEST} at most, which can be drawn."
        )
    translator = Translator(model, task.source, task.target)
    [[translation]] = translator.translate([sentence], run.config.decode.with_beam(beam))
    if translation.weights is None or not translation.pieces:
        raise DataError("show: the sentence is empty; expected words.")
    draw(translation, out)
    return translation.text


def draw(translation: Translation, out: Path) -> None:
    """The alignment as a picture, or as a page where the file ends in .html."""
    from regard.viz.heatmap import draw_alignment
    from regard.viz.report import AlignmentSection, write_report

    assert translation.weights is not None
    if is_page(out):
        section = AlignmentSection(
            translation.source, translation.weights, translation.source_pieces, translation.pieces
        )
        write_report(out, title="Alignment", summary=translation.text, sections=[section])
        return
    draw_alignment(translation.weights, translation.source_pieces, translation.pieces, path=out)
