"""The tutorial "Train a translator on your own text, and serve it": every command runs as printed.

The table of sizes, on the page about corpora, is the one that is used."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from regard.cli import common
from regard.cli.main import main
from regard.train import own_text

DOCS = Path(__file__).parents[1] / "docs"
TUTORIAL = (DOCS / "tutorials" / "own-text.md").read_text(encoding="utf-8")
CORPORA = (DOCS / "how-to" / "corpora.md").read_text(encoding="utf-8")
SHORTER = {  # all else is as printed
    "rnnsearch-en-fr": ["--set", "train.steps=30", "--set", "train.evaluate_every=15"],
    "--set model.dropout": ["--set", "train.steps=3"],
}


def lines_of(page):
    """The commands of a page's shell blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def call(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["regard", *words])
    for console in (common.output, common.messages):
        monkeypatch.setattr(console, "_file", None)
    try:
        main()
    except SystemExit as stop:
        return stop.code or 0
    return 0


@pytest.fixture
def server(monkeypatch):
    """What `regard serve` starts; a client of it stands in for the network."""
    testclient = pytest.importorskip("fastapi.testclient")
    clients = []

    def start(settings, names, *, device=None, loading):
        from regard.serve.app import create_app

        client = testclient.TestClient(
            create_app(settings, names, device="cpu"), base_url="http://localhost:8000"
        )
        clients.append(client.__enter__())

    monkeypatch.setattr("regard.serve.start.start", start)
    yield clients
    for client in clients:
        client.__exit__(None, None, None)


@pytest.mark.documentation
def test_every_line_runs_one_after_the_other(tmp_path, monkeypatch, capsys, server):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(own_text, "FEWEST", 30)  # steps
    monkeypatch.setattr(own_text, "MOST", 30)
    [make] = re.findall(r"```python\n(.*?)```", TUTORIAL, re.DOTALL)
    exec(make.replace("10000", "60"), {})
    answers = []
    for line in [*lines_of(TUTORIAL), *(one for one in lines_of(CORPORA) if "less-dropout" in one)]:
        words = shlex.split(line)
        if words[0] == "curl":
            address, body = words[2].removeprefix("localhost:8000"), words[4:]
            asked = server[0].post(address, json=json.loads(body[0])) if body else server[0].get(address)
            assert asked.status_code == 200, line
            answers.append(asked.json())
            continue
        assert words[0] == "regard", line
        added = [word for part, more in SHORTER.items() if part in line for word in more]
        assert call(monkeypatch, *words[1:], *added) == 0, f"{line}: {capsys.readouterr().err}"
    models, translated = answers
    assert [model["name"] for model in models] == ["mine"]
    assert {"text", "target_words", "score", "alignment"} <= set(translated["results"][0])
    assert (tmp_path / "film.png").stat().st_size > 1000
    assert {"ctranslate2", "onnx"} <= {path.name for path in (tmp_path / "runs" / "en-fr").iterdir()}


def test_the_table_of_sizes_is_the_one_that_is_used():
    rows = [
        [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]
        for line in CORPORA.partition("## The size")[2].partition("\n\nEach row")[0].splitlines()
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


def test_its_notebook_runs_the_commands_that_end(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "generator")
    from blocks import notebook

    cells = json.loads(notebook(TUTORIAL))["cells"]
    ran = [line for cell in cells if cell["cell_type"] == "code" for line in cell["source"]]
    assert sum(line.startswith("!regard ") for line in ran) == len(lines_of(TUTORIAL)) - 3
    assert not [line for line in ran if "serve" in line or "curl" in line]
