"""Streams in windows: what has come is not kept waiting, order and numbers stay, little is read ahead."""

import io
import os
from itertools import count, islice

import pytest

from regard.errors import DataError
from regard.translate import windows
from regard.translate.windows import FIRST, LARGEST, ahead, list_windows, stream_windows


def of(data):
    return list(stream_windows(io.BytesIO(data), "standard input"))


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_the_windows_have_every_line_once_in_order(end):
    lines = [f"line {number}" for number in range(5000)]
    found = of("\n".join(lines).encode() + end)
    assert [line for window in found for line in window.lines] == lines
    assert [window.first for window in found] == [
        1 + sum(len(before.lines) for before in found[:place]) for place in range(len(found))
    ]


def test_the_first_windows_are_small_and_grow():
    sizes = [len(window.lines) for window in of(b"a\n" * 5000)]
    assert sizes[:7] == [FIRST * 2**place for place in range(7)]
    assert max(sizes) == LARGEST


def test_empty_lines_are_lines_and_a_stream_without_any_has_no_window():
    assert [window.lines for window in of(b"\n\na\n")] == [["", "", "a"]]
    assert of(b"") == []


def test_long_lines_make_small_windows(monkeypatch):
    monkeypatch.setattr(windows, "CHARACTERS", 100)
    assert [len(window.lines) for window in of(b"x" * 60 + b"\n" + b"y" * 60 + b"\nz\n")] == [2, 1]
    assert [len(w.lines) for w in list_windows(["x" * 60, "y" * 60, "z"], 7)] == [2, 1]


def test_a_line_may_come_in_many_blocks(monkeypatch):
    monkeypatch.setattr(windows, "BLOCK", 3)
    text = "eine lange Zeile mit Umlauten: äöü\nund eine zweite"
    assert [line for window in of(text.encode()) for line in window.lines] == text.split("\n")


def test_what_has_come_is_a_window_when_nothing_follows():
    """A pipe that stays open: the window comes although the stream has not ended."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as file:
        found = stream_windows(file, "standard input")
        os.write(writing, b"one\ntwo\nthr")
        assert next(found).lines == ["one", "two"]
        os.write(writing, b"ee\n")
        assert next(found).lines == ["three"]
        os.close(writing)
        assert list(found) == []


def test_lines_before_one_that_is_not_utf8_are_translated():
    found = stream_windows(io.BytesIO(b"a\nb\n\xff\nc\n"), "standard input")
    assert next(found).lines == ["a", "b"]
    with pytest.raises(DataError, match="standard input: line 3 has a byte 0xff that is not UTF-8"):
        next(found)


def test_an_endless_stream_is_not_read_to_its_end():
    made = []
    numbers = ahead((made.append(number) or number for number in count()), 10)
    assert list(islice(numbers, 5)) == [0, 1, 2, 3, 4]
    assert len(made) <= 5 + 10 + 1


def test_an_error_behind_the_items_comes_after_them():
    def broken():
        yield 1
        raise OSError("the disk is gone")

    items = ahead(broken(), 10)
    assert next(items) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(items)


def test_windows_of_lines_that_are_there_have_them_all():
    lines = [str(number) for number in range(2 * LARGEST + 1)]
    found = list(list_windows(lines, 101))
    assert [window.first for window in found] == [101, 101 + LARGEST, 101 + 2 * LARGEST]
    assert [line for window in found for line in window.lines] == lines
    assert [window.lines for window in list_windows([])] == [[]]
