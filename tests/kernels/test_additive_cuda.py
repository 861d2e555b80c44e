"""The Triton kernels on a GPU: as exact as the reference, for every size, mask, precision and extreme."""

from copy import deepcopy

import pytest
import torch
from kernels.additive_cases import (
    EXTREMES,
    HALF,
    MASKS,
    assert_as_good_as_reference,
    assert_errors_by_norm,
    call_of,
    extremes,
    far_from_zero,
    masks,
    outcomes,
    random_inputs,
    reference,
    score_of,
)
from kernels.capturing import captured
from kernels.error_rule import assert_rule
from torch.testing import assert_close

from regard import Attention, Mask, Softmax, Source, Sparsemax
from regard.attention.dispatch import Call
from regard.errors import KernelRefused
from regard.kernels import tuning
from regard.kernels.additive import additive_scores
from regard.kernels.additive.additive_cuda import ADDITIVE_CUDA, ADDITIVE_STEP_CUDA, STEP

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def kernel_of(call):
    return ADDITIVE_CUDA if call.query.shape[-2] > STEP else ADDITIVE_STEP_CUDA


def run_additive(call):
    return kernel_of(call).run(call)


@pytest.fixture(autouse=True)
def poisoned():
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
    assert_as_good_as_reference(run_additive, score, inputs, grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["causal", "an empty row", "dense"])
def test_many_queries_of_heads_are_as_exact_as_the_reference(name, dtype):
    def split(x):  # as heads come out of one projection
        return x.transpose(1, 2).contiguous().transpose(1, 2)

    inputs, grad = random_inputs((2, 3), 33, 150, dtype=dtype, device="cuda")
    mask = masks(2, 33, 150, "cuda")[name]
    mask = mask if mask.dense is None else Mask(dense=mask.dense[:, None])
    score = score_of(7, 9, 20, dtype, "cuda")
    assert_as_good_as_reference(run_additive, score, [split(x) for x in inputs], split(grad), mask, draws=4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("N", "T", "S", "D"), [(1, 300, 700, 30), (3, 35, 1100, 260), (40, 7, 5, 8)])
def test_gradients_in_parts_are_joined_as_exactly_as_by_the_reference(N, T, S, D, dtype):
    inputs, grad = random_inputs((N,), T, S, dtype=dtype, device="cuda")
    assert_as_good_as_reference(run_additive, score_of(7, 9, D, dtype, "cuda"), inputs, grad, draws=4)


def test_many_queries_give_only_the_gradients_that_are_asked_for():
    score = score_of(7, 9, 20, torch.float32, "cuda").requires_grad_(False)
    inputs, grad = random_inputs((3,), 9, 200, device="cuda")

    def gradient(run, wanted, dtype):
        own, given = deepcopy(score).to(dtype), [x.to(dtype, copy=True) for x in inputs]
        leaf = [*given, own.W.weight, own.v.weight][wanted].requires_grad_()
        return torch.autograd.grad(run(call_of(own, *given)), leaf, grad.to(dtype))

    for wanted in range(5):
        assert_rule(
            (
                lambda wanted=wanted: gradient(run_additive, wanted, torch.float32),
                lambda wanted=wanted: gradient(reference, wanted, torch.float32),
                lambda wanted=wanted: gradient(reference, wanted, torch.float64),
            ),
            label=wanted,
        )


@pytest.mark.parametrize("normalizer", [Softmax(), Sparsemax()], ids=["softmax", "sparsemax"])
def test_a_backward_pass_inside_autocast_lowers_no_precision(normalizer):
    score = score_of(7, 9, 20, torch.float32, "cuda")
    (query, keys, values), grad = random_inputs((3,), 9, 200, device="cuda")
    leaves = [query.requires_grad_(), values.requires_grad_(), score.W.weight, score.v.weight]
    attention = Attention(score, normalizer=normalizer)
    context = attention(query, attention.prepare(keys, values)).context
    expected = torch.autograd.grad(context, leaves, grad, retain_graph=True)
    with torch.autocast("cuda", torch.bfloat16):
        found = torch.autograd.grad(context, leaves, grad)
    assert_close(found, expected, rtol=0, atol=0)


