"""Without any extra the package loads, runs and draws; what needs one names it with the line to type."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import light
import pytest

from regard.errors import ConfigError
from regard.extras import installed, needs
from regard.shipped import find

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def fresh(*words):
    """A process of its own in tests/, where `light` lies."""
    command = [sys.executable, "-W", "error::UserWarning", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=Path(__file__).parent, check=False
    )


def test_every_shipped_model_is_loaded_run_and_drawn_without_any_extra(tmp_path):
    done = fresh("light.py", str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["loaded"] == []
    assert set(found["said"]) == set(find.names())
    assert "Elle mange une pomme verte." in found["said"]["en-fr"]
    assert "她正在吃" in found["said"]["en-zh"]
    assert "0 of 48 bits wrong" in found["said"]["ntm-copy"]
    drawn = {path.stem for path in tmp_path.glob("*.png")}
    assert drawn == set(find.names()) - {"demo-seq2seq"}  # it has no attention


LACKING = {
    "train rnnsearch-reverse --set train.steps=1": "accelerate",
    "demo": "accelerate",
    "compare rnnsearch-reverse --scores dot,additive": "accelerate",
    "evaluate demo-rnnsearch": "sacrebleu",
    "export demo-rnnsearch --to ctranslate2": "ctranslate2",
    "serve demo-rnnsearch": "fastapi",
    "studio": "fastapi",
}
NOWHERE = "translate nobody/nothing hello"
COMMANDS = """
import contextlib, io, json
import light
sys.meta_path[:] = [light.Without(finder) for finder in sys.meta_path]
from regard.cli.main import app

said = {}
for line in LINES:
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        try:
            app(line.split())
        except SystemExit as stopped:
            said[line] = [stopped.code, errors.getvalue()]
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """What each command says without the extras: its status and its standard error."""
    begin = f"import os, sys; sys.path.insert(0, os.getcwd()); LINES = {[*LACKING, NOWHERE]!r}; "
    change = f"os.chdir({str(tmp_path_factory.mktemp('nowhere'))!r})"
    done = fresh("-c", begin + change + COMMANDS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("line", LACKING)
def test_a_command_that_lacks_an_extra_says_what_to_type(line, refused):
    package = LACKING[line]
    extra = next(name for name, needed in extras().items() if package in needed)
    assert refused[line] == [
        2,
        f"regard: {extra}: the package {package!r} is not installed; expected the extra {extra!r}: "
        f'pip install "regard[{extra}]".\n',
    ]


def test_without_the_hub_a_wrong_path_is_still_called_so(refused):
    sentence = 'nobody/nothing: no such run folder. To load it from the Hub: pip install "regard[hub]".'
    assert refused[NOWHERE] == [2, f"regard: {sentence}\n"]


def test_a_function_that_lacks_an_extra_raises_an_error_of_ours():
    with pytest.raises(
        ConfigError, match=r"^train: the package \'no_such\' is not installed; expected the extra"
    ):
        needs("train", "torch", "no_such")
    assert installed("torch")
    assert not installed("no_such")


def extras():
    """Extra -> names of its packages."""
    options = PROJECT["optional-dependencies"]
    return {
        name: {re.match(r"[\w-]+", line)[0] for line in lines}
        for name, lines in options.items()
        if name not in ("all", "browser", "dev")
    }


def test_every_package_of_an_extra_is_blocked_above_and_none_of_the_rest():
    modules = {package.replace("-", "_") for needed in extras().values() for package in needed}
    assert modules <= set(light.BLOCKED)
    core = {re.match(r"[\w-]+", line)[0] for line in PROJECT["dependencies"]}
    assert core & set(light.BLOCKED) == set()
    assert core == {"torch", "safetensors", "typer", "rich", "resvg_py", "pillow"}


def test_all_is_every_extra_but_that_of_developers():
    [line] = PROJECT["optional-dependencies"]["all"]
    assert set(re.findall(r"\w+", line)) - {"regard"} == set(extras())
