"""The Triton kernels on a GPU: as exact as the reference, for every size, mask, precision and extreme."""

import pytest
import torch
from kernels.additive_cases import (
    HALF,
    assert_as_good_as_reference,
    call_of,
    extremes,
    masks,
    outcomes,
    random_inputs,
    score_of,
)
from torch.testing import assert_close

from regard import Mask
from regard.kernels import additive_cuda
from regard.kernels.additive_cuda import ADDITIVE_CUDA
from regard.kernels.dispatch import Call

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    monkeypatch.setattr(additive_cuda, "SMALL", 0)
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("T", [1, 4, 17, 65])
@pytest.mark.parametrize("S", [1, 17, 64, 1000])
@pytest.mark.parametrize("D", [6, 100])
def test_is_as_exact_as_the_reference(T, S, D):
    inputs, grad = random_inputs((2,), T, S, device="cuda")
    score = score_of(7, 9, D, torch.float32, "cuda")
    assert_as_good_as_reference(ADDITIVE_CUDA.run, score, inputs, grad)


@pytest.mark.parametrize("T", [1, 17, 300])
@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_is_as_exact_as_the_reference(T, dtype):
    inputs, grad = random_inputs((2,), T, 300, dtype=dtype, device="cuda", Dv=65)
    score = score_of(7, 9, 64, dtype, "cuda")
    assert_as_good_as_reference(ADDITIVE_CUDA.run, score, inputs, grad, draws=4)


@pytest.mark.parametrize("name", masks(1, 1, 1))
@pytest.mark.parametrize("T", [3, 70])
def test_sees_what_the_mask_shows(T, name):
    inputs, grad = random_inputs((3,), T, 150, device="cuda")
    mask = masks(3, T, 150, "cuda")[name]
    score = score_of(7, 9, 20, torch.float32, "cuda")
    assert_as_good_as_reference(ADDITIVE_CUDA.run, score, inputs, grad, mask)


@pytest.mark.parametrize("name", extremes(1, 1, 1))
@pytest.mark.parametrize("T", [2, 70])
def test_is_exact_for_all_finite_inputs(T, name):
    a, b = (x.cuda() for x in extremes(T, 150, 24)[name])
    v, values, grad = (torch.randn(*s, device="cuda") for s in ((24,), (1, 150, 3), (1, T, 3)))

    def plain(a, b, v, values):
        return (torch.tanh(a[:, :, None] + b[:, None]) @ v).softmax(-1) @ values

    def ours(a, b, v, values):
        facts = (None, None, None, None, 0, 1.0)
        if T <= 4:
            return torch.ops.regard.additive_step(a, b, v, values, *facts)[0]
        return torch.ops.regard.additive(a, b, v, values, *facts)

    results = []
    for run, dtype in ((ours, torch.float32), (plain, torch.float32), (plain, torch.float64)):
        inputs = [x.to(dtype).requires_grad_() for x in (a, b, v, values)]
        context = run(*inputs)
        results.append([context, *torch.autograd.grad(context, inputs, grad.to(dtype))])
    for x, y, truth in zip(*results, strict=True):
        assert (x - truth).abs().max() <= 2 * (y - truth).abs().max() + 5e-6


def test_the_same_twice():
    inputs, grad = random_inputs((2,), 130, 300, device="cuda")
    score = score_of(7, 9, 64, torch.float32, "cuda")
    first = outcomes(ADDITIVE_CUDA.run, score, inputs, grad, Mask(causal=True))
    again = outcomes(ADDITIVE_CUDA.run, score, inputs, grad, Mask(causal=True))
    assert_close(first, again, atol=0, rtol=0)


@pytest.mark.parametrize("T", [1, 9])
def test_compiles_as_a_full_graph(T):
    torch.compiler.reset()
    score = score_of(7, 9, 16, torch.float32, "cuda")
    (query, keys, values), _ = random_inputs((2,), T, 6, device="cuda")
    query.requires_grad_()

    def run(query, keys, values):
        call = call_of(score, query, keys, values, Mask(causal=True, offset=2))
        assert ADDITIVE_CUDA.refuses(call) is None
        return ADDITIVE_CUDA.run(call)

    expected = run(query, keys, values)
    context = torch.compile(run, fullgraph=True)(query, keys, values)
    assert_close(context, expected)
    (ours,) = torch.autograd.grad(context.square().sum(), query)
    (theirs,) = torch.autograd.grad(expected.square().sum(), query)
    assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["additive", "additive_step"])
def test_the_operators_are_registered_as_torch_expects(name):
    shapes = ((2, 5, 6), (2, 7, 6), (6,), (2, 7, 3))
    a, b, v, values = (torch.randn(*s, device="cuda", requires_grad=True) for s in shapes)
    facts = (torch.tensor([3, 7], device="cuda"), None, None, 2, 1, 0.5)
    a = a[:, :3].detach().requires_grad_() if name == "additive_step" else a
    torch.library.opcheck(getattr(torch.ops.regard, name), (a, b, v, values, *facts))


def test_refuses_the_cpu():
    (query, keys, values), _ = random_inputs((2,), 5, 6)
    call = call_of(score_of(7, 9, 6, torch.float32), query, keys, values)
    assert ADDITIVE_CUDA.refuses(Call(**vars(call))) == "the tensors are on cpu, not cuda"


def test_refuses_small_steps(monkeypatch):
    monkeypatch.setattr(additive_cuda, "SMALL", 2**22)
    (query, keys, values), _ = random_inputs((2,), 1, 6, device="cuda")
    call = call_of(score_of(7, 9, 6, torch.float32, "cuda"), query, keys, values)
    assert ADDITIVE_CUDA.refuses(call) == "a step of 72 cells is too small, the launches would cost more"
