"""Checks from its plan and entries whether a folder of translations is complete and undamaged."""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from regard.translate.plan import Entry, Folder, Input, Plan


@dataclass(frozen=True)
class Report:
    """The result of a check."""

    plan: Plan
    whole: int  # complete chunks, with the right digest and counts
    left_empty: int  # their lines that could not be translated
    faults: list[str]  # one clause per fault; empty: all is complete


def verify(path: Path) -> Report:
    """Check every chunk and every joined file."""
    folder = Folder(path)
    plan = folder.read_plan()
    whole, left_empty, faults = 0, 0, list[str]()
    for own in plan.inputs:
        entries = [folder.entry(plan, own, number) for number in range(len(plan.ranges(own)))]
        states = [_state(folder, own, number, entry) for number, entry in enumerate(entries)]
        whole += states.count("")
        left_empty += sum(entry.left_empty for entry in entries if entry is not None)
        faults += _faults(plan, own, states)
        if not any(states) and (fault := folder.fault_of_joined(own, [e for e in entries if e])):
            faults.append(f"{own.name}: the joined file {fault}")
    return Report(plan, whole, left_empty, faults)


def _state(folder: Folder, own: Input, number: int, entry: Entry | None) -> str:
    """What is wrong with a chunk; empty if nothing is."""
    if entry is None:
        return "missing" if not folder.chunk(own, number).exists() else "without an entry of this plan"
    if not folder.is_whole(own, number, entry):
        return "damaged" if folder.chunk(own, number).exists() else "missing"
    counted = _count(folder.chunk(own, number), own)
    return "" if counted == entry.output_lines else "of another number of lines"


def _count(path: Path, own: Input) -> int:
    try:
        with gzip.open(path) if own.name.endswith(".gz") else path.open("rb") as file:
            return sum(1 for _ in file)
    except (OSError, EOFError, zlib.error):  # not gzip, whatever its digest
        return -1


def _faults(plan: Plan, own: Input, states: list[str]) -> Iterator[str]:
    """One clause per run of neighbouring chunks with the same fault."""
    ranges = plan.ranges(own)
    for state, group in groupby(range(len(states)), key=lambda number: states[number]):
        if state:
            first, *_ = numbers = list(group)
            last = numbers[-1]
            chunks = f"chunk {first} is" if first == last else f"chunks {first} to {last} are"
            yield f"{own.name}: {chunks} {state} (lines {ranges[first].start + 1} to {ranges[last].stop})"
