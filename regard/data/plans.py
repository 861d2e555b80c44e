"""Plans of large corpora: computed once into a folder of files, mapped by every process.

    NAME/rows.npy      the example indices, batch after batch
    NAME/starts.npy    where each batch begins, and the end

A process holds in memory only the pages of the batches that it reads, however many pairs there are.
"""

import logging
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from regard.data.batches import LengthTable, Plan, Room, in_memory
from regard.data.encoded import EncodedPairs
from regard.data.npy import make_npy, map_npy
from regard.data.shared import made_once
from regard.errors import DataError

KEPT = 7 * 24 * 3600.0  # seconds without use after which a plan is removed


class PairLengths(LengthTable):
    """Lengths of encoded pairs, eos included, looked up on demand.

    `both_ways`: all pairs are followed by all pairs again, with their sides swapped.
    """

    def __init__(self, pairs: EncodedPairs, *, both_ways: bool = False) -> None:
        self.pairs, self.both_ways = pairs, both_ways

    def __len__(self) -> int:
        return len(self.pairs) * (1 + self.both_ways)

    def __getitem__(self, rows: Tensor) -> Tensor:
        backwards = rows >= len(self.pairs)
        found = self.pairs.lengths(torch.where(backwards, rows - len(self.pairs), rows))
        return torch.where(backwards[:, None], found.flip(1), found)


def mapped_plan(folder: Path, largest: int, make: Callable[[Room], Plan]) -> Plan:
    """The plan of this folder, computed if it is missing; in memory if the folder cannot be written.

    `largest` is an upper bound of the plan's integers.
    """
    kind = torch.int32 if largest < 1 << 31 else torch.int64

    def write(work: Path) -> None:
        whole = work / "whole"
        shutil.rmtree(whole, ignore_errors=True)
        whole.mkdir()
        _remove_old(folder)
        make(lambda name, size: make_npy(whole / f"{name}.npy", kind, (size,)))
        (whole / "sorted.npy").unlink(missing_ok=True)  # scratch

    try:
        made_once(folder, write)
    except DataError as error:
        logging.getLogger("regard").warning("the batches are planned in memory: %s", error)
        return make(in_memory)
    with suppress(OSError):  # another user's folder
        os.utime(folder)
    try:
        return Plan(*(map_npy(folder / f"{name}.npy") for name in ("rows", "starts")))
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(f"{folder}: no plan ({error}); delete the folder.") from error


def _remove_old(folder: Path) -> None:
    """Remove the plans next to this one that have not been used for long."""
    for plan in folder.parent.iterdir():
        with suppress(OSError):
            if time.time() - plan.stat().st_mtime > KEPT:
                shutil.rmtree(plan)
