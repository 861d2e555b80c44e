"""The fused dot-product kernel equals the reference: forward, every gradient, every mask, every dtype."""

import pytest
import torch
from torch.testing import assert_close

from regard import Attention, CosineScore, DotScore, GeneralScore, Mask, MultiHead, Softmax

B, D, DV = 2, 5, 3
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def scores(dtype):
    torch.manual_seed(1)
    return {
        "dot": DotScore(1.0),
        "scaled-dot": DotScore(),
        "general": GeneralScore(query=D, keys=D).to(dtype),
        "cosine": CosineScore(strength=3.0),
        "cosine of the query": CosineScore(query=D).to(dtype),
    }


NAMES = tuple(scores(torch.float32))


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


def run(name, kernel, inputs, mask, direction, dtype, temperature=1.0):
    """Context and the gradients of query, keys, values and every parameter, as float64."""
    score = scores(torch.bfloat16 if direction.dtype == torch.bfloat16 else torch.float32)[name].to(dtype)
    attention = Attention(score, normalizer=Softmax(temperature=temperature), kernel=kernel)
    leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
    result = attention(leaves[0], attention.prepare(leaves[1], leaves[2], mask))
    assert result.kernel == kernel
    grads = torch.autograd.grad(result.context, [*leaves, *attention.parameters()], direction.to(dtype))
    return [x.detach().double() for x in (result.context, *grads)], result


def rms(x):
    return x.square().mean().sqrt().item()


def check_errors(name, inputs, mask, direction, label):
    dtype = direction.dtype
    exact, _ = run(name, "reference", inputs, mask, direction, torch.float64)
    reference, plain = run(name, "reference", inputs, mask, direction, dtype)
    fused, result = run(name, "sdpa", inputs, mask, direction, dtype)
    for part, (want, ours, theirs) in enumerate(zip(exact, reference, fused, strict=True)):
        assert torch.isfinite(theirs).all(), (label, part)
        # one rounding of the answer: PyTorch's kernel multiplies weights that it has rounded to the dtype of
        # the inputs, where the reference keeps float32; and where the reference is exactly right, as at size
        # 1, twice its error would be nothing at all
        floor = torch.finfo(dtype).eps * max(1.0, want.abs().max().item())
        assert rms(theirs - want) <= 2 * rms(ours - want) + floor, (label, part)
        # the worst of thousands of numbers is a matter of luck: a wide bound that still sees one wrong entry
        worst, own = (theirs - want).abs().max().item(), (ours - want).abs().max().item()
        assert worst <= 4 * own + 4 * floor, (label, part)
    assert not result.has_weights
    assert_close(result.weights, plain.weights, msg=label)
    assert_close(result.scores, plain.scores, msg=label)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("size", [1, 17, 64, 65])
def test_its_error_is_at_most_twice_that_of_the_reference(name, dtype, size):
    inputs = [torch.randn(B, size, d).to(dtype) for d in (D, D, DV)]
    direction = torch.randn(B, size, DV).to(dtype)
    for label, mask in masks(size, size).items():
        check_errors(name, inputs, mask, direction, label)


@pytest.mark.parametrize("name", NAMES)
def test_queries_and_keys_may_differ_in_number(name):
    for T, S in ((1, 17), (17, 1), (3, 64)):
        inputs = [torch.randn(B, T, D), torch.randn(B, S, D), torch.randn(B, S, DV)]
        for label, mask in masks(T, S).items():
            check_errors(name, inputs, mask, torch.randn(B, T, DV), f"{T}×{S} {label}")


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_a_thousand_positions(dtype):
    inputs = [torch.randn(B, 1000, d).to(dtype) for d in (D, D, DV)]
    direction = torch.randn(B, 1000, DV).to(dtype)
    for label in ("causal", "everything"):
        check_errors("scaled-dot", inputs, masks(1000, 1000)[label], direction, label)


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


def test_causality_alone_is_told_by_the_flag_and_builds_no_mask(monkeypatch):
    seen = []

    def spy(query, keys, values, *, attn_mask, is_causal, dropout_p, scale):
        seen.append((attn_mask is None, is_causal))
        return values[..., : query.shape[-2], :]

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    attention = Attention(DotScore(), kernel="sdpa")
    x = torch.randn(B, 7, D)
    attention(x, attention.prepare(x, mask=Mask(causal=True)))
    attention(x, attention.prepare(x))
    attention(
        x[:, :3], attention.prepare(x, mask=Mask(causal=True))
    )  # T ≠ S: the flag would mean something else
    attention(x[:, 3:4], attention.prepare(x, mask=Mask(causal=True)).at(3))
    assert seen == [(True, True), (True, False), (False, False), (False, False)]


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
