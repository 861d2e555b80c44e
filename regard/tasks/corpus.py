"""Translation, learnt from a public corpus chosen by name (Multi30k, Tatoeba); and test sets for evaluation.

    [task]
    name = "corpus"
    corpus = "multi30k-en-de"    # multi30k-en-fr, tatoeba-en-fr, tatoeba-en-zh
    data = "corpora"             # the folder that holds it; empty: REGARD_DATA

A corpus that is not found in a folder is downloaded (see regard/data/corpora.py). Some corpora are test sets
only; evaluate a model of another corpus on them with `regard evaluate RUN --on hansards`: hansards, whose
words are aligned by hand, and the later test sets of Multi30k (multi30k-en-de-2017, -2018, -mscoco; en-fr).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from regard.data.corpora import find_corpus
from regard.data.parallel import Example
from regard.errors import ConfigError, DataError
from regard.tasks.base import Split, own_card
from regard.tasks.texts import Texts, TextSettings, TextTask, learn_tokenizers
from regard.tasks.translation import TranslationTask

Name = Literal[
    "multi30k-en-de",
    "multi30k-en-fr",
    "multi30k-en-de-2017",
    "multi30k-en-de-2018",
    "multi30k-en-de-mscoco",
    "multi30k-en-fr-2017",
    "multi30k-en-fr-2018",
    "multi30k-en-fr-mscoco",
    "tatoeba-en-fr",
    "tatoeba-en-zh",
    "hansards",
]


@dataclass(frozen=True, kw_only=True)
class CorpusSettings(TextSettings):
    """Which corpus, and how it is cut."""

    corpus: Name = "multi30k-en-de"
    data: str = ""  # the folder that holds the corpus; empty: REGARD_DATA


@own_card(
    "corpus",
    title="Public corpora",
    sentence="Multi30k and Tatoeba by name, from disk or downloaded; the Hansards to measure alignments.",
)
class CorpusTask(TextTask):
    """Sentence pairs of a public corpus."""

    Settings = CorpusSettings

    @classmethod
    def open_texts(cls, settings: CorpusSettings) -> "CorpusTexts":
        return CorpusTexts(settings.corpus, settings.data)

    @classmethod
    def create(cls, settings: CorpusSettings) -> Self:
        texts = cls.open_texts(settings)
        if not texts.files():
            raise ConfigError(
                f"corpus: `corpus` has {settings.corpus!r}, a test set without training sentences. "
                f"Train on one, then: regard evaluate RUN --on {settings.corpus}."
            )
        for split in ("valid", "test"):
            texts.corpus.paths(split, settings.data)  # report missing files before training
        return cls(settings, texts, *learn_tokenizers(texts, settings))


class CorpusTexts(Texts):
    """The splits of a public corpus."""

    def __init__(self, name: str, data: str) -> None:
        self.corpus, self.data = find_corpus(name), data
        self.languages = self.corpus.languages

    def files(self) -> Sequence[Path]:
        return self.corpus.paths("train", self.data)

    def choice(self) -> str:
        return self.corpus.key

    def stream(self, split: Split) -> Iterator[Example]:
        return self.corpus.stream(split, self.data)


def on_corpus(task: TranslationTask, name: str, data: str = "") -> CorpusTask:
    """Another corpus with this task's tokenizers, to evaluate its model on."""
    texts = CorpusTexts(name, data)
    if texts.languages != task.languages:
        own, other = (" to ".join(languages) for languages in (task.languages, texts.languages))
        raise DataError(f"corpus: {name} is {other}; expected {own}, as the model was trained.")
    # an empty `data` in the settings means REGARD_DATA, as everywhere
    settings = CorpusSettings(corpus=texts.corpus.key, data=data)  # type: ignore[arg-type]
    return CorpusTask(settings, texts, task.source, task.target)
