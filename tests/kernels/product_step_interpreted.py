"""The kernel of a decoder's step by Triton's interpreter. test_product_step.py starts this file."""

import os

import pytest
import torch
from kernels.product_step_cases import check

assert os.environ["TRITON_INTERPRET"] == "1"
pytestmark = pytest.mark.usefixtures("poisoned")


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("sizes", [(2, 2, 3, 5, 4), (6, 2, 1, 70, 7), (1, 1, 2, 1, 1)], ids=str)
def test_it_is_attention_with_one_query_a_row(sizes, masked):
    check(*sizes, dtype=torch.float32, masked=masked)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    check(4, 2, 2, 33, 8, dtype=dtype, masked=True)


def test_keys_with_room_behind_them():
    check(3, 3, 2, 9, 8, dtype=torch.float32, masked=False, room=8)
