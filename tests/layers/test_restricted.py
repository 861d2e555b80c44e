import pytest
import torch

from regard import AdditiveScore, Attention, DotScore, Mask
from regard.errors import ConfigError, ShapeError
from regard.layers.restricted import attend_nearby


@pytest.mark.parametrize("T", [1, 5, 12, 31])
@pytest.mark.parametrize("reach", [0, 1, 4, 40])
@pytest.mark.parametrize("with_lengths", [False, True], ids=["whole", "lengths"])
def test_restricted_attention_equals_attention_under_a_window(T, reach, with_lengths):
    torch.manual_seed(T * 100 + reach)
    lengths = torch.tensor([T, max(1, T - 2), max(1, T // 2)]) if with_lengths else None
    attention = Attention(AdditiveScore(query=6, keys=6, hidden=5)).double()
    x = [torch.randn(3, T, 6, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    found = attend_nearby(attention, *x, reach=reach, lengths=lengths)
    mask = Mask(window=(reach, reach), lengths=lengths)
    expected = attention(x[0], attention.prepare(x[1], x[2], mask)).context
    torch.testing.assert_close(found, expected)
    weight = torch.randn_like(found)
    for ours, theirs in zip(
        torch.autograd.grad((found * weight).sum(), x),
        torch.autograd.grad((expected * weight).sum(), x),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("B", "T"), [(0, 5), (2, 0)])
def test_nothing_attends_to_nothing(B, T):
    x = torch.randn(B, T, 4)
    assert attend_nearby(Attention(DotScore()), x, x, x, reach=2).shape == (B, T, 4)


def test_the_number_of_scores_grows_with_the_length_and_not_with_its_square():
    scored = []

    class Counting(DotScore):
        def forward(self, query, keys):
            scores = super().forward(query, keys)
            scored.append(scores.numel())
            return scores

    attention = Attention(Counting(), kernel="reference")
    for T in (64, 128, 256):
        x = torch.randn(1, T, 4)
        attend_nearby(attention, x, x, x, reach=8)
    assert scored == [3 * 8 * T for T in (64, 128, 256)]


def test_a_negative_reach_and_other_lengths_are_refused():
    x = torch.randn(1, 4, 2)
    with pytest.raises(ConfigError, match="attend_nearby: `reach` has -1; expected 0 or more"):
        attend_nearby(Attention(DotScore()), x, x, x, reach=-1)
    with pytest.raises(ShapeError, match=r"attend_nearby: `keys` has shape \(1, 3, 2\)"):
        attend_nearby(Attention(DotScore()), x, x[:, :3], x, reach=1)
