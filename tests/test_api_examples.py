"""Every example in a docstring of the public API runs."""

import inspect
import textwrap
from itertools import groupby

import pytest
import torch
from documentation import generator

import regard


def examples():
    """The indented code of each documented name, by its name; equations are not code."""
    reference = generator("reference")
    documented = [getattr(regard, name) for names in reference.GROUPS.values() for name in names]
    for found in (*documented, *reference.SYSTEMS.values()):
        lines = inspect.cleandoc(found.__doc__ or "").splitlines()
        for indented, block in groupby(lines, lambda line: line.startswith("    ") or not line):
            code = textwrap.dedent("\n".join(block)).strip()
            if indented and "(" in code:
                yield pytest.param(code, id=found.__name__)


EXAMPLES = list({example.id: example for example in examples()}.values())


def test_the_main_names_have_examples():
    names = {example.id for example in EXAMPLES}
    assert {"Attention", "MultiHead", "Mask", "Source", "record", "view", "TranslationSystem"} <= names
    assert len(names) >= 20


@pytest.mark.parametrize("code", EXAMPLES)
def test_the_example_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {name: getattr(regard, name) for name in regard.__all__}
    exec(compile(code, "example", "exec"), {"torch": torch, "regard": regard, **names})
