"""One query a row over its keys: the step of a Transformer's decoder on a GPU."""

import pytest
import torch
from kernels.interpreting import check_in_interpreter
from kernels.product_step_cases import check

from regard.kernels.product.product_step import PRODUCT_STEP, ProductStep


def test_the_kernel_in_the_interpreter():
    check_in_interpreter("product_step_interpreted.py")


def test_on_a_cpu_it_does_not_run():
    keys = torch.zeros(2, 3, 4, 5)
    assert "on cpu" in PRODUCT_STEP.refuses(ProductStep(keys[:, :, 0], keys, keys, None, 1, 1.0))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "sizes", [(2, 2, 8, 5, 64), (40, 8, 8, 130, 64), (3, 3, 4, 33, 128), (4, 2, 2, 7, 24)]
)
@pytest.mark.parametrize("masked", [False, True])
def test_on_a_gpu(sizes, dtype, masked):
    check(*sizes, dtype=dtype, masked=masked, device="cuda", room=3)
