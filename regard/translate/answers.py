"""Translates lines to lines: a translator with its options, one per process."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from regard.decode.base import Decoding
from regard.decode.lines import Refused, translate_lines
from regard.decode.translator import Translation, nothing
from regard.decode.unknown import choose_dictionary
from regard.evaluate.alignment import argmax_links, write_pharaoh
from regard.translate.opening import open_any, read_decoding


@dataclass(frozen=True)
class Options:
    """What to translate with, and how; sent to every process."""

    folder: Path
    beam: int | None = None  # None: as in the recipe
    nbest: int = 1
    unknown: str = "copy"  # copy, dictionary, keep or a file
    align: bool = False
    as_json: bool = False
    device: str | None = None

    def applied(self, decoding: Decoding) -> Decoding:
        """A recipe's search settings, changed by these options."""
        dictionary = choose_dictionary(self.folder, self.unknown)
        return replace(decoding.with_beam(self.beam), nbest=self.nbest, dictionary=dictionary)

    def settings(self) -> dict[str, Any]:
        """Everything that affects the output, except the model."""
        found = asdict(self.applied(read_decoding(self.folder)))
        words = found.pop("dictionary")
        if words:  # by content: the file behind a name can change
            listed = json.dumps(sorted(words.items()))
            unknown = f"sha256 {hashlib.sha256(listed.encode()).hexdigest()}"
        else:
            unknown = "keep" if words is None else "copy"
        return found | {"unknown": unknown, "align": self.align, "json": self.as_json}


@dataclass(frozen=True)
class Answer:
    """The translation of a line."""

    text: str  # `nbest` lines of output, without the final newline
    complaint: str = ""  # what to report about the line
    refused: bool = False  # the line was left empty


class LineTranslator:
    """Translates lists of lines."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.translator, decoding = open_any(options.folder, align=options.align, device=options.device)
        self.decoding = options.applied(decoding)

    def __call__(self, lines: Sequence[str]) -> list[Answer]:
        """One answer per line."""
        if not lines:
            return []
        attention = self.options.align or self.options.as_json
        found = translate_lines(self.translator, lines, self.decoding, attention=attention)
        return [self._answer(line, outcome) for line, outcome in zip(lines, found, strict=True)]

    def _answer(self, line: str, outcome: list[Translation] | Refused) -> Answer:
        if isinstance(outcome, Refused):
            empty = self._text([nothing(line, finished=False)])
            return Answer(empty, f"{outcome.reason} It is left empty.", refused=True)
        return Answer(self._text(outcome), self._named_unknown(outcome[0]))

    def _text(self, translations: Sequence[Translation]) -> str:
        return "\n".join(map(self._line, translations))

    def _line(self, translation: Translation) -> str:
        if self.options.as_json:
            return json.dumps(_record(translation), ensure_ascii=False)
        return f"{translation.text}\t{_pharaoh(translation)}" if self.options.align else translation.text

    def _named_unknown(self, translation: Translation) -> str:
        if not translation.unknown:
            return ""
        words = ", ".join(repr(word) for word in translation.unknown)
        dictionary = self.decoding.dictionary
        if dictionary is None:
            fate = "left as <unk>"
        elif translation.weights is None:
            fate = "this model has no attention to carry them"
        else:
            fate = "looked up or carried through" if dictionary else "carried through"
        return f"never seen in training: {words} ({fate})."


def _record(translation: Translation) -> dict[str, object]:
    weights = translation.weights
    return {
        "source": translation.source,
        "text": translation.text,
        "score": round(translation.score, 4),
        "log_probability": round(translation.log_probability, 4),
        "finished": translation.finished,
        "unknown": list(translation.unknown),
        "source_pieces": list(translation.source_pieces),
        "pieces": list(translation.pieces),
        "links": _pharaoh(translation),
        "weights": None if weights is None else [[round(w, 4) for w in row] for row in weights.tolist()],
    }


def _pharaoh(translation: Translation) -> str:
    if translation.weights is None:
        return ""
    return write_pharaoh(argmax_links(translation.weights))
