"""The page "Train on your own text": every command runs as printed, and its table is the one that is used."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from regard.cli import common
from regard.cli.main import COMMANDS, main
from regard.train import own_text

PAGE = (Path(__file__).parents[1] / "docs" / "own-text.md").read_text(encoding="utf-8")
LINES = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("regard ")
]
WAITING = "serve"  # it runs until it is stopped: here it is asked for its help, once there is such a command


def call(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["regard", *words])
    for console in (common.output, common.messages):
        monkeypatch.setattr(console, "_file", None)
    try:
        main()
    except SystemExit as stop:
        return stop.code or 0
    return 0


@pytest.mark.documentation
def test_every_line_runs_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(own_text, "FEWEST", 60)  # steps; all else is as printed
    monkeypatch.setattr(own_text, "MOST", 60)
    [make] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(make.replace("2000", "60"), {})
    for line in LINES:
        words = shlex.split(line.replace("train.steps=3000", "train.steps=3"))[1:]
        if words[0] == WAITING:
            continue
        assert call(monkeypatch, *words) == 0, f"{line}: {capsys.readouterr().err}"
    assert (tmp_path / "book.png").stat().st_size > 1000
    assert {"ctranslate2", "onnx"} <= {path.name for path in (tmp_path / "runs" / "en-fr").iterdir()}


@pytest.mark.skipif(WAITING not in dict(COMMANDS), reason="there is no such command yet")
def test_the_server_can_be_asked_for_help(monkeypatch, capsys):
    assert call(monkeypatch, WAITING, "--help") == 0


def test_the_table_of_sizes_is_the_one_that_is_used():
    rows = [
        [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]
        for line in PAGE.partition("## The size")[2].partition("\n\nA row")[0].splitlines()
        if re.match(r"\| (fewer|[\d,]+) ", line)
    ]
    found = [[0.0 if cell.startswith("fewer") else float(cell) for cell in row] for row in rows]
    expected = [
        [
            *(size.pairs, size.layers, size.d_model, size.d_ff, size.heads, size.dropout, size.vocabulary),
            *(size.batch, size.warmup, size.lr, size.smoothing, size.r_drop, size.passes),
        ]
        for size in own_text.SIZES
    ]
    assert found == expected