def test_many_queries_have_no_second_derivative():
    score = score_of(7, 9, 6, torch.float32, "cuda")
    (query, keys, values), _ = random_inputs((2,), 9, 5, device="cuda")
    context = run_additive(call_of(score, query.requires_grad_(), keys, values))
    (first,) = torch.autograd.grad(context.square().sum(), query, create_graph=True)
    with pytest.raises(KernelRefused, match="no second derivative"):
        first.sum().backward()


def test_many_queries_run_on_tensors_that_begin_anywhere():
    score = score_of(8, 8, 8, torch.float32, "cuda")

    def gradient(run, query, keys, grad):
        own = deepcopy(score).to(keys.dtype)
        call = Call(query, Source(keys, keys, Mask()), own, Softmax(), None, None, 0.0)
        return torch.autograd.grad(run(call), keys, grad)

    for start in (0, 1, 0, 3):
        space = torch.randn(2 * 200 * 8 + 4, device="cuda")
        keys = space[start : start + 2 * 200 * 8].view(2, 200, 8).requires_grad_()
        (query, _, _), grad = random_inputs((2,), 9, 200, Dq=8, Dv=8, device="cuda")
        given = query, keys, grad
        assert_rule(
            (
                lambda given=given: gradient(run_additive, *given),
                lambda given=given: gradient(reference, *given),
                lambda given=given: gradient(reference, *(x.double() for x in given)),
            ),
            label=start,
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_many_queries_can_be_captured(dtype):
    score = score_of(7, 9, 40, dtype, "cuda")
    (query, keys, values), grad = random_inputs((3,), 33, 150, dtype=dtype, device="cuda")
    leaves = [query.requires_grad_(), score.W.weight, score.U.weight, score.v.weight]

    def step():
        context = run_additive(call_of(score, query, keys, values))
        return context.detach(), *torch.autograd.grad(context, leaves, grad)

    expected = step()
    graph, found = captured(step)
    graph.replay()
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("B", "T", "S", "D"), [(2, 1, 40, 600), (2, 3, 40, 600), (2, 1, 40, 1100), (700, 1, 9, 100)]
)
def test_steps_of_every_tile_are_as_exact_as_the_reference(B, T, S, D, dtype):
    inputs, grad = random_inputs((B,), T, S, dtype=dtype, device="cuda")
    assert_as_good_as_reference(run_additive, score_of(7, 9, D, dtype, "cuda"), inputs, grad, draws=4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("own", [True, False])
def test_a_step_projects_its_query_as_exactly_as_the_reference(own, dtype, monkeypatch):
    monkeypatch.setattr(tuning, "projects", lambda *sizes: own)
    inputs, grad = random_inputs((70,), 1, 40, Dq=300, dtype=dtype, device="cuda")
    assert_as_good_as_reference(run_additive, score_of(300, 9, 100, dtype, "cuda"), inputs, grad, draws=4)


def test_a_step_under_autocast_multiplies_in_half_precision():
    score = score_of(24, 9, 40, torch.float32, "cuda")
    inputs, grad = random_inputs((3,), 1, 40, Dq=24, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        ours, theirs = (outcomes(run, score, inputs, grad) for run in (run_additive, reference))
    for name, x in ours.items():
        assert x.dtype == theirs[name].dtype, name
        assert (x.float() - theirs[name].float()).norm() <= 0.02 * theirs[name].float().norm(), name


@pytest.mark.parametrize("T", [1, 17, 300])
@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_is_as_exact_as_the_reference(T, dtype):
    inputs, grad = random_inputs((2,), T, 300, dtype=dtype, device="cuda", Dv=65)
    score = score_of(7, 9, 64, dtype, "cuda")
    assert_as_good_as_reference(run_additive, score, inputs, grad, draws=4)


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("T", [3, 70])
def test_sees_what_the_mask_shows(T, name):
    inputs, grad = random_inputs((3,), T, 150, device="cuda")
    mask = masks(3, T, 150, "cuda")[name]
    score = score_of(7, 9, 20, torch.float32, "cuda")
    assert_as_good_as_reference(run_additive, score, inputs, grad, mask)


@pytest.mark.parametrize("name", EXTREMES)
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


@pytest.mark.parametrize("shape", [(2, 65, 200, 100, 17), (2, 300, 130, 64, 128), (2, 40, 300, 700, 33)])
def test_many_features_far_from_zero_are_summed_as_exactly_as_by_the_reference(shape):
    arguments = far_from_zero(*shape, device="cuda")
    context = torch.ops.regard.additive(*arguments, None, None, None, None, 0, 1.0)
    assert_errors_by_norm(context, arguments)


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@pytest.mark.parametrize("name", ["causal", "an empty row", "all"])
def test_scores_that_are_read_are_as_exact_as_the_reference(name, dtype):
    inputs, grad = random_inputs((3,), 70, 150, dtype=dtype, device="cuda")
    mask = masks(3, 70, 150, "cuda")[name]
    score = score_of(7, 9, 20, dtype, "cuda")
    run = additive_scores.ADDITIVE_SCORES.run
    assert_as_good_as_reference(lambda call: run(call).context, score, inputs, grad, mask, draws=4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_that_are_zero_or_tiny_next_to_others_are_exact(dtype):
    inputs, grad = random_inputs((2,), 40, 150, device="cuda", dtype=dtype)
    score = score_of(7, 9, 48, dtype, "cuda")
    with torch.no_grad():
        score.v.weight.mul_(2.0 ** -(torch.arange(48, device="cuda") % 40.0))
        score.v.weight[0, ::5] = 0.0
    assert_as_good_as_reference(run_additive, score, inputs, grad)


@pytest.mark.parametrize("T", [1, 3])
def test_a_step_gives_only_the_gradients_that_are_asked_for(T):
    score = score_of(7, 9, 20, torch.float32, "cuda").requires_grad_(False)
    (query, keys, values), grad = random_inputs((3,), T, 200, device="cuda")
    for wanted in (query, keys, values):
        wanted.requires_grad_()
        ours, theirs = (
            torch.autograd.grad(run(call_of(score, query, keys, values)), wanted, grad)
            for run in (run_additive, reference)
        )
        assert_close(ours, theirs)
        wanted.requires_grad_(False)


def test_a_step_runs_on_tensors_that_begin_anywhere():
    """What was compiled for aligned tensors must not be taken for others of the same shape."""
    score = score_of(8, 8, 8, torch.float32, "cuda")
    for start in (0, 1, 0, 3):
        space = torch.randn(2 * 200 * 8 + 4, device="cuda")
        keys = space[start : start + 2 * 200 * 8].view(2, 200, 8)
        (query, _, _), _ = random_inputs((2,), 1, 200, Dq=8, device="cuda")
        source = Source(keys, keys, Mask())
        call = Call(query, source, score, Softmax(), None, None, 0.0)
        assert_close(run_additive(call), reference(call))


def test_a_step_has_no_second_derivative():
    score = score_of(7, 9, 6, torch.float32, "cuda")
    (query, keys, values), _ = random_inputs((2,), 1, 5, device="cuda")
    query.requires_grad_()
    context = run_additive(call_of(score, query, keys, values))
    (first,) = torch.autograd.grad(context.square().sum(), query, create_graph=True)
    with pytest.raises(KernelRefused, match="no second derivative"):
        first.sum().backward()


def test_the_same_twice():
    inputs, grad = random_inputs((2,), 130, 300, device="cuda")
    score = score_of(7, 9, 64, torch.float32, "cuda")
    first = outcomes(run_additive, score, inputs, grad, Mask(causal=True))
    again = outcomes(run_additive, score, inputs, grad, Mask(causal=True))
    assert_close(first, again, atol=0, rtol=0)


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores for float32 matrix multiplication:UserWarning")
@pytest.mark.parametrize("T", [1, 9])
def test_compiles_as_a_full_graph(T):
    torch.compiler.reset()
    score = score_of(7, 9, 16, torch.float32, "cuda")
    (query, keys, values), _ = random_inputs((2,), T, 6, device="cuda")
    query.requires_grad_()

    def run(query, keys, values):
        call = call_of(score, query, keys, values, Mask(causal=True, offset=2))
        assert kernel_of(call).refuses(call) is None
        return run_additive(call)

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


@pytest.mark.parametrize("T", [2, 5])
def test_refuses_the_cpu(T):
    (query, keys, values), _ = random_inputs((2,), T, 6)
    call = call_of(score_of(7, 9, 6, torch.float32), query, keys, values)
    assert kernel_of(call).declared_refusal(call) == "the query is on cpu, not cuda"
