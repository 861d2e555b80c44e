import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
from forking import forks

from regard import __version__, catalog
from regard.train.config import recipe_names


def test_version_and_help_teach(command):
    assert command("--version").out.strip() == f"regard {__version__}"
    words = command("--help").out
    assert all(
        name in words for name in ("demo", "list", "train", "evaluate", "translate", "show", "results")
    )
    for name in ("evaluate", "translate", "show"):
        assert f"regard {name} runs/rnnsearch-en-fr" in command(name, "--help").out
    assert "regard train --resume --run" in command("train", "--help").out


def test_list_has_a_line_for_each_row_in_a_pipe(command):
    lines = command("list").out.splitlines()
    assert len(lines) == len(catalog.rows()) + len(recipe_names())
    assert any(line.startswith("score\tadditive\t2014\t") for line in lines)


def test_list_of_one_kind_as_json(command):
    found = json.loads(command("list", "window", "--json").out)
    assert [row["key"] for row in found] == list(catalog.names("window"))


def test_list_suggests_the_nearest_kind(command):
    outcome = command("list", "scores")
    assert (outcome.status, outcome.err) == (
        2,
        "regard: list: unknown kind 'scores'; did you mean 'score'?\n",
    )


def test_train_evaluate_translate_show(command, tmp_path):
    run = tmp_path / "run"
    small = [f"--set={s}" for s in ("task.train=200", "task.valid=8", "task.test=8", "model.hidden=16")]
    trained = command("train", "rnnsearch-reverse", "--run", run, "--set", "train.steps=4", *small)
    assert trained.status == 0
    assert "4 steps in" in trained.err
    assert f"regard evaluate {run}" in trained.err.replace("\n", "")
    evaluated = json.loads(command("evaluate", run, "--json", "--beam", "2").out)
    assert evaluated["sentences"] == 8
    assert evaluated["beam"] == 2
    assert evaluated["signature"].startswith("nrefs:1|")
    assert 0 <= evaluated["alignment"]["error_rate"] <= 1
    out = tmp_path / "pictures" / "a.svg"
    assert command("show", run, "a b c", "--out", out).status == 0
    assert out.read_text().startswith("<?xml")


def test_evaluate_prints_a_table_and_writes_translations(command, run, tmp_path):
    outcome = command("evaluate", run, "--split", "valid", "--out", tmp_path / "out.txt")
    assert "alignment error rate  " in outcome.out
    assert "alignment error rate, of the word read" in outcome.out
    assert "signature: nrefs:1" in outcome.out
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 16


def test_translate_answers_line_for_line_also_for_empty_lines(command, run):
    outcome = command("translate", run, "-", stdin=b"a b c\n\nd e f g\n")
    lines = outcome.out.split("\n")
    assert len(lines) == 4
    assert lines[1] == ""
    assert lines[0]
    assert lines[2]


def test_translate_takes_a_sentence_and_gives_n_best(command, run):
    lines = command("translate", run, "a b c d", "--beam", "4", "--nbest", "3").out.splitlines()
    assert len(lines) == len(set(lines)) == 3


def test_translate_adds_links_in_pharaoh_format(command, run):
    text, links = command("translate", run, "a b c d", "--align").out.rstrip("\n").split("\t")
    pairs = [tuple(map(int, link.split("-"))) for link in links.split()]
    assert sorted(t for _, t in pairs) == list(range(len(text.split())))
    assert all(0 <= s < 4 for s, _ in pairs)


def test_translate_gives_weights_as_json(command, run):
    found = json.loads(command("translate", run, "a b c d", "--json").out)
    assert found["source_pieces"] == ["a", "b", "c", "d"]
    assert [len(row) for row in found["weights"]] == [4] * len(found["pieces"])


def test_unknown_words_are_named(command, run):
    outcome = command("translate", run, "a zebra b")
    assert outcome.status == 0
    assert "never seen in training: 'zebra' (carried through)" in outcome.err


