"""Text prepared once, by several processes or by whoever is left: the bytes are those of one process."""

import json
import os
import signal
import threading
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from encoded_lists import lists
from forking import forks

from regard.data import prepared, shared, workers
from regard.data.encoded import store
from regard.data.parallel import Parallel
from regard.data.prepared import Encoder, counted, prepare_pairs
from regard.data.shared import made_once
from regard.data.tokens import Tokenizer
from regard.errors import ConfigError, DataError
from regard.tasks.files import FilesSettings, FilesTask

PAIRS = [(f"the cat sees {n * n} dogs .", f"le chat voit {n} chiens " + "et " * (n % 9)) for n in range(100)]
LONGEST = 9


@pytest.fixture(autouse=True)
def small_parts(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(prepared, "LARGE", 0)
    monkeypatch.setattr(prepared, "PART", 16)
    monkeypatch.setattr(shared, "LOOK", 0.01)


@pytest.fixture(scope="module")
def tokenizers():
    return tuple(Tokenizer.train(side, kind="words") for side in zip(*PAIRS, strict=True))


@pytest.fixture
def expected(tmp_path, tokenizers):
    """What one process writes that knows nothing of parts."""
    source, target = tokenizers
    numbers = [(source.encode(a), target.encode(b)) for a, b in PAIRS]
    kept = [pair for pair in numbers if max(map(len, pair)) <= LONGEST]
    assert 0 < len(kept) < len(PAIRS)
    store(tmp_path / "expected", kept, sizes=(len(source), len(target)))
    return content(tmp_path / "expected")


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def silent(seen: int, left_out: int) -> None: ...


@pytest.mark.parametrize("processes", [1, 3])
def test_parts_make_what_one_process_makes(tmp_path, monkeypatch, tokenizers, expected, processes):
    monkeypatch.setenv("REGARD_PROCESSES", str(processes))
    reported = []
    with forks():
        found = prepare_pairs(
            tmp_path / "found",
            PAIRS,
            Encoder(*tokenizers, LONGEST),
            lambda seen, left_out: reported.append((seen, left_out)),
        )
    assert content(tmp_path / "found") == expected
    assert reported == [(100, 100 - len(found))]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["expected", "found"]


class Stopping(Encoder):
    """Encodes some parts, then says so and waits for its end."""

    def __call__(self, folder, sources, targets):
        if folder.name == "000003":
            os.write(told, b"1")
            time.sleep(60)
        super().__call__(folder, sources, targets)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes")
def test_whoever_waits_goes_on_where_a_killed_process_was(tmp_path, monkeypatch, tokenizers, expected):
    global told
    monkeypatch.setenv("REGARD_PROCESSES", "1")
    ready, told = os.pipe()
    child = os.fork()
    if not child:
        prepare_pairs(tmp_path / "found", PAIRS, Stopping(*tokenizers, LONGEST), silent)
        os._exit(0)
    os.read(ready, 1)
    encoded = []

    class Counting(Encoder):
        def __call__(self, folder, sources, targets):
            encoded.append(folder.name)
            super().__call__(folder, sources, targets)

    counting = Counting(*tokenizers, LONGEST)
    waiting = [
        threading.Thread(target=prepare_pairs, args=(tmp_path / "found", PAIRS, counting, silent))
        for _ in range(2)
    ]
    for thread in waiting:
        thread.start()
    assert not (tmp_path / "found").exists()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for thread in waiting:
        thread.join()
    assert content(tmp_path / "found") == expected
    assert encoded == [f"{number:06}" for number in range(3, 7)]  # by one of the two, and no part twice
    assert not (tmp_path / "found.making").exists()


def test_waiting_is_told_once(tmp_path, caplog):
    caplog.set_level("INFO", "regard")
    begun, go_on = threading.Event(), threading.Event()

    def make(work):
        begun.set()
        go_on.wait()
        (work / "whole").mkdir()

    first = threading.Thread(target=made_once, args=(tmp_path / "found", make))
    first.start()
    begun.wait()
    second = threading.Thread(target=made_once, args=(tmp_path / "found", make))
    second.start()
    while "waiting" not in caplog.text:
        time.sleep(0.001)
    go_on.set()
    first.join()
    second.join()
    assert caplog.text.count("waiting: ") == 1
    assert f"found.making: it is in use by process {os.getpid()} on " in caplog.text


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(DataError, match=r"not a directory; .*REGARD_CACHE names another folder"):
        made_once(tmp_path / "file" / "found", lambda work: work)


def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def fail(number):
    raise DataError(f"job {number} is bad.")


def test_a_process_that_was_killed_is_named():
    with forks(), pytest.raises(DataError, match=r"process \d+, which prepared text, was killed, .*is kept"):
        list(workers.spread(kill, [(1,), (2,)], processes=2))


def test_what_a_process_raises_is_raised_here():
    with forks(), pytest.raises(DataError, match=r"job 1 is bad\."):
        list(workers.spread(fail, [(1,), (2,)], processes=2))


def test_results_come_in_the_order_of_the_jobs():
    with forks():
        assert list(workers.spread(divmod, [(n, 7) for n in range(30)], processes=2)) == [
            divmod(n, 7) for n in range(30)
        ]


@pytest.mark.parametrize("given", ["0", "-1", "two", "1.5"])
def test_a_number_of_processes_is_one_or_more(monkeypatch, given):
    monkeypatch.setenv("REGARD_PROCESSES", given)
    with pytest.raises(ConfigError, match=f"REGARD_PROCESSES has '{given}'; expected a number of processes"):
        workers.count_processes()


def test_a_second_start_reads_and_learns_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_PROCESSES", "1")
    for side, lines in zip("ab", zip(*PAIRS, strict=True), strict=True):
        (tmp_path / f"text.{side}").write_text(
            "".join(f"{line}\n" for line in (*lines, "" if side == "a" else "x"))
        )
    settings = FilesSettings(source=str(tmp_path / "text.a"), target=str(tmp_path / "text.b"), size=300)
    first = FilesTask.create(settings)
    plain = lists(first.encoded("train"))
    monkeypatch.setattr(Tokenizer, "train", None)
    monkeypatch.setattr(Parallel, "__iter__", None)
    monkeypatch.setattr(Tokenizer, "encode_all", None)
    again = FilesTask.create(settings)
    assert lists(again.encoded("train")) == plain
    assert again.target.to_json() == first.target.to_json()
    pairs = counted(Path(settings.source), Path(settings.target))
    assert (pairs.count, pairs.skipped) == (100, 1)
    assert pairs.bytes == sum(len(side.strip().encode()) for pair in PAIRS for side in pair)
    [text] = (tmp_path / "cache" / "texts").iterdir()
    (text / "text.json").write_text("{}")
    with pytest.raises(DataError, match=r"no sizes of a text \('pairs'\); delete the folder\."):
        counted(Path(settings.source), Path(settings.target))


def test_tokenizers_in_the_cache_are_those_that_are_learnt_in_memory(tmp_path, monkeypatch):
    for side, lines in zip("ab", zip(*PAIRS, strict=True), strict=True):
        (tmp_path / f"text.{side}").write_text("".join(f"{line}\n" for line in lines))
    files = {"source": str(tmp_path / "text.a"), "target": str(tmp_path / "text.b")}
    for how in ({"size": 290}, {"size": 290, "joint": True}, {"pieces": "words", "lowercase": True}):
        settings = FilesSettings(**files, **how)
        kept = FilesTask.create(settings)
        monkeypatch.setattr(prepared, "LARGE", 1 << 20)
        learnt = FilesTask.create(settings)
        monkeypatch.setattr(prepared, "LARGE", 0)
        assert (kept.source is kept.target) == settings.joint
        assert [x.to_json() for x in (kept.source, kept.target)] == [
            x.to_json() for x in (learnt.source, learnt.target)
        ]
    assert len(list((tmp_path / "cache" / "tokenizers").iterdir())) == 3


def test_the_cache_has_the_documented_layout(tmp_path, monkeypatch):
    """As a job of somebody's own would read it: with JSON and numpy alone."""
    monkeypatch.setenv("REGARD_PROCESSES", "1")
    for side, lines in zip("ab", zip(*PAIRS, strict=True), strict=True):
        (tmp_path / f"text.{side}").write_text("".join(f"{line}\n" for line in lines))
    files = {"source": str(tmp_path / "text.a"), "target": str(tmp_path / "text.b")}
    task = FilesTask.create(FilesSettings(**files, pieces="words"))
    plan = task.plan(0, seed=1, batch=64)
    found = {folder.name: sorted(folder.iterdir()) for folder in (tmp_path / "cache").iterdir()}
    assert sorted(found) == ["encoded", "texts", "tokenizers"]
    [text] = found["texts"]
    assert json.loads((text / "text.json").read_text())["pairs"] == 100
    [tokenizer] = found["tokenizers"]
    assert sorted(content(tokenizer)) == ["source.tokenizer.json", "target.tokenizer.json"]
    encoded, plans = found["encoded"]
    record = json.loads((encoded / "pairs.json").read_text())
    assert plans.name == f"{encoded.name}.plans"
    sides = zip(("source", "target"), record["bits"], (task.source, task.target), strict=True)
    for column, (name, bits, own) in enumerate(sides):
        numbers = np.fromfile(encoded / f"{name}.numbers", dtype=f"uint{bits}")
        offsets = np.fromfile(encoded / f"{name}.offsets", dtype=np.int64)
        assert len(offsets) == record["pairs"] + 1
        sentences = [numbers[a:b].tolist() for a, b in pairwise(offsets)]
        assert sentences == [list(pair[column]) for pair in lists(task.encoded("train"))]
        assert sentences[0] == own.encode(PAIRS[0][column])
    [folder] = plans.iterdir()
    rows, starts = (np.load(folder / f"{name}.npy") for name in ("rows", "starts"))
    assert [rows[a:b].tolist() for a, b in pairwise(starts)] == [list(batch) for batch in plan]
