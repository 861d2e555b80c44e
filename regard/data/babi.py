"""The bAbI tasks, version 1.2: twenty types of question about short stories.

    1 Mary moved to the bathroom.
    2 John went to the hallway.
    3 Where is Mary? <tab> bathroom <tab> 1

Line numbers restart at 1 with each story; a question lists the lines that support its answer. The sets are
`en` (1,000 training questions per task) and `en-10k`. They are read from the archive as distributed, one
repacked with xz, or the extracted folder, in `task.data` or REGARD_DATA or the subfolder `babi/`.

Weston, Bordes, Chopra, Rush, van Merriënboer, Joulin, Mikolov. Towards AI-complete question answering: a set
of prerequisite toy tasks. 2015. https://arxiv.org/abs/1502.05698
"""

import re
import tarfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal

from regard.data.folders import find_file, reading
from regard.data.questions import Question, Sentence, cut_sentence
from regard.errors import DataError

BabiSet = Literal["en", "en-10k", "dataset"]  # dataset: rows in memory instead of files
HOME = "https://research.facebook.com/downloads/babi/ (tasks_1-20_v1-2.tar.gz)."
TASKS = range(1, 21)
NAMES = (
    "one supporting fact",
    "two supporting facts",
    "three supporting facts",
    "two argument relations",
    "three argument relations",
    "yes/no questions",
    "counting",
    "lists and sets",
    "simple negation",
    "indefinite knowledge",
    "basic coreference",
    "conjunction",
    "compound coreference",
    "time reasoning",
    "basic deduction",
    "basic induction",
    "positional reasoning",
    "size reasoning",
    "path finding",
    "agent's motivations",
)
PACKED = ("babi_v1.2.tar.xz", "tasks_1-20_v1-2.tar.gz", "tasks_1-20_v1-2.tar", "tasks_1-20_v1-2")
FOLDERS = ("babi", "babi/tasks_1-20_v1-2", "tasks_1-20_v1-2")

_FILE = re.compile(r"(?:^|/)(?P<set>[a-z0-9-]+)/qa(?P<task>\d+)_[^/]*_(?P<split>train|test)\.txt$")

Files = dict[tuple[int, str], bytes]  # (task, "train" or "test") -> the text


def read_babi(
    babi_set: BabiSet, task: int, split: Literal["train", "test"], *, data: str = ""
) -> list[Question]:
    """The questions of one task file."""
    files = read_files(babi_set, data=data)
    if (task, split) not in files:
        raise DataError(
            f"babi: the set {babi_set!r} has no {split} file of task {task}; expected one of the tasks "
            f"{', '.join(map(str, sorted(t for t, s in files if s == split)))}."
        )
    return parse(files[task, split], task, f"{babi_set}/qa{task}_{split}.txt")


def read_files(babi_set: BabiSet, *, data: str = "") -> Files:
    """The files of a set, from an archive or a folder."""
    found = find_file("babi", (babi_set, *PACKED), data=data, folders=FOLDERS, home=HOME)
    files = _read_place(found, babi_set)
    if not files:
        raise DataError(f"babi: {found} has no files {babi_set}/qa*_train.txt; expected bAbI version 1.2.")
    return files


@lru_cache(maxsize=2)  # an archive is unpacked whole, and its forty files are requested one by one
def _read_place(place: Path, babi_set: str) -> Files:
    texts = _folder_texts(place) if place.is_dir() else _archive_texts(place)
    named = ((_FILE.search(name), text) for name, text in texts)
    return {(int(m["task"]), m["split"]): text for m, text in named if m and m["set"] == babi_set}


def _folder_texts(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("qa*.txt")):
        yield path.resolve().as_posix(), path.read_bytes()


def _archive_texts(path: Path) -> Iterator[tuple[str, bytes]]:
    with reading(path, "a .tar.gz or .tar.xz.", kind="an archive"), tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                yield member.name, file.read()


def parse(text: bytes, task: int, name: str) -> list[Question]:
    """The questions of a file; an error names a malformed line."""
    questions: list[Question] = []
    story: list[Sentence] = []
    places: dict[int, int] = {}  # line number -> position of its sentence in the story
    origin = -1
    cut = lru_cache(maxsize=None)(cut_sentence)  # few sentences are distinct
    for number, raw in enumerate(text.decode("utf-8").splitlines(), 1):
        if not raw.strip():
            continue
        label, _, rest = raw.strip().partition(" ")
        if not label.isdigit() or not rest:
            raise DataError(f"babi: {name}: line {number} is {raw!r}; expected a number and a sentence.")
        if int(label) == 1:
            story, places, origin = [], {}, origin + 1
        asked, *answered = rest.split("\t")
        if not answered:
            places[int(label)] = len(story)
            story.append(cut(asked))
            continue
        supports = tuple(places[int(n)] for n in "".join(answered[1:2]).split() if int(n) in places)
        questions.append(
            Question(tuple(story), cut(asked), answered[0].strip().lower(), supports, task, origin)
        )
    return questions
