"""What makes two translators the same: the files that a translation depends on, and no others."""

import shutil

import pytest

from regard.export.base import is_export
from regard.shipped.find import find_run
from regard.translate.answers import LineTranslator, Options
from regard.translate.opening import model_digest, open_any, read_decoding


@pytest.fixture
def folder(tmp_path):
    """A copy that may be changed: without the digests that would notice it."""
    copy = shutil.copytree(find_run("demo-rnnsearch"), tmp_path / "copy")
    (copy / "digests.json").unlink()
    return copy


@pytest.mark.parametrize("name", ["config.toml", "source.tokenizer.json", "model.safetensors"])
def test_a_change_of_what_is_read_changes_the_digest(folder, name):
    before = model_digest(folder)
    with (folder / name).open("ab") as file:
        file.write(b"\n")
    assert model_digest(folder) != before


def test_other_files_and_the_place_of_the_folder_do_not(folder):
    (folder / "README.md").write_text("another card")
    assert model_digest(folder) == model_digest(find_run("demo-rnnsearch"))


def test_an_export_is_known_by_its_files(tmp_path):
    (tmp_path / "export.json").write_text("{}")
    assert is_export(tmp_path)
    before = model_digest(tmp_path)
    (tmp_path / "model.bin").write_bytes(b"weights")
    assert model_digest(tmp_path) != before


def test_the_search_is_known_without_the_weights(folder):
    _, decoding = open_any(folder, align=False)
    (folder / "model.safetensors").unlink()
    assert read_decoding(folder) == decoding


def test_a_dictionary_counts_by_its_content(folder, tmp_path):
    words = tmp_path / "words.tsv"
    found = []
    for text in ("zebra\tzèbre\n", "zebra\tcheval\n", "zebra\tzèbre\n"):
        words.write_text(text)
        found.append(Options(folder, unknown=str(words)).settings()["unknown"])
    assert found[0] == found[2] != found[1]
    assert Options(folder).settings()["unknown"] == "copy"


def test_the_answers_of_no_lines_are_none(folder):
    assert LineTranslator(Options(folder))([]) == []
