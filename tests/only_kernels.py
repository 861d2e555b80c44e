"""Restricts Attention to the given kernels."""

from regard.attention import dispatch


def only(monkeypatch, *kernels):
    monkeypatch.setattr(dispatch, "_kernels", list(kernels))
    monkeypatch.setattr(dispatch, "_candidates", {})
