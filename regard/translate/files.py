"""Translates files into a folder: first the missing chunks of a shard, then joins complete files."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path

from regard.errors import ConfigError, DataError
from regard.translate.answers import Answer, Options
from regard.translate.opening import model_digest
from regard.translate.plan import Folder, Input, Plan, chunk_lines, digest_lines, make_plan, read_input
from regard.translate.windows import Window, list_windows
from regard.translate.workers import translating


@dataclass(frozen=True)
class Shard:
    """One command's share of the chunks: number, number + of, number + 2 · of, …"""

    number: int = 0
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Parse `3/64`."""
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if found is None:
            raise ConfigError(f"translate: `--shard` has {text!r}; expected a number and how many, as 3/64.")
        shard = cls(int(found[1]), int(found[2]))
        if shard.number >= shard.of:
            expected = f"0/{shard.of} to {shard.of - 1}/{shard.of}" if shard.of else "one or more shards"
            raise ConfigError(f"translate: `--shard` has {text}; expected {expected}.")
        return shard

    def has(self, number: int) -> bool:
        return number % self.of == self.number

    def lines(self, plan: Plan) -> int:
        """The number of lines in its chunks."""
        chunks = (lines for own in plan.inputs for lines in plan.ranges(own))
        return sum(len(lines) for number, lines in enumerate(chunks) if self.has(number))


WHOLE = Shard()


@dataclass(frozen=True)
class Chunk:
    """Consecutive lines of an input that become one output file."""

    own: Input
    number: int
    first: int  # 1-based
    lines: list[str]
    digest: str


@dataclass(frozen=True)
class ChunkWindow(Window):
    """A part of a chunk, or all of it if it is small."""

    chunk: Chunk | None = None


@dataclass(frozen=True)
class Done:
    """What a command has achieved."""

    chunks: int  # translated by this command
    left_empty: int
    unknown: int
    joined: int  # complete files


def agree(options: Options, paths: Sequence[Path], out: Path) -> Plan:
    """The plan of a folder, written if there is none; DataError if the existing one differs."""
    _check_names(paths, out)
    inputs = tuple(read_input(path) for path in paths)
    plan = make_plan(model_digest(options.folder), options.settings(), inputs)
    Folder(out).agree(plan)
    return plan


def translate_files(
    options: Options,
    paths: Sequence[Path],
    out: Path,
    plan: Plan,
    *,
    shard: Shard = WHOLE,
    processes: int = 1,
    complain: Callable[[str], None] = lambda sentence: None,
    progress: Callable[[int], None] = lambda count: None,
) -> Done:
    """Translate the missing chunks of this shard, and join files that are complete."""
    folder, counts = Folder(out), Counter[str]()
    folder.remove_left_over(plan)
    windows = (
        ChunkWindow(window.lines, window.first, chunk)
        for chunk in missing_chunks(folder, plan, paths, shard, progress)
        for window in list_windows(chunk.lines, chunk.first)
    )
    if (first := next(windows, None)) is not None:  # otherwise no model is needed
        with translating(options, processes) as translate:
            given = translate(chain([first], windows))
            for chunk, pairs in groupby(given, key=lambda pair: pair[0].chunk):
                counts += _write(folder, plan, chunk, (answers for _, answers in pairs), complain, progress)
    joined = sum(folder.join(plan, own) for own in plan.inputs)
    return Done(counts["chunks"], counts["left_empty"], counts["unknown"], joined)


def missing_chunks(
    folder: Folder, plan: Plan, paths: Sequence[Path], shard: Shard, progress: Callable[[int], None]
) -> Iterator[Chunk]:
    """The chunks of a shard that are missing, or do not match their entries."""
    passed = 0  # chunks of earlier inputs
    for own, path in zip(plan.inputs, paths, strict=True):
        for number, lines in enumerate(chunk_lines(path, plan.chunk)):
            if shard.has(passed + number):
                digest, count = digest_lines(lines)
                entry = folder.entry(plan, own, number)
                if entry is not None and entry.input == digest and folder.is_whole(own, number, entry):
                    progress(count)
                else:
                    yield Chunk(own, number, 1 + number * plan.chunk, lines, digest)
        passed += len(plan.ranges(own))


def _write(
    folder: Folder,
    plan: Plan,
    chunk: Chunk,
    answers: Iterator[list[Answer]],
    complain: Callable[[str], None],
    progress: Callable[[int], None],
) -> Counter[str]:
    """Write a chunk as its answers arrive, then its entry."""
    counts, line = Counter(chunks=1), chunk.first
    with folder.writing(chunk.own, chunk.number) as file:
        for some in answers:
            for answer in some:
                file.write(answer.text.encode() + b"\n")
                counts["output_lines"] += 1 + answer.text.count("\n")
                if answer.refused:
                    complain(f"{chunk.own.name}, line {line}: {answer.complaint}")
                counts["left_empty" if answer.refused else "unknown"] += bool(answer.complaint)
                line += 1
            progress(len(some))
    entered = {name: counts[name] for name in ("output_lines", "left_empty", "unknown")}
    folder.enter(
        plan, chunk.own, chunk.number, {"input": chunk.digest, "lines": line - chunk.first} | entered
    )
    return counts


def _check_names(paths: Sequence[Path], out: Path) -> None:
    names = [path.name for path in paths]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ConfigError(f"translate: two files are called {twice[0]}; expected names that differ.")
    for path in paths:
        if (out / path.name).resolve() == path.resolve():
            raise ConfigError(
                f"translate: `--out` has {out}, which contains {path.name} itself; expected another folder."
            )
        if path.name in ("plan.json", "chunks"):
            raise DataError(f"{path}: has a name that the output folder needs; rename the file.")
