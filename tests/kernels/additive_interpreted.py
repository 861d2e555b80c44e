"""The Triton kernels by Triton's interpreter, on CPU tensors. test_additive_triton.py starts this file."""

import os

import pytest
import torch
from kernels.additive_cases import (
    EXTREMES,
    assert_errors_by_norm,
    extremes,
    far_from_zero,
    masks,
    random_inputs,
    score_of,
)
from kernels.additive_cases import call_of as make_call
from kernels.error_rule import assert_rule
from seeds import offset_seed
from torch.utils.checkpoint import checkpoint

from regard import Softmax, Sparsemax
from regard.attention.numerics import upcast
from regard.attention.reference import weighted_sum
from regard.errors import KernelRefused
from regard.kernels import tuning
from regard.kernels.additive import additive_cuda, additive_launch, additive_step_cuda
from regard.kernels.additive.additive_operands import Block, Operands, blocks, operands, visible

assert os.environ["TRITON_INTERPRET"] == "1"
pytestmark = pytest.mark.usefixtures("poisoned")


def many(arguments, grad):
    return additive_launch.forward(arguments), *additive_launch.backward(grad, arguments)


def few(arguments, grad):
    return step(arguments, grad, (True, False, True, True, True))


def step(arguments, grad, needed, W=None):
    """The context, and the gradients of query, W, b, v and values that are needed."""
    query, b, v, values, *facts = arguments
    context, kept, a = additive_step_cuda.forward(query, W, b, v, values, *facts)
    given = Operands(a, b, v, values, *facts)
    found = additive_step_cuda.backward(grad, kept, query, W, given, needed)
    return context, *(x for x, wanted in zip(found, needed, strict=True) if wanted)


def plain(arguments, grad, dtype, W=None):
    """By the formula: what forward and backward of a kernel give; with W the first argument is the query."""
    given = arguments[:4] if W is None else (arguments[0], W, *arguments[1:4])
    leaves = [x.to(dtype).requires_grad_() for x in given]
    *asked, b, v, values = leaves
    a = asked[0] if W is None else asked[0] @ asked[1].mT
    given = Operands(a, b, v, values, *arguments[4:])
    shown = visible(given.b, given[4:], Block(slice(0, a.shape[0]), slice(0, a.shape[1])))
    scores = given.scale * (torch.tanh(upcast(a)[:, :, None] + upcast(b)[:, None]) @ upcast(v))
    context = weighted_sum(Softmax()(scores, shown), values)
    return context.detach(), *torch.autograd.grad(context, leaves, grad.to(context.dtype))


