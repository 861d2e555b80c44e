"""Translators: text in, text out, with the alignment and the other hypotheses of the beam."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from regard.decode.translator import Translation, Translator
from regard.errors import DataError
from regard.models.base import Translating
from regard.systems.drawable import Drawable
from regard.systems.system import System, same_length
from regard.tasks.translation import TranslationTask
from regard.train.run import Run
from regard.views.alignment import draw


@dataclass(frozen=True, eq=False, repr=False)
class Translated(Drawable):
    """A translation, with what the model looked at."""

    beam: tuple[Translation, ...]  # the hypotheses that were asked for, best first
    title = "Alignment"

    @property
    def best(self) -> Translation:
        return self.beam[0]

    @property
    def text(self) -> str:
        return self.best.text

    @property
    def source(self) -> str:
        return self.best.source

    @property
    def alignment(self) -> Tensor | None:
        """(T, S) weights of each written piece over the source's pieces; None without attention."""
        return self.best.weights

    @property
    def pieces(self) -> tuple[str, ...]:
        """What the rows of the alignment stand for."""
        return self.best.pieces

    @property
    def source_pieces(self) -> tuple[str, ...]:
        """What the columns of the alignment stand for."""
        return self.best.source_pieces

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Translated {self.source!r} -> {self.text!r}>"

    def draw(self, path: Path) -> None:
        if self.alignment is None:
            raise DataError(f"{self!r}: the model has no attention; nothing can be shown.")
        if not self.pieces:
            raise DataError(f"{self!r}: the translation is empty; nothing can be shown.")
        draw(self.best, path)

    draw_page = draw


class TranslationSystem(System):
    """A translator."""

    def __init__(self, run: Run, half: torch.dtype | None = None) -> None:
        super().__init__(run, half)
        task, model = run.task, run.model
        assert isinstance(task, TranslationTask)
        assert isinstance(model, Translating)
        self.languages = task.languages
        self.translator = Translator(model, task.source, task.target)

    def translate(
        self, text: str | Sequence[str], *, beam: int | None = None, nbest: int = 1
    ) -> Translated | list[Translated]:
        """Translate a sentence, or several at once; `nbest` hypotheses of each are in its `.beam`."""
        texts = [text] if isinstance(text, str) else list(text)
        with self.computing():
            found = self.translator.translate(texts, self.decoding(beam, nbest=nbest))
        results = [Translated(tuple(hypotheses)) for hypotheses in found]
        return results[0] if isinstance(text, str) else results

    def align(self, text: str | Sequence[str], target: str | Sequence[str]) -> Translated | list[Translated]:
        """What the model looks at while it writes a given translation, or each of several."""
        texts, targets = ([side] if isinstance(side, str) else list(side) for side in (text, target))
        same_length("align", text=texts, target=targets)
        with self.computing():
            found = self.translator.align(texts, targets, self.decoding(None))
        results = [Translated((each,)) for each in found]
        return results[0] if isinstance(text, str) and isinstance(target, str) else results
