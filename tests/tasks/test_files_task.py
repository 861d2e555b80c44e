import gzip

import pytest
from encoded_lists import lists

from regard.errors import ConfigError, DataError
from regard.tasks.files import FilesSettings, FilesTask


def write(folder, name, lines):
    text = "".join(f"{line}\n" for line in lines)
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(path)


@pytest.fixture
def files(tmp_path):
    english = [f"The cat sees {n} dogs." for n in range(120)]
    french = [f"Le chat voit {n} chiens." for n in range(120)]
    return {"source": write(tmp_path, "a.en", english), "target": write(tmp_path, "a.fr.gz", french)}


def test_pairs_come_from_plain_and_packed_files(files):
    task = FilesTask.create(FilesSettings(**files, size=300))
    assert task.examples("train")[0].source == "The cat sees 0 dogs."
    assert task.examples("train")[0].target == "Le chat voit 0 chiens."
    assert task.target.decode(lists(task.encoded("train"))[3][1]) == "Le chat voit 3 chiens."


def test_one_pair_in_fifty_is_held_out_where_no_validation_files_are_given(files):
    task = FilesTask.create(FilesSettings(**files, pieces="words"))
    held_out = {example.source for example in task.examples("valid")}
    assert held_out == {"The cat sees 49 dogs.", "The cat sees 99 dogs."}
    assert not held_out & {example.source for example in task.examples("train")}


def test_validation_and_test_files_are_taken_where_given(files, tmp_path):
    own = {
        "valid_source": write(tmp_path, "v.en", ["One."]),
        "valid_target": write(tmp_path, "v.fr", ["Un."]),
    }
    task = FilesTask.create(FilesSettings(**files, **own, pieces="words"))
    assert len(task.examples("train")) == 120
    assert [example.source for example in task.examples("test")] == ["One."]


def test_pairs_with_an_empty_side_are_left_out_and_counted(tmp_path, caplog):
    source, target = (
        write(tmp_path, "e.en", ["One.", "", "Two."]),
        write(tmp_path, "e.fr", ["Un.", "Rien.", ""]),
    )
    task = FilesTask.create(FilesSettings(source=source, target=target, pieces="characters"))
    assert [example.source for example in task.examples("train")] == ["One."]
    assert "e.en: 2 of 3 pairs have an empty side and are left out." in caplog.text


def test_pairs_that_are_too_long_are_left_out_and_counted_once(tmp_path, caplog):
    source = write(tmp_path, "l.en", ["One.", "One two three four.", "Two."])
    target = write(tmp_path, "l.fr", ["Un.", "Un deux.", "Deux."])
    settings = FilesSettings(
        source=source, target=target, valid_source=source, valid_target=target, pieces="words", longest=3
    )
    task = FilesTask.create(settings)
    assert [len(task.encoded(split)) for split in ("train", "valid", "test")] == [2, 2, 3]
    for split, name in (("train", "training"), ("valid", "validation")):
        assert [example.source for example in task.examples(split)] == ["One.", "Two."]
        said = f"1 of 3 {name} pairs have a side of more than 3 pieces and are left out (task.longest)."
        assert caplog.text.count(said) == 1
    assert "test pairs" not in caplog.text  # what is measured is never made easier


def test_a_line_of_100_000_characters_that_is_held_out_does_not_reach_the_model(tmp_path):
    lines = [f"Line {n}." for n in range(49)]
    source = write(tmp_path, "h.en", [*lines, "word " * 20_000])
    task = FilesTask.create(FilesSettings(source=source, target=source, pieces="words"))
    assert len(task.encoded("valid")) == 0
    assert list(task.evaluation_plan("valid", batch=100)) == []


def test_a_corpus_of_which_nothing_is_short_enough_is_refused_with_the_setting(files):
    task = FilesTask.create(FilesSettings(**files, pieces="words", longest=2))
    with pytest.raises(
        DataError, match=r"task: `longest` has 2, and each of the 118 training pairs .*Set task\.longest"
    ):
        task.encoded("train")


def test_pairs_are_counted_once_in_every_file_that_is_given(files, tmp_path, caplog):
    own = {
        "valid_source": write(tmp_path, "v.en", ["One.", ""]),
        "valid_target": write(tmp_path, "v.fr", ["Un.", "Rien."]),
    }
    files["source"] = write(tmp_path, "half.en", ["The cat."] * 119 + [""])
    task = FilesTask.create(FilesSettings(**files, **own, pieces="words"))
    assert len(task.encoded("train")) == 119
    assert caplog.text.count("half.en: 1 of 120 pairs have an empty side and are left out.") == 1
    assert caplog.text.count("v.en: 1 of 2 pairs have an empty side and are left out.") == 1


def test_a_task_is_restored_without_reading_the_files(files, tmp_path):
    task = FilesTask.create(FilesSettings(**files, size=300))
    task.save(tmp_path)
    again = FilesTask.restore(FilesSettings(source="gone.en", target="gone.fr"), tmp_path)
    assert again.sizes() == task.sizes()


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (b"One.\nTwo.\n", b"Un.\n", "has 2 lines and .* has 1; expected as many"),
        (b"", b"", "no line has text on both sides; expected sentence pairs"),
        (b"One.\n\xff\n", b"Un.\nDeux.\n", "line 2 has a byte 0xff that is not UTF-8; expected UTF-8 text"),
        (b"\xef\xbb\xbfOne\xe9.\n", b"Un.\n", "line 1 has a byte 0xe9 that is not UTF-8"),
    ],
)
def test_bad_files_are_named(tmp_path, source, target, message):
    (tmp_path / "b.en").write_bytes(source)
    (tmp_path / "b.fr").write_bytes(target)
    settings = FilesSettings(source=str(tmp_path / "b.en"), target=str(tmp_path / "b.fr"), pieces="words")
    with pytest.raises(DataError, match=message):
        FilesTask.create(settings)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"gone\.en: no such file or directory\."):
        FilesTask.create(FilesSettings(source=str(tmp_path / "gone.en"), target=str(tmp_path / "gone.fr")))


def test_a_broken_gzip_file_is_named(tmp_path):
    (tmp_path / "b.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match=r"b\.gz: not a complete gzip file"):
        FilesTask.create(FilesSettings(source=str(tmp_path / "b.gz"), target=str(tmp_path / "b.gz")))


def test_half_a_pair_of_files_is_refused(files):
    with pytest.raises(
        ConfigError, match=r"`task\.valid_source` is given and `task\.valid_target` is not; expected both"
    ):
        FilesTask.create(FilesSettings(**files, valid_source="v.en"))


def test_no_files_are_an_error():
    with pytest.raises(ConfigError, match=r"files: `task\.source` and `task\.target` are not given"):
        FilesTask.create(FilesSettings())
