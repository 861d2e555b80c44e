"""The result: context now, everything else on demand; and `attend`, attention in one call."""

import pytest
import torch
from torch.testing import assert_close

from regard import (
    AdditiveScore,
    Attention,
    ConfigError,
    DotScore,
    GeneralScore,
    GumbelSoftmax,
    Hard,
    Mask,
    ShapeError,
    Softmax,
    Sparsemax,
    StraightThrough,
    attend,
)
from regard.attention import reference, top_k
from regard.attention import result as result_module


@pytest.fixture(autouse=True)
def drawn():
    global QUERY, KEYS
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
    attention, blocks = Attention(DotScore()).double(), []  # float64: no log-sum-exp comes with it
    align = reference.align
    monkeypatch.setattr(
        reference, "align", lambda call, rows, **_: blocks.append(len(rows)) or align(call, rows)
    )
    result = attention(QUERY.double(), attention.prepare(KEYS.double()))
    values, positions = result.top(2, block=2)
    assert blocks == [2, 1]
    assert values.shape == positions.shape == (2, 3, 2)
    assert not result.has_weights


def test_top_computes_as_many_rows_at_a_time_as_fit(monkeypatch):
    attention = Attention(AdditiveScore(query=5, keys=5, hidden=6))
    result = attention(torch.randn(2, 9, 5), attention.prepare(KEYS))
    monkeypatch.setattr(result_module, "NUMBERS", 2 * 2 * 7 * 6)  # two rows against (2, 7, 6) keys
    blocks, align = [], reference.align
    monkeypatch.setattr(
        reference, "align", lambda call, rows, **_: blocks.append(len(rows)) or align(call, rows)
    )
    values, _ = result.top(2)
    assert blocks == [2, 2, 2, 2, 1]
    monkeypatch.undo()
    assert_close(values, result.weights.topk(2).values)


