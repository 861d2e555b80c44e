"""What tests of kernels share."""

import pytest
import torch


@pytest.fixture
def poisoned():
    """Memory that nothing wrote is NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
