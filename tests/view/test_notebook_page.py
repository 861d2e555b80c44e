"""The page about notebooks: what it says runs."""

import re
import sys
from pathlib import Path

import pytest

transformers = pytest.importorskip("transformers")
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "notebook.md").read_text(encoding="utf-8")


def test_the_lines_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    monkeypatch.setattr(sys, "path", [str(ROOT / "tests" / "integrations"), *sys.path])
    from families import FAMILIES, tokenizer_of

    bert = transformers.AutoModel.from_config(FAMILIES["bert"].config()).eval()
    scope = {"bert": bert, "tokenizer": tokenizer_of(["a", "dog", "runs"])}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 4
    for block in blocks[:3]:
        exec(block, scope)
    assert (tmp_path / "attention.html").stat().st_size < 2_000_000
    assert scope["path"].is_file()
    pytest.importorskip("anywidget")
    exec(blocks[3], scope)


def test_the_screenshot_is_small():
    assert (ROOT / "docs" / "pictures" / "notebook.png").stat().st_size < 200_000
