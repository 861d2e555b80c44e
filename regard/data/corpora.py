"""Public parallel corpora by name: where their files are, where to download them, how to read them.

A corpus is looked up in the user's data folder (a setting, or REGARD_DATA) and in regard's cache, each file
in the layout of its public home or in a packed one. Missing files are downloaded and verified.

    multi30k   captions, English with German and French; three files per language, and three more test sets
    tatoeba    short sentences, English with French and Chinese; one tab-separated file, split here
    hansards   447 pairs with manual word alignments: only a test set

Multi30k: Elliott et al. 2016, https://aclanthology.org/W16-3210. Tatoeba: https://tatoeba.org via
https://www.manythings.org/anki.
"""

import hashlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.fetch import fetch
from regard.data.folders import VARIABLE
from regard.data.hansards import read_hansards
from regard.data.parallel import Example, Parallel, stream_lines
from regard.errors import ConfigError, DataError
from regard.storage import cache_folder

VALID, TEST = 20, 20  # of every 1000 distinct English sentences of Tatoeba


@dataclass(frozen=True)
class PublicFile:
    """A file, its URL, and the other paths in a data folder at which it may be."""

    path: str  # of a downloaded file, in the data folder
    url: str
    sha256: str | None  # None: the file changes at its home, or no digest is published
    elsewhere: tuple[str, ...] = ()


Reader = Callable[[str, Sequence[Path]], Iterator[Example]]  # (split, its files)


@dataclass(frozen=True)
class Corpus:
    """A corpus by name."""

    key: str
    languages: tuple[str, str]
    licence: str
    files: Mapping[str, tuple[PublicFile, ...]]  # by split
    read: Reader

    def paths(self, split: str, data: str = "") -> list[Path]:
        """The files of a split, downloaded if they are missing."""
        return [locate(self, file, data) for file in self.files.get(split, ())]

    def stream(self, split: str, data: str = "") -> Iterator[Example]:
        """The pairs of a split as a stream, empty if the corpus lacks the split."""
        if split not in self.files:
            return iter(())
        return self.read(split, self.paths(split, data))


def find_corpus(name: str) -> Corpus:
    """The corpus of this name."""
    if name not in CORPORA:
        raise ConfigError(f"corpus: unknown corpus {name!r}; known: {', '.join(CORPORA)}.")
    return CORPORA[name]


def locate(corpus: Corpus, file: PublicFile, data: str = "") -> Path:
    """The path of a file, downloaded if it is missing."""
    given = data or os.environ.get(VARIABLE, "")
    roots = [Path(given)] if given else []
    if given and not roots[0].is_dir():
        raise DataError(f"corpus: the data folder {given} does not exist; expected one with {file.path}.")
    for root in [*roots, kept := cache_folder() / "data"]:
        for name in (file.path, *file.elsewhere):
            if (root / name).exists():
                return root / name
    path = (roots[0] if roots else kept) / file.path
    logging.getLogger("regard").warning(
        "downloading %s of %s from %s\nlicence: %s", path.name, corpus.key, file.url, corpus.licence
    )
    try:
        fetch(file.url, path, sha256=file.sha256)
    except DataError as error:
        looked = ", ".join(str(root / file.path) for root in [*roots, kept])
        raise DataError(
            f"{corpus.key}: {looked} was not found, and the download failed. {error} "
            f"Name a folder that holds it with `--data` or {VARIABLE}."
        ) from error
    return path


# Multi30k ------------------------------------------------------------------------------------------

_RAW = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
# of the files as served since December 2017; the files that these SHA-256 digests were computed from have the
# MD5 digests published with torchtext
_MULTI30K = {
    "train.en": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.de": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.fr": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.en": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.de": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.fr": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
    "test_2016_flickr.en": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.de": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.fr": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
}


def _caption_file(name: str) -> PublicFile:
    raw = f"data/task1/raw/{name}.gz"
    elsewhere = (f"multi30k/{name}", raw, f"multi30k/{raw}", f"multi30k-dataset/{raw}", f"dataset/{raw}")
    return PublicFile(
        f"multi30k/{name}.gz", f"{_RAW}/{name}.gz", _MULTI30K.get(name), (*elsewhere, f"{name}.gz", name)
    )


