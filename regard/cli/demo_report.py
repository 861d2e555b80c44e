"""The output files of the demo: pictures, loss curves, a report page, and figures as JSON."""

import math
from pathlib import Path

from regard.bench.records import measured
from regard.cli.common import open_run
from regard.cli.demo import FOLDERS, SEARCH, SHOWN, TITLES, Found, chosen_sentences, lengths_table
from regard.compare.report import losses
from regard.decode.translator import Translation, Translator
from regard.evaluate.results import write_result
from regard.evaluate.translation import TranslationEvaluation
from regard.export.base import translatable
from regard.train.config import RunConfig
from regard.train.metrics import read_metrics
from regard.viz.curves import draw_lengths, draw_training
from regard.viz.heatmap import draw_alignment
from regard.viz.report import (
    AlignmentSection,
    FigureSection,
    Section,
    TableSection,
    TranslationSection,
    write_report,
)

SUMMARY = (
    "Two networks learnt to translate English into French from the same sentences. The first must carry a "
    "whole sentence in one vector. The second looks back at the sentence for each word it writes. How far "
    "the first gets is a matter of length; where the second looks can be seen below."
)


def draw_demo(found: Found, folder: Path) -> list[Path]:
    """Draw the pictures and write the report; returns the files."""
    translations = _with_weights(found, folder)
    shown = translations[0]
    assert shown.weights is not None
    alignment = draw_alignment(
        shown.weights, shown.source_pieces, shown.pieces, path=folder / "alignment.png"
    )
    bins = {
        title: [
            (bin.low, math.inf if bin.high is None else bin.high, bin.bleu) for bin in found[name].by_length
        ]
        for name, title in TITLES.items()
    }
    lengths = draw_lengths(bins, folder / "lengths.png")
    training = draw_training(
        {TITLES[name]: losses([folder / FOLDERS[name]]) for name in TITLES}, folder / "training.png"
    )
    sections: list[Section] = [
        _scores(found),
        TableSection(
            "BLEU by length",
            ("English words", *TITLES.values()),
            [(words, f"{without:.1f}", f"{search:.1f}") for words, without, search in lengths_table(found)],
        ),
        FigureSection(
            "The same as a curve", lengths, "BLEU against sentence length, one line for each network"
        ),
        *(_alignment(translation) for translation in translations),
        *(_compared(name, found[name], translations[1:]) for name in TITLES),
        FigureSection("Training", training, "training loss against step, one line for each network"),
    ]
    page = write_report(
        folder / "report.html", title="What attention changes", summary=SUMMARY, sections=sections
    )
    return [alignment, lengths, training, page]


SUMMARIES = {  # headlines of the papers' pages
    "BLEU": "embedded corpus, English to French: BLEU {:.1f}",
    "alignment error rate": "alignment error rate {:.2f}",
}


def record_demo(found: Found, configs: dict[str, RunConfig], folder: Path, results: Path) -> list[Path]:
    """Write the figures as result records."""
    written = set()
    for name, evaluation in found.items():
        seconds = max(line.get("seconds", 0.0) for line in read_metrics(folder / FOLDERS[name]))
        for metric, value, note in _figures(evaluation):
            result = measured(
                name,
                metric,
                round(value, 4),
                seconds=round(seconds, 1),
                note=note,
                seeds=(configs[name].train.seed,),
                details={
                    "catalogue": [f"model:{configs[name].model}"],
                    "headline": metric in SUMMARIES,
                    **({"summary": SUMMARIES[metric].format(value)} if metric in SUMMARIES else {}),
                    **(evaluation.summary() if metric == "BLEU" else {}),
                },
            )
            written.add(write_result(results, result))
    return sorted(written)


def _figures(found: TranslationEvaluation) -> list[tuple[str, float, str]]:
    """Metric, value, and a note on the paper's comparable result."""
    first, last = found.by_length[0], found.by_length[-1]
    note = "another corpus: figure 2 of the paper shows the same shape"
    figures = [
        ("BLEU", found.text.bleu, note),
        (f"BLEU, {first.words} words", first.bleu, note),
        (f"BLEU, {last.words} words", last.bleu, note),
    ]
    if found.alignment is not None:
        figures.append(
            ("alignment error rate", found.alignment.error_rate, "the paper shows pictures, no rate")
        )
    return figures


def _with_weights(found: Found, folder: Path) -> list[Translation]:
    """The sentence of the picture and the five printed ones, translated with attention."""
    opened = translatable(open_run(folder / FOLDERS[SEARCH]))
    chosen = chosen_sentences(found[SEARCH].translations)
    sentences = [SHOWN, *(found[SEARCH].translations[number].source for number in chosen)]
    translator = Translator(opened.model, opened.task.source, opened.task.target)
    return [best for best, *_ in translator.translate(sentences, opened.run.config.decode)]


def _scores(found: Found) -> TableSection:
    alignment = found[SEARCH].alignment
    assert alignment is not None
    rows: list[tuple[str, ...]] = [
        ("BLEU", *(f"{found[name].text.bleu:.1f}" for name in TITLES)),
        ("chrF", *(f"{found[name].text.chrf:.1f}" for name in TITLES)),
        ("translations without any error, %", *(f"{100 * found[name].exact:.1f}" for name in TITLES)),
        ("alignment error rate", "", f"{alignment.error_rate:.3f}"),
    ]
    text = found[SEARCH].text
    caption = f"{text.sentences} sentences that neither network has seen. {text.signature}"
    return TableSection("On held-out sentences", ("", *TITLES.values()), rows, caption)


def _alignment(translation: Translation) -> AlignmentSection:
    assert translation.weights is not None
    return AlignmentSection(
        f"Alignment: {translation.source}", translation.weights, translation.source_pieces, translation.pieces
    )


def _compared(name: str, found: TranslationEvaluation, shown: list[Translation]) -> TranslationSection:
    wanted = {translation.source for translation in shown}
    rows = [
        (translation.source, translation.text, reference)
        for translation, reference in zip(found.translations, found.references, strict=True)
        if translation.source in wanted
    ]
    return TranslationSection(f"Translations {TITLES[name]}", rows)
