"""Encoded sentence pairs in flat tensors: all ids of a side concatenated, and where each sentence begins.

    numbers   5 6 7 | 8 | 9 4 …        uint16, or uint32 for vocabularies over 65,536 pieces
    offsets   0       3   4     …      int64, one more than there are sentences

`collect` keeps the tensors in memory. `store` streams them into a folder, and `open_pairs` maps them from
there: of five million pairs the system then reads only the pages that a batch needs.
"""

import json
import shutil
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from regard import storage
from regard.data.batches import PairBatch
from regard.data.tokens import EOS, PAD
from regard.errors import DataError
from regard.tensor_bytes import as_bytes, from_bytes

FORMAT = 1
NAMES = ("source", "target")
PART = 1 << 14  # pairs buffered before they are written

Pair = tuple[list[int], list[int]]
WIDTHS = {16: torch.uint16, 32: torch.uint32}


class Side:
    """The sentences of one side as ids, without eos."""

    def __init__(self, numbers: Tensor, offsets: Tensor) -> None:
        self.numbers, self.offsets = numbers, offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def lengths(self, rows: Tensor | None = None) -> Tensor:
        """(N,) lengths of these sentences, or of all, with eos."""
        if rows is None:
            return (self.offsets.diff() + 1).int()
        return (self.offsets[rows + 1] - self.offsets[rows] + 1).int()

    def padded(self, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """These sentences with eos -> (B, L) padded with pad, and their (B,) lengths."""
        chosen = torch.as_tensor(rows, dtype=torch.long)
        begins = self.offsets[chosen]
        counts = self.offsets[chosen + 1] - begins
        place = torch.arange(int(counts.max()) + 1 if len(rows) else 0)
        there = place < counts[:, None]
        padded = torch.where(place == counts[:, None], EOS, PAD)
        padded[there] = self.numbers[(begins[:, None] + place)[there]].long()
        return padded, counts + 1


class EncodedPairs:
    """Sentence pairs as ids."""

    def __init__(self, source: Side, target: Side) -> None:
        self.source, self.target = source, target

    def __len__(self) -> int:
        return len(self.source)

    def lengths(self, rows: Tensor | None = None) -> Tensor:
        """(N, 2) source and target lengths of these pairs, or of all, with eos."""
        return torch.stack([self.source.lengths(rows), self.target.lengths(rows)], 1)

    def batch(self, rows: Sequence[int]) -> PairBatch:
        """The pairs in these rows as tensors, with eos on both sides, as from `pair_batch`."""
        return PairBatch(*self.source.padded(rows), *self.target.padded(rows))


def collect(pairs: Iterable[Pair], *, sizes: tuple[int, int]) -> EncodedPairs:
    """The pairs in memory; `sizes` are the two vocabulary sizes."""
    sides = [(array(_kind(size)), array("q", [0])) for size in sizes]
    for pair in pairs:
        for (numbers, offsets), sentence in zip(sides, pair, strict=True):
            numbers.extend(sentence)
            offsets.append(len(numbers))
    return EncodedPairs(*(Side(_tensor(numbers), _tensor(offsets)) for numbers, offsets in sides))


def store(folder: Path, pairs: Iterable[Pair], *, sizes: tuple[int, int]) -> EncodedPairs:
    """Stream the pairs into a folder, atomically, and map them from there."""
    aside = storage.aside(folder)
    try:
        aside.mkdir(parents=True)
        storage.remove_left_over(folder.parent)
        write_parts(aside, (collect(part, sizes=sizes) for part in _in_parts(pairs)), sizes=sizes)
        aside.rename(folder)
    except OSError as error:
        if not (folder / "pairs.json").exists():  # else another process was first, with the same pairs
            raise DataError(
                f"{folder}: {(error.strerror or str(error)).lower()}; expected room for the encoded corpus. "
                "REGARD_CACHE names another folder."
            ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return open_pairs(folder)


def write_parts(folder: Path, parts: Iterable[EncodedPairs], *, sizes: tuple[int, int]) -> None:
    """Write the pairs of all parts, in order, into a folder that `open_pairs` can open."""
    count, ends = 0, [0, 0]
    with ExitStack() as files:

        def opened(name: str) -> BinaryIO:
            return files.enter_context((folder / name).open("wb"))

        sides = [(opened(f"{name}.numbers"), opened(f"{name}.offsets")) for name in NAMES]
        for _, offsets in sides:
            offsets.write(bytes(8))
        for part in parts:
            for n, side in enumerate((part.source, part.target)):
                numbers, offsets = sides[n]
                numbers.write(as_bytes(side.numbers))
                offsets.write(as_bytes(side.offsets[1:] + ends[n]))
                ends[n] += int(side.offsets[-1])
            count += len(part)
    record = {"format": FORMAT, "pairs": count, "bits": [8 * array(_kind(size)).itemsize for size in sizes]}
    (folder / "pairs.json").write_text(json.dumps(record) + "\n", encoding="utf-8")


def open_pairs(folder: Path) -> EncodedPairs:
    """Map what `store` wrote."""
    try:
        record = json.loads((folder / "pairs.json").read_text(encoding="utf-8"))
        source, target = (
            Side(_map(folder / f"{name}.numbers", WIDTHS[bits]), _map(folder / f"{name}.offsets"))
            for name, bits in zip(NAMES, record["bits"], strict=True)
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{folder}: no encoded corpus of format {FORMAT} ({error}); delete the folder."
        ) from error
    sides = (source, target)
    whole = all(len(side) == record["pairs"] and side.offsets[-1] == len(side.numbers) for side in sides)
    if record["format"] != FORMAT or not whole:
        raise DataError(f"{folder}: no complete encoded corpus of format {FORMAT}; delete the folder.")
    return EncodedPairs(source, target)


def _kind(size: int) -> str:
    """The type code of `array` for ids of a vocabulary of this size."""
    return "H" if size <= 1 << 16 else "I"


def _tensor(numbers: "array[int]") -> Tensor:
    return from_bytes(numbers.tobytes(), WIDTHS.get(8 * numbers.itemsize, torch.int64))


def _map(path: Path, kind: torch.dtype = torch.int64) -> Tensor:
    size = path.stat().st_size // kind.itemsize  # an empty file cannot be mapped
    return torch.from_file(str(path), size=size, dtype=kind) if size else torch.empty(0, dtype=kind)


def _in_parts(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    remaining = iter(pairs)
    while part := list(islice(remaining, PART)):
        yield part
