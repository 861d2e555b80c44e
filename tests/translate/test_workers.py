"""Several processes: answers in order, one that is killed is replaced, none is left behind."""

import os
import sys
import threading
from itertools import count

import pytest
import torch

from regard.errors import DataError
from regard.translate import worker, workers
from regard.translate.windows import Window
from regard.translate.workers import ATTEMPTS, Workers

WORKER = """
import os, pickle, signal, sys
from pathlib import Path
folder, number = pickle.load(sys.stdin.buffer)
try:
    while True:
        lines = pickle.load(sys.stdin.buffer)
        for line in lines:
            told, _, name = line.partition(" ")
            if told == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if told == "once" and not Path(folder, name).exists():
                Path(folder, name).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if told == "wait":
                Path(folder, str(os.getpid())).touch()
                signal.pause()
            if told == "raise":
                pickle.dump(ValueError(name), sys.stdout.buffer)
        pickle.dump([(line.upper(), os.environ.get("OMP_NUM_THREADS")) for line in lines], sys.stdout.buffer)
        sys.stdout.buffer.flush()
except (EOFError, BrokenPipeError):
    pass
"""


@pytest.fixture
def pool(tmp_path, monkeypatch):
    """Two processes that write what they read; they need no package, so they start at once."""
    monkeypatch.setattr(workers, "COMMAND", [sys.executable, "-S", "-c", WORKER])
    made = Workers(str(tmp_path), 2)
    yield made
    made.close()


def windows(*lines):
    return [Window([line], number) for number, line in enumerate(lines, 1)]


def texts(found):
    return [text for _, answers in found for text, _ in answers]


def processes(pool):
    return [worker.process.pid for worker in pool._all if worker.process is not None]


def test_answers_come_in_the_order_of_the_windows(pool):
    lines = [f"line {number}" for number in range(200)]
    assert texts(pool.map(windows(*lines))) == [line.upper() for line in lines]
    assert len(processes(pool)) == 2


def test_a_worker_that_is_killed_is_replaced_and_its_lines_are_done_again(pool):
    lines = [f"once {number}" if number % 10 == 5 else f"line {number}" for number in range(50)]
    assert texts(pool.map(windows(*lines))) == [line.upper() for line in lines]


def test_lines_that_kill_every_worker_end_with_a_sentence(pool):
    found = pool.map(windows("one", "kill", "three"))
    assert texts([next(found)]) == ["ONE"]
    with pytest.raises(
        DataError,
        match=rf"translate: {ATTEMPTS} processes ended over lines 2 to 2, the last with status -9, as when "
        "memory runs out; expected fewer --processes or a smaller --beam.",
    ):
        next(found)


def test_an_error_in_a_worker_is_raised_here(pool):
    with pytest.raises(ValueError, match="of the text"):
        list(pool.map(windows("raise of the text")))


def test_closing_ends_processes_that_are_busy(pool, tmp_path):
    """The threads that wait for them end too, or this would not return."""
    found = pool.map(windows("wait", "wait", "wait"))

    def ask():
        with pytest.raises((EOFError, OSError)):
            next(found)

    asking = threading.Thread(target=ask)
    asking.start()
    while not (busy := [int(path.name) for path in tmp_path.iterdir()]):
        asking.join(0.01)
    pool.close()
    asking.join()
    for pid in busy:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_little_is_read_ahead_of_what_was_answered(pool):
    read = []
    endless = (read.append(number) or Window([str(number)], number) for number in count(1))
    found = pool.map(endless)
    for _ in range(3):
        next(found)
    assert len(read) <= 3 + 2 * workers.AHEAD + 2


@pytest.mark.parametrize(("given", "cores", "threads"), [(None, 8, "4"), (None, 1, "1"), ("3", 8, "3")])
def test_the_cores_are_divided_among_the_processes(tmp_path, monkeypatch, given, cores, threads):
    monkeypatch.setattr(workers, "COMMAND", [sys.executable, "-S", "-c", WORKER])
    monkeypatch.setattr(workers, "count_cores", lambda: cores)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    pool = Workers(str(tmp_path), 2)
    try:
        [(_, [(_, found)])] = pool.map(windows("a"))
    finally:
        pool.close()
    assert found == threads


def test_of_several_gpus_each_process_takes_one_in_turn(monkeypatch):
    taken = []
    monkeypatch.setattr(torch.accelerator, "set_device_index", taken.append)
    for there, gpus in ((True, 2), (True, 1), (False, 0)):
        monkeypatch.setattr(torch.accelerator, "is_available", lambda there=there: there)
        monkeypatch.setattr(torch.accelerator, "device_count", lambda gpus=gpus: gpus)
        for number in range(3):
            worker._take_device(number)
    assert taken == [0, 1, 0]  # with two; one is everybody's
