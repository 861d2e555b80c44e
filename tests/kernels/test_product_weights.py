"""All weights of a softmax of products on a GPU, in one pass that stores no scores."""

import pytest
import torch
from kernels.interpreting import check_in_interpreter
from kernels.product_weights_cases import check
from torch.testing import assert_close

from regard import Attention, Mask, MultiHead, record
from regard.attention import paths
from regard.attention.looks import Products
from regard.attention.scores.dot import DotScore
from regard.kernels.product.product_looks import PRODUCT_WEIGHTS

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def test_the_kernel_in_the_interpreter():
    check_in_interpreter("product_weights_interpreted.py")


@pytest.fixture
def fused(monkeypatch):
    """A path that computes the weights by the formula, and keeps what it was asked."""
    asked = []

    def run(call):
        asked.append(call)
        scores = call.scale * call.query @ call.keys.mT
        visible = call.mask.to_dense(*scores.shape[-2:], ndim=scores.ndim, device=scores.device)
        return (scores if visible is None else scores.masked_fill(~visible, -torch.inf)).softmax(-1)

    monkeypatch.setattr(PRODUCT_WEIGHTS, "refuses", lambda call: None, raising=False)
    monkeypatch.setattr(PRODUCT_WEIGHTS, "run", run, raising=False)
    return asked


def test_a_look_asks_for_it_and_the_scores_are_those_of_the_reference(fused):
    attention = Attention(DotScore(0.5))
    source = attention.prepare(torch.randn(2, 9, 4), mask=Mask(lengths=[9, 5]))
    query = torch.randn(2, 3, 4)
    result, expected = attention(query, source), attention.align(query, source)
    assert_close(result.weights, expected.weights)
    assert_close(result.scores, expected.scores)
    [call] = fused
    assert (call.scale, call.k, call.mask.lengths.tolist()) == (0.5, None, [9, 5])


def test_so_does_a_look_at_somebody_elses_model(fused):
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    with torch.no_grad(), record(layer) as trace:
        layer(x, x, x, need_weights=False)
        _, expected = layer(x, x, x, average_attn_weights=False)
    assert_close(trace[""][0].weights, expected, rtol=1e-5, atol=1e-6)
    assert len(fused) == 1


def test_on_a_cpu_it_does_not_run():
    x = torch.zeros(2, 3, 4)
    assert "half precision" in PRODUCT_WEIGHTS.refuses(Products(x, x, 1.0, Mask()))
    assert "on cpu" in PRODUCT_WEIGHTS.refuses(Products(x.bfloat16(), x.bfloat16(), 1.0, Mask()))
    assert paths.choose("weights", Products(x, x, 1.0, Mask())) is None


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mask", [Mask(), Mask(causal=True, offset=3), Mask(lengths=[700, 5])], ids=str)
@pytest.mark.parametrize(
    "sizes", [((2, 3), 300, 700, 64), ((2,), 70, 701, 33), ((2, 2), 1, 700, 256)], ids=str
)
def test_on_a_gpu(sizes, mask, dtype):
    check(*sizes, dtype=dtype, mask=mask, device="cuda")


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [False, True])
def test_short_self_attention_on_a_gpu(bias, dtype):
    module = MultiHead(64, 4, bias=bias).to("cuda", dtype)
    x = torch.randn(3, 20, 64, device="cuda", dtype=dtype)
    with torch.no_grad():
        ours, theirs = module(x), module(x, module.prepare(x))
        assert (ours.kernel, theirs.kernel) == ("self-attention-cuda", "sdpa")
        eps = torch.finfo(dtype).eps
        for name in ("context", "weights", "scores"):
            assert_close(getattr(ours, name), getattr(theirs, name), rtol=8 * eps, atol=8 * eps)
        assert_close(ours.top(3)[0], theirs.top(3)[0], rtol=8 * eps, atol=8 * eps)
        assert module(x, mask=Mask(causal=True)).kernel == "sdpa"
    assert module(x).kernel == "sdpa"  # with gradients
    with torch.no_grad():  # PyTorch's operator computes heads of other widths by its formula
        assert MultiHead(60, 5).to(x)(torch.randn(3, 20, 60).to(x)).kernel == "sdpa"