@pytest.mark.parametrize(
    "mask",
    [
        None,
        Mask(causal=True),
        Mask(lengths=torch.tensor([7, 0])),
        Mask(causal=True, offset=3, lengths=torch.tensor([4, 6])),
        Mask(dense=torch.arange(7) % 2 == 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("heads", [1, 3])
def test_top_from_tiles_equals_the_top_of_the_weights(mask, heads, monkeypatch):
    monkeypatch.setattr(top_k, "TILE", 1)  # tiles of one query and eight positions
    attention = Attention(DotScore(), normalizer=Softmax(temperature=0.5))
    query, keys = torch.randn(2, heads, 5, 4), torch.randn(2, heads, 7, 4)
    result = attention(query, attention.prepare(keys, None, mask))
    monkeypatch.setattr(reference, "align", None)  # no row may be built
    values, positions = result.top(3)
    monkeypatch.undo()
    assert_close(values, result.weights.topk(3).values)
    shown = values > 0
    assert_close(result.weights.gather(-1, positions)[shown], values[shown])


def test_top_of_a_long_source_goes_through_it_in_tiles(monkeypatch):
    monkeypatch.setattr(top_k, "TILE", 2)
    attention = Attention(DotScore())
    query, keys = torch.randn(1, 5, 4), torch.randn(1, 50, 4)
    result = attention(query, attention.prepare(keys))
    seen, scored = [], top_k.masked_scores
    monkeypatch.setattr(top_k, "masked_scores", lambda *a: seen.append(scored(*a)) or seen[-1])
    values, positions = result.top(20)
    assert max(scores.numel() for scores, _ in seen) == 2 * 16
    best = result.weights.topk(20)
    assert_close(values, best.values)
    assert torch.equal(positions, best.indices)


@pytest.mark.parametrize("size", [1.0, 1e2, 1e4], ids=str)
def test_top_and_weights_are_as_exact_for_large_scores_as_for_small_ones(size, monkeypatch):
    """A log-sum-exp of 1e4 is rounded by 5e-4 in float32, and so would be what is made of it."""
    monkeypatch.setattr(top_k, "TILE", 2)
    attention = Attention(DotScore(1.0))
    query, keys = torch.ones(3, 1), size + torch.arange(40.0)[torch.randperm(40), None]
    result = attention(query, attention.prepare(keys))
    values, positions = result.top(4)
    exact = (query.double() @ keys.double().mT).softmax(-1)
    assert_close(values, exact.topk(4).values.float(), atol=1e-7, rtol=1e-6)
    assert_close(result.weights, exact.float(), atol=1e-7, rtol=1e-6)
    assert torch.equal(positions, exact.topk(4).indices)


def test_a_tile_that_shows_nothing_takes_nothing_from_the_others(monkeypatch):
    monkeypatch.setattr(top_k, "TILE", 1)
    attention = Attention(DotScore(1.0))
    query, keys = torch.ones(1, 1), -1000.0 - torch.arange(24.0)[:, None]  # the first tile of 8 is hidden
    result = attention(query, attention.prepare(keys, None, Mask(dense=torch.arange(24) >= 10)))
    values, positions = result.top(2)
    assert positions.tolist() == [[10, 11]]
    assert_close(values, result.weights.topk(2).values)


def test_the_top_weights_carry_gradients_where_they_are_wanted():
    attention = Attention(GeneralScore(query=5, keys=5))
    attention(QUERY, attention.prepare(KEYS)).top(2)[0].square().sum().backward()
    assert (attention.score.W.weight.grad != 0).any()


@pytest.mark.parametrize("normalizer", [Hard(), StraightThrough(), GumbelSoftmax(hard=True)], ids=repr)
def test_a_hard_choice_reads_only_the_chosen_value(normalizer):
    attention = Attention(DotScore(), normalizer=normalizer).eval()
    values = torch.randn(2, 7, 4)
    result = attention(QUERY, attention.prepare(KEYS, values, Mask(lengths=torch.tensor([7, 0]))))
    assert_close(result.context, result.weights @ values, atol=0, rtol=0)
    never = ~(result.weights > 0).any(-2)
    poisoned = values.masked_fill(never[..., None], torch.nan)
    again = attention(QUERY, attention.prepare(KEYS, poisoned, Mask(lengths=torch.tensor([7, 7]))))
    assert torch.equal(again.context[0], result.context[0])


def test_a_hard_choice_mixes_where_gradients_are_wanted():
    attention = Attention(DotScore(), normalizer=StraightThrough()).eval()
    query = QUERY.clone().requires_grad_()
    attention(query, attention.prepare(KEYS)).context.sin().sum().backward()
    assert (query.grad != 0).any()


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
        (torch.tensor([True, False, True]), r"has shape \(3,\) and dtype torch\.bool"),
    ],
)
def test_rows_are_asked_for_by_whole_numbers(targets, text):
    attention = Attention(DotScore())
    result = attention(QUERY, attention.prepare(KEYS))
    with pytest.raises(
        ShapeError, match=rf"^AttentionResult\.rows: `targets` {text}; expected \(R,\) whole numbers\.$"
    ):
        result.rows(targets)


@pytest.mark.parametrize("position", [-4, 3])
def test_rows_that_are_not_there_are_refused_and_not_others(position):
    attention = Attention(DotScore())
    result = attention(QUERY, attention.prepare(KEYS, mask=Mask(causal=True)))
    with pytest.raises(
        ShapeError,
        match=rf"^AttentionResult\.rows: `targets` has {position}; expected -3 to 2\.$",
    ):
        result.rows(torch.tensor([0, position]))


def saved_by(function):
    """How many numbers autograd keeps for the gradient of what a function makes."""
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        made = function()
    return sum(kept), made


@pytest.mark.parametrize(
    "score", [DotScore, lambda: AdditiveScore(query=5, keys=5, hidden=6)], ids=["dot", "additive"]
)
def test_for_the_gradient_of_the_top_weights_rows_are_made_again_and_not_kept(score):
    attention, T, S = Attention(score()), 300, 200
    query = torch.randn(1, T, 5, requires_grad=True)
    result = attention(query, attention.prepare(torch.randn(1, S, 5)))
    numbers, (values, positions) = saved_by(lambda: result.top(2))
    assert numbers < T * S / 10
    (again,) = torch.autograd.grad(values.square().sum(), query, retain_graph=True)  # of W q, made once
    weights = result.weights.gather(-1, positions)
    assert_close(again, torch.autograd.grad(weights.square().sum(), query)[0])


def test_the_top_weights_of_a_call_without_gradients_have_none():
    attention = Attention(AdditiveScore(query=5, keys=5, hidden=6), kernel="additive-cpu")
    with torch.no_grad():
        result = attention(torch.randn(2, 9, 5), attention.prepare(KEYS))
    assert not result.top(2)[0].requires_grad


def test_the_top_weights_of_no_query_are_none():
    attention = Attention(DotScore())
    values, positions = attention(QUERY[:, :0], attention.prepare(KEYS)).top(2)
    assert values.shape == positions.shape == (2, 0, 2)


def test_blocks_of_no_rows_are_refused():
    attention = Attention(DotScore())
    with pytest.raises(ConfigError, match=r"^AttentionResult\.top: `block` has -1; expected 1 or more\.$"):
        attention(QUERY, attention.prepare(KEYS)).top(2, block=-1)


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
