"""Additive scores that a model reads: as exact as those of the reference, and made for nobody else."""

from copy import deepcopy

import pytest
import torch
from kernels.additive_cases import (
    HALF,
    MASKS,
    assert_as_good_as_reference,
    call_of,
    masks,
    random_inputs,
    score_of,
)
from kernels.error_rule import assert_rule
from seeds import offset_seed
from torch.testing import assert_close

from regard import AdditiveScore, Attention, LocalMonotonic, Mask, Softmax, Sparsemax
from regard.attention import top_k
from regard.attention.forms import Additive, Product
from regard.data.batches import PairBatch
from regard.errors import KernelRefused
from regard.kernels.additive import additive_cpu, additive_scores
from regard.kernels.additive.additive_scores import ADDITIVE_LOOK, ADDITIVE_SCORES
from regard.kernels.product import blocks
from regard.models.pointer import PointerConfig, PointerNetwork


@pytest.fixture(autouse=True)
def every_size(monkeypatch):
    monkeypatch.setattr(additive_scores, "SMALL", 0)


def context_of(call):
    return ADDITIVE_SCORES.run(call).context


@pytest.mark.parametrize(("T", "S", "D"), [(4, 1, 3), (17, 65, 8), (40, 100, 70)])
@pytest.mark.parametrize("loops", [True, False], ids=["compiled", "blocks of tensors"])
def test_it_is_as_exact_as_the_reference(T, S, D, loops, monkeypatch):
    monkeypatch.setattr(additive_cpu, "SMALL", 0 if loops else 2**60)
    inputs, grad = random_inputs((2,), T, S)
    assert_as_good_as_reference(context_of, score_of(7, 9, D, torch.float32), inputs, grad, draws=4)


@pytest.mark.parametrize("name", MASKS)
def test_it_sees_what_the_mask_shows(name):
    inputs, grad = random_inputs((3,), 9, 12)
    mask = masks(3, 9, 12)[name]
    assert_as_good_as_reference(context_of, score_of(7, 9, 20, torch.float32), inputs, grad, mask, draws=4)


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_is_as_exact_as_the_reference(dtype):
    inputs, grad = random_inputs((2,), 9, 20, dtype=dtype)
    assert_as_good_as_reference(context_of, score_of(7, 9, 16, dtype), inputs, grad, draws=8)


def test_scores_and_their_gradients_are_those_of_the_formula(monkeypatch):
    monkeypatch.setattr(additive_cpu, "PAIRS", 16 * 12)  # several blocks of rows
    a, b, v = (torch.randn(*shape) for shape in ((2, 40, 6), (2, 12, 6), (6,)))
    grad = torch.randn(2, 40, 12)

    def found(scored, dtype):
        leaves = [x.to(dtype).requires_grad_() for x in (a, b, v)]
        scores = scored(*leaves)
        return [scores, *torch.autograd.grad(scores, leaves, grad.to(dtype))]

    def formula(a, b, v):
        return torch.tanh(a[:, :, None] + b[:, None]) @ v

    assert_rule(
        (
            lambda: found(torch.ops.regard.additive_scores, torch.float32),
            lambda: found(formula, torch.float32),
            lambda: found(formula, torch.float64),
        )
    )


@pytest.mark.parametrize("lead", [(), (2, 3)], ids=str)
def test_any_number_of_leading_axes(lead):
    inputs, grad = random_inputs(lead, 9, 12)
    mask = Mask(causal=True, offset=2)
    assert_as_good_as_reference(context_of, score_of(7, 9, 20, torch.float32), inputs, grad, mask, draws=4)


def by_the_reference(call):
    """What ADDITIVE_SCORES.run gives."""
    result = Attention(call.score, kernel="reference")(call.query, call.source)
    return result.context, (result.scores, result.weights)


@pytest.mark.parametrize("who", ["query", "keys"])
def test_one_row_is_asked_for_all(who):
    """What broadcasts gets the sum of its gradients."""
    score = score_of(7, 9, 20, torch.float32)
    (query, keys, values), _ = random_inputs((3,), 9, 12)
    query, keys = (query[:1], keys) if who == "query" else (query, keys[:1])
    mask = Mask(lengths=torch.tensor([12, 5, 7]) if who == "query" else torch.tensor([5]))

    def found(run, dtype):
        leaves = [x.to(dtype, copy=True).requires_grad_() for x in (query, keys)]
        context, (scores, _) = run(call_of(deepcopy(score).to(dtype), *leaves, values.to(dtype), mask))
        seen = scores.masked_fill(scores == -torch.inf, 0.0)
        return [seen, context, *torch.autograd.grad(seen.sin().sum() + context.sum(), leaves)]

    assert_rule(
        (
            lambda: found(ADDITIVE_SCORES.run, torch.float32),
            lambda: found(by_the_reference, torch.float32),
            lambda: found(by_the_reference, torch.float64),
        )
    )


