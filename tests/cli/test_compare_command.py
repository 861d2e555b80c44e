"""regard compare from the command line: killed, interrupted, finished, recorded."""

import json
import signal
import subprocess
import sys
import time

import pytest
from forking import forks

from regard.compare.trial import measure, read_measured, read_training
from regard.train.run_folder import RunFolder

SMALL = {
    "task.train": 200,
    "task.valid": 8,
    "task.test": 8,
    "model.hidden": 16,
    "model.embedding": 8,
    "model.attention.hidden": 8,
    "model.readout": 8,
    "train.batch": 120,
    "train.log_every": 1,
    "train.evaluate_every": 75,
}
SETTINGS = [f"--set={key}={value}" for key, value in SMALL.items()]
BASE = ["rnnsearch-reverse", "--scores", "additive", "--steps", "150", *SETTINGS]


@pytest.fixture
def forked():
    with forks():
        yield


def start(out):
    words = [sys.executable, "-m", "regard", "compare", *BASE, "--out", str(out)]
    return subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_for(condition, process, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def lines(run):
    path = run / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def unlocked(run):
    """Whether the training's process has ended; on systems without such locks it is not known."""
    fcntl = pytest.importorskip("fcntl")
    with (run / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.usefixtures("forked")
def test_killed_interrupted_and_called_again_it_gives_the_numbers_of_one_go(command, tmp_path):
    from regard.compare.comparison import plan

    out = tmp_path / "out"
    run = out / "runs" / "additive-seed1"
    killed = start(out)
    wait_for(lambda: lines(run) > 2, killed)
    killed.kill()
    killed.communicate()
    deadline = time.monotonic() + 30
    while not unlocked(run):  # the training hears that its parent is gone, saves and ends
        assert time.monotonic() < deadline
        time.sleep(0.05)
    first = RunFolder(run).last_step()
    assert first is not None
    assert 0 < first < 150

    interrupted = start(out)
    wait_for(lambda: lines(run) > first + 2, interrupted)
    interrupted.send_signal(signal.SIGINT)
    _, err = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130
    assert err.strip().splitlines()[-1] == "regard: interrupted; run the same command to continue."
    assert "Traceback" not in err
    assert first < RunFolder(run).last_step() < 150
    assert read_measured(run) is None

    finished = command("compare", *BASE, "--out", out, "--json", "--record", tmp_path / "results")
    assert finished.status == 0
    [row] = json.loads(finished.out)["variants"]
    overrides = [f"{key}={value}" for key, value in SMALL.items()] + ["train.steps=150", "train.threads=1"]
    [variant] = plan("rnnsearch-reverse", scores=("additive",), overrides=overrides).variants
    whole = measure(variant.config, tmp_path / "whole")
    assert row["mean"] == whole.value
    assert row["measures"] == dict(whole.measures)
    assert row["valid_loss"] == read_training(tmp_path / "whole").valid_loss

    again = command("compare", *BASE, "--out", out, "--read")  # nothing is left to train
    assert again.out.splitlines()[0].startswith("variant\tBLEU\t")
    assert again.out.splitlines()[1].startswith(f"additive\t{dict(whole.measures)['BLEU']}\t")
    [recorded] = json.loads((tmp_path / "results" / "out.json").read_text())
    assert (recorded["metric"], recorded["seeds"]) == ("additive: BLEU", [1])

    words = ["--paper", "additive=26.75 another corpus", "--summary", "additive=BLEU = 1", "--commit", "abc"]
    added = command("results", tmp_path / "other", "--add", out, *words)
    assert added.status == 0
    [other] = json.loads((tmp_path / "other" / "out.json").read_text())
    assert other["details"]["summary"] == "BLEU = 1"
    assert added.out.split("\t")[:4] == ["out", "additive: BLEU", f"{round(whole.value, 4):g}", "26.75"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare"], "compare: TASK and --recipes have neither; expected one of the two."),
        (["compare", "rnnsearch-reverse", "--scores", "dott"], "unknown score 'dott'; did you mean 'dot'?"),
        (
            ["compare", "rnnsearch-reverse", "--seeds", "1,x"],
            "compare: --seeds has '1,x'; expected whole numbers, e.g. 1,2,3.",
        ),
        (
            ["compare", "rnnsearch-reverse", "--set", "model.hiden=3"],
            "--set: unknown key 'model.hiden'; did you mean 'model.hidden'?",
        ),
        (["results", ".", "--add", "nowhere"], "nowhere: not a comparison: table.json is missing."),
        (["results", ".", "--paper", "a=1"], "results: --paper is given without --add; expected both."),
        (["results", ".", "--median"], "results: --median is given without --add; expected both."),
        (
            ["compare", "rnnsearch-reverse", "--read", "--out", "nowhere"],
            "nowhere: not a comparison: the folder runs is missing.",
        ),
    ],
)
def test_bad_input_is_one_sentence(command, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = command(*words)
    assert outcome.status == 2
    assert message in outcome.err
    assert outcome.err.startswith("regard: ")
    assert not any(tmp_path.iterdir())


def test_the_help_shows_what_to_type(command):
    words = command("compare", "--help").out
    assert "regard compare --recipes rnnsearch-en-fr,seq2seq-en-fr --jobs 2" in words


@pytest.mark.usefixtures("forked")
def test_two_text_files_are_enough_for_a_comparison(command, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", "")
    words = ("one", "two", "three", "four", "five")
    for name in ("a.en", "a.de"):
        lines = [f"{words[n % 5]} {words[n % 4]} {words[n % 3]}." for n in range(60)]
        (tmp_path / name).write_text("\n".join(lines))
    text = ("--source", tmp_path / "a.en", "--target", tmp_path / "a.de", "--data", tmp_path)
    small = [f"--set=model.{name}=8" for name in ("hidden", "embedding", "attention.hidden", "readout")]
    small += ["--set=task.size=300", "--set=train.batch=200", "--set=train.warmup=1"]
    done = command(
        "compare",
        *text,
        "--scores",
        "general",
        "--steps",
        3,
        *small,
        "--out",
        tmp_path / "out",
        "--json",
    )
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert [one["name"] for one in found["variants"]] == ["general"]
    assert found["variants"][0]["finished"] == 1
    config = (tmp_path / "out" / "configs" / "general-seed1.toml").read_text()
    assert f'source = "{tmp_path / "a.en"}"' in config
    assert 'target_language = "de"' in config


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--source", "a.en"], "compare: --source is given; expected both `--source` and `--target`."),
        (
            ["--corpus", "multi30k-en-de", "--data", "nowhere"],
            "compare: `--data` has nowhere, which is not a folder; expected one with corpora.",
        ),
    ],
)
def test_text_that_is_half_given_or_nowhere_is_refused(command, words, message):
    outcome = command("compare", *words)
    assert (outcome.status, outcome.err) == (2, f"regard: {message}\n")


def test_a_comparison_of_which_every_training_fails_does_not_end_well(command, tmp_path):
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.de").write_text("eins\n")
    text = ("--source", tmp_path / "a.en", "--target", tmp_path / "a.de")
    outcome = command("compare", *text, "--steps", 2, "--out", tmp_path / "out")
    assert outcome.status == 2
    assert "regard: compare: every training failed; the first: " in outcome.err
    assert "has 2 lines and " in outcome.err
    assert (tmp_path / "out" / "table.md").exists()
