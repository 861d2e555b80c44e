"""The k largest weights of each query on a GPU."""

import pytest
import torch
from kernels.interpreting import check_in_interpreter
from kernels.product_top_cases import check

from regard import Attention, Mask
from regard.attention import paths
from regard.attention.looks import Products
from regard.attention.scores.dot import DotScore
from regard.kernels.product.product_looks import PRODUCT_TOP

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def test_the_kernels_in_the_interpreter():
    check_in_interpreter("product_top_interpreted.py")


def test_a_look_asks_for_it(monkeypatch):
    """Whatever looks at the largest weights of products finds the kernel, with scale and mask."""
    asked = []
    monkeypatch.setattr(
        PRODUCT_TOP, "refuses", lambda call: asked.append(call) or "this is a test", raising=False
    )
    attention = Attention(DotScore(0.5))
    source = attention.prepare(torch.randn(2, 9, 4), mask=Mask(lengths=[9, 5]))
    attention(torch.randn(2, 3, 4), source).top(2)
    [call] = asked
    assert (call.scale, call.k, call.mask.lengths.tolist()) == (0.5, 2, [9, 5])


def test_on_a_cpu_it_does_not_run():
    x = torch.zeros(2, 3, 4)
    call = Products(x, x, 1.0, Mask(), 2)
    assert "on cpu" in PRODUCT_TOP.refuses(call)
    assert paths.choose("top-k", call) is None


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "mask",
    [Mask(), Mask(causal=True, offset=3), Mask(causal=True, offset=-150), Mask(lengths=[700, 5])],
    ids=str,
)
@pytest.mark.parametrize(
    "sizes", [((2, 3), 300, 700, 64, 8), ((2,), 70, 700, 33, 16), ((2, 2), 1, 700, 128, 1)], ids=str
)
def test_on_a_gpu(sizes, mask, dtype):
    check(*sizes, dtype=dtype, mask=mask, device="cuda")


@pytest.mark.gpu
@gpu
def test_on_a_gpu_with_a_scale_below_zero():
    check((2,), 70, 700, 64, 8, device="cuda", sign=-1)


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ({"k": 17}, "weights"),
        ({"mask": Mask(window=(1, 1))}, "window"),
        ({"mask": Mask(dense=torch.ones(3, 3, dtype=torch.bool))}, "each query"),
        ({"keys": torch.zeros(2, 3, 4, dtype=torch.float64)}, "dtypes"),
    ],
)
def test_on_a_gpu_it_refuses(call, reason):
    x = torch.zeros(2, 3, 4, device="cuda")
    facts = {"query": x, "keys": x, "scale": 1.0, "mask": Mask(), "k": 2} | call
    facts["keys"] = facts["keys"].cuda()
    assert reason in PRODUCT_TOP.refuses(Products(**facts))
