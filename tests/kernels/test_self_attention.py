"""Short self-attention as one operator: the same numbers, and only where nobody could tell the difference."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard import Attention, DotScore, GeneralScore, Mask, MultiHead, Softmax, record
from regard.attention.multihead import SelfCall
from regard.kernels.product.self_attention import SELF_ATTENTION_CUDA

NAME = "self-attention-cpu"


def heads(**options):
    return MultiHead(24, 3, **options).eval()


def ask(module, *given, **named):
    with torch.no_grad():
        return module(*given, **named)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("B", [1, 3])
def test_it_gives_what_the_parts_give(bias, B):
    module, x = heads(bias=bias), torch.randn(B, 7, 24)
    ours = ask(module, x)
    with torch.no_grad():
        theirs = module(x, module.prepare(x))
    assert (ours.kernel, theirs.kernel) == (NAME, "sdpa")
    assert ours.has_weights
    for name in ("context", "weights", "scores"):
        assert_close(getattr(ours, name), getattr(theirs, name), rtol=1e-5, atol=1e-6)
    assert_close(ours.rows(torch.tensor([-1, 2])), theirs.rows(torch.tensor([-1, 2])), rtol=1e-5, atol=1e-6)
    assert_close(ours.top(3)[0], theirs.top(3)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bias", [False, True])
def test_without_weights_as_on_a_gpu_the_operator_gives_the_same(bias):
    module, x = heads(bias=bias), torch.randn(2, 7, 24)
    with torch.no_grad():
        ours, theirs = SELF_ATTENTION_CUDA.run(SelfCall(module, x, None, None)), module(x, module.prepare(x))
        assert not ours.has_weights
        for name in ("context", "weights", "scores"):
            assert_close(getattr(ours, name), getattr(theirs, name), rtol=1e-5, atol=1e-6)
        assert_close(ours.top(3)[0], theirs.top(3)[0], rtol=1e-5, atol=1e-6)


def test_a_look_shows_the_call_after_parameters_and_query_have_changed():
    module, x = heads(), torch.randn(2, 5, 24)
    result = ask(module, x)
    expected = ask(module, x, module.prepare(x))
    scores, top = expected.scores, expected.top(2)[0]
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(-3.0)
    x += result.context
    assert_close(result.scores, scores, rtol=1e-5, atol=1e-6)
    assert_close(result.top(2)[0], top, rtol=1e-5, atol=1e-6)


class Counted(nn.Linear):
    calls = 0

    def forward(self, x):
        Counted.calls += 1
        return super().forward(x)


class OwnHeads(MultiHead):
    def prepare(self, keys, values=None, mask=None):
        return super().prepare(2 * keys, values, mask)


def changed(change):
    module = heads()
    change(module)
    return module


def hooked(part):
    return changed(lambda module: module.get_submodule(part).register_forward_hook(lambda *_: None))


OTHERS = {
    "hook on a projection": lambda: hooked("W_K"),
    "hook on the attention": lambda: hooked("attention"),
    "hook on the score": lambda: hooked("attention.score"),
    "projection of another class": lambda: changed(lambda m: setattr(m, "W_V", Counted(24, 24))),
    "subclass": lambda: OwnHeads(24, 3).eval(),
    "plain dot product": lambda: heads(attention=Attention(DotScore(scale=1.0))),
    "another score": lambda: heads(attention=Attention(GeneralScore(query=8, keys=8))),
    "temperature": lambda: heads(attention=Attention(DotScore(), normalizer=Softmax(temperature=2.0))),
    "kernel by name": lambda: heads(attention=Attention(DotScore(), kernel="reference")),
    "other sizes": lambda: heads(dim_head=5),
    "dropout": lambda: heads(attention=Attention(DotScore(), dropout=0.5)).train(),
    "float64": lambda: heads().double(),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_parts_run_as_they_are(case):
    module = OTHERS[case]()
    x = torch.randn(2, 5, 24, dtype=module.W_Q.weight.dtype)
    assert ask(module, x).kernel != NAME


def test_whoever_follows_the_call_sees_its_parts():
    module, x = heads(), torch.randn(2, 5, 24)
    assert module(x).kernel == "sdpa"  # with gradients
    assert ask(module, x, mask=Mask(causal=True)).kernel == "sdpa"
    with record(module) as trace:
        ask(module, x)
    assert len(trace["attention"]) == 1
    with torch.autocast("cpu", torch.bfloat16):
        assert ask(module, x).kernel != NAME
    compiled = torch.compile(lambda x: module(x).context, backend="eager", fullgraph=True)
    assert_close(ask(compiled, x), ask(module, x).context, rtol=1e-5, atol=1e-6)
    mapped = torch.func.vmap(lambda x: module(x[None]).context[0])(x)
    assert_close(mapped, ask(module, x).context, rtol=1e-5, atol=1e-6)
    seen = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(type(module)))
    try:
        ask(module, x)
    finally:
        handle.remove()
    assert seen.count(nn.Linear) == 4


def test_gradients_reach_a_projection_where_the_others_are_frozen():
    module, x = heads(), torch.randn(2, 5, 24)
    for parameter in module.parameters():
        parameter.requires_grad_(parameter is module.W_K.weight)
    module(x).context.square().sum().backward()
    assert module.W_K.weight.grad.abs().sum() > 0


def test_long_or_empty_calls_go_another_way():
    module = heads()
    assert ask(module, torch.randn(1, 200, 24)).kernel == "sdpa"
    assert ask(module, torch.randn(0, 5, 24)).context.shape == (0, 5, 24)


def test_autocast_does_not_lower_a_later_look():
    module, x = heads(), torch.randn(2, 5, 24)
    result, other = ask(module, x), ask(module, x)
    with torch.autocast("cpu", torch.bfloat16):
        lowered = result.scores
    assert torch.equal(lowered, other.scores)
