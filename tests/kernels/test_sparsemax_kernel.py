"""Sparsemax without sorting equals the sorted one: weights, gradients, every kind of row, on every path."""

import logging
import sys
from copy import deepcopy

import pytest
import torch
from kernels.error_rule import assert_rule
from kernels.interpreting import check_in_interpreter
from kernels.sparsemax_cases import check, rows_of
from oracles.sparsemax import sparsemax as oracle
from torch.testing import assert_close

from regard import AdditiveScore, Attention, DotScore, LocalPredictive, Mask, Sparsemax
from regard.bench.rule import UNITS
from regard.kernels import compiler
from regard.kernels.product import blocks
from regard.kernels.sparsemax import sparsemax_cpu

SIZES = (1, 2, 7, 8, 9, 64, 65, 1000)


@pytest.mark.parametrize("S", SIZES)
def test_it_is_as_exact_as_the_sorted_one(S):
    for label, scores in rows_of(S).items():
        check(torch.ops.regard.sparsemax, scores, label)


def test_it_equals_the_paper():
    rows = torch.randn(20, 6)
    assert_close(torch.ops.regard.sparsemax(rows), torch.tensor([oracle(row) for row in rows.tolist()]))


def test_a_row_of_nothing_is_zero_and_a_row_of_nan_stays_nan():
    scores = torch.randn(3, 20)
    scores[1] = -torch.inf
    scores[2, 5] = torch.nan
    weights = torch.ops.regard.sparsemax(scores)
    assert (weights[1] == 0).all()
    assert weights[2].isnan().any()


def test_all_threads_give_what_one_gives(monkeypatch):
    scores, grad = torch.randn(101, 33), torch.randn(101, 33)
    alone = sparsemax_cpu.forward(scores)
    monkeypatch.setattr(sparsemax_cpu, "SHARED", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert torch.equal(sparsemax_cpu.forward(scores), alone)
    assert_close(sparsemax_cpu.backward(grad, alone), sparsemax_cpu.plain_gradient(grad, alone))


def test_without_a_compiler_rows_are_sorted_and_it_is_said_once(monkeypatch, caplog):
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)
    sparsemax_cpu.compiled.cache_clear()
    with caplog.at_level(logging.WARNING, "regard"):
        for label, scores in rows_of(9).items():
            check(torch.ops.regard.sparsemax, scores, label)
    sparsemax_cpu.compiled.cache_clear()
    assert caplog.messages == [
        "sparsemax sorts its rows, several times slower than compiled: there is no C++ compiler."
    ]


def test_a_compiler_that_fails_is_quoted(monkeypatch, caplog):
    monkeypatch.setattr(compiler.shutil, "which", lambda name: sys.executable)
    with caplog.at_level(logging.WARNING, "regard"):
        assert compiler.library("sparsemax/sparsemax_cpu.cpp", "nothing runs") is None
    assert caplog.messages[0].startswith(f"nothing runs: {sys.executable} failed: ")


def test_the_operator_is_registered_as_torch_expects():
    torch.library.opcheck(torch.ops.regard.sparsemax, (torch.randn(4, 9, requires_grad=True),))
    q, k, v = (torch.randn(2, n, 4, requires_grad=True) for n in (3, 7, 7))
    torch.library.opcheck(torch.ops.regard.sparsemax_product, (q, k, v, torch.rand(2, 1, 7) > 0.5, 0.5))
    facts = (torch.tensor([7, 2]), torch.rand(1, 3, 7) > 0.5, None, 1, 2, 0.5)
    torch.library.opcheck(torch.ops.regard.sparsemax_long, (q, k, v, *facts))


def test_more_weights_than_are_kept_leave_nothing_of_that_size(monkeypatch):
    monkeypatch.setattr(sparsemax_cpu, "KEPT", 2**10)
    monkeypatch.setattr(sparsemax_cpu, "PAIRS", 2**10)
    q, k, v = leaves = [torch.randn(1, n, 4, requires_grad=True) for n in (300, 200, 200)]
    sizes = []
    attention = attentions(DotScore(1.0))[0]

    def kept(x):
        sizes.append(x.numel())
        return x

    def run(q, k, v):
        return attention(q, attention.prepare(k, v, Mask(causal=True))).context

    with torch.autograd.graph.saved_tensors_hooks(kept, lambda x: x):
        context = run(q, k, v)
    assert max(sizes) <= 4 * 300
    found = torch.autograd.grad(context.sin().sum(), leaves)
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")(q, k, v)
    assert_close(compiled, context)
    assert_close(torch.autograd.grad(compiled.sin().sum(), leaves), found)


def attentions(score, window=None, dropout=0.0):
    return [
        Attention(score, normalizer=Sparsemax(), window=window, dropout=dropout, kernel=kernel)
        for kernel in ("sparsemax", "reference")
    ]


