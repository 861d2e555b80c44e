"""Encoded pairs in flat arrays: equal to lists, in memory and mapped from files."""

import errno
import os
import time

import pytest
import torch
from encoded_lists import lists
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batches import pair_batch
from regard.data.encoded import collect, open_pairs, store
from regard.errors import DataError

SENTENCES = st.lists(st.integers(4, 60_000), max_size=9)
PAIRS = st.lists(st.tuples(SENTENCES, SENTENCES), max_size=12)
SIZES = (60_001, 60_001)


@given(PAIRS)
def test_collected_pairs_are_the_lists_they_came_from(pairs):
    encoded = collect(iter(pairs), sizes=SIZES)
    assert lists(encoded) == pairs
    assert len(encoded) == len(pairs)
    assert encoded.lengths().tolist() == [[len(a) + 1, len(b) + 1] for a, b in pairs]


@given(PAIRS.filter(len), st.data())
def test_a_batch_is_what_pair_batch_makes_of_the_lists(pairs, data):
    rows = data.draw(st.lists(st.integers(0, len(pairs) - 1), max_size=6))
    made = collect(pairs, sizes=SIZES).batch(rows)
    expected = pair_batch([pairs[row][0] for row in rows], [pairs[row][1] for row in rows])
    for name in ("source", "source_lengths", "target", "target_lengths"):
        found, wanted = getattr(made, name), getattr(expected, name)
        assert found.dtype == wanted.dtype == torch.long
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("pairs", [[], [([], [])], [([5, 6], [7]), ([], [8]), ([9], [])]])
def test_stored_pairs_are_mapped_back(tmp_path, is_mapped, pairs):
    stored = store(tmp_path / "kept", iter(pairs), sizes=(10, 70_000))
    again = open_pairs(tmp_path / "kept")
    assert lists(stored) == lists(again) == pairs
    assert is_mapped(again.source.offsets)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_numbers_are_as_wide_as_the_vocabulary_needs():
    encoded = collect([([65_535], [65_536])], sizes=(65_536, 65_537))
    assert (encoded.source.numbers.dtype, encoded.target.numbers.dtype) == (torch.uint16, torch.uint32)
    assert lists(encoded) == [([65_535], [65_536])]


def test_pairs_are_written_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.data.encoded.PART", 8)
    pairs = [([n + 4] * (n % 5), [n + 5] * (n % 3)) for n in range(50)]
    assert lists(store(tmp_path / "kept", pairs, sizes=(99, 99))) == pairs


def test_a_failure_while_writing_leaves_nothing_behind(tmp_path):
    def failing():
        yield [4], [5]
        raise DataError("line 2 is bad.")

    with pytest.raises(DataError, match="line 2 is bad"):
        store(tmp_path / "kept", failing(), sizes=(9, 9))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told(tmp_path):
    def full():
        yield [4], [5]
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(
        DataError, match=r"kept: no space left on device; expected room .*REGARD_CACHE names another folder"
    ):
        store(tmp_path / "kept", full(), sizes=(9, 9))


def test_a_folder_that_is_not_whole_is_refused(tmp_path):
    store(tmp_path / "kept", [([4], [5]), ([6], [7])], sizes=(9, 9))
    offsets = tmp_path / "kept" / "target.offsets"
    offsets.write_bytes(offsets.read_bytes()[:-8])
    with pytest.raises(DataError, match="kept: no complete encoded corpus of format 1; delete the folder"):
        open_pairs(tmp_path / "kept")
    (tmp_path / "kept" / "pairs.json").unlink()
    with pytest.raises(DataError, match=r"kept: no encoded corpus of format 1 .*; delete the folder"):
        open_pairs(tmp_path / "kept")


def test_whoever_comes_second_takes_what_is_there(tmp_path):
    store(tmp_path / "kept", [([4], [5])], sizes=(9, 9))
    assert lists(store(tmp_path / "kept", [([4], [5])], sizes=(9, 9))) == [([4], [5])]
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_two_containers_with_one_process_number_store_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(
        os, "getpid", lambda: 7
    )  # in a container of its own, every main process has one number
    pairs = [([4], [5]), ([6], [7])]

    def interrupted():
        yield pairs[0]
        assert lists(store(tmp_path / "kept", pairs, sizes=(9, 9))) == pairs  # the other is first
        yield pairs[1]

    assert lists(store(tmp_path / "kept", interrupted(), sizes=(9, 9))) == pairs
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_what_killed_processes_left_goes_after_a_day_and_what_is_being_written_stays(tmp_path):
    for name, hours in (("left", 25), ("slow", 25), ("now", 0)):
        folder = tmp_path / f".{name}.4711"
        folder.mkdir()
        (folder / "source.numbers").write_bytes(b"4")
        past = time.time() - 3600 * hours
        os.utime(folder / "source.numbers", (past, past) if name == "left" else None)
        os.utime(folder, (past, past))
    store(tmp_path / "kept", [([4], [5])], sizes=(9, 9))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".now.4711", ".slow.4711", "kept"]
