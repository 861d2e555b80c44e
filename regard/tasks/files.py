"""Translation, learnt from two files of your own: one sentence per line, plain or .gz.

    [task]
    name = "files"
    source = "train.en"
    target = "train.fr"
    target_language = "fr"

Validation and test files can be given in the same way. Without them, every 50th training pair is held out for
both; of more than 100,000 pairs, only 2,000 are.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from regard.data.parallel import Example, Parallel
from regard.data.prepared import counted
from regard.data.rows import ENOUGH, HELD_OUT, Row, Rows, is_in
from regard.data.tokens import Tokenizer
from regard.errors import ConfigError
from regard.tasks.base import Split, own_card
from regard.tasks.texts import SIDES, Texts, TextSettings, TextTask, learn_tokenizers


@dataclass(frozen=True, kw_only=True)
class FilesSettings(TextSettings):
    """Where the text is, and how it is cut."""

    source: str = ""
    target: str = ""
    valid_source: str = ""
    valid_target: str = ""
    test_source: str = ""
    test_target: str = ""
    source_language: str = "en"
    target_language: str = "fr"


def guess_language(path: str) -> str:
    """`en` for train.en and train.en.gz; `und` (undetermined) if the name does not say."""
    name = Path(path).name.lower().removesuffix(".gz")
    found = re.fullmatch(r".+\.([a-z]{2,3})(?:[-_][a-z]{2,4})?", name)
    return found[1] if found and found[1] not in ("txt", "tok", "bpe", "raw") else "und"


@own_card(
    "files",
    title="Your own files",
    sentence="Parallel text, one sentence a line, plain or .gz.",
)
class FilesTask(TextTask):
    """Sentence pairs from text files."""

    Settings = FilesSettings

    @classmethod
    def open_texts(cls, settings: FilesSettings) -> "FileTexts":
        return FileTexts(settings)

    @classmethod
    def create(cls, settings: FilesSettings) -> Self:
        if not settings.source or not settings.target:
            raise ConfigError(
                "files: `task.source` and `task.target` are not given; expected two text files."
            )
        texts = cls.open_texts(settings)
        texts.check()
        return cls(settings, texts, *learn_tokenizers(texts, settings))

    @classmethod
    def from_dataset(cls, dataset: Any, settings: FilesSettings, *, tokenizer: Any = None) -> Self:
        """The task on pairs in memory (regard/data/rows.py).

        A row has the two sides under the codes of the settings' languages, directly or in its `translation`.
        Without validation rows, pairs are held out as with files. `tokenizer` is used for both sides: one of
        ours, of transformers or of `tokenizers`; by default tokenizers are learnt. The trained model can be
        loaded without the dataset.
        """
        texts = RowTexts(Rows("files", dataset), (settings.source_language, settings.target_language))
        if tokenizer is None:
            return cls(settings, texts, *learn_tokenizers(texts, settings))
        shared = Tokenizer.of(tokenizer, language=settings.target_language)
        return cls(settings, texts, shared, shared)


class FileTexts(Texts):
    """The splits of a user's files."""

    def __init__(self, settings: FilesSettings) -> None:
        self.settings = settings
        self.languages = (settings.source_language, settings.target_language)
        self._opened: dict[tuple[str, str], Parallel] = {}

    def check(self) -> None:
        """Read everything once, to report bad files and skipped pairs before training."""
        own = [self._own(split) for split in ("valid", "test")]
        for pairs in dict.fromkeys((self._training(), *own)):
            if pairs is not None and pairs.skipped:
                logging.getLogger("regard").warning(
                    "%s: %d of %d pairs have an empty side and are left out.",
                    *(pairs.source, pairs.skipped, pairs.skipped + pairs.count),
                )

    def files(self) -> Sequence[Path]:
        return [Path(self.settings.source), Path(self.settings.target)]

    def choice(self) -> str:
        return "all" if self._own("train") is not None else f"but one in {HELD_OUT}, at most {ENOUGH}"

    def stream(self, split: Split) -> Iterator[Example]:
        own = self._own(split) or (self._own("valid") if split == "test" else None)
        pairs = own or self._training()
        for number, pair in enumerate(pairs, 1):
            if own is not None or is_in(split, number, pairs.count):
                yield Example(*pair)

    def _own(self, split: str) -> Parallel | None:
        """The files of a split, or None if it has none of its own."""
        if split == "train":
            return self._training() if self._own("valid") is not None else None
        source, target = (getattr(self.settings, f"{split}_{side}") for side in SIDES)
        if bool(source) != bool(target):
            given, missing = SIDES if source else SIDES[::-1]
            raise ConfigError(
                f"files: `task.{split}_{given}` is given and `task.{split}_{missing}` is not; expected both."
            )
        return self._open(source, target) if source else None

    def _training(self) -> Parallel:
        return self._open(self.settings.source, self.settings.target)

    def _open(self, source: str, target: str) -> Parallel:
        if (source, target) not in self._opened:
            self._opened[source, target] = counted(Path(source), Path(target))
        return self._opened[source, target]


class RowTexts(Texts):
    """The splits of rows in memory."""

    def __init__(self, rows: Rows, languages: tuple[str, str]) -> None:
        self._rows, self.languages = rows, languages

    def stream(self, split: Split) -> Iterator[Example]:
        return map(self._example, self._rows[split])

    def _example(self, row: Row) -> Example:
        source, target = self._rows.cells(row.get("translation", row), *self.languages)
        return Example(str(source), str(target))
