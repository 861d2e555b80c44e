"""The launches of the documentation: options that launchers and regard have."""

import re
import shlex
from pathlib import Path

import pytest
from accelerate.commands.launch import launch_command_parser
from torch.distributed.run import get_args_parser


def launched():
    """The words of every launch of the page on several GPUs."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "several-gpus.md").read_text()
    lines = [
        shlex.split(line)
        for line in page.splitlines()
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
