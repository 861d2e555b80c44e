"""The page on several GPUs: its launches have options that exist, its growth is computed."""

import re
import runpy
import shlex
from pathlib import Path

import pytest
from accelerate.commands.launch import launch_command_parser
from torch.distributed.run import get_args_parser

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "several-gpus.md").read_text(encoding="utf-8")


def launched():
    """The words of every launch of the page."""
    lines = [
        shlex.split(line)
        for line in PAGE.splitlines()
        if re.match(r"(\w+=\S+ )?(torchrun|accelerate) ", line)
    ]
    return [[word for word in words if not re.match(r"[A-Z_]+=", word)] for words in lines]


@pytest.mark.parametrize("words", launched(), ids=" ".join)
def test_every_documented_launch_is_understood(words, command):
    """By the launcher and, without running it, by regard: `--help` comes first."""
    launcher, *rest = words
    parser = get_args_parser() if launcher == "torchrun" else launch_command_parser()
    found = parser.parse_args(rest if launcher == "torchrun" else rest[1:])
    assert (found.module, found.training_script) == (True, "regard")
    options = {word for word in found.training_script_args if word.startswith("--")}
    assert all(option in command(found.training_script_args[0], "--help").out for option in options)


@pytest.fixture(scope="module")
def benchmark():
    return runpy.run_path(str(ROOT / "benchmarks" / "processes.py"))


def test_the_growth_of_the_page_follows_from_the_recorded_step(benchmark):
    step = benchmark["recorded_step"]()
    assert benchmark["page"](step) in PAGE
    size = f"{step['bytes exchanged'] / 1e6:.0f} MB of gradients"
    assert (
        f"({step['milliseconds']:.1f} ms for {step['tokens a step, both sides']:,} tokens in bfloat16, {size}"
        in PAGE
    )


def test_the_step_of_the_benchmark_is_one_of_training(benchmark):
    small = {"layers": 1, "d_model": 16, "d_ff": 16}
    step = benchmark["measure_step"]("cpu", tokens=64, times=1, **small)
    assert step["bytes exchanged"] == 4 * step["parameters"] > 4 * 16 * 32_000
    assert step["milliseconds"] > 0
