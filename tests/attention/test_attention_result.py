"""The result: context now, everything else on demand; and `attend`, attention in one call."""

import pytest
import torch
from torch.testing import assert_close

from regard import AdditiveScore, Attention, DotScore, GeneralScore, Mask, ShapeError, Sparsemax, attend

QUERY, KEYS = torch.randn(2, 3, 5), torch.randn(2, 7, 5)


def test_a_fused_result_computes_its_weights_once_when_looked_at():
    attention = Attention(DotScore())
    result = attention(QUERY, attention.prepare(KEYS))
    assert not result.has_weights
    assert repr(result) == "AttentionResult(context=(2, 3, 5), kernel='sdpa', weights on demand)"
    weights = result.weights
    assert result.has_weights
    assert result.weights is weights
    assert repr(result) == "AttentionResult(context=(2, 3, 5), kernel='sdpa', weights computed)"


def test_a_reference_result_has_its_weights():
    attention = Attention(DotScore(), kernel="reference")
    result = attention(QUERY, attention.prepare(KEYS))
    assert result.has_weights
    assert repr(result) == "AttentionResult(context=(2, 3, 5), kernel='reference', weights computed)"


def test_weights_on_demand_carry_gradients():
    attention = Attention(GeneralScore(query=5, keys=5))
    attention(QUERY, attention.prepare(KEYS)).weights.square().sum().backward()
    assert (attention.score.W.weight.grad != 0).any()


def test_top_never_builds_all_rows_at_once(monkeypatch):
    attention, blocks = Attention(DotScore()), []
    align = Attention._align

    def spy(self, query, source, history, *, targets=None, generator=None):
        blocks.append(len(targets))
        return align(self, query, source, history, targets=targets, generator=generator)

    monkeypatch.setattr(Attention, "_align", spy)
    result = attention(QUERY, attention.prepare(KEYS))
    values, positions = result.top(2, block=2)
    assert blocks == [2, 1]
    assert values.shape == positions.shape == (2, 3, 2)
    assert not result.has_weights


def test_with_another_context_the_alignment_stays():
    attention = Attention(DotScore())
    result = attention(QUERY, attention.prepare(KEYS))
    other = result.with_context(result.context[..., :1])
    assert other.context.shape == (2, 3, 1)
    assert other.kernel == result.kernel
    assert_close(other.weights, result.weights)


@pytest.mark.parametrize(
    ("targets", "text"),
    [
        (torch.tensor(1), r"has shape \(\) and dtype torch\.int64"),
        (torch.tensor([[1]]), r"has shape \(1, 1\) and dtype torch\.int64"),
        (torch.tensor([1.0]), r"has shape \(1,\) and dtype torch\.float32"),
    ],
)
def test_rows_are_asked_for_by_whole_numbers(targets, text):
    attention = Attention(DotScore())
    result = attention(QUERY, attention.prepare(KEYS))
    with pytest.raises(
        ShapeError, match=rf"^AttentionResult\.rows: `targets` {text}; expected \(R,\) whole numbers\.$"
    ):
        result.rows(targets)


def test_attend_is_prepare_and_ask_in_one_call():
    score, mask = AdditiveScore(query=5, keys=5, hidden=7), Mask(causal=True)
    attention = Attention(score, normalizer=Sparsemax())
    expected = attention(QUERY, attention.prepare(KEYS, KEYS * 2, mask))
    result = attend(QUERY, KEYS, KEYS * 2, score=score, normalizer=Sparsemax(), mask=mask)
    assert torch.equal(result.context, expected.context)
    assert torch.equal(result.weights, expected.weights)
    assert attend(QUERY, KEYS, score=DotScore()).kernel == "sdpa"
    assert attend(QUERY, KEYS, score=DotScore(), kernel="reference").kernel == "reference"


def test_attention_says_what_it_is_made_of():
    text = repr(Attention(DotScore(), dropout=0.1))
    assert "dropout=0.1, kernel='auto'" in text
    assert "DotScore(scale=1/√D)" in text
    assert "Softmax(temperature=1)" in text
