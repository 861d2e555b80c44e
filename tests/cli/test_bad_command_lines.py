"""What a saboteur types: every line is answered with one sentence and status 2, never with a traceback."""

import os
import shlex
import shutil
import sys

import pytest

from regard import catalog
from regard.cli.common import complain

SINGLE = (
    "train.steps=1",
    "train.batch=8",
    "train.threads=1",
    "train.capture=false",
    "train.compile=false",
)
RECIPES = {
    "tape": ("ntm-copy", "task.longest=3", "task.valid=4", "model.hidden=8"),
    "points": ("pointer-hull-5", "task.train=16", "task.valid=4", "task.test=4", "model.hidden=8"),
    "stories": ("memn2n-stories", "task.train=40", "task.valid=8", "task.test=8"),
}

REFUSED = """
train "" | `RECIPE` is empty; expected a name.
train nowhere.toml | cannot be read: No such file or directory.
train binary.toml | not UTF-8 text.
train list.toml | 'model' is 3; expected a table, [model].
train unknown.toml | unknown table 'modle'; did you mean 'model'?
train endless.toml | endless.toml: not valid TOML: Exceeds the limit
train deep.toml | deep.toml: not valid TOML: maximum recursion depth exceeded
train nul.toml | 'a\\x00b': is not a file name.
train RNNSEARCH-REVERSE | unknown recipe 'RNNSEARCH-REVERSE'; did you mean 'rnnsearch-reverse'?
train quite-another | expected one of `regard list recipe`, or a .toml file.
train rnnsearch-reverse --run "" | train: `--run` is empty; expected a name.
train rnnsearch-reverse --model sagan | 'sagan', which learns from pictures to imitate
train sagan-shapes --set task.name=reverse | gives sentence pairs; expected one of the models seq2seq
train ntm-copy --source a.en --target a.fr | the model is 'ntm', which learns from sequences of bits
train --model sagan --source a.en --target a.fr | the task is 'files', which gives sentence pairs
train --model sagann --source a.en --target a.fr | unknown model 'sagann'; did you mean 'sagan'?
train rnnsearch-reverse --device cuda | `--device` has cuda, which PyTorch does not find here; expected cpu.
train rnnsearch-reverse --set train.device=cuda | 'train.device'; expected the option `--device cuda`.
train rnnsearch-reverse --set train.seed=9999999999 | 'train.seed' is 9999999999; expected at most 4294967295.
train rnnsearch-reverse --set train.seed=99999999999999999999 | 'train.seed' has more than 18 digits
train rnnsearch-reverse --set train.seed=-1 | 'train.seed' is -1; expected at least 0.
train rnnsearch-reverse --set train.threads=100000000 | 'train.threads' is 100000000; expected at most 1024.
train rnnsearch-reverse --set train.lr=inf | 'train.lr' is inf; expected a finite number.
train rnnsearch-reverse --set train.lr=nan | 'train.lr' is nan; expected at least 0.
train rnnsearch-reverse --set train.betas=[2,3] | 'train.betas' is [2.0, 3.0]; expected 0 or more
train rnnsearch-reverse --set train.momentum=5 | 'train.momentum' is 5.0; expected 0 or more, and less than 1.
train rnnsearch-reverse --set train.rho=-1 | 'train.rho' is -1.0; expected 0 or more, and less than 1.
train rnnsearch-reverse --set train.steps=1e400 | 'train.steps' is inf; expected an integer.
train rnnsearch-reverse --set decode.beam=1000000 | 'decode.beam' is 1000000; expected at most 1000.
train rnnsearch-reverse --set model.hidden=100000000000 | the weights need at least
train rnnsearch-reverse --set model.hidden=0 | `hidden` has 0; expected 1 or more.
train rnnsearch-reverse --set model.dropout=2 | dropout
train rnnsearch-reverse --set task.train=0 | reverse: `train` has 0; expected 1 or more.
train rnnsearch-reverse --set "" | '' is not table.key=value
train --resume | no recipe was named
train --resume --run nowhere | nowhere: no such run folder.
train --resume --run {run} --model luong | `--model` has 'luong'; expected 'rnnsearch', the model of the run.
train --source a.en | expected both `--source` and `--target`.
train --source loop --target a.fr | loop: too many levels of symbolic links.
train --source folder --target a.fr | is a directory.
train --source empty --target empty | no line has text on both sides
train --source binary --target binary | line 1 has a zero byte, as binary files have; expected UTF-8 text.
train --source latin --target latin | line 1 has a byte 0xe9 that is not UTF-8; expected UTF-8 text.
train --source a.en.gz --target a.fr | not a complete gzip file
train --corpus nowhere | 'nowhere'
train --source a.en --target a.fr --corpus multi30k-en-de | `--corpus` has multi30k-en-de beside --source
train decomposable-toy --set task.vectors=nowhere.txt | `vectors` has nowhere.txt, which is not a file
evaluate nowhere | nowhere: no such run folder.
evaluate a.en | a.en: no such run folder.
evaluate folder | not a run folder: config.toml is missing.
evaluate {run} --out folder | folder: is a directory.
evaluate {run} --unknown nowhere | --unknown has 'nowhere', which is not a file
evaluate {run} --unknown dictionary | `regard dictionary
evaluate {run} --unknown a.en | expected two words with a tab between.
evaluate {run} --on nowhere | nowhere
evaluate {tape} --on hansards | is not translation.
evaluate {other} | encoder.rightward.U.weight, …) are missing
evaluate {deep} | a file is nested too deeply to be read.
translate {tape} "a b" | task is 'copy'; expected a translation task.
translate folder "a b" | not a run folder
dictionary {plain} | which has no attention; expected one with attention.
dictionary {tape} | expected a translation task.
export {tape} --to onnx | regard
ask {stories} nowhere.txt "Where is Anna?" | nowhere.txt: no such file or directory.
ask {stories} folder "Where is Anna?" | folder: is a directory.
ask {stories} empty "Where is Anna?" | the story has no sentences
ask {stories} a.en "" | no question is given
ask {stories} a.en "Where?" --out a.gif | `--out` has the ending '.gif'
ask {run} a.en "Where is Anna?" | expected 'babi' or 'stories'.
point {points} nowhere.csv | nowhere.csv: no such file or directory.
point {points} binary | line 1 has a zero byte
point {points} huge.csv | `points` has numbers beyond 1e+100; expected smaller ones.
point {points} a.csv --out a.html | point: `--out` has the ending '.html'; expected .png or .svg.
point {run} a.csv | expected a pointing task: sort, hull, …
caption {run} a.png | expected a caption task: shapes or flickr8k.
caption {run} folder | folder: has no picture
sample {run} | task is 'reverse'; expected a task of generating pictures.
sample {run} --out a.gif | expected .png.
show {run} "" | show: the sentence is empty; expected words.
show {run} "{long}" | show: the sentence has 1,000 pieces; expected at most 150, to be drawn.
show {run} "a b" --out a | `--out` has the ending ''
show {run} "a b" --out a.en/x.png | a.en: file exists.
show {tape} 99999999 | show: `TEXT` has 99999999; expected at most 2000, to be drawn.
show {tape} {digits} | expected length as numbers from 1.
show {points} 99999999 | expected a number of points, 1 to 1000.
show {points} {digits} | expected a number of points, 1 to 1000.
show {stories} x | expected a story, then a question.
results nowhere | nowhere: no such folder
results . --add folder | folder: not a comparison: table.json is missing.
results --paper x=1 | --paper is given without --add; expected both.
list nowhere | unknown kind 'nowhere'
list SCORE | unknown kind 'SCORE'; did you mean 'score'?
bench --mechanisms nowhere | nowhere
bench --lengths 0 | --lengths has '0'; expected whole numbers
bench --rivals nowhere | --rivals has 'nowhere'
compare | TASK and --recipes have neither; expected one of the two.
compare rnnsearch-reverse --seeds x | --seeds has 'x'; expected whole numbers
compare rnnsearch-reverse --scores addditive | unknown score 'addditive'; did you mean 'additive'?
compare rnnsearch-reverse --vary x | --vary has 'x'; expected table.key=value,value
compare rnnsearch-reverse --models sagan --out new | 'sagan', which learns from pictures to imitate
compare rnnsearch-reverse --data nowhere | which is not a folder
demo --out a.en | a.en: file exists.
"""
LINES = [tuple(line.split(" | ")) for line in REFUSED.strip().splitlines()]

