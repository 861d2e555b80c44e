"""What tests of kernels share."""

import os

import pytest
import torch
from kernels.interpreting import hasten

if os.environ.get("TRITON_INTERPRET") == "1":
    hasten()


@pytest.fixture
def poisoned():
    """Memory that nothing wrote is NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