@pytest.mark.parametrize("what", ["a hook", "a hook of the gradient", "a bias"])
def test_a_projection_that_is_more_than_a_product_stays_what_it_is(what):
    score = score_of(7, 9, 20, torch.float32)
    seen = []
    if what == "a hook":
        score.W.register_forward_hook(lambda module, given, out: 2.0 * out)
    elif what == "a hook of the gradient":
        score.W.register_full_backward_hook(lambda module, before, after: seen.append(module))
    else:
        score.W = torch.nn.Linear(7, 20)
    inputs, _ = random_inputs((3,), 9, 12)

    def found(run, dtype):
        query, keys, values = (x.to(dtype, copy=True).requires_grad_() for x in inputs)
        own = deepcopy(score).to(dtype)
        _, (_, weights) = run(call_of(own, query, keys, values))
        return [weights, *torch.autograd.grad(weights.sin().sum(), [query, own.W.weight])]

    ours = found(ADDITIVE_SCORES.run, torch.float32)
    assert len(seen) == (1 if what == "a hook of the gradient" else 0)
    assert_rule(
        (
            lambda: ours,
            lambda: found(by_the_reference, torch.float32),
            lambda: found(by_the_reference, torch.float64),
        )
    )


def test_a_backward_pass_inside_autocast_lowers_no_precision():
    score = score_of(7, 9, 20, torch.float32)
    (query, keys, values), grad = random_inputs((2,), 9, 12)
    leaves = [query.requires_grad_(), score.W.weight]
    call, grad = call_of(score, query, keys, values), torch.randn(2, 9, 12)
    expected = torch.autograd.grad(ADDITIVE_SCORES.run(call).alignment[0], leaves, grad)
    scores = ADDITIVE_SCORES.run(call).alignment[0]
    with torch.autocast("cpu", torch.bfloat16):
        found = torch.autograd.grad(scores, leaves, grad)
    assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("only", [False, True], ids=["all", "the query alone"])
def test_a_gradient_of_the_gradient_of_a_call_is_refused(only):
    score = score_of(7, 9, 20, torch.float32).requires_grad_(not only)
    (query, keys, values), _ = random_inputs((2,), 9, 12)
    scores = ADDITIVE_SCORES.run(call_of(score, query.requires_grad_(), keys, values)).alignment[0]
    [once] = torch.autograd.grad(scores.sum(), query, create_graph=True)
    with pytest.raises(KernelRefused, match=r"^a fused kernel has no second derivative"):
        once.square().sum().backward()


def test_it_runs_where_the_scores_are_read_and_nowhere_else():
    score = AdditiveScore(query=5, keys=5, hidden=4)
    x = torch.randn(2, 9, 5)
    for kept, kernel in ((True, "additive-scores"), (False, "additive-cpu")):
        attention = Attention(score, keep_weights=kept)
        result = attention(x, attention.prepare(x, mask=Mask(lengths=torch.tensor([9, 4]))))
        assert result.kernel == kernel
        assert result.has_weights == kept
    explained = Attention(score, keep_weights=True).explain(x, attention.prepare(x))
    reasons = dict(explained.reasons)
    assert reasons["additive-cpu"] == "the caller needs the weights, and this kernel never has them"
    reasons = dict(attention.explain(x, attention.prepare(x)).reasons)
    assert reasons["additive-scores"].startswith("nobody reads the scores of this call")


def test_it_refuses_what_gains_nothing(monkeypatch):
    monkeypatch.setattr(additive_scores, "SMALL", 1000)
    (query, keys, values), _ = random_inputs((2,), 5, 6)
    call = call_of(score_of(7, 9, 6, torch.float32), query, keys, values)
    call.keep_weights = True
    assert ADDITIVE_SCORES.refuses(call) == (
        "the largest tensor has 360 numbers, fewer than 1000, which gain nothing"
    )
    call.query = query[:, :3]
    assert ADDITIVE_SCORES.refuses(call).startswith("fewer than four queries share")
    call.normalizer = Sparsemax()
    assert ADDITIVE_SCORES.declared_refusal(call) == "normalizer is Sparsemax, this kernel computes Softmax"


def test_the_operator_is_registered_as_torch_expects():
    a, b, v = (torch.randn(*shape, requires_grad=True) for shape in ((2, 5, 6), (2, 7, 6), (6,)))
    torch.library.opcheck(torch.ops.regard.additive_scores, (a, b, v))


