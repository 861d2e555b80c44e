"""The kernels for products, bands and sparsemax on a GPU: as exact as the reference, whatever the mask."""

from dataclasses import replace

import pytest
import torch
from kernels.capturing import captured
from kernels.error_rule import assert_rule
from seeds import offset_seed
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
from regard.kernels.local import local_attention, local_cuda, local_rows_cuda
from regard.kernels.product import blocks, sdpa
from regard.kernels.sparsemax import sparsemax_cuda

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
    # PyTorch says so of its own backward passes in its deterministic mode, which poisoning memory needs
    pytest.mark.filterwarnings(
        "ignore:(Memory Efficient|cuDNN|Flash) [aA]ttention defaults to a non-deterministic:UserWarning"
    ),
    # and this of a thread of its autograd that comes to cuBLAS first
    pytest.mark.filterwarnings(
        "ignore:Attempting to run cuBLAS, but there was no current CUDA context:UserWarning"
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
    monkeypatch.setattr(local_attention, "LEAST", 0)
    monkeypatch.setattr(local_attention, "LAUNCHES", 0)
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
    torch.manual_seed(offset_seed(3))
    attention = Attention(SCORES[score](), normalizer=normalizer, window=window, kernel=kernel)
    attention.to("cuda", direction.dtype).to(dtype)
    leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
    result = attention(leaves[0], attention.prepare(leaves[1], leaves[2], mask))
    assert result.kernel == kernel
    wanted = [*leaves, *attention.parameters()]
    grads = torch.autograd.grad(result.context, wanted, direction.to(dtype), allow_unused=True)
    return [x.detach() for x in (result.context, *grads) if x is not None], result


def check(score, kernel, problems, dtype, normalizer=None, window=None):
    """By the error rule, over all problems; and the weights are the reference's."""
    parts = (score, normalizer or Softmax(temperature=0.7), window)

    def outcome(kernel, given, dtype):
        return lambda: run(*parts, kernel, *given, dtype)[0]

    assert_rule(
        *(
            (
                outcome(kernel, g, dtype),
                outcome("reference", g, dtype),
                outcome("reference", g, torch.float64),
            )
            for g in problems.values()
        )
    )
    for label, given in problems.items():
        _, result = run(*parts, kernel, *given, dtype)
        _, plain = run(*parts, "reference", *given, dtype)
        assert_close(result.weights, plain.weights, msg=label)
        with torch.no_grad():
            k = min(3, given[0][1].shape[-2])
            assert_close(result.top(k)[0], plain.weights.topk(k).values, msg=label)


def problems_of(T, S, masks, dtype, lead=(B, H), widths=(D, DV)):
    D, DV = widths
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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("T", "S"), [(100, 100), (64, 64), (70, 192), (1, 192)])
def test_products_in_half_precision_of_a_width_that_cudnn_takes(T, S, dtype):
    check("dot", "sdpa", problems_of(T, S, facts(S), dtype, widths=(64, 64)), dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("S", [128, 192])  # half of a tile is left over of the second
def test_a_mask_over_scores_that_are_all_very_negative(S, dtype):
    q, k, v = (torch.randn(B, H, n, 64, device="cuda") for n in (64, S, S))
    # scores near -165, by one feature. Were all keys far from zero, the gradient of a query would be a small
    # difference of large numbers: slopes of half precision, which all fused kernels multiply, cannot tell it
    q[..., 0], k[..., 0] = 100.0, -9.25
    inputs = [x.to(dtype) for x in (q, k, v)]
    direction = torch.randn(B, H, 64, 64, device="cuda").to(dtype)
    masks = {label: facts(S)[label] for label in ("lengths", "a row of nothing", "causal lengths")}
    check("dot", "sdpa", {label: (inputs, mask, direction) for label, mask in masks.items()}, dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("T", "S"), [(256, 64), (64, 192)])
def test_scores_that_are_all_very_negative_and_nothing_hidden(T, S, dtype):
    """As in SAGAN's generator: 256 places ask 64 coarser ones, with 16 features and 64 in a value."""
    q, k, v = (torch.randn(B, 1, n, d, device="cuda") for n, d in ((T, 16), (S, 16), (S, 64)))
    q[..., 0], k[..., 0] = 100.0, -9.25  # scores near -330
    inputs = [x.to(dtype) for x in (q, k, v)]
    direction = torch.randn(B, 1, T, 64, device="cuda").to(dtype)
    check("dot", "sdpa", {"nothing": (inputs, Mask(), direction)}, dtype)


@pytest.fixture
def in_pieces(monkeypatch):
    monkeypatch.setattr(sdpa, "LARGE", 0)  # no mask for all pairs, however small


def causal_facts(S):
    return {label: mask for label, mask in facts(S).items() if mask.causal and mask != Mask(causal=True)}


@pytest.mark.parametrize("lead", [(B,), (B, H)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize(("T", "S"), [(1, 100), (70, 100), (100, 100), (130, 60), (64, 128)])
def test_in_pieces_causality_beside_other_facts_is_as_exact_as_the_reference(T, S, dtype, lead, in_pieces):
    check("dot", "sdpa", problems_of(T, S, causal_facts(S), dtype, lead), dtype)


@pytest.mark.parametrize("name", ["causal lengths", "causal, later"])
def test_no_large_mask_for_all_pairs_is_in_memory(name):
    T = 4096  # squared, as many numbers as sdpa.LARGE
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


def test_in_pieces_a_captured_call_gives_what_a_plain_one_gives(in_pieces):
    attention = Attention(DotScore())
    x = torch.randn(2, 2, 96, 64, device="cuda", dtype=torch.bfloat16)
    mask = Mask(causal=True, lengths=lengths(96, 40))

    def context():
        with torch.no_grad():
            return attention(x, attention.prepare(x, None, mask)).context

    expected = context()
    graph, found = captured(context)
    graph.replay()
    assert_close(found, expected)


@pytest.mark.parametrize("name", ["nothing", "causal", "lengths", "causal lengths", "causal, later"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_pytorchs_own_gradients_repeat_where_it_is_asked_for_that(name, dtype, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    x = torch.randn(B, H, 256, 64, device="cuda", dtype=dtype)
    arguments = ("dot", Softmax(), None, "sdpa", [x, x, x], facts(256)[name], torch.randn_like(x), dtype)
    first, again = run(*arguments)[0], run(*arguments)[0]
    assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))


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
    return {label: replace(mask, window=(5, 2), dense=None) for label, mask in masks.items()}


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("window", ["local-m", "local-p", "the mask's"])
@pytest.mark.parametrize(("T", "S"), [(1, 60), (70, 60), (90, 200)])
def test_bands(score, window, T, S):
    made = windows()[window]
    check(score, "local", problems_of(T, S, banded(S, made), torch.float32), torch.float32, window=made)


@pytest.fixture
def by_slices(monkeypatch):
    """As where bands are wider than Triton's kernels take."""
    monkeypatch.setattr(local_cuda, "takes", lambda call: False)
    monkeypatch.setattr(local_rows_cuda, "WIDEST", 0)


@pytest.mark.parametrize("score", [name for name in SCORES if name != "additive"])
@pytest.mark.parametrize("window", ["local-m", "the mask's"])
@pytest.mark.parametrize(("T", "S"), [(1, 60), (70, 60), (90, 200)])
def test_bands_by_slices(score, window, T, S, by_slices):
    made = windows()[window]
    check(score, "local", problems_of(T, S, banded(S, made), torch.float32), torch.float32, window=made)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("window", ["local-m", "the mask's"])  # a rounded centre moves the edge of its window
def test_bands_by_slices_in_half_precision(window, dtype, by_slices):
    made = windows()[window]
    check("dot", "local", problems_of(70, 90, banded(90, made), dtype), dtype, window=made)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("window", ["local-m", "the mask's"])
@pytest.mark.parametrize("widths", [(20, 12), (64, 64), (128, 128), (130, 256)], ids=str)
def test_bands_in_half_precision(widths, window, dtype):
    made = windows()[window]
    check("dot", "local", problems_of(70, 90, banded(90, made), dtype, (B,), widths), dtype, window=made)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("score", ["dot", "additive"])
@pytest.mark.parametrize("widths", [(20, 12), (128, 128), (300, 33)], ids=str)
def test_bands_by_rows_in_half_precision(score, widths, dtype, monkeypatch):
    monkeypatch.setattr(local_cuda, "takes", lambda call: False)  # as for additive scores
    made, masks = windows()["local-m"], banded(90, windows()["local-m"])
    if score == "additive":
        widths = (D, widths[1])
    check(score, "local", problems_of(70, 90, masks, dtype, (B,), widths), dtype, window=made)


@pytest.mark.parametrize("score", ["dot", "additive"])
@pytest.mark.parametrize("half", [1, 30, 100])
def test_predicted_bands_of_every_width(score, half):
    made = LocalPredictive(query=D, hidden=6, half_width=half).cuda()
    problems = problems_of(90, 200, banded(200, made), torch.float32, (B,))
    check(score, "local", problems, torch.float32, window=made)


@pytest.mark.parametrize("widths", [(64, 64), (128, 128), (256, 130)], ids=str)
def test_wide_bands_in_float32(widths):
    made = LocalMonotonic(half_width=60)
    check(
        "dot",
        "local",
        problems_of(90, 200, banded(200, made), torch.float32, (B,), widths),
        torch.float32,
        window=made,
    )


@pytest.mark.parametrize("score", ["dot", "additive"])
@pytest.mark.parametrize("window", ["local-m", "local-p"])
def test_bands_can_be_captured(score, window):
    attention = Attention(SCORES[score](), window=windows()[window]).to("cuda", torch.bfloat16)
    x = torch.randn(2, 300, D, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    mask = Mask(lengths=lengths(300, 120))

    def step():
        context = attention(x, attention.prepare(x, None, mask)).context
        return context.detach(), *torch.autograd.grad(context, x, torch.ones_like(context))

    expected = step()
    graph, found = captured(step)
    graph.replay()
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("score", ["dot", "additive"])
@pytest.mark.parametrize("large", [False, True], ids=["at once", "in blocks"])
def test_sparsemax(score, large, monkeypatch):
    if large:
        monkeypatch.setattr(sparsemax_cuda, "KEPT", 0)
        monkeypatch.setattr(sparsemax_cuda, "PAIRS", 1000)
        monkeypatch.setattr(blocks, "LARGE", 0)
        monkeypatch.setattr(blocks, "CELLS", 2**14)
    problems = problems_of(40, 60, facts(60), torch.float32)
    check(score, "sparsemax", problems, torch.float32, Sparsemax())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("score", ["dot", "general", "cosine", "additive"])
def test_sparsemax_in_half_precision(score, dtype):
    check(score, "sparsemax", problems_of(40, 60, facts(60), dtype), dtype, Sparsemax())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("pairs", [1000, 3000])
def test_products_under_sparsemax_in_blocks_of_half_precision(pairs, dtype, monkeypatch):
    monkeypatch.setattr(sparsemax_cuda, "KEPT", 0)
    monkeypatch.setattr(sparsemax_cuda, "PAIRS", pairs)
    check("dot", "sparsemax", problems_of(40, 60, facts(60), dtype), dtype, Sparsemax())


def test_the_memory_of_products_under_sparsemax_grows_with_the_length():
    attention, needed = Attention(DotScore(), normalizer=Sparsemax()), []
    for T in (8192, 16384):
        x = torch.randn(1, T, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        attention(x, attention.prepare(x)).context.sum().backward()
        needed.append(torch.cuda.max_memory_allocated() - before)
    assert needed[1] < 1.2 * needed[0]  # most is the scores of a block
    assert needed[1] < T * T / 1.5  # bytes: as bfloat16 the weights alone would take 2 T²


def test_products_under_sparsemax_have_the_gradients_that_are_asked_for_inside_autocast_too():
    inputs = [torch.randn(2, n, D, device="cuda", requires_grad=True) for n in (40, 60, 60)]
    attention, grad = Attention(DotScore(), normalizer=Sparsemax()), torch.randn(2, 40, D, device="cuda")

    def context(query, keys, values):
        result = attention(query, attention.prepare(keys, values))
        assert result.kernel == "sparsemax"
        return result.context

    expected = torch.autograd.grad(context(*inputs), inputs, grad)
    for i, one in enumerate(expected):
        alone = [x.detach().requires_grad_(i == j) for j, x in enumerate(inputs)]
        made = context(*alone)
        with torch.autocast("cuda", torch.bfloat16):
            assert_close(torch.autograd.grad(made, alone[i], grad)[0], one, rtol=0, atol=0)


def test_additive_scores_under_sparsemax_need_no_tensor_of_all_features():
    attention = Attention(SCORES["additive"](), normalizer=Sparsemax()).cuda()
    x = torch.randn(2, 500, D, device="cuda", requires_grad=True)
    source = attention.prepare(x)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    attention(x, source).context.sum().backward()
    assert torch.cuda.max_memory_allocated() - before < 4 * 2 * 500 * 500 * D / 2  # half of one such tensor


def test_gradients_are_the_same_from_run_to_run():
    torch.use_deterministic_algorithms(False)
    inputs = [torch.randn(B, 500, d, device="cuda") for d in (D, D, DV)]
    direction = torch.randn(B, 500, DV, device="cuda")
    for window in windows().values():
        mask = Mask() if window is not None else Mask(window=(5, 5))
        for score in ("dot", "additive"):
            arguments = (score, Softmax(), window, "local", inputs, mask, direction, torch.float32)
            first, again = run(*arguments)[0], run(*arguments)[0]
            assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))


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
