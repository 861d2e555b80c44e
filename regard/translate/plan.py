"""How files are split into chunks, and the state of each: a folder that many processes fill together.

    plan.json                          the model, how it decodes, the inputs with their digests
    chunks/a.txt/000017                the translation of lines 17,001 to 18,000 of a.txt
    chunks/a.txt/000017.json           its entry: digests and counts
    a.txt                              the concatenated chunks of a.txt, once all are there

No two processes write the same file: a chunk is written under a unique name and renamed, then its entry is.
So no process waits for another, and a killed one leaves nothing that could be mistaken for a complete chunk.
The translation of a .gz file is a .gz file; each chunk is a gzip member, and members can be concatenated.
"""

import gzip
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from regard import storage
from regard.data.parallel import stream_lines
from regard.errors import DataError
from regard.train import durable
from regard.train.verified_files import digest_of_file

FORMAT = 1  # of plan.json
FILE = "plan.json"
FEWEST, MOST, CHUNKS = 100, 100_000, 1000  # limits for the lines of a chunk; preferred number of chunks


@dataclass(frozen=True)
class Input:
    """An input file."""

    name: str  # also the name of its translation
    digest: str  # SHA-256 of its lines
    lines: int


@dataclass(frozen=True)
class Plan:
    """What all processes that fill a folder agree on."""

    model: str  # digest
    decoding: dict[str, Any]
    chunk: int  # lines
    inputs: tuple[Input, ...]

    @property
    def chunks(self) -> int:
        return sum(len(self.ranges(own)) for own in self.inputs)

    def ranges(self, own: Input) -> list[range]:
        """The 0-based lines of each chunk; an empty file has one empty chunk."""
        starts = range(0, max(own.lines, 1), self.chunk)
        return [range(start, min(start + self.chunk, own.lines)) for start in starts]


@dataclass(frozen=True)
class Entry:
    """The record of a translated chunk."""

    input: str  # digest of its lines
    lines: int
    output: str  # digest of its file
    bytes: int
    output_lines: int  # more than `lines` with --nbest
    left_empty: int  # lines that could not be translated
    unknown: int  # lines with words never seen in training
    model: str
    decoding: dict[str, Any]


def digest_lines(lines: Iterator[str] | list[str]) -> tuple[str, int]:
    """SHA-256 of lines as UTF-8, and their number."""
    found, count = hashlib.sha256(), 0
    for line in lines:
        found.update(line.encode() + b"\n")
        count += 1
    return found.hexdigest(), count


def read_input(path: Path) -> Input:
    """The digest and the number of lines of a file, in one pass."""
    return Input(path.name, *digest_lines(stream_lines(path)))


