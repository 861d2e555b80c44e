"""The CPU kernel equals the reference: values, gradients, masks, extremes; it refuses what it cannot do."""

import logging

import pytest
import torch
from kernels.additive_cases import (
    EXTREMES,
    HALF,
    MASKS,
    assert_as_good_as_reference,
    call_of,
    extremes,
    masks,
    outcomes,
    random_inputs,
    reference,
    score_of,
)
from kernels.error_rule import assert_rule
from torch.testing import assert_close

from regard import AdditiveScore, Attention, History, Mask, Softmax
from regard.attention import dispatch
from regard.attention.dispatch import Call
from regard.attention.normalizers.sparsemax import Sparsemax
from regard.attention.scores.dot import DotScore
from regard.attention.windows.local_monotonic import LocalMonotonic
from regard.bench.rule import UNITS
from regard.kernels import compiler
from regard.kernels.additive import additive_cpu
from regard.kernels.additive.additive_cpu import ADDITIVE_CPU
from regard.kernels.additive.additive_operands import Operands, blocks
from regard.kernels.sparsemax.sparsemax_attention import SPARSEMAX

SIZES = [(4, 1), (5, 17), (64, 65), (65, 3), (17, 1000)]


@pytest.fixture
def poisoned():
    """Memory that nothing wrote is NaN."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(params=["compiled", "tensors"])
def engine(request, monkeypatch):
    monkeypatch.setattr(additive_cpu, "SMALL", 0)
    if request.param == "tensors":
        monkeypatch.setattr(additive_cpu, "compiled", lambda: None)
    elif additive_cpu.compiled() is None:
        pytest.skip("no C++ compiler")


@pytest.mark.parametrize(("T", "S"), SIZES)
@pytest.mark.parametrize("D", [1, 6, 64])
@pytest.mark.usefixtures("poisoned", "engine")
def test_is_as_exact_as_the_reference(T, S, D):
    inputs, grad = random_inputs((2,), T, S)
    draws = 2 if T * S > 10_000 else 8
    score = score_of(7, 9, D, torch.float32)
    assert_as_good_as_reference(ADDITIVE_CPU.run, score, inputs, grad, draws=draws)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.usefixtures("poisoned", "engine")
def test_half_precision_is_as_exact_as_the_reference(dtype):
    inputs, grad = random_inputs((2,), 17, 65, dtype=dtype)
    assert_as_good_as_reference(ADDITIVE_CPU.run, score_of(7, 9, 20, dtype), inputs, grad)


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.usefixtures("poisoned", "engine")
def test_sees_what_the_mask_shows(name):
    inputs, grad = random_inputs((3,), 7, 11)
    score = score_of(7, 9, 6, torch.float32)
    assert_as_good_as_reference(ADDITIVE_CPU.run, score, inputs, grad, masks(3, 7, 11)[name])


@pytest.mark.parametrize(("T", "S"), [(5, 17), (65, 3), (17, 1000)])
@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@pytest.mark.usefixtures("poisoned", "engine")
def test_under_sparsemax_it_is_as_exact_as_the_reference(T, S, dtype):
    inputs, grad = random_inputs((2,), T, S, dtype=dtype)
    score = score_of(7, 9, 20, dtype)
    draws = 2 if T * S > 10_000 else 8
    assert_as_good_as_reference(SPARSEMAX.run, score, inputs, grad, normalizer=Sparsemax(), draws=draws)


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.usefixtures("poisoned", "engine")
def test_under_sparsemax_it_sees_what_the_mask_shows(name):
    inputs, grad = random_inputs((3,), 7, 11)
    score, mask = score_of(7, 9, 6, torch.float32), masks(3, 7, 11)[name]
    assert_as_good_as_reference(SPARSEMAX.run, score, inputs, grad, mask, normalizer=Sparsemax())


@pytest.mark.usefixtures("engine")
def test_under_sparsemax_it_makes_no_tensor_of_all_features(monkeypatch):
    blocks = []
    weigh = additive_cpu.SPARSEMAX.weigh
    monkeypatch.setattr(additive_cpu, "PAIRS", 2**10)
    counted = additive_cpu.SPARSEMAX._replace(
        weigh=lambda scores, shown: blocks.append(scores.numel()) or weigh(scores, shown)
    )
    monkeypatch.setattr(additive_cpu, "SPARSEMAX", counted)
    inputs, grad = random_inputs((2,), 40, 60)
    outcomes(SPARSEMAX.run, score_of(7, 9, 20, torch.float32), inputs, grad, normalizer=Sparsemax())
    assert max(blocks) <= 2**10
    assert sum(blocks) == 2 * (2 * 40 * 60)  # once forward and once again for the gradient


@pytest.mark.parametrize(("run", "normalizer"), [(ADDITIVE_CPU.run, None), (SPARSEMAX.run, Sparsemax())])
@pytest.mark.usefixtures("engine")
def test_a_row_that_sees_nothing_gives_zero_and_no_gradient(run, normalizer):
    inputs, grad = random_inputs((2,), 5, 6)
    mask, score = Mask(lengths=torch.tensor([0, 4])), score_of(7, 9, 6, torch.float32)
    ours = outcomes(run, score, inputs, grad, mask, normalizer=normalizer)
    for name in ("context", "grad query", "grad keys", "grad values"):
        assert (ours[name][0] == 0).all(), name


@pytest.mark.parametrize("lead", [(), (1,), (2, 3)])
@pytest.mark.usefixtures("engine")
def test_leading_axes_may_be_any(lead):
    inputs, grad = random_inputs(lead, 5, 6)
    mask = Mask(lengths=torch.arange(3, 3 + (lead[0] if lead else 1)), causal=True)
    assert_as_good_as_reference(ADDITIVE_CPU.run, score_of(7, 9, 6, torch.float32), inputs, grad, mask)


@pytest.mark.parametrize("shape", [(2, 1, 1, 6), (1, 3, 5, 6), (3, 5, 1), (2, 3, 5, 6)])
def test_dense_masks_broadcast_over_heads(shape):
    inputs, grad = random_inputs((2, 3), 5, 6)
    mask = Mask(dense=torch.rand(shape) < 0.7)
    assert_as_good_as_reference(ADDITIVE_CPU.run, score_of(7, 9, 6, torch.float32), inputs, grad, mask)


def test_keys_broadcast_over_heads():
    inputs, grad = random_inputs((2, 3), 5, 6)
    inputs[1] = inputs[1][:, :1]
    assert_as_good_as_reference(ADDITIVE_CPU.run, score_of(7, 9, 6, torch.float32), inputs, grad)


@pytest.mark.parametrize("D", [8, 6])
def test_positions_that_lie_before_items_in_memory_are_read_as_what_they_are(D, monkeypatch):
    monkeypatch.setattr(additive_cpu, "SMALL", 0)
    a, b, values, grad = (torch.randn(n, 3, d).transpose(0, 1) for n, d in ((7, D), (9, D), (9, 4), (7, 4)))
    given = Operands(a, b, torch.randn(D), values)
    found = [additive_cpu.forward(given), *additive_cpu.backward(grad, given)]
    plain, grad = Operands(*(x.contiguous() for x in given[:4])), grad.contiguous()
    expected = [additive_cpu.forward(plain), *additive_cpu.backward(grad, plain)]
    for x, y in zip(found, expected, strict=True):
        assert_close(x, y)


def test_many_short_items_are_one_call_and_give_what_each_gives_alone(monkeypatch):
    monkeypatch.setattr(additive_cpu, "SMALL", 0)
    a, b, v, values = torch.randn(9, 5, 8), torch.randn(9, 6, 8), torch.randn(8), torch.randn(9, 6, 4)
    given = Operands(a, b, v, values)
    together = additive_cpu.forward(given)
    alone = [
        additive_cpu.forward(Operands(a[i : i + 1], b[i : i + 1], v, values[i : i + 1])) for i in range(9)
    ]
    assert torch.equal(together, torch.cat(alone))
    for threads in (2, 4, 20):  # several items to a thread, and several threads to an item
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert torch.equal(additive_cpu.forward(given), together)


def test_strided_inputs_and_temperature():
    (query, keys, values), grad = random_inputs((2,), 9, 8)
    inputs = [query.mT.contiguous().mT, keys[:, ::2], values.flip(-1)[:, ::2]]
    score = score_of(7, 9, 6, torch.float32)
    assert_as_good_as_reference(ADDITIVE_CPU.run, score, inputs, grad, temperature=0.3)


@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.usefixtures("engine")
def test_is_exact_for_all_finite_inputs(name):
    a, b = extremes(6, 9, 8)[name]
    v, values, grad = torch.randn(8), torch.randn(1, 9, 3), torch.randn(1, 6, 3)

    def plain(a, b, v, values):
        return (torch.tanh(a[:, :, None] + b[:, None]) @ v).softmax(-1) @ values

    def ours(a, b, v, values):
        return torch.ops.regard.additive(a, b, v, values, None, None, None, None, 0, 1.0)

    def outcome(run, dtype):
        inputs = [x.to(dtype).requires_grad_() for x in (a, b, v, values)]
        context = run(*inputs)
        return [context, *torch.autograd.grad(context, inputs, grad.to(dtype))]

    assert_rule(
        (
            lambda: outcome(ours, torch.float32),
            lambda: outcome(plain, torch.float32),
            lambda: outcome(plain, torch.float64),
        )
    )


def test_blocks_of_rows_change_nothing(monkeypatch):
    inputs, grad = random_inputs((3,), 50, 40)
    score = score_of(7, 9, 6, torch.float32)
    whole = outcomes(ADDITIVE_CPU.run, score, inputs, grad, Mask(causal=True))
    monkeypatch.setattr(additive_cpu, "PAIRS", 700)
    assert len(list(blocks(3, 50, 40, additive_cpu.PAIRS, additive_cpu.LANES))) == 12
    parts = outcomes(ADDITIVE_CPU.run, score, inputs, grad, Mask(causal=True))
    assert_close(parts, whole)


def test_threads_change_nothing():
    inputs, grad = random_inputs((2,), 70, 90)
    score = score_of(7, 9, 64, torch.float32)
    alone = outcomes(ADDITIVE_CPU.run, score, inputs, grad)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert_close(outcomes(ADDITIVE_CPU.run, score, inputs, grad), alone)
    finally:
        torch.set_num_threads(threads)


def test_says_once_that_there_is_no_compiler(monkeypatch, caplog):
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)
    additive_cpu.compiled.cache_clear()
    inputs, grad = random_inputs((1,), 64, 64)
    score = score_of(7, 9, 64, torch.float32)
    try:
        with caplog.at_level(logging.WARNING, logger="regard"):
            assert_as_good_as_reference(ADDITIVE_CPU.run, score, inputs, grad)
            assert_as_good_as_reference(ADDITIVE_CPU.run, score, inputs, grad)
    finally:
        additive_cpu.compiled.cache_clear()
    (message,) = caplog.messages
    assert message.startswith("additive attention runs in blocks of tensors")
    assert "no C++ compiler" in message


def refusal(**changes) -> str | None:
    (query, keys, values), _ = random_inputs((2,), 5, 6)
    call = call_of(score_of(7, 9, 6, torch.float32), query, keys, values)
    return dispatch.refusal(ADDITIVE_CPU, Call(**{**vars(call), **changes}))


def test_refuses_with_a_reason():
    query, keys = torch.randn(2, 5, 7), torch.randn(2, 6, 9)
    score = score_of(7, 9, 6, torch.float32)
    assert refusal() is None
    assert refusal(score=DotScore()) == "score is DotScore, this kernel computes additive scores"
    assert refusal(normalizer=Sparsemax()) == "normalizer is Sparsemax, this kernel computes Softmax"
    assert refusal(window=LocalMonotonic(half_width=2)) == "window is LocalMonotonic, this kernel has none"
    assert refusal(dropout=0.1) == "dropout is 0.1, this kernel has none"
    assert refusal(query=query.double()) == "dtype is torch.float64, which goes to the reference"
    assert refusal(query=query.to("meta")) == "the query is on meta, not cpu"
    assert "fewer than four queries" in refusal(query=query[:, :3])
    wide = Attention(score).prepare(keys, mask=torch.ones(4, 2, 5, 6, dtype=torch.bool))
    assert refusal(source=wide) == "the dense mask has 4 axes where the query has 3"
    start = History.start(Attention(score).prepare(keys))
    assert refusal(history=start) is None  # a history that the score does not read changes nothing


def test_the_operator_is_registered_as_torch_expects():
    a, b, v, values = (torch.randn(*s, requires_grad=True) for s in ((2, 5, 6), (2, 7, 6), (6,), (2, 7, 3)))
    facts = (torch.tensor([3, 7]), None, None, 2, 1, 0.5)
    torch.library.opcheck(torch.ops.regard.additive, (a, b, v, values, *facts))


def test_compiles_as_a_full_graph():
    torch.compiler.reset()
    score = score_of(7, 9, 6, torch.float32)
    (query, keys, values), _ = random_inputs((2,), 5, 6)
    lengths = torch.tensor([3, 6])

    def run(query, keys, values, lengths):
        return ADDITIVE_CPU.run(call_of(score, query, keys, values, Mask(lengths=lengths, causal=True)))

    expected = run(query, keys, values, lengths)
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    assert_close(compiled(query, keys, values, lengths), expected)
    query.requires_grad_()
    (ours,) = torch.autograd.grad(compiled(query, keys, values, lengths).square().sum(), query)
    (theirs,) = torch.autograd.grad(run(query, keys, values, lengths).square().sum(), query)
    assert_close(ours, theirs)


def test_autocast_and_checkpointing_work():
    score = score_of(7, 9, 6, torch.float32)
    (query, keys, values), _ = random_inputs((2,), 5, 6)
    query.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        call = call_of(score, query, keys, values)
        # both begin with the same rounded projections and go on in float32
        rounding = UNITS * torch.finfo(torch.float32).eps * values.abs().max().item()
        assert_close(ADDITIVE_CPU.run(call), reference(call), atol=rounding, rtol=0)

    def run(query):
        return ADDITIVE_CPU.run(call_of(score, query, keys, values))

    (plain,) = torch.autograd.grad(run(query).sum(), query)
    again = torch.utils.checkpoint.checkpoint(run, query, use_reentrant=False)
    assert_close(torch.autograd.grad(again.sum(), query)[0], plain)


def test_softmax_may_not_be_subclassed_silently():
    class Other(Softmax):
        pass

    assert refusal(normalizer=Other()) == "normalizer is Other, this kernel computes Softmax"


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("hidden", [3, 48])
def test_autocast_rounds_what_enters_and_nothing_inside(hidden, gradient):
    attention = Attention(AdditiveScore(query=8, keys=8, hidden=hidden))
    query, keys, values = (
        torch.randn(2, 64, 8),
        torch.randn(2, 128, 8),
        torch.randn(2, 128, 8, requires_grad=True),
    )
    with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(gradient):
        source = attention.prepare(keys, values)
        result = attention(query, source)
        a, b = attention.score.W(query).detach(), source.keys.detach()
        assert result.kernel == "additive-cpu"
        grads = torch.autograd.grad(result.context.sum(), values)[0] if gradient else None

    def formula(dtype):
        v, leaf = (x.detach().to(dtype, copy=True) for x in (attention.score.v.weight[0], values))
        weights = (torch.tanh(a.to(dtype)[:, :, None] + b.to(dtype)[:, None]) @ v).softmax(-1)
        context = weights @ leaf.requires_grad_()
        return [context, *(torch.autograd.grad(context.sum(), leaf) if gradient else ())]

    found = [result.context, *([grads] if gradient else [])]
    assert_rule((lambda: found, lambda: formula(torch.float32), lambda: formula(torch.float64)))


@pytest.mark.parametrize("shape", [(0, 8, 20), (2, 8, 0)], ids=str)
def test_nothing_to_attend_to_gives_no_context(shape):
    N, T, S = shape
    attention = Attention(AdditiveScore(query=5, keys=5, hidden=6))
    context = attention(torch.randn(N, T, 5), attention.prepare(torch.randn(N, S, 5))).context
    assert context.shape == (N, T, 5)
    assert not context.any()
