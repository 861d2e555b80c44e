"""The kernel of cosine's query by Triton's interpreter. test_cosine_query_kernel.py starts this file."""

import os

import pytest
import torch
from kernels.cosine_query_cases import check

from regard.kernels.product import cosine_query

assert os.environ["TRITON_INTERPRET"] == "1"
pytestmark = pytest.mark.usefixtures("poisoned")


@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 1, 1), (131, 20)], ids=str)
@pytest.mark.parametrize("learnt", [True, False])
def test_it_is_the_query_that_the_score_makes(shape, learnt):
    check(shape, learnt=learnt, dtype=torch.float32)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    check((3, 5, 24), learnt=True, dtype=dtype)


def test_programs_that_take_several_tiles_add_up(monkeypatch):
    monkeypatch.setattr(cosine_query, "PROGRAMS", 2)
    check((700, 9), learnt=True, dtype=torch.float32)


@pytest.mark.parametrize("bias", [-30.0, -8.0, 30.0])
def test_strengths_of_every_size(bias):
    check((4, 6), learnt=True, dtype=torch.float32, bias=bias)


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e30])
def test_vectors_of_every_length(size):
    check((4, 6), learnt=False, dtype=torch.float32, size=size)
