"""Files in chunks: whatever is killed, damaged or changed, each line is there once, or it is said."""

import gzip
import json
import os
import shutil
import signal
import warnings
from random import Random

import pytest
from copying import Copying

from regard import storage
from regard.errors import ConfigError, DataError
from regard.shipped.find import find_run
from regard.translate import plan, workers
from regard.translate.answers import Options
from regard.translate.files import Shard, agree, translate_files
from regard.translate.verify import verify

OPTIONS = Options(find_run("demo-rnnsearch"))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Chunks of four lines, windows of three, and no model."""
    monkeypatch.setattr(plan, "FEWEST", 4)
    monkeypatch.setattr("regard.translate.windows.LARGEST", 3)
    monkeypatch.setattr(workers, "LineTranslator", Copying)


@pytest.fixture
def texts(tmp_path):
    """Three files: plain, gzip, empty; ten lines, five and none."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text("".join(f"line {number}\n" for number in range(10)))
    (folder / "b.txt.gz").write_bytes(gzip.compress(b"one\n\nthree\nfour\nfive\n"))
    (folder / "c.txt").write_text("")
    return [folder / name for name in ("a.txt", "b.txt.gz", "c.txt")]


def run(texts, out, options=OPTIONS, **more):
    return translate_files(options, texts, out, agree(options, texts, out), **more)


def contents(out):
    return {
        "a.txt": (out / "a.txt").read_text(),
        "b.txt.gz": gzip.decompress((out / "b.txt.gz").read_bytes()).decode(),
        "c.txt": (out / "c.txt").read_text(),
    }


WHOLE = {
    "a.txt": "".join(f"LINE {number}\n" for number in range(10)),
    "b.txt.gz": "ONE\n\nTHREE\nFOUR\nFIVE\n",
    "c.txt": "",
}


def test_every_file_has_its_translation_under_its_name(texts, tmp_path):
    done = run(texts, tmp_path / "out")
    assert (done.chunks, done.joined) == (3 + 2 + 1, 3)
    assert contents(tmp_path / "out") == WHOLE
    found = verify(tmp_path / "out")
    assert (found.whole, found.plan.chunks, found.faults) == (6, 6, [])


def test_a_second_time_does_nothing_and_needs_no_model(texts, tmp_path, monkeypatch):
    run(texts, tmp_path / "out")
    monkeypatch.setattr(workers, "LineTranslator", None)
    assert run(texts, tmp_path / "out").chunks == 0


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_shards_in_any_order_make_the_whole(texts, tmp_path, order):
    out = tmp_path / "out"
    joined = [run(texts, out, shard=Shard(number, 4)).joined for number in order]
    assert joined[-1] == 3
    assert contents(out) == WHOLE
    assert verify(out).faults == []


def test_what_one_number_of_shards_left_another_finishes(texts, tmp_path):
    out = tmp_path / "out"
    assert run(texts, out, shard=Shard(1, 3)).chunks == 2
    assert run(texts, out, shard=Shard(0, 2)).chunks == 3 - 1
    assert run(texts, out).chunks == 6 - 4
    assert contents(out) == WHOLE


def test_folders_of_machines_that_share_no_disk_can_be_copied_together(texts, tmp_path):
    for number in range(2):
        run(texts, tmp_path / str(number), shard=Shard(number, 2))
    shutil.copytree(tmp_path / "1", tmp_path / "0", dirs_exist_ok=True)
    assert run(texts, tmp_path / "0").chunks == 0
    assert contents(tmp_path / "0") == WHOLE


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda out: (out / "chunks/a.txt/000001").write_text("LINE X\n" * 4), "chunk 1 is damaged"),
        (lambda out: (out / "chunks/a.txt/000001").unlink(), "chunk 1 is missing"),
        (lambda out: (out / "chunks/a.txt/000001.json").unlink(), "chunk 1 is without an entry"),
        (lambda out: (out / "chunks/a.txt/000001.json").write_text("{"), "chunk 1 is without an entry"),
        (lambda out: (out / "a.txt").unlink(), "the joined file is missing"),
        (lambda out: (out / "a.txt").write_text("x"), "the joined file is not made of these chunks"),
        (
            lambda out: (out / "a.txt").write_text(WHOLE["a.txt"] + "x"),
            "the joined file has more than its chunks",
        ),
    ],
)
def test_damage_is_found_and_mended_by_the_same_command(texts, tmp_path, damage, fault):
    out = tmp_path / "out"
    run(texts, out)
    damage(out)
    [said] = verify(out).faults
    assert said.startswith(f"a.txt: {fault}")
    assert run(texts, out).chunks == ("chunk 1" in fault)
    assert contents(out) == WHOLE
    assert verify(out).faults == []


def test_an_entry_with_a_wrong_count_is_found(texts, tmp_path):
    out = tmp_path / "out"
    run(texts, out)
    path = out / "chunks/b.txt.gz/000000.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"output_lines": 5}))
    assert verify(out).faults == ["b.txt.gz: chunk 0 is of another number of lines (lines 1 to 4)"]


