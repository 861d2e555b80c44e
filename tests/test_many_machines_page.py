"""The page "More than one machine": its commands run as printed, on a few lines, and do what it says."""

import gzip
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli import common
from regard.cli.main import main
from regard.translate import plan

PAGE = (Path(__file__).parents[1] / "docs" / "how-to" / "many-machines.md").read_text(encoding="utf-8")
LINES = re.findall(
    r"(regard translate [^\n\"]+)", "\n".join(re.findall(r"```(?:sh|yaml)\n(.*?)```", PAGE, re.DOTALL))
)
MODEL = "demo-rnnsearch"  # a smaller one, and one process: the page says nothing of its own about others
SENTENCES = ["The cat sleeps.", "She is eating an apple.", "", "They live in a big house."]


@pytest.fixture(autouse=True)
def corpus(tmp_path, monkeypatch):
    """Chunks of two lines, so that there are several."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "FEWEST", 2)
    Path("corpus").mkdir()
    text = "".join(f"{sentence}\n" for sentence in SENTENCES)
    Path("corpus.en").write_text(text)
    Path("corpus/a.txt").write_text(text)
    Path("corpus/b.txt.gz").write_bytes(gzip.compress(text.encode()))


def call(monkeypatch, capsys, line):
    """Run a line of the page in this process, with what its shell would do; its status and its output."""
    words = shlex.split(line.replace("--processes 2", "--processes 1").replace(" en-fr ", f" {MODEL} "))
    redirected = {}
    for sign in ("<", ">"):
        if sign in words:
            at = words.index(sign)
            redirected[sign] = words[at + 1]
            del words[at : at + 2]
    if "<" in redirected:
        data = Path(redirected["<"]).read_bytes()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    monkeypatch.setattr(sys, "argv", words)
    for console in (common.output, common.messages):
        monkeypatch.setattr(console, "_file", None)
    status = 0
    try:
        main()
    except SystemExit as stop:
        status = stop.code or 0
    said = capsys.readouterr().out
    if ">" in redirected:
        Path(redirected[">"]).write_text(said)
    return status


def shards(line):
    """A line of an array or a loop as each of its processes runs it."""
    found = re.search(r"\$\w+/(\d+)", line)
    if found is None:
        return [line]
    return [line.replace(found[0], f"{number}/{found[1]}") for number in range(int(found[1]))]


def test_there_is_an_example_for_each_kind_of_cluster():
    variables = ("$SLURM_ARRAY_TASK_ID/64", "$JOB_COMPLETION_INDEX/64", "$number/4")
    assert all(any(variable in line for line in LINES) for variable in variables)
    assert len(LINES) == 8


def test_a_stream_and_files_become_the_same_and_verify(monkeypatch, capsys):
    for line in LINES[:4]:
        assert call(monkeypatch, capsys, line) == 0, line
    stream = Path("corpus.fr").read_text()
    assert stream.count("\n") == len(SENTENCES)
    assert Path("translated/a.txt").read_text() == stream
    assert gzip.decompress(Path("translated/b.txt.gz").read_bytes()).decode() == stream


@pytest.mark.parametrize("line", [line for line in LINES if "$" in line])
def test_the_shards_of_an_example_make_the_whole(monkeypatch, capsys, line):
    calls = shards(line)
    # the chunks are few here: the shards behind them have nothing to do, and two of these stand for all
    for each in (*calls[:4], *calls[4:][-2:]):
        assert call(monkeypatch, capsys, each) == 0, each
    assert call(monkeypatch, capsys, LINES[-1]) == 0


def blocks(kind, word):
    """The one block of the page in this language that has this word."""
    [found] = [block for block in re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) if word in block]
    return found.replace(" en-fr ", f" {MODEL} ")


@pytest.fixture
def shell(tmp_path):
    """Runs a script as a cluster's node would: `regard` is a command, and `ssh HOST WORDS` runs here."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, line in {
        "regard": f'exec {sys.executable} -m regard "$@"',
        "ssh": 'shift; exec sh -c "$*"',
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)

    def run(words, stdin="", **variables):
        given = {"PATH": f"{programs}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1", **variables}
        done = subprocess.run(
            words, env=os.environ | given, input=stdin, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def complete(shell):
    """Holds at the end: both files are there, and whole."""
    yield
    shell(["regard", "translate", "--verify", "translated"])
    whole = shell(["regard", "translate", MODEL, "-"], Path("corpus/a.txt").read_text())
    assert Path("translated/a.txt").read_text() == whole
    assert gzip.decompress(Path("translated/b.txt.gz").read_bytes()).decode() == whole


NUMBERS = ("63", "1", "0")  # of two chunks, which shards 0 and 1 have; the others find nothing to do


@pytest.mark.many
@pytest.mark.usefixtures("complete")
def test_the_script_of_a_slurm_array_runs(shell):
    Path("array.sh").write_text(blocks("sh", "SLURM_ARRAY_TASK_ID"))
    for number in NUMBERS:
        shell(["sh", "array.sh"], SLURM_ARRAY_TASK_ID=number)


@pytest.mark.many
@pytest.mark.usefixtures("complete")
def test_the_container_of_a_kubernetes_job_runs(shell):
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load(blocks("yaml", "kind: Job"))
    assert (job["apiVersion"], job["spec"]["completionMode"]) == ("batch/v1", "Indexed")
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert f"/{job['spec']['completions']}" in container["args"][0]
    for number in NUMBERS:
        shell([*container["command"], *container["args"]], JOB_COMPLETION_INDEX=number)


@pytest.mark.many
@pytest.mark.usefixtures("complete")
def test_the_loop_over_ssh_runs(shell, tmp_path):
    Path("loop.sh").write_text(blocks("sh", "ssh $host").replace("/shared", str(tmp_path)))
    shell(["sh", "loop.sh"])


def test_the_sizes_of_the_page_are_those_of_the_code():
    from regard.translate import windows

    assert f"Up to {windows.LARGEST:,} lines form a window" in PAGE
    assert f"for {1000 * windows.PATIENCE:.0f} ms" in PAGE


def test_the_range_of_chunks_is_that_of_the_code(monkeypatch):
    monkeypatch.undo()
    assert f"of {plan.FEWEST} to {plan.MOST:,} lines each" in PAGE
