"""A score that is one class gets every kernel that fits its form, and the page that says so runs."""

import re
from pathlib import Path

import pytest
import torch
from kernels.error_rule import assert_rule
from torch import nn
from torch.testing import assert_close

from regard import Attention, LocalMonotonic, Mask, MultiHead, Softmax, Sparsemax
from regard.attention.forms import Additive, Product
from regard.attention.scores.base import ProductScore, Score
from regard.kernels.local import local_attention

PAGE = Path(__file__).parents[2] / "docs" / "your-own-score.md"


class DiagonalScore(ProductScore):
    def __init__(self, features):
        super().__init__()
        self.w = nn.Parameter(torch.rand(features) + 0.5)

    def form(self, query, keys):
        return Product(query * self.w, keys)


class GatedAdditive(Score):
    """vᵀ tanh(g ∘ q + k): additive, without a matrix."""

    FORM = Additive

    def __init__(self, features):
        super().__init__()
        self.g, self.v = nn.Parameter(torch.randn(features)), nn.Parameter(torch.randn(1, features))

    def form(self, query, keys):
        return Additive(query * self.g, keys, self.v)


class Shifted(GatedAdditive):
    """The same, with keys that the form changes at every call."""

    def form(self, query, keys):
        return Additive(query, keys * self.g, self.v)


FUSED = {
    "sdpa": (DiagonalScore, {}, 6),
    "sparsemax": (DiagonalScore, {"normalizer": Sparsemax}, 6),
    "local": (DiagonalScore, {"window": lambda: LocalMonotonic(half_width=2)}, 40),
    "additive-cpu": (GatedAdditive, {}, 6),
    "sparsemax of additive": (GatedAdditive, {"normalizer": Sparsemax}, 6),
    "local additive": (GatedAdditive, {"window": lambda: LocalMonotonic(half_width=2)}, 40),
}


def outcome(score, parts, inputs, mask, kernel, dtype=torch.float32):
    attention = Attention(score.to(dtype), kernel=kernel, **{name: part() for name, part in parts.items()})
    query, keys = (x.detach().to(dtype).requires_grad_() for x in inputs)
    result = attention(query, attention.prepare(keys, mask=mask))
    leaves = [query, keys, *score.parameters()]
    gradients = torch.autograd.grad(result.context.square().sum(), leaves)
    return result.kernel, [result.context, *gradients]


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("mask", [Mask(), Mask(causal=True)], ids=["all", "causal"])
def test_every_kernel_that_fits_its_form_computes_it(name, mask, monkeypatch):
    monkeypatch.setattr(local_attention, "LEAST", 0)
    kind, parts, S = FUSED[name]
    score, kernel = kind(12), name.split(" ")[0]
    inputs = torch.randn(2, S, 12), torch.randn(2, S, 12)
    ran, _ = outcome(score, parts, inputs, mask, "auto")
    assert ran == kernel
    assert_rule(
        (
            lambda: outcome(score, parts, inputs, mask, kernel)[1],
            lambda: outcome(score, parts, inputs, mask, "reference")[1],
            lambda: outcome(score, parts, inputs, mask, "reference", torch.float64)[1],
        )
    )


@pytest.mark.parametrize("kind", [GatedAdditive, Shifted])
def test_a_step_is_right_also_where_the_form_changes_the_keys(kind):
    score = kind(12)
    fused, plain = Attention(score), Attention(score, kernel="reference")
    query, keys = torch.randn(2, 1, 12), torch.randn(2, 9, 12)
    with torch.no_grad():
        ours, theirs = fused(query, fused.prepare(keys)), plain(query, plain.prepare(keys))
    assert ours.kernel == ("additive-step-cpu" if kind is GatedAdditive else "reference")
    assert_close(ours.context, theirs.context)


def test_a_look_shows_the_weights_of_the_call_after_the_parameters_have_changed():
    for kind in (DiagonalScore, GatedAdditive):
        attention, x = Attention(kind(12)), torch.randn(2, 6, 12)
        result = attention(x, attention.prepare(x))
        expected = attention.align(x, attention.prepare(x)).weights
        with torch.no_grad():
            for parameter in attention.parameters():
                parameter.mul_(-3.0)
        assert_close(result.weights, expected)


def test_it_can_have_heads_and_be_compiled():
    heads = MultiHead(24, 2, attention=Attention(DiagonalScore(12), normalizer=Softmax(temperature=2.0)))
    x = torch.randn(2, 5, 24)
    plain = heads(x, heads.prepare(x)).context
    compiled = torch.compile(lambda x: heads(x, heads.prepare(x)).context, backend="eager", fullgraph=True)
    assert_close(compiled(x), plain)


def test_the_page_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 5
    names = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "sdpa"
    assert said[1] == "torch.Size([2, 5, 9])"
    assert said[2] == "sparsemax"
    assert said[-2] == "torch.Size([2, 7, 64])"
    assert said[-1] == "reference"