# later test sets, by the suffix of their corpus's name
_LATER = {"2017": "test_2017_flickr", "2018": "test_2018_flickr", "mscoco": "test_2017_mscoco"}


def _multi30k(target: str, later: str = "") -> Corpus:
    names = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
    if later:
        names = {"test": _LATER[later]}
    return Corpus(
        f"multi30k-en-{target}" + (f"-{later}" if later else ""),
        ("en", target),
        licence="captions of Flickr30k and their translations: research and education, non-commercial",
        files={
            split: (_caption_file(f"{name}.en"), _caption_file(f"{name}.{target}"))
            for split, name in names.items()
        },
        read=_read_lines,
    )


def _read_lines(split: str, files: Sequence[Path]) -> Iterator[Example]:
    return (Example(*pair) for pair in Parallel(*files))


# Tatoeba -------------------------------------------------------------------------------------------


def _tatoeba(target: str, letters: str) -> Corpus:
    name = f"{letters}.txt"
    file = PublicFile(
        f"tatoeba/{letters}-eng.zip",
        f"https://www.manythings.org/anki/{letters}-eng.zip",
        None,  # regenerated every few weeks
        (
            f"tatoeba/en-{target}.txt.gz",
            f"tatoeba/{name}",
            f"{letters}-eng/{name}",
            name,
            f"{letters}-eng.zip",
        ),
    )
    return Corpus(
        f"tatoeba-en-{target}",
        ("en", target),
        licence="CC-BY 2.0 FR; attribution: tatoeba.org and www.manythings.org/anki",
        files=dict.fromkeys(("train", "valid", "test"), (file,)),
        read=_read_tabs,
    )


def _read_tabs(split: str, files: Sequence[Path]) -> Iterator[Example]:
    """Lines of English, a tab, the translation, and perhaps an attribution, which is dropped.

    All pairs of one English sentence are in one split, so no test sentence is trained on. Validation and test
    take its first translation, training takes all of them.
    """
    met: set[str] = set()
    found = False
    for line in stream_lines(files[0], str.rstrip):
        found = True
        english, _, rest = line.partition("\t")
        translation = rest.partition("\t")[0].strip()
        key = _same_sentence(english)
        if not (key and translation) or _split_of(key) != split:
            continue
        if split != "train":
            if key in met:
                continue
            met.add(key)
        yield Example(english.strip(), translation)
    if not found:
        raise DataError(f"{files[0]}: no lines; expected English, a tab, and the translation.")


def _same_sentence(english: str) -> str:
    """The key of a sentence: letters and digits without case, so that "Run!" and "run." are the same."""
    return "".join(character for character in english.casefold() if character.isalnum())


def _split_of(key: str) -> str:
    """The split, by a hash of the sentence: the same on every machine, whatever the file's order and date."""
    number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % 1000
    return "valid" if number < VALID else "test" if number < VALID + TEST else "train"


# Hansards ------------------------------------------------------------------------------------------


def _hansards() -> Corpus:
    packed = PublicFile(
        "hansards/English-French.test.tar.gz",
        "http://web.eecs.umich.edu/~mihalcea/wpt/data/English-French.test.tar.gz",
        None,
        (
            "English-French.test.tar.gz",
            "hansards/en-fr.src-tgt.txt",
            "hansards/English-French",
            "English-French",
        ),
    )
    return Corpus(
        "hansards",
        ("en", "fr"),
        licence="test data of the NAACL 2003 shared task on word alignment, free for research",
        files={"test": (packed,)},
        read=read_hansards,
    )


CORPORA: dict[str, Corpus] = {
    corpus.key: corpus
    for corpus in (
        _multi30k("de"),
        _multi30k("fr"),
        *(_multi30k(target, later) for target in ("de", "fr") for later in _LATER),
        _tatoeba("fr", "fra"),
        _tatoeba("zh", "cmn"),
        _hansards(),
    )
}