def test_a_gradient_of_a_gradient_is_refused():
    a, b, v = (torch.randn(*shape, requires_grad=True) for shape in ((2, 5, 6), (2, 7, 6), (6,)))
    scores = torch.ops.regard.additive_scores(a, b, v)
    [once] = torch.autograd.grad(scores.sin().sum(), a, create_graph=True)
    with pytest.raises(KernelRefused, match=r"^a fused kernel has no second derivative"):
        once.square().sum().backward()


def test_a_pointer_network_learns_from_the_same_scores():
    torch.manual_seed(offset_seed(0))
    model = PointerNetwork(PointerConfig(dimension=2, hidden=16))
    source = torch.rand(3, 9, 2)
    target = torch.randint(4, 12, (3, 6))
    lengths = torch.tensor([9, 7, 5])

    def found(kernel, dtype):
        own = deepcopy(model).to(dtype)
        own.attention.kernel = kernel
        scores = own(PairBatch(source.to(dtype), lengths, target, torch.full((3,), 6)))
        seen = scores.masked_fill(scores == -torch.inf, 0.0)
        return [seen, *torch.autograd.grad(seen.sin().sum(), list(own.parameters()))]

    assert_rule(
        (
            lambda: found("auto", torch.float32),
            lambda: found("reference", torch.float32),
            lambda: found("reference", torch.float64),
        )
    )


@pytest.fixture
def looks(monkeypatch):
    """How many queries each look asked the kernel for."""
    asked, run = [], ADDITIVE_LOOK.run

    def counted(form):
        asked.append(form.query.shape[-2])
        return run(form)

    monkeypatch.setattr(ADDITIVE_LOOK, "run", counted, raising=False)
    return asked


LOOKED = {
    "softmax": {},
    "temperature": {"normalizer": Softmax(temperature=2.0)},
    "sparsemax": {"normalizer": Sparsemax()},
    "window": {"window": LocalMonotonic(half_width=3)},
}


def check_looks(options, device="cpu", sizes=(3, 9, 12, 20), dtype=torch.float32):
    B, T, S, D = sizes
    attention = Attention(AdditiveScore(query=7, keys=9, hidden=D), **options).to(device, dtype)
    query, keys = (torch.randn(B, n, d, device=device, dtype=dtype) for n, d in ((T, 7), (S, 9)))
    source = attention.prepare(keys, mask=Mask(lengths=[S, S - 7, 1]))
    with torch.no_grad():
        expected = attention.align(query, source)
        result = attention(query, source)
        for parameter in attention.parameters():  # a look shows the call, whatever becomes of them
            parameter.zero_()
        bound = 64 * torch.finfo(torch.float32).eps * D  # sums of D numbers below one, times v
        assert_close(result.rows(torch.tensor([2, -1])), expected.weights[:, [2, -1]], rtol=0, atol=bound)
        values, places = result.top(3)
        assert_close(values, expected.weights.topk(3).values, rtol=0, atol=bound)
        assert_close(expected.weights.gather(-1, places), values, rtol=0, atol=bound)
        assert_close(result.weights, expected.weights, rtol=0, atol=bound)
        assert_close(result.scores, expected.scores, rtol=0, atol=bound)


@pytest.mark.parametrize("case", LOOKED)
def test_a_later_look_takes_its_scores(case, looks, monkeypatch):
    monkeypatch.setattr(top_k, "NUMBERS", 3 * 12 * 4)  # four rows at a time
    monkeypatch.setattr(blocks, "LARGE", 0)
    kernel = {"sparsemax": "sparsemax", "window": "blocks"}.get(case, "additive-cpu")
    check_looks({"kernel": kernel, **LOOKED[case]})
    assert looks == [2, 4, 4, 1, 9]


def test_a_look_that_wants_gradients_is_the_references(looks):
    attention = Attention(AdditiveScore(query=7, keys=9, hidden=20))
    result = attention(torch.randn(2, 5, 7), attention.prepare(torch.randn(2, 6, 9)))
    result.weights.square().sum().backward()
    assert looks == []
    assert attention.score.v.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"query": torch.zeros(2, 5, 4, dtype=torch.float64)}, "dtype"),
        ({"keys": torch.zeros(2, 6, 4, device="meta")}, "meta"),
        ({"v": torch.zeros(1, 4, requires_grad=True)}, "gradients"),
    ],
)
def test_a_look_it_does_not_take(change, reason):
    form = Additive(torch.zeros(2, 5, 4), torch.zeros(2, 6, 4), torch.zeros(1, 4))
    assert ADDITIVE_LOOK.refuses(form) is None
    assert reason in ADDITIVE_LOOK.refuses(form._replace(**change))
    assert "products" in ADDITIVE_LOOK.refuses(Product(form.query, form.keys))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("case", ["softmax", "temperature", "sparsemax"])
def test_a_later_look_on_a_gpu(case, dtype, looks):
    check_looks(LOOKED[case], "cuda", (3, 70, 90, 64), dtype)
    assert looks
