"""`regard.show` for any matrix, and how results are shown outside a notebook and in one."""

import sys
import types
import webbrowser
from pathlib import Path

import pytest
import torch

import regard
from regard.errors import RegardError


def test_any_matrix_is_drawn_with_its_names(tmp_path):
    weights = torch.eye(3)[None, :, :2] * 0.5
    found = regard.show(weights, rows=["le", "chat", "dort"], columns=["the", "cat"])
    assert repr(found) == "<Matrix 3 × 2>"
    page = found.save(tmp_path / "x.html").read_text(encoding="utf-8")
    assert '"rows":["le","chat","dort"],"columns":["the","cat"]' in page
    assert found.save(tmp_path / "x.svg").read_bytes().startswith(b"<?xml")


def test_rows_without_names_are_numbered_and_heads_are_drawn_apart(tmp_path):
    found = regard.show(torch.full((2, 3, 4), 0.25))
    assert (found.rows, found.columns) == (("0", "1", "2"), ("0", "1", "2", "3"))
    page = found.save(tmp_path / "x.html").read_text(encoding="utf-8")
    assert page.count('class="alignment"') == 2
    assert found.save(tmp_path / "x.png").stat().st_size > 1000


def test_wrong_names_and_shapes_are_told():
    with pytest.raises(RegardError, match=r"show: `rows` has 2 names; expected 3, for weights \(3, 2\)"):
        regard.show(torch.ones(3, 2), rows=["a", "b"])
    with pytest.raises(RegardError, match=r"show: `weights` has shape \(4,\); expected \(T, S\)"):
        regard.show(torch.ones(4))


def test_outside_a_notebook_a_page_is_opened_and_its_path_is_printed(monkeypatch, capsys, tmp_path):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr("tempfile.mkdtemp", lambda prefix: str(tmp_path))
    regard.show(torch.ones(2, 2) / 2).show()
    path = Path(capsys.readouterr().out.strip())
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert opened == [path.as_uri()]


def test_in_a_notebook_the_result_itself_is_displayed(monkeypatch):
    shown = []
    kernel = types.SimpleNamespace(kernel=object())
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: kernel
    display = types.ModuleType("IPython.display")
    display.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    found = regard.show(torch.ones(2, 2) / 2)
    found.show()
    assert shown == [found]
