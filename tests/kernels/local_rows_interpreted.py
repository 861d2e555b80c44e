"""The Triton kernels of bands of single rows, interpreted. test_local_kernel.py starts this file."""

import os
from dataclasses import replace

import pytest
import torch
from kernels.error_rule import assert_rule
from seeds import offset_seed

from regard import AdditiveScore, Attention, DotScore, LocalMonotonic, LocalPredictive, Mask, Softmax
from regard.kernels.local import local_attention, local_rows_cuda

assert os.environ["TRITON_INTERPRET"] == "1"
pytestmark = pytest.mark.usefixtures("poisoned")
D, DV = 5, 3
SCORES = {"product": DotScore, "additive": lambda: AdditiveScore(query=D, keys=D, hidden=6)}
WINDOWS = {
    "local-p": lambda half: LocalPredictive(query=D, hidden=4, half_width=half),
    "local-m": lambda half: LocalMonotonic(half_width=half),
}


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch):
    """The choices are those of a GPU."""
    monkeypatch.setattr(local_attention, "_by_rows", lambda call: True)


def check(score, window, T, S, mask=None, *, half=2, dtype=torch.float32, lead=(2,), spread=1.0, hidden=None):
    """By the error rule; centres are predicted further apart with `spread`."""

    def outcome(kernel, own):
        torch.manual_seed(offset_seed(1))
        given = [torch.randn(*lead, n, d).to(dtype) for n, d in ((T, D), (S, D), (S, DV))]
        direction = torch.randn(*lead, T, DV).to(dtype)
        parts = SCORES[score](), Softmax(temperature=0.7), WINDOWS[window](half)
        attention = Attention(parts[0], normalizer=parts[1], window=parts[2], kernel=kernel)
        if window == "local-p":
            attention.window.v.weight.data.mul_(spread)
        attention.to(dtype).to(own)
        leaves = [x.to(own).requires_grad_() for x in given]
        result = attention(leaves[0], attention.prepare(leaves[1], leaves[2], mask))
        assert result.kernel == kernel
        wanted = [*leaves, *attention.parameters()]
        grads = torch.autograd.grad(result.context, wanted, direction.to(own), allow_unused=True)
        return [result.context, *(x for x in grads if x is not None)]

    assert_rule(
        (
            lambda: outcome("local", dtype),
            lambda: outcome("reference", dtype),
            lambda: outcome("reference", torch.float64),
        )
    )


def facts(S):
    more = {
        "nothing more": Mask(),
        "lengths": Mask(lengths=torch.tensor([S, S // 2])),
        "a row of nothing": Mask(lengths=torch.tensor([0, S])),
        "causal": Mask(causal=True),
        "later": Mask(offset=30),
        "all": Mask(causal=True, lengths=torch.tensor([S - 2, S // 3]), offset=2),
    }
    return more | {f"{name} and a window": replace(mask, window=(3, 2)) for name, mask in more.items()}


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", facts(8))
def test_a_band_with_every_fact(score, window, name):
    check(score, window, 11, 23, facts(23)[name])


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 30), (9, 1), (30, 7)])
def test_every_size(score, T, S):
    check(score, "local-p", T, S)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("half", [1, 10, 40])
def test_every_half_width(score, half):
    check(score, "local-p", 7, 50, half=half)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("spread", [0.0, 20.0])
def test_centres_that_meet_and_centres_at_both_ends(score, spread):
    check(score, "local-p", 40, 33, spread=spread)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(score, dtype):
    """A rounded centre moves the edge of its window: local-m has none."""
    check(score, "local-m", 12, 20, dtype=dtype)


@pytest.mark.parametrize("score", SCORES)
def test_heads_share_lengths(score):
    check(score, "local-p", 6, 15, Mask(lengths=torch.tensor([15, 8])), lead=(2, 3))


def test_more_features_than_a_tile_has(monkeypatch):
    monkeypatch.setattr(local_rows_cuda, "TILE", 128)
    for score in SCORES:
        check(score, "local-p", 6, 15)


def test_padding_may_be_nan():
    score, mask = DotScore(), Mask(lengths=torch.tensor([9]))
    attention = Attention(score, window=WINDOWS["local-p"](2), kernel="local")
    query, keys = torch.randn(1, 6, D), torch.randn(1, 15, D)
    clean = attention(query, attention.prepare(keys, None, mask)).context
    keys[:, 9:] = torch.nan
    assert torch.equal(attention(query, attention.prepare(keys, None, mask)).context, clean)
