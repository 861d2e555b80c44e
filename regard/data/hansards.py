"""The Hansards test set, sentence pairs with links between their words, in one of two forms.

    hansards/en-fr.src-tgt.txt     `the house ||| la maison`
    hansards/en-fr.gold.txt        `1-1 2-2 1p2`: words are numbered from 1, possible links have a p

    test/test.e, test/test.f       `<s snum=0001> the house </s>`: the shared task's archive, or its folder
    answers/test.wa.nonullalign    `0001 1 1 S`: possible links have a P

Mihalcea, Pedersen. An evaluation exercise for word alignment. 2003. https://aclanthology.org/W03-0301
"""

import re
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.data.parallel import Example, Links, Parallel
from regard.data.spacing import Spacing
from regard.errors import DataError

_LINK = re.compile(r"(\d+)([-pP])(\d+)", re.ASCII)


def read_hansards(split: str, files: Sequence[Path]) -> Iterator[Example]:
    """The pairs with their links; `files` are the lines with bars, or the archive."""
    if files[0].name.endswith(".txt"):
        return _read_bars(files[0], files[0].with_name("en-fr.gold.txt"))
    return _read_archive(files[0])


def _read_bars(text: Path, gold: Path) -> Iterator[Example]:
    for number, (line, links) in enumerate(Parallel(text, gold), 1):
        sides = line.split("|||")
        if len(sides) != 2:
            raise DataError(f"{text}: pair {number} has no `|||` between its sides; expected one.")
        yield _linked(sides[0].split(), sides[1].split(), *parse_links(links, number), text)


def parse_links(line: str, number: int) -> tuple[Links, Links]:
    """The sure and the possible links of line `number`."""
    sure: list[tuple[int, int]] = []
    possible: list[tuple[int, int]] = []
    for word in line.split():
        match = _LINK.fullmatch(word)
        if match is None:
            raise DataError(
                f"Pharaoh: line {number} has {word!r}; expected links such as 1-2 (sure) or 1p2 (possible)."
            )
        source, mark, target = int(match[1]), match[2], int(match[3])
        if min(source, target) < 1:
            raise DataError(f"Pharaoh: line {number} has {word!r}; expected positions from 1.")
        (sure if mark == "-" else possible).append((source - 1, target - 1))
    return tuple(sure), tuple(possible)


def _read_archive(path: Path) -> Iterator[Example]:
    english, french = (_numbered(_member(path, f"test/test.{side}")) for side in "ef")
    sure: dict[int, Links] = defaultdict(tuple)
    possible: dict[int, Links] = defaultdict(tuple)
    for line in _member(path, "answers/test.wa.nonullalign").splitlines():
        sentence, source, target, *mark = line.split()
        (possible if "P" in mark else sure)[int(sentence)] += ((int(source) - 1, int(target) - 1),)
    for number, words in english.items():
        yield _linked(words, french[number], sure[number], possible[number], path)


def _member(path: Path, name: str) -> str:
    try:
        if path.is_dir():
            data = (path / name).read_bytes()
        else:
            with tarfile.open(path) as packed:
                entry = next(m for m in packed.getmembers() if m.name.endswith(name))
                file = packed.extractfile(entry)
                data = file.read() if file is not None else b""
    except (StopIteration, tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise DataError(f"{path}: {name} cannot be read; expected the archive of the shared task.") from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")  # as its authors wrote it


def _numbered(text: str) -> dict[int, list[str]]:
    found = re.findall(r"<s snum=(\d+)>(.*?)</s>", text)
    return {int(number): words.split() for number, words in found}


def _linked(english: list[str], french: list[str], sure: Links, possible: Links, path: Path) -> Example:
    for s, t in (*sure, *possible):
        if s >= len(english) or t >= len(french):
            raise DataError(
                f"{path}: a link joins words {s + 1} and {t + 1} of `{' '.join(english)}`, which has "
                f"{len(english)} words and its translation {len(french)}."
            )
    texts = Spacing("en").join(english), Spacing("fr").join(french)
    return Example(*texts, sure, possible, (tuple(english), tuple(french)))