MASKS = {
    "nothing": None,
    "causal": Mask(causal=True),
    "lengths": Mask(lengths=torch.tensor([19, 0])),
    "window": Mask(window=(2, 1)),
    "dense": Mask(dense=torch.arange(19) % 3 > 0),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("pairs", [0, 23 * 19, 5 * 19], ids=["at once", "items", "some rows"])
def test_attention_keeps_the_error_rule(mask, pairs, monkeypatch):
    large = pairs > 0
    if large:
        monkeypatch.setattr(blocks, "LARGE", 0)
        monkeypatch.setattr(blocks, "CELLS", 2 * 19 * 4 * 6)
        monkeypatch.setattr(sparsemax_cpu, "KEPT", 0)
        monkeypatch.setattr(sparsemax_cpu, "PAIRS", pairs)
    window = LocalPredictive(query=5, hidden=4, half_width=3)
    for score, around in ((DotScore(), None), (AdditiveScore(query=5, keys=5, hidden=6), window)):
        given = [torch.randn(2, n, 5) for n in (23, 19)]
        product = isinstance(score, DotScore)  # which makes no weights that it keeps

        def outcome(kernel, dtype=torch.float32, score=score, around=around, given=given, product=product):
            attention = Attention(score, normalizer=Sparsemax(), window=around, kernel=kernel)
            attention = deepcopy(attention).to(dtype)
            query, keys = leaves = [x.to(dtype).requires_grad_() for x in given]
            result = attention(query, attention.prepare(keys, None, mask))
            assert result.has_weights == (kernel == "reference" or not (large or product))
            wanted = [*leaves, *attention.parameters()]
            grads = torch.autograd.grad(result.context.sin().sum(), wanted, allow_unused=True)
            grads = [x for x in grads if x is not None]
            return [result.context, result.weights, result.rows(torch.tensor([1, -1])), *grads]

        assert_rule(
            (
                lambda outcome=outcome: outcome("sparsemax"),
                lambda outcome=outcome: outcome("reference"),
                lambda outcome=outcome: outcome("reference", torch.float64),
            )
        )


PATHS = {
    "whole products": {"FEW": 1e9, "FEW_BACKWARD": 1e9, "SMALL": 0, "LITTLE": 0},
    "few": {"FEW": 0, "FEW_BACKWARD": 0, "SMALL": 0},
    "in one call": {},
}
HIDDEN = {"nothing": None, "all of a row": (3, 7, 40), "for all queries": (3, 1, 40), "for all": (1, 7, 40)}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize(
    ("T", "S", "D", "Dv"),
    [(1, 9, 5, 3), (7, 40, 16, 24), (5, 1, 8, 8), (6, 35, 13, 37), (4, 17, 1030, 3)],
)
def test_a_product_under_sparsemax_is_as_exact_as_its_parts(T, S, D, Dv, hidden, path, monkeypatch):
    """By the error rule, beside the same in tensors."""
    for name, number in PATHS[path].items():
        monkeypatch.setattr(sparsemax_cpu, name, number)
    given = [torch.randn(3, n, d) for n, d in ((T, D), (S, D), (S, Dv))]
    direction = torch.randn(3, T, Dv)
    mask = None
    if HIDDEN[hidden] is not None:
        shape = [min(size, own) for size, own in zip(HIDDEN[hidden], (3, T, S), strict=True)]
        mask = torch.rand(shape) > 0.7
        mask[0, 0] = True  # a row that sees nothing

    def found(dtype, run):
        leaves = [x.to(dtype).requires_grad_() for x in given]
        context = run(*leaves)
        return [context, *torch.autograd.grad(context, leaves, direction.to(dtype))]

    def plain(q, k, v):
        scores = 0.5 * q @ k.mT
        return Sparsemax()(scores, None if mask is None else ~mask) @ v

    assert_rule(
        (
            lambda: found(
                torch.float32, lambda q, k, v: torch.ops.regard.sparsemax_product(q, k, v, mask, 0.5)[0]
            ),
            lambda: found(torch.float32, plain),
            lambda: found(torch.float64, plain),
        )
    )


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_a_query_without_scores_has_no_context_and_leaves_the_others_theirs(number):
    q, k, v = (torch.randn(1, n, 8) for n in (5, 20, 20))
    expected = torch.ops.regard.sparsemax_product(q, k, v, None, 1.0)[0]
    q[0, 2, 3] = number
    found = torch.ops.regard.sparsemax_product(q, k, v, None, 1.0)[0]
    assert found[0, 2].isnan().all()
    rest = [0, 1, 3, 4]
    assert torch.equal(found[:, rest], expected[:, rest])


def test_a_product_on_all_threads_is_that_on_one(monkeypatch):
    q, k, v = (torch.randn(5, n, 8, requires_grad=True) for n in (6, 30, 30))

    def found():
        context = torch.ops.regard.sparsemax_product(q, k, v, None, 1.0)[0]
        return [context, *torch.autograd.grad(context.sin().sum(), (q, k, v))]

    alone = found()
    monkeypatch.setattr(sparsemax_cpu, "SHARED", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert all(torch.equal(x, y) for x, y in zip(found(), alone, strict=True))


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_any_number_of_leading_axes(lead, dtype):
    q, k = (torch.randn(*lead, n, 5).to(dtype) for n in (7, 9))
    for mask in (
        None,
        Mask(causal=True),
        torch.rand(9) > 0.5,
        torch.rand(7, 9) > 0.5,
        torch.rand(7, 1) > 0.5,
    ):
        ours, plain = (attention(q, attention.prepare(k, None, mask)) for attention in attentions(DotScore()))
        assert_close(ours.context, plain.context)


def test_strided_inputs_change_nothing():
    q, k, v = (torch.randn(8, n, 3).transpose(0, 2).requires_grad_() for n in (2, 30, 30))
    assert not k.is_contiguous()

    def found():
        context = torch.ops.regard.sparsemax_product(q, k, v, None, 1.0)[0]
        return [context, *torch.autograd.grad(context.sin().sum(), (q, k, v))]

    expected = found()
    whole = (x.detach().contiguous().requires_grad_() for x in (q, k, v))
    assert_close(torch.ops.regard.sparsemax_product(*whole, None, 1.0)[0], expected[0], rtol=0, atol=0)


@pytest.mark.parametrize("T", [1, 5])
def test_rows_longer_than_the_stack_change_nothing(T):
    q, k, v = (torch.randn(1, n, 4, requires_grad=True) for n in (T, 5000, 5000))
    direction = torch.randn(1, T, 4)

    def outcome(run, dtype):
        leaves = [x.detach().to(dtype).requires_grad_() for x in (q, k, v)]
        context = run(*leaves)
        return [context, *torch.autograd.grad(context, leaves, direction.to(dtype))]

    def plain(q, k, v):
        return Sparsemax()(q @ k.mT) @ v

    assert_rule(
        (
            lambda: outcome(lambda *x: torch.ops.regard.sparsemax_product(*x, None, 1.0)[0], torch.float32),
            lambda: outcome(plain, torch.float32),
            lambda: outcome(plain, torch.float64),
        )
    )


def test_it_does_not_depend_on_the_defaults_of_torch():
    q, k, v = (torch.randn(2, n, 4) for n in (3, 7, 7))
    expected = torch.ops.regard.sparsemax_product(q, k, v, None, 1.0)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            found = torch.ops.regard.sparsemax_product(q, k, v, None, 1.0)
    finally:
        torch.set_default_dtype(torch.float32)
    assert_close(found, expected, rtol=0, atol=0)


def test_dropout_drops_and_leaves_the_weights():
    attention, _ = attentions(DotScore(), dropout=0.5)
    x = torch.randn(2, 9, 5)
    source = attention.prepare(x, torch.eye(9).expand(2, 9, 9))
    result = attention(x, source)
    assert_close(result.weights.sum(-1), torch.ones(2, 9))
    rounding = UNITS * torch.finfo(torch.float32).eps * 2  # of 2 at most
    assert ((result.context == 0) | (result.context - 2 * result.weights).abs().lt(rounding)).all()
    assert_close(attention.eval()(x, source).context, result.weights)


def test_it_is_chosen_for_sparsemax_alone_and_not_in_float64():
    x = torch.randn(2, 9, 5)
    for normalizer, dtype, kernel in (
        (Sparsemax(), torch.float32, "sparsemax"),
        (Sparsemax(), torch.bfloat16, "sparsemax"),
        (Sparsemax(), torch.float64, "reference"),
        (None, torch.float32, "sdpa"),
    ):
        attention = Attention(DotScore(), normalizer=normalizer)
        y = x.to(dtype)
        result = attention(y, attention.prepare(y))
        assert result.kernel == attention.explain(y, attention.prepare(y)).kernel == kernel
        assert result.context.dtype == dtype


def test_it_compiles_as_one_graph():
    attention, _ = attentions(DotScore())
    x = torch.randn(2, 9, 5, requires_grad=True)

    def run(x):
        return attention(x, attention.prepare(x)).context

    expected = torch.autograd.grad(run(x).square().sum(), x)
    context = torch.compile(run, fullgraph=True, backend="aot_eager")(x)
    assert_close(torch.autograd.grad(context.square().sum(), x), expected)


def test_the_triton_kernels_in_the_interpreter():
    check_in_interpreter("sparsemax_interpreted.py")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("S", [*SIZES, 4096, 20000, 40000])
def test_it_is_as_exact_as_the_sorted_one_on_a_gpu(S):
    for label, scores in rows_of(S, "cuda").items():
        check(torch.ops.regard.sparsemax, scores, label)
