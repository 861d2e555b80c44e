"""Translation learnt from your own files: two of them, one sentence a line, plain or .gz.

    [task]
    name = "files"
    source = "train.en"
    target = "train.fr"
    target_language = "fr"

Validation and test files can be given likewise. Without them, every 50th training pair is held out for both.
"""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Self

from regard.data.parallel import read_parallel
from regard.data.tokens import Tokenizer
from regard.errors import ConfigError
from regard.tasks.base import Split
from regard.tasks.translation import Example, TranslationTask

HELD_OUT = 50  # one pair in so many, where no validation files are given


@dataclass(frozen=True, kw_only=True)
class FilesSettings:
    """Where the text is, and how it is cut."""

    source: str = ""
    target: str = ""
    valid_source: str = ""
    valid_target: str = ""
    test_source: str = ""
    test_target: str = ""
    source_language: str = "en"
    target_language: str = "fr"
    pieces: Literal["words", "characters", "bpe"] = "bpe"
    size: int = 8000  # pieces of each vocabulary
    longest: int = 100  # pieces of a training sentence; longer ones are left out of training


class FilesTask(TranslationTask):
    """Sentence pairs from text files."""

    Settings = FilesSettings

    def __init__(self, settings: FilesSettings, source: Tokenizer, target: Tokenizer) -> None:
        super().__init__(source, target)
        self.settings = settings
        self.languages = (settings.source_language, settings.target_language)

    @classmethod
    def create(cls, settings: FilesSettings) -> Self:
        if not settings.source or not settings.target:
            raise ConfigError(
                "files: `task.source` and `task.target` are not given; expected two text files."
            )
        examples = read_split(settings, "train")
        read_split(settings, "valid")  # what is wrong with these files is told before training, not after
        read_split(settings, "test")
        return cls(
            settings,
            _learn([example.source for example in examples], settings, settings.source_language),
            _learn([example.target for example in examples], settings, settings.target_language),
        )

    @classmethod
    def restore(cls, settings: FilesSettings, folder: Path) -> Self:
        return cls(settings, *cls.load_tokenizers(folder))

    def read(self, split: Split) -> Sequence[Example]:
        examples = read_split(self.settings, split)
        if split != "train":
            return examples
        longest = self.settings.longest
        return [
            example
            for example in examples
            if len(self.source.encode(example.source)) <= longest
            and len(self.target.encode(example.target)) <= longest
        ]


def read_split(settings: FilesSettings, split: Split) -> list[Example]:
    """The pairs of a split, from its own files or held out of the training files."""
    files = _files(settings, split)
    if files is not None:
        return _examples(*files)
    if split == "test" and _files(settings, "valid") is not None:
        return read_split(settings, "valid")
    everything = _examples(settings.source, settings.target)
    held_out = everything[HELD_OUT - 1 :: HELD_OUT] or everything[:1]
    if split != "train":
        return held_out
    own = _files(settings, "valid") is not None
    return everything if own else [e for n, e in enumerate(everything, 1) if n % HELD_OUT] or everything


def _files(settings: FilesSettings, split: Split) -> tuple[str, str] | None:
    """The two files of a split; None where it has none of its own."""
    if split == "train":
        return (settings.source, settings.target) if _files(settings, "valid") is not None else None
    values = asdict(settings)
    pair = (values[f"{split}_source"], values[f"{split}_target"])
    if bool(pair[0]) != bool(pair[1]):
        given, missing = ("source", "target") if pair[0] else ("target", "source")
        raise ConfigError(
            f"files: `task.{split}_{given}` is given and `task.{split}_{missing}` is not; expected both."
        )
    return pair if pair[0] else None


def _examples(source: str, target: str) -> list[Example]:
    found = read_parallel(Path(source), Path(target))
    if found.skipped:
        every = found.skipped + len(found.pairs)
        logging.getLogger("regard").warning(
            "%s: %d of %d pairs have an empty side and are left out.", source, found.skipped, every
        )
    return [Example(a, b) for a, b in found.pairs]


def _learn(texts: list[str], settings: FilesSettings, language: str) -> Tokenizer:
    # a word seen once teaches nothing about itself, and something about words never seen
    minimum = 2 if settings.pieces == "words" else 1
    return Tokenizer.train(
        texts, kind=settings.pieces, language=language, size=settings.size, minimum=minimum
    )
