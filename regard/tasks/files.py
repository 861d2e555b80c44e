"""Translation learnt from your own files: two of them, one sentence a line, plain or .gz.

    [task]
    name = "files"
    source = "train.en"
    target = "train.fr"
    target_language = "fr"

Validation and test files can be given likewise. Without them, every 50th training pair is held out for both,
or of more than 100,000 pairs so few that 2,000 are.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from regard.catalog import card
from regard.data.parallel import Parallel
from regard.data.prepared import counted
from regard.data.tokens import Tokenizer
from regard.errors import ConfigError, DataError
from regard.tasks.base import Split
from regard.tasks.texts import Texts, TextSettings, TextTask, learn_tokenizers
from regard.tasks.translation import Example

HELD_OUT = 50  # one pair in so many, where no validation files are given
ENOUGH = 2000  # pairs to hold out


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
    """`en` for train.en and train.en.gz; `und`, which is nobody's language, where the name does not tell."""
    name = Path(path).name.lower().removesuffix(".gz")
    found = re.fullmatch(r".+\.([a-z]{2,3})(?:[-_][a-z]{2,4})?", name)
    return found[1] if found and found[1] not in ("txt", "tok", "bpe", "raw") else "und"


@card(
    "task",
    "files",
    title="Your own files",
    authors="regard",
    year=2026,
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
        """The task of pairs in memory: a Dataset or DatasetDict of `datasets`, or a list of mappings.

        A row has the two sides under the names of the settings' languages, itself or in its `translation`.
        Of splits there may be `train`, `validation` (or `valid`) and `test`; without any, pairs are held out
        as from files. `tokenizer` serves both sides: one of ours, of transformers or of `tokenizers`; else
        tokenizers are learnt. What is trained can be loaded without the dataset.
        """
        texts = RowTexts(dataset, (settings.source_language, settings.target_language))
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
        """Read everything once: what is wrong with a file is told before training, and what is left out."""
        own = [self._own(split) for split in ("valid", "test")]
        for pairs in dict.fromkeys((self._training(), *own)):
            if pairs is not None:
                report_skipped(pairs)

    def files(self) -> Sequence[Path]:
        return [Path(self.settings.source), Path(self.settings.target)]

    def choice(self) -> str:
        return "all" if self._own("train") is not None else f"but one in {HELD_OUT}, at most {ENOUGH}"

    def stream(self, split: Split) -> Iterator[Example]:
        own = self._own(split)
        if own is None and split == "test" and self._own("valid") is not None:
            return self.stream("valid")
        if own is not None:
            return (Example(*pair) for pair in own)
        return (Example(*pair) for pair in self._held_out(split))

    def _held_out(self, split: Split) -> Iterator[tuple[str, str]]:
        """The training pairs without those that are held out, or these."""
        pairs = self._training()
        every = max(HELD_OUT, -(-pairs.total() // ENOUGH))
        few = pairs.total() < every  # then the first is held out and trained on
        for number, pair in enumerate(pairs, 1):
            held_out = number == 1 if few else number % every == 0
            if (few or not held_out) if split == "train" else held_out:
                yield pair

    def _own(self, split: str) -> Parallel | None:
        """The files of a split; None where it has none of its own."""
        if split == "train":
            return self._training() if self._own("valid") is not None else None
        values: dict[str, Any] = asdict(self.settings)
        pair = (values[f"{split}_source"], values[f"{split}_target"])
        if bool(pair[0]) != bool(pair[1]):
            given, missing = ("source", "target") if pair[0] else ("target", "source")
            raise ConfigError(
                f"files: `task.{split}_{given}` is given and `task.{split}_{missing}` is not; expected both."
            )
        return self._open(*pair) if pair[0] else None

    def _training(self) -> Parallel:
        return self._open(self.settings.source, self.settings.target)

    def _open(self, source: str, target: str) -> Parallel:
        if (source, target) not in self._opened:
            self._opened[source, target] = counted(Path(source), Path(target))
        return self._opened[source, target]


class RowTexts(Texts):
    """The splits of rows in memory."""

    def __init__(self, dataset: Any, languages: tuple[str, str]) -> None:
        self.languages = languages
        splits = dataset if isinstance(dataset, Mapping) else {"train": dataset}
        self._splits = {{"validation": "valid"}.get(name, name): rows for name, rows in splits.items()}
        if not len(self._splits.get("train", ())):
            raise DataError(
                f"files: the dataset has {', '.join(splits) or 'nothing'}; expected rows of 'train'."
            )

    def files(self) -> Sequence[Path]:
        return ()

    def choice(self) -> str:
        return ""

    def stream(self, split: Split) -> Iterator[Example]:
        own = self._splits.get(split)
        if own is None and split == "test" and "valid" in self._splits:
            own = self._splits["valid"]
        held_out = own is None or (split == "train" and "valid" not in self._splits)
        rows = self._splits["train"] if own is None else own
        every = max(HELD_OUT, -(-len(rows) // ENOUGH))
        few = len(rows) < every  # then the first is held out and trained on
        for number, row in enumerate(rows, 1):
            kept = number == 1 if few else number % every == 0
            if not held_out or ((few or not kept) if split == "train" else kept):
                yield self._example(row)

    def _example(self, row: Mapping[str, Any]) -> Example:
        pair = row.get("translation", row)
        try:
            return Example(str(pair[self.languages[0]]), str(pair[self.languages[1]]))
        except KeyError as error:
            raise DataError(
                f"files: a row of the dataset has {', '.join(pair)}; expected {error.args[0]!r} among them, "
                "the language of one side."
            ) from None


def report_skipped(pairs: Parallel) -> None:
    """Say how many pairs are left out because a side is empty."""
    count = pairs.total()
    if pairs.skipped:
        logging.getLogger("regard").warning(
            "%s: %d of %d pairs have an empty side and are left out.",
            pairs.source,
            pairs.skipped,
            pairs.skipped + count,
        )
