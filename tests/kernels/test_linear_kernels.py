"""The mean and division by the length without weights: equal to the reference, forward and backward."""

import pytest
import torch

from regard import Attention, Mask
from regard.attention.normalizers.divide_by_length import DivideByLength
from regard.attention.normalizers.mean import Mean
from regard.attention.scores.dot import DotScore

B, T, S, D, DV = 3, 37, 41, 5, 7
NORMALIZERS = {"mean": Mean, "divide-by-length": DivideByLength}
NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, NEEDS_GPU])]
MASKS = {
    "all": lambda lead: None,
    "lengths": lambda lead: Mask(lengths=torch.tensor([S, 1, 0])),
    "columns": lambda lead: Mask(dense=torch.arange(S)[None] % 3 > 0),
    "rows": lambda lead: Mask(dense=torch.arange(B * S).view(*lead, 1, S) % 4 > 0),
}


def inputs(device, dtype=torch.float64, heads=()):
    shapes = ((T, D), (S, D), (S, DV))
    return [torch.randn(B, *heads, *shape).to(device, dtype).requires_grad_() for shape in shapes]


def run(name, kernel, x, mask):
    attention = Attention(DotScore(), normalizer=NORMALIZERS[name](), kernel=kernel)
    query, keys, values = x
    return attention(query, attention.prepare(keys, values, mask=mask))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("heads", [(), (2,)], ids=["one head", "two heads"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", NORMALIZERS)
def test_context_and_gradient_are_the_reference_s(name, mask, heads, device):
    x, mask = inputs(device, heads=heads), MASKS[mask]((B, *[1] * len(heads)))
    if mask is not None and device == "cuda":
        parts = {part: getattr(mask, part) for part in ("lengths", "dense")}
        mask = Mask(**{part: None if held is None else held.cuda() for part, held in parts.items()})
    fused, expected = run(name, "auto", x, mask), run(name, "reference", x, mask)
    assert fused.kernel == name
    torch.testing.assert_close(fused.context, expected.context)
    direction = torch.randn_like(expected.context)
    own, wanted = (
        torch.autograd.grad(each.context, x, direction, allow_unused=True) for each in (fused, expected)
    )
    for a, b in zip(own, wanted, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            torch.testing.assert_close(a, b)
    torch.testing.assert_close(fused.weights, expected.weights)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", NORMALIZERS)
def test_half_precision_is_summed_in_single(name, dtype, device):
    x = [each.detach().to(dtype) for each in inputs(device)]
    fused = run(name, "auto", x, None)
    exact = run(name, "reference", [each.double() for each in x], None).context
    assert fused.context.dtype == dtype
    torch.testing.assert_close(
        fused.context.double(), exact, atol=0.02 if dtype != torch.float32 else 1e-5, rtol=0.01
    )


@pytest.mark.parametrize("name", NORMALIZERS)
def test_queries_that_see_different_positions_go_to_the_reference(name):
    for mask in (
        Mask(causal=True),
        Mask(window=(2, 2)),
        Mask(dense=torch.ones(T, S, dtype=torch.bool).tril()),
    ):
        assert run(name, "auto", inputs("cpu"), mask).kernel == "reference"


def test_few_queries_are_divided_by_the_length_one_by_one():
    query, keys, values = (x.detach() for x in inputs("cpu"))
    assert run("divide-by-length", "auto", (query[:, :1], keys, values), None).kernel == "reference"
    assert run("mean", "auto", (query[:, :1], keys, values), None).kernel == "mean"
