"""regard translate on streams and files: what a shell sees of it."""

import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="it looks for processes there")
def test_a_stream_in_two_processes_is_answered_while_it_is_open_survives_a_kill_and_ends_quietly(run):
    """Real processes: a slow pipe, SIGKILL for a worker, and a reader that has seen enough."""
    words = [sys.executable, "-m", "regard", "translate", str(run), "-", "--processes", "2"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, bufsize=0, **pipes) as process:
        process.stdin.write(b"a b c\n")
        first = process.stdout.readline()  # the pipe is open, the window is not full
        assert first.strip()
        [worker] = children(process.pid)
        os.kill(worker, signal.SIGKILL)
        for _ in range(2):  # the other worker, then the one in place of the killed
            process.stdin.write(b"\na b c\n")
            assert [process.stdout.readline() for _ in range(2)] == [b"\n", first]
        assert len(set(children(process.pid)) - {worker}) == 2
        process.stdout.close()
        process.stdin.write(b"a b c\n")
        assert (process.wait(), process.stderr.read()) == (0, b"")
    assert children(process.pid) == []


def children(pid):
    """The processes that a process has started, as /proc lists them."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if (
                folder.name.isdigit()
                and int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == pid
            ):
                found.append(int(folder.name))
        except OSError:  # it has ended
            continue
    return found


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("a b c\n\nd e f g\n")
    Path("b.txt.gz").write_bytes(gzip.compress(b"c b a\n"))
    return ["a.txt", "b.txt.gz", "--out", "out"]


def test_files_become_what_a_stream_of_them_becomes(command, run, text):
    outcome = command("translate", run, *text)
    assert (outcome.status, outcome.out) == (0, "")
    assert outcome.err == "out: chunks translated: 2; files complete: 2 of 2.\n"
    assert Path("out/a.txt").read_text() == command("translate", run, "-", stdin=b"a b c\n\nd e f g\n").out
    assert (
        gzip.decompress(Path("out/b.txt.gz").read_bytes()).decode() == command("translate", run, "c b a").out
    )
    again = command("translate", run, *text)
    assert again.err == "out: chunks translated: 0; files complete: 2 of 2.\n"


@pytest.mark.parametrize("options", [["--align"], ["--json"], ["--nbest", "2", "--beam", "2"]])
def test_files_take_the_options_of_a_stream(command, run, text, options):
    assert command("translate", run, *text, *options).status == 0
    stream = command("translate", run, "-", *options, stdin=b"a b c\n\nd e f g\n")
    assert Path("out/a.txt").read_text() == stream.out
    assert command("translate", "--verify", "out").status == 0


def test_shards_and_verify_say_what_is_there(command, run, text):
    assert command("translate", run, *text, "--shard", "1/2").err == (
        "out: chunks translated: 1; files complete: 1 of 2.\n"
    )
    half = command("translate", "--verify", "out")
    assert (half.status, half.out) == (
        2,
        "out: 2 files, 4 lines; 1 of 2 chunks are right.\na.txt: chunk 0 is missing (lines 1 to 3)\n",
    )
    assert half.err == ("regard: out: is not complete; run the same `regard translate … --out out` again.\n")
    command("translate", run, *text, "--shard", "0/2")
    whole = command("translate", "--verify", "out")
    assert (whole.status, whole.out) == (0, "out: 2 files, 4 lines; complete.\n")


def test_a_line_that_cannot_be_translated_is_named_with_its_file(command, run, text):
    Path("a.txt").write_text("a b c\n" + "a " * 50_000 + "\n")
    outcome = command("translate", run, *text)
    assert outcome.status == 2
    assert outcome.err.startswith("regard: a.txt, line 2: has 50,000 pieces, ")
    assert command("translate", run, *text).status == 0  # there is nothing left to do
    assert "left empty because they could not be translated: 1" in command("translate", "--verify", "out").out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["{run}", "a b", "c d"],
            "translate: 2 texts are given; expected one, in quotes, or files and --out",
        ),
        (["{run}", "--out", "out"], "translate: `--out` is given without files; expected their names before"),
        (["{run}", "-", "--out", "out"], "translate: `--out` is given without files"),
        (["{run}", "nowhere.txt", "--out", "out"], "nowhere.txt: no such file or directory."),
        (["{run}", "a.txt", "--shard", "0/2"], "translate: `--shard` is given without --out; expected both."),
        (["{run}", "a.txt", "--out", "out", "--shard", "2/2"], "`--shard` has 2/2; expected 0/2 to 1/2."),
        (["{run}", "a.txt", "--out", "a.txt"], "a.txt: "),
        (
            ["--verify", "nowhere"],
            "nowhere: has no plan.json; expected a folder that `regard translate … --out`",
        ),
        (["{run}", "--verify", "out"], "expected the folder alone."),
        ([], "translate: no RUN is given; expected a run folder or a model of `regard models`."),
    ],
)
def test_bad_words_are_one_sentence(command, run, text, words, sentence):
    outcome = command("translate", *(word.format(run=run) for word in words))
    assert (outcome.status, outcome.out) == (2, "")
    assert sentence in outcome.err
    assert outcome.err.startswith("regard: ")
    assert outcome.err.count("\n") == 1


def test_a_damaged_plan_is_named(command, run, text):
    command("translate", run, *text)
    Path("out/plan.json").write_text("[]")
    outcome = command("translate", "--verify", "out")
    assert (outcome.status, outcome.err) == (
        2,
        "regard: out/plan.json: cannot be read as a plan; expected what regard wrote.\n",
    )
