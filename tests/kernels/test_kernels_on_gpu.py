"""The kernels for products, bands and sparsemax on a GPU: as exact as the reference, whatever the mask."""

import pytest
import torch
from torch.testing import assert_close

from regard import (
    AdditiveScore,
    Attention,
    CosineScore,
    DotScore,
    FeedForwardScore,
    GeneralScore,
    LocalMonotonic,
    LocalPredictive,
    Mask,
    Softmax,
    Sparsemax,
)
from regard.kernels import blocks, local

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
    # PyTorch says so of its own backward pass in its deterministic mode, which poisoning memory needs
    pytest.mark.filterwarnings(
        "ignore:Memory Efficient attention defaults to a non-deterministic:UserWarning"
    ),
]

B, H, D, DV = 2, 3, 20, 12
SCORES = {
    "dot": DotScore,
    "general": lambda: GeneralScore(query=D, keys=D),
    "cosine": lambda: CosineScore(query=D),
    "feed-forward": lambda: FeedForwardScore(dim=D, hidden=D),
    "additive": lambda: AdditiveScore(query=D, keys=D, hidden=D),
}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    monkeypatch.setattr(local, "LEAST", 0)
    monkeypatch.setattr(local, "LAUNCHES", 0)
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


def lengths(*numbers):
    return torch.tensor(numbers, device="cuda")


