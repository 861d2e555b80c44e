"""Large text, prepared once: counted, tokenizers learnt, encoded in one process per core.

The results are in regard's cache, in folders named by a digest of everything that determines their content:

    texts/DIGEST/text.json          how many pairs two files hold, how many are left out, bytes of text
    tokenizers/DIGEST/              tokenizer.json, or source.tokenizer.json and target.tokenizer.json
    encoded/DIGEST/                 pairs.json and the arrays of encoded.py
    encoded/DIGEST-cut3/            the same with some merges dropped (task.bpe_dropout)
    encoded/DIGEST.plans/NAME/      the batches of an epoch: rows.npy, starts.npy

Each is made by one process while others wait (shared.py). Pairs are encoded in parts of `PART`, and finished
parts survive if the process is killed. The result is byte for byte that of a single process.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice
from pathlib import Path

from regard.data.encoded import FORMAT, PART, EncodedPairs, open_pairs, store, write_parts
from regard.data.parallel import Parallel
from regard.data.shared import made_once
from regard.data.tokens import Tokenizer
from regard.data.workers import count_processes, spread
from regard.errors import DataError
from regard.storage import cache_folder

LARGE = 64 << 20  # bytes of text; smaller text is prepared again in seconds, in memory
PACKED = 4  # rough compression ratio of .gz

Sentences = tuple[str, str]


def is_large(files: Sequence[Path]) -> bool:
    """Whether the text of these files is prepared in the cache."""
    return text_bytes(files) > LARGE


def text_bytes(files: Sequence[Path]) -> int:
    """The size of the text in the files, roughly."""
    return sum(file.stat().st_size * (PACKED if file.suffix in (".gz", ".zip") else 1) for file in files)


def digest(files: Sequence[Path], *others: str) -> str:
    """Hash of the content of the files, and of the other strings."""
    total = hashlib.sha256(json.dumps([FORMAT, *others]).encode())
    with ThreadPoolExecutor(len(files) or 1) as pool:
        for found in pool.map(_digest_of, files):
            total.update(found)
    return total.hexdigest()[:32]


def _digest_of(file: Path) -> bytes:
    about = file.stat()
    return _digest_of_version(file, about.st_size, about.st_mtime_ns)


@lru_cache
def _digest_of_version(file: Path, size: int, changed: int) -> bytes:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").digest()


def counted(source: Path, target: Path) -> Parallel:
    """The pairs of two files with their counts, measured or from the cache."""
    pairs = Parallel(source, target)
    if not (source.is_file() and target.is_file() and is_large([source, target])):
        pairs.measure()
        return pairs

    def make(work: Path) -> None:
        logging.getLogger("regard").info("reading %s and %s", source, target)
        pairs.measure()
        whole = work / "whole"
        whole.mkdir(exist_ok=True)
        record = {"pairs": pairs.count, "skipped": pairs.skipped, "bytes": pairs.bytes}
        (whole / "text.json").write_text(json.dumps(record) + "\n", encoding="utf-8")

    folder = made_once(cache_folder() / "texts" / digest([source, target]), make)
    try:
        record = json.loads((folder / "text.json").read_text(encoding="utf-8"))
        pairs.count, pairs.skipped, pairs.bytes = (int(record[key]) for key in ("pairs", "skipped", "bytes"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}: no sizes of a text ({error}); delete the folder.") from error
    return pairs


def kept_tokenizers(folder: Path, learn: Mapping[str, Callable[[], Tokenizer]]) -> Path:
    """The folder with tokenizers of these names, each learnt if it is missing."""

    def make(work: Path) -> None:
        whole = work / "whole"
        whole.mkdir(exist_ok=True)
        os.environ.setdefault("RAYON_NUM_THREADS", str(count_processes()))  # for `tokenizers`
        for name, learnt in learn.items():
            if not (whole / name).exists():
                logging.getLogger("regard").info("learning %s", folder / name)
                learnt().save(whole / name)

    return made_once(folder, make)


@dataclass(frozen=True)
class Encoder:
    """Encodes pairs into a folder, dropping those with more than `longest` pieces on a side."""

    source: Tokenizer
    target: Tokenizer
    longest: int

    def __call__(self, folder: Path, sources: list[str], targets: list[str]) -> None:
        pairs = zip(self.source.encode_all(sources), self.target.encode_all(targets), strict=True)
        kept = (pair for pair in pairs if max(map(len, pair)) <= self.longest)
        store(folder, kept, sizes=self.sizes)

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self.source), len(self.target)


def prepare_pairs(
    folder: Path, pairs: Iterable[Sentences], encoder: Encoder, report: Callable[[int, int], None]
) -> EncodedPairs:
    """The encoded pairs, mapped from the folder.

    The process that encodes them reports how many it saw and how many it left out.
    """

    def make(work: Path) -> None:
        processes = count_processes()
        logging.getLogger("regard").info("encoding the corpus into %s, processes: %d", folder, processes)
        parts = _encode_parts(work, pairs, encoder, processes)
        seen, kept = sum(parts.values()), sum(len(open_pairs(part)) for part in parts)
        report(seen, seen - kept)
        whole = work / "whole"
        shutil.rmtree(whole, ignore_errors=True)  # left by a killed process
        whole.mkdir()
        write_parts(whole, map(open_pairs, parts), sizes=encoder.sizes)

    return open_pairs(made_once(folder, make))


def _encode_parts(
    work: Path, pairs: Iterable[Sentences], encoder: Encoder, processes: int
) -> dict[Path, int]:
    """Encode the missing parts; return every part with the number of pairs it was made from."""
    parts: dict[Path, int] = {}

    def missing() -> Iterator[tuple[Path, list[str], list[str]]]:
        remaining = iter(pairs)
        for number in count():
            chunk = list(islice(remaining, PART))
            if not chunk:
                return
            part = work / f"{number:06}"
            parts[part] = len(chunk)
            if not part.exists():
                yield part, [source for source, _ in chunk], [target for _, target in chunk]

    for _ in spread(encoder, missing(), processes=processes):
        pass
    return parts
