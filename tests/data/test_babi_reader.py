"""bAbI from an archive, a packed archive and a folder, as distributed."""

import io
import tarfile
from random import Random

import pytest

from regard.data.babi import NAMES, PACKED, parse, read_babi, read_files
from regard.errors import DataError

STORY = b"""1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 Daniel went back to the hallway.
5 Where is Daniel? \thallway\t4
1 Sandra took the milk, and left.
2 What is Sandra carrying?\tmilk,apple\t1
"""
FILES = {
    "en/qa1_single-supporting-fact_train.txt": STORY,
    "en/qa1_single-supporting-fact_test.txt": STORY,
    "en-10k/qa2_two-supporting-facts_test.txt": STORY,
    "README.txt": b"nothing",
}


def write_archive(path, prefix, mode):
    with tarfile.open(path, mode) as archive:
        for name, text in FILES.items():
            member = tarfile.TarInfo(prefix + name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))


def test_a_line_is_a_sentence_or_a_question_with_answer_and_supports():
    first, second, third = parse(STORY, 1, "qa1")
    assert first.story == (
        ("mary", "moved", "to", "the", "bathroom"),
        ("john", "went", "to", "the", "hallway"),
    )
    assert (first.question, first.answer, first.supports) == (("where", "is", "mary"), "bathroom", (0,))
    assert len(second.story) == 3
    assert second.supports == (2,)  # line 4 is the third sentence: questions are not remembered
    assert third.story == (("sandra", "took", "the", "milk", "and", "left"),)
    assert third.answer == "milk,apple"
    assert (first.origin, second.origin, third.origin) == (0, 0, 1)


def test_the_archive_may_be_as_distributed_or_packed_or_extracted(tmp_path, monkeypatch):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    for number, (name, prefix, mode) in enumerate(
        ((PACKED[0], "", "w:xz"), (PACKED[1], "tasks_1-20_v1-2/", "w:gz"))
    ):
        folder = tmp_path / str(number) / "babi"
        folder.mkdir(parents=True)
        write_archive(folder / name, prefix, mode)
        assert len(read_babi("en", 1, "train", data=str(folder.parent))) == 3
        assert len(read_babi("en", 1, "train", data=str(folder))) == 3
        with tarfile.open(folder / name) as archive:
            archive.extractall(tmp_path / "extracted" / str(number), filter="data")
        extracted = tmp_path / "extracted" / str(number)
        monkeypatch.setenv("REGARD_DATA", str(extracted))
        assert set(read_files("en-10k")) == {(2, "test")}


def test_a_missing_file_is_named(tmp_path):
    write_archive(tmp_path / PACKED[0], "", "w:xz")
    with pytest.raises(
        DataError, match=r"^babi: the set 'en' has no train file of task 3; expected one of the tasks 1\.$"
    ):
        read_babi("en", 3, "train", data=str(tmp_path))


def test_without_data_the_error_names_the_public_home(tmp_path, monkeypatch):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    with pytest.raises(DataError) as error:
        read_babi("en", 1, "train")
    assert str(error.value) == (
        "babi: no data folder is given; expected `task.data` or the variable REGARD_DATA to name it. "
        "The data set is at https://research.facebook.com/downloads/babi/ (tasks_1-20_v1-2.tar.gz)."
    )
    with pytest.raises(DataError, match=r"^babi: no file en or babi_v1\.2\.tar\.xz or .* was found in "):
        read_babi("en", 1, "train", data=str(tmp_path))


def test_what_is_no_archive_and_what_is_no_line_is_told(tmp_path):
    (tmp_path / PACKED[0]).write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"cannot be read as an archive"):
        read_babi("en", 1, "train", data=str(tmp_path))
    with pytest.raises(
        DataError, match=r"^babi: qa1: line 2 is 'hello there'; expected a number and a sentence\.$"
    ):
        parse(b"1 Mary left.\nhello there\n", 1, "qa1")


def test_an_archive_that_is_damaged_in_the_middle_is_told(tmp_path, monkeypatch):
    # so much that the beginning, by which an archive is known, is whole
    monkeypatch.setitem(FILES, "long.txt", bytes(Random(0).choices(b"abcdefgh", k=1 << 18)))
    write_archive(tmp_path / PACKED[0], "", "w:xz")
    content = bytearray((tmp_path / PACKED[0]).read_bytes())
    content[len(content) // 2] ^= 0xFF
    (tmp_path / PACKED[0]).write_bytes(content)
    with pytest.raises(DataError, match=r"cannot be read as an archive \(Corrupt input data\)"):
        read_babi("en", 1, "train", data=str(tmp_path))


def test_there_are_twenty_names():
    assert len(NAMES) == 20
