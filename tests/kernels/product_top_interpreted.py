"""The kernel of the k largest weights by Triton's interpreter. test_product_top.py starts this file."""

import os

import pytest
import torch
from kernels.product_top_cases import check

from regard import Mask
from regard.kernels.product import product_looks

assert os.environ["TRITON_INTERPRET"] == "1"
pytestmark = pytest.mark.usefixtures("poisoned")


@pytest.mark.parametrize(
    "sizes",
    [
        ((2, 2), 3, 70, 8, 4),
        ((3,), 2, 130, 5, 8),
        ((), 2, 9, 4, 3),
        ((1, 1), 65, 5, 3, 5),
        ((2,), 1, 1, 1, 1),
    ],
    ids=str,
)
def test_they_are_the_largest(sizes):
    check(*sizes)


@pytest.mark.parametrize(
    "mask",
    [
        Mask(causal=True),
        Mask(causal=True, offset=30),
        Mask(lengths=[40, 0]),
        Mask(causal=True, lengths=[40, 3], offset=2),
    ],
    ids=str,
)
def test_masks(mask):
    check((2, 2), 5, 40, 4, 4, mask=mask)


def test_queries_before_the_first_key():
    """They see nothing, and do not write where other rows have their numbers."""
    check((2,), 200, 64, 4, 4, mask=Mask(causal=True, offset=-150))


def test_a_dense_mask_of_keys():
    check((2, 2), 3, 40, 4, 6, mask=Mask(dense=torch.rand(2, 1, 1, 40) < 0.3))


def test_half_precision_and_keys_for_all():
    check((2, 2), 3, 33, 8, 2, dtype=torch.float16, broadcast=True)


@pytest.mark.parametrize("sign", [-1, 0])
def test_a_scale_below_zero_and_none(sign):
    check((2,), 3, 70, 8, 4, sign=sign)


def test_items_in_turns(monkeypatch):
    monkeypatch.setattr(product_looks, "BYTES", 4 * 3 * 2 * 2)
    check((5,), 3, 20, 4, 2)