def facts(S):
    row = torch.arange(S, device="cuda")
    return {
        "nothing": Mask(),
        "causal": Mask(causal=True),
        "causal, later": Mask(causal=True, offset=30),
        "causal, much later": Mask(causal=True, offset=2 * S),
        "lengths": Mask(lengths=lengths(S, S // 2)),
        "a row of nothing": Mask(lengths=lengths(S, 0)),
        "causal lengths": Mask(causal=True, lengths=lengths(S, S // 2)),
        "causal, a row of nothing": Mask(causal=True, lengths=lengths(0, S)),
        "causal lengths, later": Mask(causal=True, lengths=lengths(S // 3, S), offset=30),
        "a dense row": Mask(dense=row % 3 > 0),
        "all": Mask(causal=True, lengths=lengths(S, S - 7), dense=row > 40, offset=30),
    }


def run(score, normalizer, window, kernel, inputs, mask, direction, dtype):
    torch.manual_seed(3)
    attention = Attention(SCORES[score](), normalizer=normalizer, window=window, kernel=kernel)
    attention.to("cuda", direction.dtype).to(dtype)
    leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
    result = attention(leaves[0], attention.prepare(leaves[1], leaves[2], mask))
    assert result.kernel == kernel
    wanted = [*leaves, *attention.parameters()]
    grads = torch.autograd.grad(result.context, wanted, direction.to(dtype), allow_unused=True)
    return [x.detach().double() for x in (result.context, *grads) if x is not None], result


def check(score, kernel, problems, dtype, normalizer=None, window=None):
    """Error at most twice the reference's own, both against float64, over all problems; one rounding more."""
    errors = {}
    for label, (inputs, mask, direction) in problems.items():
        parts = (normalizer or Softmax(temperature=0.7), window)
        exact, _ = run(score, *parts, "reference", inputs, mask, direction, torch.float64)
        ours, result = run(score, *parts, kernel, inputs, mask, direction, dtype)
        theirs, plain = run(score, *parts, "reference", inputs, mask, direction, dtype)
        for part, (want, own, other) in enumerate(zip(exact, ours, theirs, strict=True)):
            assert torch.isfinite(own).all(), (label, part)
            squares = torch.stack([x.square().sum() for x in (own - want, other - want, want)])
            errors[part] = errors.get(part, 0.0) + squares
            size = want.abs().max().clamp_min(1.0)
            assert (own - want).abs().max() <= 64 * torch.finfo(dtype).eps * size, (label, part)
        assert_close(result.weights, plain.weights, msg=label)
        with torch.no_grad():
            k = min(3, inputs[1].shape[-2])
            assert_close(result.top(k)[0], plain.weights.topk(k).values, msg=label)
    for part, squares in errors.items():
        error, own, size = squares.sqrt().tolist()
        free = torch.finfo(dtype).eps * (4 if kernel == "sdpa" else 2)  # PyTorch's own is less exact
        assert error <= 2 * own + free * size, (part, error, own, size)


def problems_of(T, S, masks, dtype, lead=(B, H)):
    return {
        label: (
            [torch.randn(*lead, n, d, device="cuda").to(dtype) for n, d in ((T, D), (S, D), (S, DV))],
            mask,
            torch.randn(*lead, T, DV, device="cuda").to(dtype),
        )
        for label, mask in masks.items()
    }


@pytest.mark.parametrize("score", [name for name in SCORES if name != "additive"])
@pytest.mark.parametrize(("T", "S"), [(1, 100), (70, 100), (100, 100), (130, 60)])
def test_products_with_facts(score, T, S):
    check(score, "sdpa", problems_of(T, S, facts(S), torch.float32), torch.float32)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("lead", [(B,), (B, H)], ids=str)
def test_products_in_half_precision(dtype, lead):
    check("dot", "sdpa", problems_of(100, 100, facts(100), dtype, lead), dtype)


def windows():
    return {
        "local-m": LocalMonotonic(half_width=4),
        "local-p": LocalPredictive(query=D, hidden=6, half_width=4).cuda(),
        "the mask's": None,
    }


def banded(S, window):
    masks = {
        "nothing": Mask(),
        "causal": Mask(causal=True, offset=3),
        "lengths": Mask(lengths=lengths(S, S // 2)),
        "a row of nothing": Mask(lengths=lengths(S, 0)),
    }
    if window is not None:
        return masks
    return {
        label: Mask(mask.causal, mask.lengths, (5, 2), None, mask.offset) for label, mask in masks.items()
    }


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("window", ["local-m", "local-p", "the mask's"])
@pytest.mark.parametrize(("T", "S"), [(1, 60), (70, 60), (90, 200)])
def test_bands(score, window, T, S):
    made = windows()[window]
    check(score, "local", problems_of(T, S, banded(S, made), torch.float32), torch.float32, window=made)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("window", ["local-m", "the mask's"])  # a rounded centre moves the edge of its window
def test_bands_in_half_precision(window, dtype):
    made = windows()[window]
    check("dot", "local", problems_of(70, 90, banded(90, made), dtype), dtype, window=made)


@pytest.mark.parametrize("score", ["dot", "additive"])
@pytest.mark.parametrize("large", [False, True], ids=["at once", "in blocks"])
def test_sparsemax(score, large, monkeypatch):
    if large:
        monkeypatch.setattr(blocks, "LARGE", 0)
        monkeypatch.setattr(blocks, "CELLS", 2**14)
    problems = problems_of(40, 60, facts(60), torch.float32)
    check(score, "sparsemax", problems, torch.float32, Sparsemax())


def test_gradients_are_the_same_from_run_to_run():
    torch.use_deterministic_algorithms(False)
    inputs = [torch.randn(B, 500, d, device="cuda") for d in (D, D, DV)]
    direction = torch.randn(B, 500, DV, device="cuda")
    for window in windows().values():
        mask = Mask() if window is not None else Mask(window=(5, 5))
        arguments = ("dot", Softmax(), window, "local", inputs, mask, direction, torch.float32)
        first, again = run(*arguments)[0], run(*arguments)[0]
        assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))


@pytest.mark.parametrize("name", ["causal lengths", "causal, later"])
def test_no_mask_for_all_pairs_is_in_memory(name):
    T = 4096
    attention = Attention(DotScore())
    x = torch.randn(1, 1, T, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    mask = (
        Mask(causal=True, lengths=lengths(3000)) if name == "causal lengths" else Mask(causal=True, offset=9)
    )
    attention(x, attention.prepare(x, None, mask)).context.sum().backward()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    attention(x, attention.prepare(x, None, mask)).context.sum().backward()
    assert torch.cuda.max_memory_allocated() - before < T * T / 2  # bytes; a mask has T · T of them or more


def test_top_needs_no_row_in_memory():
    T = 8192
    attention = Attention(DotScore())
    x = torch.randn(1, T, 64, device="cuda")
    with torch.no_grad():
        result = attention(x, attention.prepare(x, None, Mask(causal=True, lengths=lengths(T))))
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result.top(5)
    assert torch.cuda.max_memory_allocated() - before < 4 * T * T / 8