def test_neighbours_that_are_missing_are_named_together(texts, tmp_path):
    out = tmp_path / "out"
    run(texts, out, shard=Shard(3, 6))
    assert verify(out).faults == [
        "a.txt: chunks 0 to 2 are missing (lines 1 to 10)",
        "b.txt.gz: chunk 1 is missing (lines 5 to 5)",
        "c.txt: chunk 0 is missing (lines 1 to 0)",
    ]


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda texts: texts[0].write_text("line 0\n"), "a.txt has changed since its translation was begun"),
        (
            lambda texts: texts.pop(),
            "was begun with the files a.txt, b.txt.gz, c.txt, and now they are a.txt, ",
        ),
    ],
)
def test_other_input_is_refused(texts, tmp_path, change, difference):
    out = tmp_path / "out"
    run(texts, out)
    change(texts)
    with pytest.raises(DataError) as refused:
        run(texts, out)
    assert str(refused.value).startswith(f"{out}: {difference}")
    assert str(refused.value).endswith("; expected the same as before, or another --out.")


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        (Options(OPTIONS.folder, beam=3), "was begun with beam 1, and now it is 3"),
        (Options(OPTIONS.folder, align=True), "was begun with align False, and now it is True"),
        (Options(OPTIONS.folder, unknown="keep"), "was begun with unknown copy, and now it is keep"),
        (Options(find_run("en-fr-rnnsearch"), beam=1), "was begun with another model"),
    ],
)
def test_other_options_and_models_are_refused(texts, tmp_path, options, difference):
    run(texts, tmp_path / "out")
    with pytest.raises(DataError, match=difference):
        run(texts, tmp_path / "out", options)


def test_a_chunk_of_another_model_does_not_count(texts, tmp_path):
    """Two commands that began at the same moment with other models."""
    out = tmp_path / "out"
    run(texts, out)
    path = out / "chunks/a.txt/000000.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model": "another"}))
    assert verify(out).faults == ["a.txt: chunk 0 is without an entry of this plan (lines 1 to 4)"]
    assert run(texts, out).chunks == 1


def killed_at(write, texts, out, shard, monkeypatch):
    """Translate in a child that kills itself at its nth write to the disk; whether it came so far."""
    left, sync = [write], storage.sync

    def kill(file):
        left[0] -= 1
        if left[0] == 0:
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        sync(file)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of threads, which pytest-xdist has
        child = os.fork()
    if not child:
        try:
            monkeypatch.setattr(storage, "sync", kill)
            run(texts, out, shard=shard)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a child is needed that starts at once")
def test_killed_at_any_write_no_line_is_lost_or_doubled(texts, tmp_path, monkeypatch):
    """SIGKILL at one of the first four writes of what is left, again and again; two shards in turn."""
    chance, kills = Random(1), 0
    for attempt in range(2):
        out = tmp_path / str(attempt)
        for write in range(12):
            killed = killed_at(chance.randint(1, 4), texts, out, Shard(write % 2, 2), monkeypatch)
            kills += killed
            if killed and (out / plan.FILE).exists():
                assert not any("damaged" in fault for fault in verify(out).faults)
        assert run(texts, out).joined == 3
        assert contents(out) == WHOLE
        assert verify(out).faults == []
    assert kills > 5


def test_what_killed_processes_left_is_removed_after_a_day(texts, tmp_path):
    out = tmp_path / "out"
    (out / "chunks" / "a.txt").mkdir(parents=True)
    old, new = (out / "chunks" / "a.txt" / f".000000.{name}" for name in ("old", "new"))
    for path in (old, new):
        path.write_text("half of a chunk")
    os.utime(old, (0, 0))
    run(texts, out)
    assert (old.exists(), new.exists()) == (False, True)


def test_lines_that_are_left_empty_are_named_and_counted(tmp_path):
    (tmp_path / "a.txt").write_text("one\n" * 5 + "long\n")
    said = []
    done = run([tmp_path / "a.txt"], tmp_path / "out", complain=said.append)
    assert (done.left_empty, said) == (1, ["a.txt, line 6: is too long. It is left empty."])
    assert verify(tmp_path / "out").left_empty == 1


def test_an_input_is_never_overwritten(texts):
    with pytest.raises(ConfigError, match=r"`--out` has .*, which contains a\.txt itself; expected another"):
        run(texts, texts[0].parent)


def test_two_files_of_one_name_are_refused(texts, tmp_path):
    (tmp_path / "a.txt").write_text("another\n")
    with pytest.raises(ConfigError, match=r"two files are called a\.txt; expected names that differ"):
        run([*texts, tmp_path / "a.txt"], tmp_path / "out")


@pytest.mark.parametrize("text", ["", "3", "x/4", "-1/4", "4/4", "0/0", "1/4/2"])
def test_a_shard_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="`--shard` has"):
        Shard.parse(text)


def test_the_shards_divide_the_lines(texts, tmp_path):
    found = agree(OPTIONS, texts, tmp_path / "out")
    assert [Shard(number, 4).lines(found) for number in range(4)] == [4 + 1, 4 + 0, 2, 4]


def test_the_chunks_of_much_text_are_larger():
    sizes = [plan.make_plan("", {}, (plan.Input("a", "", lines),)) for lines in (10**6, 10**9)]
    assert [(found.chunk, found.chunks) for found in sizes] == [(1000, 1000), (100_000, 10_000)]
