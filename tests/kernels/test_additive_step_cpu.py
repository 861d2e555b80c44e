"""A decoder's step of additive attention on a CPU: the error rule, and sources that change."""

from dataclasses import replace

import pytest
import torch
from kernels.error_rule import assert_rule
from torch.testing import assert_close

from regard import AdditiveScore, Attention, KernelRefused, Mask, Softmax
from regard.kernels.additive import additive_cpu, additive_step_cpu

MASKS = {
    "all": lambda S: Mask(),
    "lengths": lambda S: Mask(lengths=torch.tensor([S, S // 2, 0])),
    "causal": lambda S: Mask(causal=True, offset=S - 3),
    "window": lambda S: Mask(window=(2, 1), offset=2),
    "window and lengths": lambda S: Mask(causal=True, window=(4, 0), lengths=torch.tensor([S, 2, 1])),
    "before the source": lambda S: Mask(causal=True, offset=-2),
}

pytestmark = pytest.mark.skipif(additive_cpu.compiled() is None, reason="needs a C++ compiler")


def attention_of(D, kernel, dtype=torch.float32, temperature=1.0, scale=1.0):
    score = AdditiveScore(query=D, keys=D, hidden=D).to(dtype)
    with torch.no_grad():
        score.v.weight.mul_(4.0)
        score.W.weight.mul_(scale)
    return Attention(score, normalizer=Softmax(temperature=temperature), kernel=kernel).eval()


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("T", "S", "D"), [(1, 20, 64), (3, 7, 8), (16, 33, 12), (2, 300, 20)])
@pytest.mark.parametrize(("temperature", "scale"), [(1.0, 1.0), (0.5, 3.0), (2.0, 30.0)])
def test_it_keeps_the_error_rule(temperature, scale, T, S, D, mask):
    fused = attention_of(D, "additive-step-cpu", temperature=temperature, scale=scale)
    query, keys = torch.randn(3, T, D), torch.randn(3, S, D)

    def run(kernel, dtype):
        attention = attention_of(D, kernel, dtype, temperature)
        attention.load_state_dict(fused.state_dict())
        result = attention(query.to(dtype), attention.prepare(keys.to(dtype), mask=MASKS[mask](S)))
        return [result.context, result.weights]

    with torch.no_grad():
        assert_rule(
            (
                lambda: run("additive-step-cpu", torch.float32),
                lambda: run("reference", torch.float32),
                lambda: run("reference", torch.float64),
            )
        )


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_scores_weights_and_context_come_together_for_any_leading_axes(lead):
    fused, plain = attention_of(8, "auto"), attention_of(8, "reference")
    plain.load_state_dict(fused.state_dict())
    query, keys = torch.randn(*lead, 2, 8), torch.randn(*lead, 9, 8)
    with torch.no_grad():
        ours, theirs = (a(query, a.prepare(keys)) for a in (fused, plain))
    assert ours.kernel == "additive-step-cpu"
    assert ours.has_weights
    for name in ("context", "weights", "scores"):
        assert_close(getattr(ours, name), getattr(theirs, name))


def test_a_source_that_was_written_to_is_read_again():
    attention = attention_of(8, "auto")
    query, keys = torch.randn(1, 1, 8), torch.randn(1, 9, 8)
    with torch.no_grad():
        source = attention.prepare(keys, keys.clone())
        first = attention(query, source)
        source.keys.add_(1.0)
        source.values.mul_(2.0)
        again, fresh = attention(query, source), attention(query, replace(source))
    assert first.kernel == again.kernel == "additive-step-cpu"
    assert_close(again.context, fresh.context, rtol=0, atol=0)
    assert not torch.equal(first.weights, again.weights)


def test_the_steps_of_a_decoder_share_what_is_computed_of_its_source(monkeypatch):
    attention, taken = attention_of(8, "auto"), []
    exponentials = additive_step_cpu.exponentials
    monkeypatch.setattr(additive_step_cpu, "exponentials", lambda x: taken.append(x) or exponentials(x))
    with torch.no_grad():
        source = attention.prepare(torch.randn(2, 9, 8), mask=Mask(lengths=[9, 4]))
        steps = [attention(torch.randn(2, 1, 8), source.at(t)) for t in range(5)]
        assert {step.kernel for step in steps} == {"additive-step-cpu"}
        assert len(taken) == 1
        source.keys.add_(1.0)
        attention(torch.randn(2, 1, 8), source.at(5))
    assert len(taken) == 2


@pytest.mark.parametrize("size", [34.0, 60.0, 1e4])
def test_keys_beyond_the_exponentials_go_to_the_formula(size):
    fused, plain = attention_of(8, "additive-step-cpu", scale=size), attention_of(8, "reference")
    plain.load_state_dict(fused.state_dict())
    query, keys = torch.randn(2, 1, 8), size * torch.randn(2, 9, 8)
    with torch.no_grad():
        ours, theirs = (a(query, a.prepare(keys)) for a in (fused, plain))
    assert_close(ours.weights, theirs.weights)


def test_it_takes_a_step_of_training_and_more_queries_of_decoding():
    attention = attention_of(8, "auto").train()
    query, source = torch.randn(2, 1, 8), attention.prepare(torch.randn(2, 9, 8))
    assert attention(query, source).kernel == "additive-step-cpu"
    assert attention(torch.randn(2, 4, 8), source).kernel == "additive-cpu"
    with torch.inference_mode():
        assert attention(query, attention.prepare(torch.randn(2, 9, 8))).kernel == "additive-step-cpu"


def test_nan_is_not_swallowed():
    attention = attention_of(8, "additive-step-cpu")
    query = torch.randn(2, 1, 8)
    query[0, 0, 3] = torch.nan
    with torch.no_grad():
        context = attention(query, attention.prepare(torch.randn(2, 9, 8))).context
    assert context[0].isnan().all()
    assert context[1].isfinite().all()


def test_values_of_inference_mode_beside_keys_that_are_not():
    attention = attention_of(8, "auto")
    keys = torch.randn(1, 9, 8)
    with torch.inference_mode():
        values = torch.randn(1, 9, 8)
    with torch.no_grad():
        result = attention(torch.randn(1, 1, 8), attention.prepare(keys, values))
    assert result.kernel == "additive-step-cpu"
    assert_close(result.context, result.weights @ values)


LOSSES = {
    "context": lambda result: result.context.square().sum(),
    "weights": lambda result: (result.weights * torch.arange(result.weights.shape[-1])).sum(),
    "scores": lambda result: result.scores.masked_fill(result.scores.isneginf(), 0.0).sin().sum(),
    "all": lambda result: sum(LOSSES[name](result) for name in ("context", "weights", "scores")),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("T", "S", "D", "rows"), [(1, 20, 64, 3), (3, 33, 12, 3), (2, 7, 8, 1)])
def test_its_gradient_keeps_the_error_rule(T, S, D, rows, mask, loss):
    fused = attention_of(D, "additive-step-cpu", temperature=0.5)
    query, keys, values = torch.randn(3, T, D), torch.randn(rows, S, D), torch.randn(rows, S, 5)
    mask = Mask() if rows == 1 else MASKS[mask](S)

    def run(kernel, dtype):
        attention = attention_of(D, kernel, dtype, temperature=0.5)
        attention.load_state_dict(fused.state_dict())
        leaves = [x.to(dtype).requires_grad_() for x in (query, keys, values)]
        result = attention(leaves[0], attention.prepare(leaves[1], leaves[2], mask))
        assert result.kernel == kernel
        wanted = [*leaves, *attention.parameters()]
        return [
            x for x in torch.autograd.grad(LOSSES[loss](result), wanted, allow_unused=True) if x is not None
        ]

    assert_rule(
        (
            lambda: run("additive-step-cpu", torch.float32),
            lambda: run("reference", torch.float32),
            lambda: run("reference", torch.float64),
        )
    )


def test_a_gradient_of_its_gradient_is_refused():
    attention = attention_of(8, "auto")
    query = torch.randn(2, 1, 8, requires_grad=True)
    result = attention(query, attention.prepare(torch.randn(2, 5, 8)))
    assert result.kernel == "additive-step-cpu"
    [slope] = torch.autograd.grad(result.context.square().sum(), query, create_graph=True)
    with pytest.raises(KernelRefused, match=r"^a fused kernel has no second derivative"):
        slope.sum().backward()


def test_gradients_stop_where_nothing_learns():
    attention = attention_of(8, "auto").requires_grad_(False)
    values = torch.randn(2, 5, 8, requires_grad=True)
    result = attention(torch.randn(2, 1, 8), attention.prepare(torch.randn(2, 5, 8), values))
    result.context.sum().backward()
    assert_close(values.grad, result.weights.mT.expand(2, 5, 8))
    assert attention.score.v.weight.grad is None


@pytest.mark.parametrize(
    ("queries", "rows"), [((3, 1, 8), ()), ((1, 8), ()), ((2, 3, 1, 8), (2, 3)), ((2, 3, 1, 8), (3,))]
)
def test_gradients_of_any_leading_axes(queries, rows):
    fused, plain = attention_of(8, "auto"), attention_of(8, "reference")
    plain.load_state_dict(fused.state_dict())
    query, keys = torch.randn(queries), torch.randn(*rows, 3, 8)
    found = []
    for attention in (fused, plain):
        leaves = [query.clone().requires_grad_(), keys.clone().requires_grad_()]
        result = attention(leaves[0], attention.prepare(leaves[1]))
        loss = result.context.square().sum() + result.weights.square().sum()
        found.append((result.kernel, torch.autograd.grad(loss, [*leaves, *attention.parameters()])))
    assert (found[0][0], found[1][0]) == ("additive-step-cpu", "reference")
    assert_close(found[0][1], found[1][1])