MISUSED = """
nowhere
--nowhere
list score extra
train rnnsearch-reverse --device tpu
translate {run} "a b" --beam 0
translate {run} "a b" --beam 1000000
translate {run} "a b" --nbest x
evaluate {run} --split nowhere
export {run} --to nowhere
export {run}
point {points} a.csv --form xml
sample {run} --count 0
sample {run} --seed 99999999999999999999999
bench --threads 100000000
"""


@pytest.fixture(scope="module")
def words(tmp_path_factory, run, plain_run):
    """What stands for the names in braces."""
    from regard.train.config import load_recipe
    from regard.train.loop import fit
    from regard.train.progress import Quiet
    from regard.train.run import create
    from regard.train.run_folder import RunFolder

    made = {"run": run, "plain": plain_run, "long": "a " * 1000, "digits": "9" * 5000}
    for name, (recipe, *settings) in RECIPES.items():
        made[name] = tmp_path_factory.mktemp(name) / "run"
        config = load_recipe(recipe, [*SINGLE, *settings])
        fit(*create(config), config, run=made[name], progress=Quiet())
    made["other"] = shutil.copytree(run, tmp_path_factory.mktemp("other") / "run")
    weights = RunFolder(plain_run).require("best") / "model.safetensors"
    shutil.copy(weights, RunFolder(made["other"]).require("best") / "model.safetensors")
    (RunFolder(made["other"]).require("best") / "digests.json").unlink()  # as earlier versions wrote them
    made["deep"] = shutil.copytree(run, tmp_path_factory.mktemp("deep") / "run")
    (made["deep"] / "tokenizer.json").write_text("[" * 100_000)
    (made["deep"] / "digests.json").unlink()
    return {name: str(value) for name, value in made.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files to be misused."""
    made = tmp_path_factory.mktemp("files")
    (made / "folder").mkdir()
    (made / "loop").symlink_to("loop")
    (made / "empty").write_text("")
    (made / "a.en").write_text("One two three.\nFour.\n")
    (made / "a.fr").write_text("Un deux trois.\nQuatre.\n")
    (made / "a.en.gz").write_bytes(b"no gzip")
    (made / "binary").write_bytes(bytes(200))
    (made / "latin").write_bytes("été\n".encode("latin-1"))
    (made / "a.csv").write_text("0,0\n1,1\n0,1\n1,0\n0.5,0.5\n")
    (made / "huge.csv").write_text("1e308,-1e308\n-1e308,1e308\n0,0\n")
    (made / "binary.toml").write_bytes(b"\xff\xfe")
    (made / "list.toml").write_text("model = 3\n")
    (made / "unknown.toml").write_text("[modle]\n")
    (made / "endless.toml").write_text(f"[train]\nsteps = {'9' * 5000}\n")
    (made / "deep.toml").write_text("a = " + "[" * 100_000)
    task = '[task]\nname = "files"\nsource = "a\\u0000b"\ntarget = "b"\n'
    (made / "nul.toml").write_text('[model]\nname = "rnnsearch"\n' + task)
    return made


def call(command, line, words, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    for name, value in words.items():
        line = line.replace(f"{{{name}}}", value)
    return command(*shlex.split(line))


@pytest.mark.parametrize(("line", "sentence"), LINES, ids=[line for line, _ in LINES])
def test_bad_input_is_answered_with_one_sentence(command, words, folder, monkeypatch, line, sentence):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    outcome = call(command, line, words, folder, monkeypatch)
    assert outcome.status == 2
    assert "Traceback" not in outcome.err
    assert outcome.out == ""
    said = [line for line in outcome.err.splitlines() if line.startswith("regard: ")]
    assert said == outcome.err.splitlines()[-1:]
    assert sentence in said[0]
    assert len(said[0]) < 620
    assert said[0].endswith((".", "?", "…"))


@pytest.mark.parametrize("line", MISUSED.strip().splitlines())
def test_an_option_that_is_misused_is_answered_with_its_usage(command, words, folder, monkeypatch, line):
    outcome = call(command, line, words, folder, monkeypatch)
    assert outcome.status == 2
    assert "Usage: " in outcome.err
    assert "Traceback" not in outcome.err


def test_every_bracket_of_the_help_is_shown(command, monkeypatch):
    from inspect import getdoc

    from regard.cli.main import COMMANDS, function_of

    monkeypatch.setenv("COLUMNS", "300")
    for name, function in ((name, function_of(name)) for name in COMMANDS):
        shown = " ".join(command(name, "--help").out.split())
        for line in (getdoc(function) or "").splitlines():
            assert " ".join(line.split()) in shown


def test_the_terminal_wraps_the_prose_of_the_help_and_examples_keep_their_lines(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    lines = [line.strip() for line in command("train", "--help").out.splitlines()]
    assert "regard train --source train.en --target train.de" in lines
    [prose] = [line for line in lines if line.startswith("Without a recipe or --model")]
    assert prose.endswith("continues as if nothing had happened.")


def test_standard_input_that_is_closed_is_named(command, run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it after `<&-`
    outcome = command("translate", run)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == "regard: standard input is closed; expected text, or a file after `<`.\n"


def test_a_sentence_for_a_closed_standard_error_does_not_go_elsewhere(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)  # print() would take standard output for it
    complain("something is wrong.")
    assert capsys.readouterr().out == ""


def test_a_sentence_is_never_endless(capsys):
    complain(f"RUN has {'x' * 5000}; expected less.")
    said = capsys.readouterr().err
    assert len(said) < 620
    assert said.startswith("regard: RUN has xxx")
    assert said.endswith("xxx; expected less.\n")


def test_a_lack_of_memory_is_a_sentence(command, monkeypatch):
    def lacking(*_, **__):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr("regard.train.run.open_run", lacking)
    outcome = command("evaluate", "stories")
    assert outcome.status == 2
    assert outcome.err == ("regard: not enough memory; expected smaller sizes, batches or beams.\n")


def test_an_error_of_our_own_making_keeps_its_traceback(command, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr("regard.train.run.open_run", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        command("evaluate", "stories")


def test_training_takes_the_device_that_is_named(command, monkeypatch, tmp_path):
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "unset")
    small = [f"--set={s}" for s in ("task.train=64", "task.valid=4", "train.steps=1", "model.hidden=8")]
    named = command("train", "rnnsearch-reverse", "--device", "cpu", "--run", tmp_path / "run", *small)
    assert named.status == 0
    assert os.environ["ACCELERATE_TORCH_DEVICE"] == "cpu"


def test_every_model_and_task_say_what_they_read_and_give():
    given = {row.load().gives for row in catalog.rows("task")}
    read = {kind for row in catalog.rows("model") for kind in row.load().reads}
    assert all(row.load().reads for row in catalog.rows("model"))
    assert given == read