def test_a_model_without_attention_translates_but_cannot_be_shown(command, plain_run, tmp_path):
    assert command("translate", plain_run, "a b c").status == 0
    outcome = command("show", plain_run, "a b c", "--out", tmp_path / "a.png")
    assert outcome.status == 2
    assert "model is 'seq2seq', which has no attention; nothing can be shown" in outcome.err


def test_links_of_a_model_without_attention_are_refused(command, plain_run):
    outcome = command("translate", plain_run, "a b c", "--align")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == (
        f"regard: {plain_run}: the model is 'seq2seq', which has no attention; expected a model with "
        "attention for --align.\n"
    )


def test_a_file_that_is_given_as_a_sentence_is_pointed_out(command, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("a b c\n")
    outcome = command("translate", run, "in.txt")
    assert outcome.status == 0
    assert f"'in.txt' is a file; its name is translated. Its lines: regard translate {run} - < in.txt" in (
        " ".join(outcome.err.split())
    )
    assert command("translate", run, "a b c " * 50).status == 0  # too long for the name of a file


def test_a_line_too_long_to_translate_is_named_and_the_others_go_on(command, run):
    short = command("translate", run, "-", stdin=b"a b c\nd e f g\n").out.splitlines()
    outcome = command("translate", run, "-", stdin=b"a b c\n" + b"a " * 50_000 + b"\nd e f g\n")
    assert outcome.status == 2
    assert outcome.out.splitlines() == [short[0], "", short[1]]
    assert outcome.err == (
        "regard: line 2: has 50,000 pieces, 50,000 of them in one sentence; expected 400 at most. It is left "
        "empty.\n"
    )


def test_a_beam_has_a_limit(command, run):
    for option in ("--beam", "--nbest"):
        outcome = command("translate", run, "a b c", option, "1000000")
        assert outcome.status == 2
        words = " ".join(outcome.err.split())
        assert f"Invalid value for '{option}'" in words
        assert "1000" in words.replace("1000000", "")


def test_what_stands_in_brackets_is_not_lost(command, run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "[bold]x[" / "]:smile:[red]")
    assert f"{folder}, step" in command("evaluate", folder).out
    out = tmp_path / "[bold]a[" / "].svg"
    assert command("show", folder, "a b c", "--out", out).err == f"drawn: {out}\n"
    assert 'pip install "regard[export]"' in " ".join(command("export", "--help").out.split())


def test_show_writes_a_page(command, run, tmp_path):
    out = tmp_path / "a.html"
    assert command("show", run, "a b c d", "--out", out).status == 0
    assert "<!doctype html>" in out.read_text()


def test_the_best_results_of_a_system(command):
    """Regard's own, which come with the package."""
    rows = [line.split("\t") for line in command("results", "--system", "ntm", "--best").out.splitlines()]
    assert rows
    assert all("ntm" in row[0] for row in rows)
    assert len({row[1] for row in rows}) == len(rows)
    several = command("results", "--system", "luong").out.splitlines()
    assert 0 < len(command("results", "--system", "luong", "--best").out.splitlines()) < len(several)


COMPUTING = ("train", "evaluate", "compare", "translate", "dictionary", "pack", "ask", "point", "caption")
COMPUTING += ("sample", "show", "bench", "demo")


@pytest.mark.parametrize("name", COMPUTING)
def test_every_command_that_computes_takes_a_device(name, command):
    assert "--device" in command(name, "--help").out


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="it would be there")
def test_a_device_that_is_not_there_is_refused(command):
    sentence = "`--device` has mps, which PyTorch does not find here; expected cpu."
    for words in (["translate", "demo-rnnsearch", "a"], ["train", "rnnsearch-reverse"], ["show", "stories"]):
        found = command(*words, "--device", "mps")
        assert (found.status, found.err) == (2, f"regard: {sentence}\n")


