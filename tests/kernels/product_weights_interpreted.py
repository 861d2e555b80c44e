"""The kernel of all weights by Triton's interpreter. test_product_weights.py starts this file."""

import os

import pytest
import torch
from kernels.product_weights_cases import check

from regard import Mask
from regard.attention.looks import Products
from regard.kernels.product.product_looks import PRODUCT_WEIGHTS

assert os.environ["TRITON_INTERPRET"] == "1"
pytestmark = pytest.mark.usefixtures("poisoned")


@pytest.mark.parametrize(
    "sizes",
    [((2, 2), 3, 70, 8), ((3,), 2, 130, 5), ((), 2, 9, 4), ((1, 1), 65, 5, 3), ((2,), 1, 1, 1)],
    ids=str,
)
def test_they_are_those_of_the_formula(sizes):
    check(*sizes)


@pytest.mark.parametrize(
    "mask",
    [
        Mask(causal=True),
        Mask(causal=True, offset=30),
        Mask(causal=True, offset=70),
        Mask(lengths=[140, 0]),
        Mask(causal=True, lengths=[40, 3], offset=2),
    ],
    ids=str,
)
def test_masks(mask):
    check((2, 2), 70, 140, 4, mask=mask)


def test_a_dense_mask_of_keys():
    check((2, 2), 3, 40, 4, mask=Mask(dense=torch.rand(2, 1, 1, 40) < 0.3))


def test_keys_for_all():
    check((2, 2), 3, 33, 8, broadcast=True)


def test_a_score_that_is_not_a_number_makes_its_row_none():
    query, keys = torch.ones(1, 2, 4, dtype=torch.float16), torch.ones(1, 3, 4, dtype=torch.float16)
    query[0, 1] = torch.nan
    weights = PRODUCT_WEIGHTS.run(Products(query, keys, 1.0, Mask()))
    assert weights[0, 0].tolist() == pytest.approx([1 / 3] * 3)
    assert weights[0, 1].isnan().all()


def test_nothing_to_look_at():
    x = torch.ones(2, 3, 4, dtype=torch.float16)
    assert PRODUCT_WEIGHTS.run(Products(x, x[:, :0], 1.0, Mask())).shape == (2, 3, 0)
    assert PRODUCT_WEIGHTS.run(Products(x[:, :0], x, 1.0, Mask())).shape == (2, 0, 3)
