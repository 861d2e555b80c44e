"""The table "What can be recorded" says what trying gives."""

import sys
from pathlib import Path

import transformers

GENERATOR = Path(__file__).parents[2] / "docs" / "generator"


def test_the_page_has_the_table_that_trying_makes(monkeypatch):
    transformers.logging.set_verbosity_error()
    monkeypatch.setattr(sys, "path", [str(GENERATOR), *sys.path])
    import recordable

    assert recordable.table() in recordable.PAGE.read_text(encoding="utf-8")