def test_results_in_a_pipe_are_tab_separated(command, tmp_path):
    from regard.evaluate.results import Result, write_result

    write_result(tmp_path, Result("x", "BLEU", 26.75, 28.45, "", 12.0, "a machine", "2026-01-01", None, (1,)))
    assert command("results", tmp_path).out == "x\tBLEU\t26.75\t28.45\t12\t2026-01-01\ta machine\n"
    assert json.loads(command("results", tmp_path, "--json").out)[0]["value"] == 26.75


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["train", "rnnsearch-revers"],
            "unknown recipe 'rnnsearch-revers'; did you mean 'rnnsearch-reverse'?",
        ),
        (["train"], "train: no recipe was named; expected RECIPE, --source and --target, --corpus, or "),
        (["train", "nowhere.toml"], "nowhere.toml: cannot be read: No such file or directory."),
        (
            ["train", "rnnsearch-reverse", "--set", "model.hiden=3"],
            "--set: unknown key 'model.hiden'; did you mean 'model.hidden'?",
        ),
        (["train", "rnnsearch-reverse", "--resume", "--run", "nowhere"], "nowhere: no such run folder."),
        (["evaluate", "nowhere"], "nowhere: no such run folder."),
        (["translate", "nowhere", "text"], "nowhere: no such run folder."),
        (["results", "nowhere"], "nowhere: no such folder"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(command, words, message):
    outcome = command(*words)
    assert outcome.status == 2
    assert message in outcome.err
    assert outcome.err.startswith("regard: ")
    assert outcome.err.count("\n") == 1
    assert outcome.out == ""


def test_a_picture_of_an_unknown_kind_is_refused_before_work_is_done(command, run):
    outcome = command("show", run, "a b", "--out", "a.gif")
    assert (outcome.status, outcome.err) == (
        2,
        "regard: show: `--out` has the ending '.gif'; expected .png, .svg, .html.\n",
    )


def test_a_run_folder_is_not_overwritten(command, run):
    outcome = command("train", "rnnsearch-reverse", "--run", run)
    assert outcome.status == 2
    assert "--resume" in outcome.err


def test_bytes_that_are_not_utf8_are_named_with_their_line(command, run):
    first = command("translate", run, "-", stdin=b"a b\n").out
    outcome = command("translate", run, "-", stdin=b"a b\nc \xff d\n")
    assert (outcome.status, outcome.out) == (2, first)
    assert outcome.err == (
        "regard: standard input: line 2 has a byte 0xff that is not UTF-8; expected UTF-8 text.\n"
    )


def test_a_run_of_a_newer_format_says_what_to_do(command, run, tmp_path):
    newer = shutil.copytree(run, tmp_path / "newer")
    (newer / "format.json").write_text('{"format": 99, "regard": "9.0"}')
    outcome = command("evaluate", newer)
    assert outcome.status == 2
    assert "format 99 is newer than this regard understands" in outcome.err


def test_a_resumed_run_goes_on(command, run):
    outcome = command("train", "--resume", "--run", run, "--set", "train.steps=14")
    assert outcome.status == 0
    assert "14 steps in" in outcome.err


def test_ctrl_c_saves_the_state_and_says_how_to_go_on(tmp_path):
    run = tmp_path / "run"
    words = [
        "train",
        "rnnsearch-reverse",
        "--run",
        str(run),
        "--set",
        "train.steps=100000",
        "--set",
        "task.train=200",
    ]
    with forks():
        process = subprocess.Popen(
            [sys.executable, "-m", "regard", *words],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
    deadline = time.monotonic() + 90
    while not (run / "metrics.jsonl").exists() or not (run / "metrics.jsonl").read_text():
        assert time.monotonic() < deadline, "training did not begin"
        assert process.poll() is None
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    last = err.strip().splitlines()[-1]
    assert last.startswith("regard: stopped at step ")
    assert last.endswith(f"go on with: regard train --resume --run {run}")
    assert (run / "checkpoints.json").exists()


def test_a_reader_that_stops_early_is_no_error(run):
    script = f"{sys.executable} -m regard list | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", script], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert len(done.stdout.splitlines()) == 1