def check(run, arguments, grad, W=None):
    """By the error rule."""
    dtype = arguments[0].dtype
    with torch.no_grad():
        found = run(arguments, grad)
    with torch.enable_grad():
        expected = plain(arguments, grad, dtype, W)
        for x, y in zip(found, expected, strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
        exact = plain(arguments, grad, torch.float64, W)
        assert_rule((lambda: found, lambda: plain(arguments, grad, dtype, W), lambda: exact))


def arguments_of(lead, T, S, D, mask=None, temperature=1.0, dtype=torch.float32, Dv=5):
    (query, keys, values), grad = random_inputs(lead, T, S, dtype=dtype, Dv=Dv)
    with torch.no_grad():
        arguments = operands(make_call(score_of(7, 9, D, dtype), query, keys, values, mask, temperature))
    return arguments, grad.flatten(0, -3) if lead else grad[None]


@pytest.mark.parametrize(("T", "S", "D"), [(5, 1, 1), (1, 65, 8), (3, 140, 9)])
def test_many_queries(T, S, D):
    check(many, *arguments_of((2,), T, S, D))


@pytest.mark.parametrize(
    ("N", "T", "S", "D"),
    [(2, 1, 1, 1), (2, 1, 65, 70), (2, 4, 17, 6), (1, 1, 9, 600), (1, 3, 300, 6), (1, 2, 5, 600)],
)
def test_few_queries(N, T, S, D):
    check(few, *arguments_of((N,), T, S, D))


@pytest.mark.parametrize(
    ("own", "dtype", "shape"),
    [
        (True, torch.float32, (2, 1, 5, 1, 1)),
        (True, torch.float32, (3, 4, 9, 40, 70)),
        (True, torch.float32, (1, 1, 130, 2, 7)),
        (True, torch.bfloat16, (3, 4, 9, 40, 70)),
        (False, torch.float32, (3, 4, 9, 40, 70)),
    ],
    ids=str,
)
def test_a_step_projects_its_query(own, dtype, shape, monkeypatch):
    monkeypatch.setattr(tuning, "projects", lambda *sizes: own)
    torch.manual_seed(offset_seed(0))
    N, T, S, D, K = shape
    (_, *rest), grad = arguments_of((N,), T, S, D, dtype=dtype)
    query, W = torch.randn(N, T, K).to(dtype), (torch.randn(D, K) * K**-0.5).to(dtype)
    check(lambda arguments, grad: step(arguments, grad, (True,) * 5, W), (query, *rest), grad, W)
    assert_rule(
        (
            lambda: [additive_step_cuda.forward(query, W, *rest)[2]],
            lambda: [query @ W.mT],
            lambda: [query.double() @ W.double().mT],
        )
    )


@pytest.mark.parametrize("case", [None, torch.tensor([[True] * 5 + [False] * 4, [False] * 9])[:, None]])
def test_what_a_step_keeps_has_its_scores_and_weights(case):
    (query, *rest), _ = arguments_of((2,), 3, 9, 40, case)
    given = Operands(query, *rest)._replace(scale=0.5)
    _, kept, a = additive_step_cuda.forward(given.a, None, *given[1:])
    seen = additive_step_cuda.kept_alignment(kept, 9, given.scale, (2,))
    scores = torch.tanh(a[:, :, None] + given.b[:, None]) @ given.v
    shown = visible(given.b, given[4:], Block(slice(0, 2), slice(0, 3)))
    expected = scores if shown is None else scores.masked_fill(~shown, -torch.inf)
    torch.testing.assert_close(seen.scores, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(seen.weights, Softmax(temperature=2.0)(scores, shown), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("own", [True, False])
def test_a_step_gives_only_the_gradients_that_are_asked_for(own, monkeypatch):
    monkeypatch.setattr(tuning, "projects", lambda *sizes: own)
    (_, *rest), grad = arguments_of((2,), 3, 9, 40)
    query, W = torch.randn(2, 3, 70), torch.randn(40, 70)
    _, *every = step((query, *rest), grad, (True,) * 5, W)
    for i, whole in enumerate(every):
        _, alone = step((query, *rest), grad, tuple(j == i for j in range(5)), W)
        torch.testing.assert_close(alone, whole, rtol=0, atol=0)


def test_few_queries_read_only_the_keys_and_values_that_they_see():
    arguments, grad = arguments_of((2,), 2, 20, 6, torch.tensor([[True] * 13 + [False] * 7] * 2)[:, None])
    a, b, v, values, *facts = arguments
    hidden = torch.where(torch.arange(20)[:, None] < 13, 0.0, torch.nan)
    found = few((a, b + hidden, v, values + hidden, *facts), grad)
    for x, y in zip(found, few(arguments, grad), strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("run", "T"), [(many, 5), (few, 2)])
def test_half_precision(run, T, dtype):
    check(run, *arguments_of((2,), T, 9, 6, dtype=dtype))


@pytest.mark.parametrize("left", [None, 40])
def test_tiles_of_a_row_are_joined_whichever_has_its_largest_score(left, monkeypatch):
    """Three tiles of keys: scores rise to the last, and with `left` no row sees anything of the first."""
    monkeypatch.setattr(tuning, "score_tile", lambda *sizes: tuning.Tile(2, 2, 4, 8, 1))
    (a, b, v, values, *_), grad = arguments_of((2,), 9, 44, 6, dtype=torch.float16)
    rising = b + (v.sign() * torch.linspace(-3, 3, 44, dtype=b.dtype)[:, None])
    facts = (None, None, left, None, 60, 2.0)  # t + 60 - left <= s
    check(many, Operands(a, rising, v, values, *facts), grad)


@pytest.mark.parametrize(
    "name", ["causal from 3", "an empty row", "causal window", "dense", "dense row", "all"]
)
def test_masks_of_many_queries(name):
    check(many, *arguments_of((2,), 5, 7, 3, masks(2, 5, 7)[name], temperature=0.7))


@pytest.mark.parametrize("name", ["causal from 3", "an empty row", "window", "dense", "all"])
def test_masks_of_few_queries(name):
    check(few, *arguments_of((2,), 3, 7, 3, masks(2, 3, 7)[name], temperature=0.7))


def test_heads_share_masks():
    dense = torch.rand(2, 1, 5, 6) < 0.7
    check(many, *arguments_of((2, 2), 5, 6, 3, dense))


@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize(("run", "T"), [(many, 5), (few, 2)])
def test_extremes(run, T, name):
    a, b = extremes(T, 7, 5)[name]
    arguments = Operands(a, b, torch.randn(5), torch.randn(1, 7, 3))
    check(run, arguments, torch.randn(1, T, 3))


def test_many_features_far_from_zero_are_summed_as_exactly_as_by_the_reference():
    """Only the sums a + b are small: they are formed first, and no rounding is free."""
    torch.manual_seed(offset_seed(0))
    arguments = far_from_zero(1, 16, 60, 150, 8)
    context = additive_launch.forward(Operands(*arguments))
    assert_errors_by_norm(context, arguments)


@pytest.mark.parametrize(
    "v",
    [
        [0.0] * 9,
        [0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [1e4, 1.0, -1e-4, 1e-8, -1e-12, 1e-20, 1e-38, 0.0, -2.0],
        [1e-30, -2e-30, 0.0, 1e-38, 5e-31, 1e-30, -1e-30, 1e-30, 3e-31],
    ],
)
def test_weights_of_every_size(v):
    """The weights divide the exponentials of the queries: zero must not, and tiny ones must not overflow."""
    torch.manual_seed(offset_seed(0))
    arguments = (torch.randn(1, 5, 9), torch.randn(1, 7, 9), torch.tensor(v), torch.randn(1, 7, 3))
    check(many, Operands(*arguments), torch.randn(1, 5, 3))


@pytest.mark.parametrize(("N", "T"), [(2, 5), (1, 35)], ids=["at once", "in blocks"])
def test_scores_and_their_gradients(N, T, monkeypatch):
    monkeypatch.setattr(tuning, "PAIRS", 32 * 9)
    torch.manual_seed(offset_seed(0))
    a, b, v = torch.randn(N, T, 6), torch.randn(N, 9, 6), torch.randn(6)
    grad = torch.randn(N, T, 9)
    found = [additive_launch.scores(a, b, v), *additive_launch.scores_backward(grad, a, b, v)]

    def formula(dtype):
        leaves = [x.to(dtype).requires_grad_() for x in (a, b, v)]
        scores = torch.tanh(leaves[0][:, :, None] + leaves[1][:, None]) @ leaves[2]
        return [scores, *torch.autograd.grad(scores, leaves, grad.to(dtype))]

    assert_rule((lambda: found, lambda: formula(torch.float32), lambda: formula(torch.float64)))


def test_parts_of_gradients_are_joined(monkeypatch):
    """Six parts of an odd number of rows, two blocks of the source, more features than a tile."""
    monkeypatch.setattr(tuning, "gradient_rows", lambda *sizes: 2)
    monkeypatch.setattr(tuning, "gradient_columns", lambda S: 1)
    monkeypatch.setattr(tuning, "JOINED", (4, 64, 1))
    check(many, *arguments_of((1,), 11, 130, 5))


def formula(query, W, b, v, values, hidden, normalize):
    a = query if W is None else query @ W.mT
    scores = torch.tanh(a[..., :, None, :] + b[..., None, :, :]) @ v[0]
    return normalize(scores.masked_fill(hidden, -1e9)).masked_fill(hidden, 0.0) @ values


@pytest.mark.parametrize(
    ("projects", "lead", "rows"),
    [
        (True, (2,), "SOFTMAX"),
        (True, (2, 2), "SOFTMAX"),
        (False, (2, 2), "SPARSEMAX"),
        (False, (), "SOFTMAX"),
        (True, (), "SPARSEMAX"),
    ],
    ids=str,
)
def test_one_function_has_the_gradients_of_all_that_it_takes(projects, lead, rows):
    torch.manual_seed(offset_seed(0))
    D, K = 6, 3 if projects else 6
    shapes = [(*lead, 5, K), (D, K), (*lead, 7, D), (1, D), (*lead, 7, 3)]
    given = [torch.randn(*shape) for shape in shapes]
    if len(lead) > 1:  # heads, as they come out of one projection
        given[0], given[4] = (
            x.transpose(-2, -3).contiguous().transpose(-2, -3) for x in (given[0], given[4])
        )
    given[1] = given[1] if projects else None
    facts = (torch.full((lead[0] if lead else 1,), 5), None, None, None, 0, 1.0)
    hidden = torch.arange(7) >= 5
    normalize = torch.nn.functional.softmax if rows == "SOFTMAX" else lambda scores, dim: Sparsemax()(scores)
    grad = torch.randn(*lead, 5, 3)

    def found(run, dtype):
        leaves = [None if x is None else x.to(dtype).requires_grad_() for x in given]
        context = run(*leaves)
        return [context, *torch.autograd.grad(context, [x for x in leaves if x is not None], grad.to(dtype))]

    def ours(*leaves):
        return additive_cuda.attended(*leaves, facts, normalizer=getattr(additive_launch, rows))

    def theirs(*leaves):
        return formula(*leaves, hidden, lambda x: normalize(x, dim=-1))

    assert_rule(
        (
            lambda: found(ours, torch.float32),
            lambda: found(theirs, torch.float32),
            lambda: found(theirs, torch.float64),
        )
    )


def test_one_function_gives_only_the_gradients_of_query_and_projection_that_are_asked_for():
    given = [torch.randn(*s) for s in ((1, 5, 3), (6, 3), (1, 3, 6), (1, 6), (1, 3, 4))]
    facts, grad = (None, None, None, None, 0, 1.0), torch.randn(1, 5, 4)
    leaves = [x.requires_grad_() for x in given]
    every = torch.autograd.grad(additive_cuda.attended(*leaves, facts), leaves[:2], grad)
    for i, whole in enumerate(every):
        alone = [x.detach().requires_grad_(i == j) for j, x in enumerate(leaves)]
        (own,) = torch.autograd.grad(additive_cuda.attended(*alone, facts), alone[i], grad)
        torch.testing.assert_close(own, whole, rtol=0, atol=0)


def test_without_gradients_a_later_look_starts_from_the_query_as_it_was_projected():
    (query, keys, values), _ = random_inputs((2,), 5, 9)
    call = make_call(score_of(7, 9, 6, torch.float32), query, keys, values, None, 1.0)
    with torch.no_grad():
        a, W, *_ = additive_cuda.arguments(call)
    assert W is None
    assert call.seen_form.query is a
    torch.testing.assert_close(call.form().scores(), call.score(query, call.source.keys))


@pytest.mark.parametrize("where", ["inside autocast", "under a checkpoint"])
def test_one_function_has_the_same_gradients(where):
    leaves = [torch.randn(*s, requires_grad=True) for s in ((1, 5, 3), (6, 3), (1, 3, 6), (1, 6), (1, 3, 4))]
    grad = torch.randn(1, 5, 4)

    def run(*leaves):
        return additive_cuda.attended(*leaves, (None, None, None, None, 0, 1.0))

    expected = torch.autograd.grad(run(*leaves), leaves, grad)
    if where == "under a checkpoint":
        found = torch.autograd.grad(checkpoint(run, *leaves, use_reentrant=False), leaves, grad)
    else:
        context = run(*leaves)
        with torch.autocast("cpu", torch.bfloat16):
            found = torch.autograd.grad(context, leaves, grad)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


FACTS = (None, None, None, None, 0, 1.0)


@pytest.mark.parametrize("wanted", [(0, 1, 2, 3, 4), (1,), (2, 3)])
def test_a_step_gives_autograd_what_many_queries_give(wanted):
    given = (torch.randn(*s) for s in ((2, 3, 3), (6, 3), (2, 5, 6), (1, 6), (2, 5, 4)))
    leaves = [x.requires_grad_(i in wanted) for i, x in enumerate(given)]
    learning, grad = [leaves[i] for i in wanted], torch.randn(2, 3, 4)
    context, expected = additive_step_cuda.step(*leaves, *FACTS), additive_cuda.attended(*leaves, FACTS)
    found, expected = [torch.autograd.grad(x, learning, grad) for x in (context, expected)]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_the_operator_of_a_step_takes_a_query_that_lies_in_memory_in_any_way():
    (a, b, v, values, *facts), grad = arguments_of((2,), 3, 5, 6)
    given = Operands(a.mT.contiguous().mT, b, v, values, *facts)
    context, kept = additive_step_cuda.forward_of_rows(given)
    needed = [True, False, True, True]
    found = additive_step_cuda.backward_of_rows(grad, kept, *given[:4], given.scale, needed)
    of_a, _, of_v, of_values = additive_launch.backward(grad, given)
    assert found[1].numel() == 0
    torch.testing.assert_close(context, additive_launch.forward(given), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close((found[0], *found[2:]), (of_a, of_v, of_values), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("run", ["many", "few"])
@pytest.mark.parametrize("own", range(5))
def test_a_gradient_of_a_gradient_is_refused(own, run):
    given = (torch.randn(*s) for s in ((1, 3, 3), (6, 3), (1, 3, 6), (1, 6), (1, 3, 4)))
    leaves = [x.requires_grad_(i == own) for i, x in enumerate(given)]
    if run == "many":
        context = additive_cuda.attended(*leaves, FACTS)
    else:
        context = additive_step_cuda.step(*leaves, *FACTS)
    (once,) = torch.autograd.grad(context.sin().sum(), leaves[own], create_graph=True)
    with pytest.raises(KernelRefused, match=r"^a fused kernel has no second derivative"):
        once.square().sum().backward()


def test_blocks_of_rows_and_strides(monkeypatch):
    monkeypatch.setattr(tuning, "PAIRS", 32 * 3)
    (a, b, v, values, *facts), grad = arguments_of((1,), 35, 3, 2)
    strided = Operands(a.mT.contiguous().mT, b.flip(-1), v, values.mT.contiguous().mT, *facts)
    assert len(list(blocks(1, 35, 3, tuning.PAIRS, tuning.PAD_ROWS))) == 2
    check(many, strided, grad)