def make_plan(model: str, decoding: dict[str, Any], inputs: tuple[Input, ...]) -> Plan:
    """Aim for a thousand chunks, so that a kill costs little and there is work for many machines."""
    total = sum(own.lines for own in inputs)
    return Plan(model, decoding, min(max(total // CHUNKS, FEWEST), MOST), inputs)


class Folder:
    """The output folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def agree(self, plan: Plan) -> None:
        """Write the plan; if there is one already, raise DataError unless they agree."""
        if not (self.path / FILE).exists():
            self._write(self.path / FILE, {"format": FORMAT} | asdict(plan))
        if difference := _difference(self.read_plan(), plan):
            raise DataError(f"{self.path}: {difference}; expected the same as before, or another --out.")

    def read_plan(self) -> Plan:
        """Read what `agree` wrote."""
        path = self.path / FILE
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            if record.pop("format") != FORMAT:
                raise DataError(f"{path}: has another format than {FORMAT}; update regard.")
            inputs = tuple(Input(**own) for own in record.pop("inputs"))
            return Plan(**record, inputs=inputs)
        except FileNotFoundError as error:
            raise DataError(
                f"{self.path}: has no {FILE}; expected a folder that `regard translate … --out` wrote."
            ) from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{path}: cannot be read as a plan; expected what regard wrote.") from error

    def remove_left_over(self, plan: Plan) -> None:
        """Remove unfinished files of processes killed at least a day ago."""
        for folder in (self.path, *(self.chunk(own, 0).parent for own in plan.inputs)):
            storage.remove_left_over(folder)

    def joined(self, own: Input) -> Path:
        return self.path / own.name

    def chunk(self, own: Input, number: int) -> Path:
        return self.path / "chunks" / own.name / f"{number:06d}"

    def entry(self, plan: Plan, own: Input, number: int) -> Entry | None:
        """The entry of a chunk; None if there is none for this plan."""
        try:
            text = self._entry_path(own, number).read_text(encoding="utf-8")
            found = Entry(**json.loads(text))
        except (OSError, ValueError, TypeError):  # missing or incomplete
            return None
        lines = len(plan.ranges(own)[number])
        fits = (found.model, found.decoding, found.lines) == (plan.model, plan.decoding, lines)
        return found if fits else None

    def is_whole(self, own: Input, number: int, entry: Entry) -> bool:
        """Whether the chunk's file matches its entry."""
        try:
            path = self.chunk(own, number)
            return path.stat().st_size == entry.bytes and digest_of_file(path) == entry.output
        except OSError:
            return False

    @contextmanager
    def writing(self, own: Input, number: int) -> Iterator[IO[bytes]]:
        """A file that becomes the chunk at the end, once it is synced to disk."""
        with _durable(self.chunk(own, number)) as file:
            if own.name.endswith(".gz"):
                # no time or name, so that equal text gives equal bytes
                with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                    yield packed  # type: ignore[misc]
            else:
                yield file

    def enter(self, plan: Plan, own: Input, number: int, counts: dict[str, Any]) -> None:
        """Write the entry of a finished chunk, which makes it count."""
        path = self.chunk(own, number)
        entry = Entry(
            output=digest_of_file(path),
            bytes=path.stat().st_size,
            model=plan.model,
            decoding=plan.decoding,
            **counts,
        )
        self._write(self._entry_path(own, number), asdict(entry))

    def join(self, plan: Plan, own: Input) -> bool:
        """Join the chunks of a file; False if some are missing."""
        entries = [self.entry(plan, own, number) for number in range(len(plan.ranges(own)))]
        found = [entry for entry in entries if entry is not None]
        if len(found) < len(entries):
            return False
        if self.fault_of_joined(own, found) is None:
            return True
        with _durable(self.joined(own)) as file:
            for number, entry in enumerate(found):
                if not self.is_whole(own, number, entry):
                    raise DataError(
                        f"{self.chunk(own, number)}: does not match its entry; run the same command again."
                    )
                file.write(self.chunk(own, number).read_bytes())
        return True

    def fault_of_joined(self, own: Input, entries: list[Entry]) -> str | None:
        """What is wrong with the joined file, if anything: its parts must have the chunks' digests."""
        path = self.joined(own)
        if not path.is_file():
            return "is missing"
        with path.open("rb") as file:
            for entry in entries:
                if hashlib.sha256(file.read(entry.bytes)).hexdigest() != entry.output:
                    return "is not made of these chunks"
            return "has more than its chunks" if file.read(1) else None

    def _entry_path(self, own: Input, number: int) -> Path:
        return self.chunk(own, number).with_suffix(".json")

    def _write(self, path: Path, record: dict[str, Any]) -> None:
        with _durable(path) as file:
            file.write((json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())


@contextmanager
def _durable(path: Path) -> Iterator[IO[bytes]]:
    """`storage.whole`, and the file's name is synced to disk too."""
    with storage.whole(path) as file:
        yield file
    durable.sync_folder(path.parent)


def _difference(old: Plan, new: Plan) -> str:
    """How the two plans differ, as a clause; empty if they agree."""
    if old.model != new.model:
        return "was begun with another model"
    for name, value in new.decoding.items():
        if old.decoding.get(name) != value:
            return f"was begun with {name} {old.decoding.get(name)}, and now it is {value}"
    before, now = ([own.name for own in plan.inputs] for plan in (old, new))
    if before != now:
        return f"was begun with the files {', '.join(before)}, and now they are {', '.join(now)}"
    for first, second in zip(old.inputs, new.inputs, strict=True):
        if first != second:
            return f"{second.name} has changed since its translation was begun"
    return "" if old == new else "was begun by another version of regard"


def chunk_lines(path: Path, size: int) -> Iterator[list[str]]:
    """The lines of a file in lists of `size`; one empty list for an empty file."""
    lines = stream_lines(path)
    chunk = list(islice(lines, size))
    yield chunk
    while chunk := list(islice(lines, size)):
        yield chunk
