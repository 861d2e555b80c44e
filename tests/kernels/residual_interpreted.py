"""The residual kernel by Triton's interpreter, on CPU tensors. test_residual_kernel.py starts this file."""

import os

import pytest
import torch
from kernels.residual_cases import check, find_kept, problem

from regard.kernels.training import residual

assert os.environ["TRITON_INTERPRET"] == "1"


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize(("rows", "width"), [(1, 16), (5, 24), (7, 40)])
def test_it_is_dropout_then_sum_then_layer_norm(rows, width, dropout):
    check(*problem(rows, width), dropout=dropout)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    check(*problem(5, 32, dtype=dtype), dropout=0.3, dtype=dtype)


def test_programs_that_share_rows_unevenly_add_up(monkeypatch):
    monkeypatch.setattr(residual, "PROGRAMS", 3)
    check(*problem(10, 16), dropout=0.3)


def test_masks_have_their_share_and_differ_everywhere():
    masks = []
    for seed in (6, 7):
        torch.manual_seed(seed)
        masks.append(find_kept((64, 128), 0.25) > 0)
    first, second = masks
    for mask in masks:
        assert abs(mask.float().mean() - 0.75) < 0.02  # 4 deviations
        assert (mask.float().mean(0) - 0.75).abs().max() < 0.25
        assert (mask.float().mean(1) - 0.75).abs().max() < 0.17

    def together(a, b):
        return (a == b).float().mean().item()

    independent = 0.75**2 + 0.25**2
    for a, b in ((first, second), (first[1:], first[:-1]), (first[:, 1:], first[:, :-1])):
        assert together(a, b) == pytest.approx(independent, abs=0.03)
