"""The machine by Triton's interpreter, on CPU tensors. test_ntm_kernel.py starts this file."""

import os

import pytest
from kernels.ntm_cases import CASES, check

from regard.kernels.ntm import ntm_cuda, ntm_sequence

assert os.environ["TRITON_INTERPRET"] == "1"


@pytest.mark.parametrize("case", CASES)
def test_one_operation_equals_the_steps(case, monkeypatch):
    monkeypatch.setattr(ntm_sequence, "_engine", lambda _: ntm_cuda)
    check(case)
