"""The Triton kernel by Triton's interpreter, on CPU tensors. test_cross_entropy.py starts this file."""

import os

import pytest
import torch
from kernels.cross_entropy_cases import WORDS, check, gradient_of, scores_of

from regard.kernels.training import cross_entropy, cross_entropy_triton
from regard.kernels.training.cross_entropy import cross_entropy_of_two

assert os.environ["TRITON_INTERPRET"] == "1"


@pytest.fixture(autouse=True)
def _fused(monkeypatch):
    monkeypatch.setattr(cross_entropy.CrossEntropyOfTwo, "refuses", lambda *_: None)


def ours(smoothing):
    return lambda z: cross_entropy_of_two(z, WORDS, smoothing=smoothing, weight=3.0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("size", [13, 16, 70])
def test_it_is_what_the_textbooks_formula_gives(smoothing, size, monkeypatch):
    monkeypatch.setattr(cross_entropy_triton, "WIDEST", 32)
    check(ours(smoothing), scores_of(size=size), WORDS, smoothing, 3.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    check(ours(0.1), scores_of(dtype), WORDS, 0.1, 3.0)


def test_rows_that_count_nothing_get_no_gradient_whatever_they_hold():
    scores = scores_of()
    scores[2::5] = torch.nan
    loss, slope = gradient_of(ours(0.1), scores)
    assert torch.isfinite(loss)
    assert torch.equal(slope[2::5], torch.zeros_like(slope[2::5]))


def test_without_a_gradient_the_loss_is_the_same():
    scores = scores_of()
    loss, _ = gradient_of(ours(0.1), scores)
    assert torch.equal(ours(0.1)(scores), loss)
