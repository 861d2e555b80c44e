"""A kernel replaces what a class computes: a subclass, a hook or a patched instance may differ."""

from copy import deepcopy

import pytest
import torch
from kernels.error_rule import assert_rule
from seeds import offset_seed

from regard.attention.compose import Attention
from regard.attention.mask import Mask
from regard.attention.normalizers.softmax import Softmax
from regard.attention.normalizers.sparsemax import Sparsemax
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.cosine import CosineScore
from regard.attention.scores.dot import DotScore
from regard.attention.scores.feedforward import FeedForwardScore
from regard.attention.scores.general import GeneralScore
from regard.attention.windows.base import View
from regard.attention.windows.everywhere import Everywhere
from regard.attention.windows.local_monotonic import LocalMonotonic
from regard.attention.windows.local_predictive import LocalPredictive
from regard.errors import KernelRefused

SCORES = {
    "dot": (DotScore, {}),
    "general": (GeneralScore, {"query": 8, "keys": 8}),
    "cosine": (CosineScore, {}),
    "feed-forward": (FeedForwardScore, {"dim": 8, "hidden": 8}),
    "additive": (AdditiveScore, {"query": 8, "keys": 8, "hidden": 64}),
}
NORMALIZERS = {"softmax": Softmax, "sparsemax": Sparsemax}
WINDOWS = {
    "none": lambda: None,
    "everywhere": Everywhere,
    "local-m": lambda: LocalMonotonic(half_width=2),
    "local-p": lambda: LocalPredictive(query=8, hidden=8, half_width=2),
}
ALL = Mask()
MASKS = {"nothing": ALL, "band": Mask(window=(3, 2))}


def asked(attention: Attention, mask: Mask, dtype=torch.float32):
    torch.manual_seed(offset_seed(7))
    query, keys = torch.randn(2, 70, 8), torch.randn(2, 70, 8)
    return attention(query.to(dtype), attention.prepare(keys.to(dtype), mask=mask))


def as_the_reference(attention: Attention, mask: Mask = ALL) -> None:
    """Context and largest weights, by the error rule."""
    plain, exact = deepcopy(attention), deepcopy(attention).double()
    plain.kernel = exact.kernel = "reference"

    def found(attention, dtype=torch.float32):
        result = asked(attention, mask, dtype)
        return {"context": result.context, "largest weights": result.top(3)[0]}

    assert_rule((lambda: found(attention), lambda: found(plain), lambda: found(exact, torch.float64)))
    weights, positions = asked(attention, mask).top(3)
    torch.testing.assert_close(weights, asked(plain, mask).weights.gather(-1, positions))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("score", SCORES)
def test_a_score_with_another_forward_is_asked(score, normalizer, window, mask):
    cls, sizes = SCORES[score]

    class Doubled(cls):
        def forward(self, query, keys):
            return 2 * super().forward(query, keys) + torch.arange(keys.shape[-2]) / 10

    as_the_reference(
        Attention(Doubled(**sizes), normalizer=NORMALIZERS[normalizer](), window=WINDOWS[window]()),
        MASKS[mask],
    )


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("base", NORMALIZERS)
def test_a_normalizer_with_another_forward_is_asked(score, base):
    class Halved(NORMALIZERS[base]):
        def forward(self, scores, mask=None):
            return super().forward(scores, mask) / 2

    cls, sizes = SCORES[score]
    as_the_reference(Attention(cls(**sizes), normalizer=Halved()))


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("base", ["everywhere", "local-m"])
def test_a_window_with_another_forward_is_asked(score, normalizer, base):
    class Odd(Everywhere if base == "everywhere" else LocalMonotonic):
        def forward(self, query, mask, positions):
            view = super().forward(query, mask, positions)
            return View(view.mask & (torch.arange(mask.shape[-1]) % 2 == 1), None)

    cls, sizes = SCORES[score]
    window = Odd() if base == "everywhere" else Odd(half_width=2)
    as_the_reference(Attention(cls(**sizes), normalizer=NORMALIZERS[normalizer](), window=window))


@pytest.mark.parametrize("part", ["score", "normalizer", "window"])
@pytest.mark.parametrize("score", SCORES)
def test_a_forward_hook_is_called(score, part):
    cls, sizes = SCORES[score]
    attention = Attention(cls(**sizes), window=LocalMonotonic(half_width=2))
    seen = []
    getattr(attention, part).register_forward_hook(lambda *_: seen.append(part))
    asked(attention, Mask())
    assert seen == [part]


def test_a_forward_that_is_set_on_the_instance_is_called():
    score = DotScore()
    score.forward = lambda query, keys: torch.zeros(*query.shape[:-1], keys.shape[-2])
    attention = Attention(score)
    weights = asked(attention, Mask()).weights
    torch.testing.assert_close(weights, torch.full_like(weights, 1 / 70))
    as_the_reference(attention)


def test_the_reason_names_the_subclass_or_the_hook():
    class Own(DotScore):
        def forward(self, query, keys):
            return super().forward(query, keys) + 1

    with pytest.raises(KernelRefused, match="score is Own, this kernel computes product scores"):
        asked(Attention(Own(), kernel="sdpa"), Mask())
    hooked = Attention(DotScore(), kernel="sdpa")
    hooked.score.register_forward_pre_hook(lambda *_: None)
    with pytest.raises(KernelRefused, match="score is DotScore with hooks or methods of its own, this"):
        asked(hooked, Mask())
