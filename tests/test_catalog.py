"""The catalogue: every row imports, every mechanism has a row, every file reads like its paper."""

import ast
import importlib
import re
from pathlib import Path
from typing import get_args

import pytest

import regard
from regard import ConfigError, catalog
from regard.attention.parts import Part
from regard.evaluate.base import EVALUATORS, of_task
from regard.views import VIEWERS

ROOT = Path(regard.__file__).parent
MECHANISMS = sorted(
    path
    for folder in ("scores", "normalizers", "windows", "memory")
    for path in (ROOT / "attention" / folder).glob("*.py")
    if path.name not in ("__init__.py", "base.py")
)


@pytest.mark.parametrize("row", catalog.rows(), ids=lambda row: f"{row.kind}:{row.key}")
def test_every_row_imports(row):
    loaded = row.load()
    assert loaded.__module__ == row.module
    assert row.path == f"{row.module}:{loaded.__name__}"
    assert (ROOT.parent / row.file).is_file()


@pytest.mark.parametrize("row", catalog.rows(), ids=lambda row: f"{row.kind}:{row.key}")
def test_every_row_is_filled_in(row):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row.key)
    assert row.title
    assert row.authors
    assert 1997 <= row.year <= 2026
    assert row.link == "" or row.link.startswith("https://")
    assert row.link or row.kind == "task"
    assert row.sentence.endswith(".")
    assert len(row.sentence) <= 110


def test_keys_are_unique_within_their_kind():
    keys = [(row.kind, row.key) for row in catalog.rows()]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("kind", ["score", "normalizer", "window"])
def test_every_score_normalizer_and_window_can_be_built(kind):
    for row in catalog.rows(kind):
        assert issubclass(row.load(), Part)


def test_every_card_stands_in_a_module_that_is_named():
    """A card in a file that nobody imports would be in no table."""
    with_cards = {name for name, text in sources() if re.search(r"^@(own_)?card\(", text, re.M)}
    assert with_cards == {row.module for row in catalog.rows()}
    assert set(catalog.CONTENTS) <= with_cards


def sources():
    for path in ROOT.rglob("*.py"):
        yield ".".join(path.relative_to(ROOT.parent).with_suffix("").parts), path.read_text(encoding="utf-8")


def test_a_key_has_one_card():
    with pytest.raises(
        ConfigError,
        match=r"^catalog: score 'dot' has the card of test_catalog:other and that of "
        r"regard\.attention\.scores\.dot:DotScore; expected one\. Choose another key\.$",
    ):

        @catalog.card("score", "dot", title="Dot", authors="Nobody", year=2026, sentence="Another.")
        def other():
            """Not entered."""


def test_every_mechanism_file_has_a_row():
    files = {ROOT.parent / row.file for row in catalog.rows()}
    assert [str(path) for path in MECHANISMS if path not in files] == []


@pytest.mark.parametrize(
    ("folder", "suffix"), [("models", "Config"), ("tasks", "Task"), ("kernels", "Kernel")]
)
def test_every_model_task_and_kernel_file_has_a_row(folder, suffix):
    """A file with a class of the kind has a row, unless the class is there to be inherited."""
    files = {ROOT.parent / row.file for row in catalog.rows()}
    defined, inherited = {}, set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                defined[node.name] = path
                inherited |= {base.id for base in node.bases if isinstance(base, ast.Name)}
    ends = {name: path for name, path in defined.items() if name.endswith(suffix) and name not in inherited}
    assert ends
    missing = {name for name, path in ends.items() if path not in files}
    assert missing - {"Task", "Kernel"} == set()  # the protocols themselves


@pytest.mark.parametrize("path", MECHANISMS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_mechanism_file_shows_its_equation_its_symbols_and_its_source(path):
    text = ast.get_docstring(ast.parse(path.read_text()), clean=False)
    assert text is not None
    equations = [
        line for line in text.splitlines() if line.startswith("    ") and (" = " in line or " ~ " in line)
    ]
    assert equations, "an indented equation"
    link = re.search(r"https://\S+", text)
    assert link, "a link"
    rows = [row for row in catalog.rows() if ROOT.parent / row.file == path]
    assert any(row.link in text for row in rows), "the link of its row"
    symbols = re.search(r"^    (\S+ +)*paper\b.* here\b", text, re.M) or re.search(
        r"^    \S+ +\S+ +here\b", text, re.M
    )
    if path.stem not in ("mean", "everywhere"):  # nothing to map: one has a single letter, the other none
        assert symbols, "a symbol map with a column for the paper and one for here"


@pytest.mark.parametrize("path", MECHANISMS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_mechanism_has_an_oracle(path):
    oracles = {file.stem for file in (Path(__file__).parent / "oracles").glob("*.py")}
    # Gumbel-softmax is random: its law is statistical, and at evaluation it is the softmax; global attention
    # is the softmax itself; the two memory files share one oracle
    shared = {"gumbel": "softmax", "everywhere": "softmax", "addressing": "ntm", "cells": "ntm"}
    assert shared.get(path.stem, path.stem) in oracles


def test_public_names_exist_and_are_sorted():
    assert sorted(regard.__all__) == regard.__all__
    assert all(hasattr(regard, name) for name in regard.__all__)


def test_every_score_normalizer_and_window_is_public():
    for kind in ("score", "normalizer", "window"):
        for row in catalog.rows(kind):
            assert row.load() is getattr(regard, row.path.partition(":")[2])


def test_rows_come_by_kind_and_key():
    assert {row.kind for row in catalog.rows()} == set(get_args(catalog.Kind))
    assert {row.kind for row in catalog.rows("score")} == {"score"}
    assert catalog.find("dot", "score").year == 2015
    assert catalog.find("additive", "score").file == "regard/attention/scores/additive.py"


def test_an_unknown_key_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match=r"^catalog: unknown score 'addtive'; did you mean 'additive'\?$"):
        catalog.find("addtive", "score")
    with pytest.raises(ConfigError, match=r"^catalog: unknown window 'zzz'; known: global, local-"):
        catalog.find("zzz", "window")


def test_the_catalogue_imports_no_mechanism():
    tree = ast.parse((ROOT / "catalog.py").read_text())
    imported = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert {name for name in imported if name and name.startswith("regard")} == {
        "regard.errors",
        "regard.renamed",
    }
    assert importlib.import_module("regard.catalog") is catalog


@pytest.mark.parametrize("table", [EVALUATORS, VIEWERS], ids=["evaluators", "viewers"])
def test_every_task_can_be_measured_and_shown(table):
    for row in catalog.rows("task"):
        assert callable(of_task(table, row.load().__new__(row.load())))
    with pytest.raises(ConfigError, match=r"^task: object has no evaluation or view; expected a task of"):
        of_task(table, object())
