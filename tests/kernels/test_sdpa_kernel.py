"""The fused dot-product kernel equals the reference: forward, every gradient, every mask, every dtype."""

from contextlib import nullcontext

import pytest
import torch
from kernels.error_rule import assert_rule
from seeds import offset_seed
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from regard import Attention, CosineScore, DotScore, FeedForwardScore, GeneralScore, Mask, MultiHead, Softmax
from regard.kernels.product import causal_offset, sdpa

B, D, DV = 2, 5, 3
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def scores(dtype):
    torch.manual_seed(offset_seed(1))
    return {
        "dot": DotScore(1.0),
        "scaled-dot": DotScore(),
        "general": GeneralScore(query=D, keys=D).to(dtype),
        "cosine": CosineScore(strength=3.0),
        "cosine of the query": CosineScore(query=D).to(dtype),
        "feed-forward": FeedForwardScore(dim=D, hidden=7).to(dtype),
    }


def masks(T, S):
    table = torch.rand(B, T, S) > 0.3
    table[:, T // 2] = False  # rows with nothing visible
    return {
        "nothing hidden": None,
        "causal": Mask(causal=True),
        "causal, later": Mask(causal=True, offset=2),
        "lengths": Mask(lengths=torch.tensor([S, S // 2])),
        "a row of nothing": Mask(lengths=torch.tensor([S, 0])),
        "window": Mask(window=(3, 1)),
        "dense": Mask(dense=table),
        "dense for all rows": Mask(dense=table[0]),
        "dense for all queries": Mask(dense=table[0, 0] | (torch.arange(S) == 0)),
        "dense column": Mask(dense=table[..., :1]),
        "everything": Mask(causal=True, lengths=torch.tensor([S, S // 2]), window=(9, 9), dense=table),
    }


with torch.random.fork_rng(devices=[]):  # for the names
    NAMES, MASKS = tuple(scores(torch.float32)), tuple(masks(1, 17))


def run(name, kernel, inputs, mask, direction, dtype, temperature=1.0):
    """Context and the gradients of query, keys, values and every parameter."""
    score = scores(torch.bfloat16 if direction.dtype == torch.bfloat16 else torch.float32)[name].to(dtype)
    attention = Attention(score, normalizer=Softmax(temperature=temperature), kernel=kernel)
    leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
    result = attention(leaves[0], attention.prepare(leaves[1], leaves[2], mask))
    assert result.kernel == kernel
    grads = torch.autograd.grad(result.context, [*leaves, *attention.parameters()], direction.to(dtype))
    return [x.detach() for x in (result.context, *grads)], result


def check_errors(name, problems):
    """By the error rule: (inputs, mask, direction) by label; weights and scores are the reference's."""

    results = {"sdpa": [], "reference": []}

    def outcome(kernel, inputs, mask, direction, dtype=None):
        def called():
            found, result = run(name, kernel, inputs, mask, direction, dtype or direction.dtype)
            if dtype is None:
                results[kernel].append(result)
            return found

        return called

    assert_rule(
        *(
            (
                outcome("sdpa", *given),
                outcome("reference", *given),
                outcome("reference", *given, torch.float64),
            )
            for given in problems.values()
        ),
        draws=1,
    )
    for label, ours, plain in zip(problems, results["sdpa"], results["reference"][::2], strict=True):
        assert not ours.has_weights  # every second call of the reference had jitter
        assert_close(ours.weights, plain.weights, msg=label)
        assert_close(ours.scores, plain.scores, msg=label)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("size", [1, 17, 64, 65])
def test_it_keeps_the_error_rule(name, dtype, size):
    inputs = [torch.randn(B, size, d).to(dtype) for d in (D, D, DV)]
    direction = torch.randn(B, size, DV).to(dtype)
    check_errors(name, {label: (inputs, mask, direction) for label, mask in masks(size, size).items()})


@pytest.mark.parametrize("name", NAMES)
def test_queries_and_keys_may_differ_in_number(name):
    for T, S in ((1, 17), (17, 1), (3, 64)):
        inputs = [torch.randn(B, T, D), torch.randn(B, S, D), torch.randn(B, S, DV)]
        direction = torch.randn(B, T, DV)
        check_errors(name, {label: (inputs, mask, direction) for label, mask in masks(T, S).items()})


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_a_thousand_positions(dtype):
    inputs = [torch.randn(B, 1000, d).to(dtype) for d in (D, D, DV)]
    direction = torch.randn(B, 1000, DV).to(dtype)
    some = {label: masks(1000, 1000)[label] for label in ("causal", "everything")}
    check_errors("scaled-dot", {label: (inputs, mask, direction) for label, mask in some.items()})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_it_knows_the_temperature(name, temperature):
    inputs, direction = [torch.randn(B, 7, d) for d in (D, D, DV)], torch.randn(B, 7, DV)
    mask = Mask(causal=True)
    expected, _ = run(name, "reference", inputs, mask, direction, torch.float64, temperature)
    result, _ = run(name, "sdpa", inputs, mask, direction, torch.float64, temperature)
    assert_close(result, expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_rows_with_nothing_visible_are_zero_with_zero_gradient(name, dtype):
    inputs, direction = [torch.randn(B, 7, d) for d in (D, D, DV)], torch.randn(B, 7, DV).to(dtype)
    (context, query, keys, values, *parameters), result = run(
        name, "sdpa", inputs, Mask(lengths=torch.tensor([7, 0])), direction, dtype
    )
    for tensor in (context, query, keys, values):
        assert (tensor[1] == 0).all()
        assert torch.isfinite(tensor).all()
    assert all(torch.isfinite(grad).all() for grad in parameters)
    assert (result.weights[1] == 0).all()
    everything_hidden, _ = run(name, "sdpa", inputs, torch.zeros(7, 7, dtype=torch.bool), direction, dtype)
    assert all((tensor == 0).all() for tensor in everything_hidden)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lead", [(), (2, 3), (1,)], ids=str)
def test_any_number_of_leading_axes(name, lead):
    inputs, direction = [torch.randn(*lead, 7, d) for d in (D, D, DV)], torch.randn(*lead, 7, DV)
    for mask in (None, Mask(causal=True), torch.rand(7, 7) > 0.3):
        expected, _ = run(name, "reference", inputs, mask, direction, torch.float64)
        result, _ = run(name, "sdpa", inputs, mask, direction, torch.float64)
        assert_close(result, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_the_context_has_the_dtype_of_the_values(dtype):
    inputs, direction = [torch.randn(B, 7, d) for d in (D, D, DV)], torch.randn(B, 7, DV).to(dtype)
    for name in NAMES:
        _, result = run(name, "sdpa", inputs, None, direction, dtype)
        assert result.context.dtype == dtype


def test_dropout_drops_in_training_alone_and_leaves_the_weights():
    attention = Attention(DotScore(), dropout=0.5, kernel="sdpa")
    query, keys = torch.randn(B, 7, D), torch.randn(B, 31, D)
    source = attention.prepare(keys, torch.eye(31).expand(B, 31, 31))  # the context is the dropped weights
    result = attention(query, source)
    dropped = result.context == 0
    assert 0.3 < dropped.float().mean() < 0.7
    assert_close(result.context[~dropped], 2 * result.weights[~dropped])
    assert_close(attention.eval()(query, source).context, result.weights)


def test_layout_does_not_matter():
    keys, values = torch.randn(7, B, D).transpose(0, 1), torch.randn(B, 14, D)[:, ::2]
    fused, plain = Attention(DotScore(), kernel="sdpa"), Attention(DotScore(), kernel="reference")
    query = torch.randn(D, 7, B).transpose(0, 2)
    assert not query.is_contiguous()
    source = fused.prepare(keys, values, Mask(causal=True))
    assert_close(fused(query, source).context, plain(query, source).context)


ON_A_GPU = {
    "one query by its products": (1, 17, sdpa._by_products),
    "a mask in half precision": (
        9,
        64,
        lambda q, k, v, mask, *rest: masked(sdpa._guarded, q, k, v, mask, *rest),
    ),
}


def masked(run, q, k, v, mask, *rest):
    shown = mask.to_dense(q.shape[-2], k.shape[-2], ndim=3, device=q.device)
    return run(q, k, v, torch.ones(1, 1, dtype=torch.bool) if shown is None else shown, *rest)


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("way", ON_A_GPU)
def test_what_a_gpu_takes_is_the_reference_anywhere(name, way):
    T, S, run = ON_A_GPU[way]
    mask = Mask.of(masks(T, S)[name])
    sizes = ((T, D), (S, D), (S, DV))
    q, k, v = (torch.randn(B, n, d, dtype=torch.float64, requires_grad=True) for n, d in sizes)
    plain = Attention(DotScore(0.5), kernel="reference")
    contexts = [run(q, k, v, mask, 0.0, 0.5), plain(q, plain.prepare(k, v, mask)).context]
    direction = torch.randn(B, T, DV, dtype=torch.float64)
    found, expected = ([x, *torch.autograd.grad(x, (q, k, v), direction)] for x in contexts)
    assert_close(found, expected)


class Largest(TorchDispatchMode):
    """The most numbers that any tensor had, inside our operators too."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        inside = {
            torch.ops.regard.causal_offset.default: lambda *given: causal_offset.forward(
                causal_offset.Causal(*given)
            ),
            torch.ops.regard.causal_offset_backward.default: causal_offset.backward,
        }
        with self if function in inside else nullcontext():
            out = inside.get(function, function)(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else (out,):
            if isinstance(x, torch.Tensor):
                self.numel = max(self.numel, x.numel())
        return out


FACTS = {
    "nothing": Mask(),
    "causal": Mask(causal=True),
    "causal, later": Mask(causal=True, offset=100),
    "causal, much later": Mask(causal=True, offset=1000),
    "lengths": Mask(lengths=torch.tensor([300, 170])),
    "causal lengths": Mask(causal=True, lengths=torch.tensor([300, 170])),
    "causal lengths, later": Mask(causal=True, lengths=torch.tensor([300, 0]), offset=100),
    "a dense row": Mask(dense=torch.arange(300) % 3 > 0),
    "all": Mask(causal=True, lengths=torch.tensor([300, 90]), dense=torch.arange(300) > 120, offset=100),
}


@pytest.mark.parametrize("name", FACTS)
@pytest.mark.parametrize("T", [1, 150, 300])
def test_facts_of_the_mask_are_passed_as_such(name, T):
    """Equal to the reference, and no tensor of the size of all pairs is made, forward or backward."""
    inputs = [torch.randn(B, n, d) for n, d in ((T, D), (300, D), (300, DV))]
    direction = torch.randn(B, T, DV)
    given = (inputs, FACTS[name], direction)
    with Largest() as seen:
        result, _ = run("scaled-dot", "sdpa", *given, torch.float32)
    assert_rule(
        (
            lambda: result,
            lambda: run("scaled-dot", "reference", *given, torch.float32)[0],
            lambda: run("scaled-dot", "reference", *given, torch.float64)[0],
        )
    )
    assert seen.numel <= B * 300 * 8  # a mask for all pairs would have 300 · T


class Operators(TorchDispatchMode):
    """The operators that were called, by name."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(function._schema.name.removeprefix("aten::"))
        return function(*args, **(kwargs or {}))


FUSED = "_scaled_dot_product_flash_attention_for_cpu"
SHORT = {
    "nothing": (Mask(), [FUSED]),
    "causal": (Mask(causal=True), [FUSED]),
    "a decoder's step": (Mask(causal=True, offset=6), [FUSED]),
    "lengths": (Mask(lengths=torch.tensor([7, 4])), ["arange", "view", "lt"]),
}


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("score", [DotScore, lambda: GeneralScore(query=4, keys=4)], ids=["dot", "general"])
def test_a_call_with_prepared_inputs_is_pytorchs_kernel_and_nothing_else(score, name):
    mask, expected = SHORT[name]
    attention = Attention(score())
    T = 1 if mask.offset else 7
    source = attention.prepare(torch.randn(2, 3, 7, 4), torch.randn(2, 3, 7, 4), mask)
    with torch.no_grad(), Operators() as seen:
        attention(torch.randn(2, 3, T, 4), source)
    names = [name for name in seen.names if name != "randn"]
    assert names[: len(expected)] == expected
    if mask.lengths is None:
        assert len(names) == 1
    else:
        assert FUSED in names
        assert len(names) == 7  # PyTorch makes numbers of the mask, in three


def test_the_offset_operator_is_registered_as_torch_expects():
    q, k, v = (torch.randn(1, 2, n, 4, requires_grad=True) for n in (5, 9, 9))
    bias = torch.zeros(1, 1, 1, 9).masked_fill(torch.arange(9) < 5, -torch.inf)
    for arguments in ((None, 4, 0.5), (bias, 2, 1.0)):
        torch.library.opcheck(torch.ops.regard.causal_offset, (q, k, v, *arguments))


def test_an_offset_compiles_as_one_graph():
    attention = Attention(DotScore(), kernel="sdpa")
    x = torch.randn(B, 9, D, requires_grad=True)

    def context(x):
        return attention(x[:, 4:], attention.prepare(x, None, Mask(causal=True)).at(4)).context

    expected = torch.autograd.grad(context(x).square().sum(), x)
    compiled = torch.compile(context, fullgraph=True, backend="aot_eager")(x)
    assert_close(torch.autograd.grad(compiled.square().sum(), x), expected)


def test_weights_are_those_of_the_dropout_that_the_score_drew():
    attention = Attention(FeedForwardScore(dim=D, hidden=7, dropout=0.3))
    x = torch.randn(B, 7, D)
    result = attention(x, attention.prepare(x))
    assert result.kernel == "sdpa"
    assert_close(result.weights @ x, result.context)


def test_poisoned_memory_does_not_reach_the_answer():
    """Freed blocks full of NaN are what the allocator hands out next."""
    attention, plain = Attention(DotScore(), kernel="sdpa"), Attention(DotScore(), kernel="reference")
    query, keys, values = (torch.randn(B, 65, d) for d in (D, D, DV))
    for mask in masks(65, 65).values():
        poison = [torch.full((B, 65, n), torch.nan) for n in (DV, D, 65) for _ in range(3)]
        del poison
        source = attention.prepare(keys, values, mask)
        assert_close(attention(query, source).context, plain(query, source).context)


def test_heads_on_the_fused_kernel_equal_heads_on_the_reference():
    fused = MultiHead(10, 2, attention=Attention(DotScore(), kernel="sdpa")).double()
    plain = MultiHead(10, 2, attention=Attention(DotScore(), kernel="reference")).double()
    plain.load_state_dict(fused.state_dict())
    x = torch.randn(B, 7, 10).double()
    for label, mask in masks(7, 7).items():
        results = [heads(x, heads.prepare(x, None, mask)) for heads in (fused, plain)]
        assert results[0].kernel == "sdpa"
        assert_close(results[0].context, results[1].context, msg=label)
        assert_close(results[0].weights, results[1].weights, msg=label)
