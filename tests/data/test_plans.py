"""Plans in files: those of memory, made once, mapped by all."""

import os
import time

import pytest

from regard.data import batches, plans, prepared
from regard.errors import DataError
from regard.tasks.files import FilesSettings, FilesTask


@pytest.fixture
def make(tmp_path, monkeypatch):
    """A task on a text that counts as large, or not."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("REGARD_PROCESSES", "1")
    for side in "ab":
        lines = [f"{side} {n * n}" + f" the {side}" * (n % 7) for n in range(300)]
        (tmp_path / f"text.{side}").write_text("".join(f"{line}\n" for line in lines))
    files = {"source": str(tmp_path / "text.a"), "target": str(tmp_path / "text.b"), "size": 290}

    def task(*, large, **settings):
        monkeypatch.setattr(prepared, "LARGE", 0 if large else 1 << 30)
        made = FilesTask.create(FilesSettings(**files, **settings))
        assert made.is_large == large
        return made

    return task


@pytest.mark.parametrize(
    "settings",
    [{}, {"joint": True, "reversed_epochs": 1}, {"joint": True, "bpe_dropout": 0.2, "reversed_epochs": 1}],
)
def test_a_mapped_plan_is_that_of_memory(make, monkeypatch, is_mapped, settings):
    small, large = make(large=False, **settings), make(large=True, **settings)
    for epoch in (0, 1):
        expected = small.plan(epoch, seed=1, batch=200)
        found = large.plan(epoch, seed=1, batch=200)
        assert found == expected
        assert is_mapped(found.rows)
        assert is_mapped(found.starts)
        for rows in found[:3]:
            assert (large.batch("train", rows).source == small.batch("train", rows).source).all()
    monkeypatch.setattr(batches, "_cut", None)
    assert large.plan(1, seed=1, batch=200) == expected  # found, and not made again


def test_plans_of_other_seeds_and_batches_are_others(make):
    task = make(large=True)
    assert task.plan(0, seed=1, batch=200) != task.plan(0, seed=2, batch=200)
    assert task.plan(0, seed=1, batch=200) != task.plan(0, seed=1, batch=400)


def test_a_plan_that_nobody_opened_for_a_week_goes_when_another_is_made(make, tmp_path):
    task = make(large=True)
    for epoch in range(2):
        task.plan(epoch, seed=1, batch=200)
    [folder] = (tmp_path / "cache" / "encoded").glob("*.plans")
    past = time.time() - plans.KEPT - 60
    for epoch in range(2):
        os.utime(folder / f"epoch{epoch}-seed1-batch200", (past, past))
    task.plan(1, seed=1, batch=200)
    task.plan(2, seed=1, batch=200)
    assert sorted(path.name for path in folder.iterdir()) == [f"epoch{n}-seed1-batch200" for n in (1, 2)]


def test_a_plan_is_made_in_memory_where_the_cache_cannot_be_written(make, monkeypatch, is_mapped, caplog):
    task = make(large=True)
    expected = make(large=False).plan(0, seed=1, batch=200)
    task.encoded("train")

    def read_only(folder, make):
        raise DataError(f"{folder}: read-only file system.")

    monkeypatch.setattr(plans, "made_once", read_only)
    found = task.plan(0, seed=1, batch=200)
    assert found == expected
    assert not is_mapped(found.rows)
    assert "the batches are planned in memory: " in caplog.text


def test_a_plan_that_is_not_whole_is_named(make, tmp_path):
    task = make(large=True)
    task.plan(0, seed=1, batch=200)
    [folder] = (tmp_path / "cache" / "encoded").glob("*.plans/*")
    (folder / "starts.npy").write_bytes(b"no array")
    with pytest.raises(DataError, match=r"epoch0-seed1-batch200: no plan \(.*\); delete the folder\."):
        task.plan(0, seed=1, batch=200)
