"""A text and what a language model looked back at before each of its words."""

from pathlib import Path

import torch
from torch import Tensor

from regard.data.ptb import EOS
from regard.data.text_windows import WordStream
from regard.data.tokens import split_words
from regard.errors import DataError
from regard.models.memn2n_lm import MemN2NLanguage
from regard.tasks.language import LanguageTask, read_words
from regard.train.run import Run
from regard.views.shared import draw_figure

LONGEST = 30  # words that are drawn


def view(run: Run, text: str | None, out: Path, *, beam: int | None) -> str:
    """Draw the weights for each word of the text, or of the test split's first sentence."""
    task, model = run.task, run.model
    assert isinstance(task, LanguageTask)
    if not isinstance(model, MemN2NLanguage):
        raise DataError(
            f"{run.folder}: model is {run.config.model!r}, which does not look back; nothing can be shown."
        )
    words = (first_sentence(task) if text is None else split_words(text.lower()))[:LONGEST]
    if len(words) < 2:
        raise DataError(f"show: the text has {len(words)} words; expected two or more.")
    C, start = task.settings.context, task.words.number(EOS)
    stream = WordStream(task.words.numbers(words), context=C, predict=len(words), start=start)
    maps = model.lookback(stream.batch([0]).to(next(model.parameters()).device))
    draw([(name, weights[1:, C:].cpu()) for name, weights in maps], words, out)
    return " ".join(words)


def first_sentence(task: LanguageTask) -> list[str]:
    """The first sentence of the test split with eight words or more."""
    sentence: list[str] = []
    for word in read_words(task.settings, "test"):
        sentence.append(word)
        if word == EOS:
            if len(sentence) > 8:
                break
            sentence = []
    return sentence


def draw(maps: list[tuple[str, Tensor]], words: list[str], out: Path) -> None:
    """Draw the maps as a picture, or as a page if the file ends in .html: rows are predicted words."""
    from regard.viz.heatmap import draw_heads

    weights = torch.stack([weights for _, weights in maps])
    names = [name for name, _ in maps]
    draw_figure(
        out,
        lambda path: draw_heads(weights, words[:-1], words[1:], names=names, path=path),
        title="Looking back",
        summary=" ".join(words),
        heading="What each word looked back at",
        alt=" ".join(words),
    )
