"""NaN, infinities and huge numbers in positions that are hidden: no output and no gradient notices them."""

import math
from dataclasses import replace

import pytest
import torch
from built import built

from regard.attention.compose import Attention
from regard.attention.history import History
from regard.attention.mask import Mask
from regard.attention.multihead import MultiHead
from regard.attention.normalizers.hard import Hard
from regard.attention.parts import Sizes
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.dot import DotScore
from regard.attention.scores.general import GeneralScore
from regard.attention.source import Source
from regard.attention.windows.local_monotonic import LocalMonotonic
from regard.errors import KernelRefused

SIZES = Sizes(query=8, keys=8, hidden=8, positions=64, half_width=3)
B, T, S, D = 3, 40, 48, 8
LENGTHS = torch.tensor([48, 31, 0])
GARBAGE = [math.nan, math.inf, -3e38]
ROWS = (torch.arange(S) < LENGTHS[:, None])[:, None]  # (B, 1, S)
MASKS = {
    "lengths": Mask(lengths=LENGTHS),
    "causal lengths": Mask(causal=True, lengths=LENGTHS),
    "a window and lengths": Mask(window=(3, 2), lengths=LENGTHS),
    "a dense row": Mask(dense=ROWS),
    "dense for each query": Mask(dense=ROWS & (torch.arange(S) <= 5 + torch.arange(T)[:, None])),
}
SCORES = ["dot", "general", "additive", "rectified", "cosine", "location", "location-aware", "coverage"]


def drawn(*, heads: bool = False):
    """Query, keys and values, and the last two with garbage where nobody sees."""
    torch.manual_seed(3)
    shape = (B, 2) if heads else (B,)
    query, keys, values = torch.randn(*shape, T, D), torch.randn(*shape, S, D), torch.randn(*shape, S, D)
    seen = ROWS.mT.unsqueeze(1) if heads else ROWS.mT
    # garbage here and there in a position too
    dirty = [torch.where(seen | (torch.rand(D) < 0.5), x, rubbish()) for x in (keys, values)]
    return query, [torch.where(seen, x, 0.0) for x in (keys, values)], dirty


def rubbish():
    return torch.tensor(GARBAGE).repeat(S // 3 + 1)[:S, None]


def answers(attention, mask, query, keys, values, *, by_hand=False, gradient=True):
    """Context, weights and all gradients."""
    inputs = [x.clone().requires_grad_(gradient) for x in (query, keys, values)]
    query, keys, values = inputs
    source = attention.prepare(keys, values, mask)
    if by_hand:
        source = Source(keys, values, mask)
    result = attention(query, source, history=History.start(source))
    found = [result.context, result.weights]
    if gradient:
        weigh = torch.linspace(-1, 1, result.context.numel()).view(result.context.shape)
        loss = (result.context * weigh).sum()
        found += [
            x
            for x in torch.autograd.grad(loss, [*inputs, *attention.parameters()], allow_unused=True)
            if x is not None
        ]
    return found


def check_same(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert theirs.isfinite().all()
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kernel", ["auto", "reference"])
@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax", "divide-by-length"])
@pytest.mark.parametrize("score", [*SCORES, "feedforward"])
def test_nothing_notices_what_no_query_can_see(score, normalizer, kernel):
    attention = built(score, SIZES, normalizer=normalizer, kernel=kernel).eval()
    query, clean, dirty = drawn()
    for mask in MASKS.values():
        check_same(answers(attention, mask, query, *dirty), answers(attention, mask, query, *clean))


@pytest.mark.parametrize("window", ["local-monotonic", "local-predictive"])
@pytest.mark.parametrize("score", ["dot", "additive"])
def test_nothing_notices_it_under_a_window(score, window):
    attention = built(score, SIZES, window=window).eval()
    query, clean, dirty = drawn()
    for mask in MASKS.values():
        check_same(answers(attention, mask, query, *dirty), answers(attention, mask, query, *clean))


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("score", ["dot", "cosine", "additive"])
def test_nothing_notices_it_in_a_source_made_by_hand(score, name):
    attention = built(score, SIZES)
    query, clean, dirty = drawn()
    expected = answers(attention, MASKS[name], query, *clean, by_hand=True)
    check_same(answers(attention, MASKS[name], query, *dirty, by_hand=True), expected)


@pytest.mark.parametrize("name", MASKS)
def test_nothing_notices_it_behind_projections_into_heads(name):
    attention = MultiHead(8, 2, bias=True)
    query, clean, dirty = drawn()
    check_same(answers(attention, MASKS[name], query, *dirty), answers(attention, MASKS[name], query, *clean))


def test_heads_that_share_keys_hide_what_none_of_them_sees():
    query, clean, dirty = drawn(heads=True)
    mask = Mask(dense=ROWS[:, None] & (torch.arange(S) % 2 == torch.tensor([0, 1])[:, None, None]))
    keys, values = (x[:, :1] for x in clean)
    dirty = [x[:, :1] for x in dirty]
    attention = Attention(DotScore())
    check_same(answers(attention, mask, query, *dirty), answers(attention, mask, query, keys, values))


def test_a_source_stays_silent_as_it_grows_and_is_selected_and_moved():
    attention = Attention(AdditiveScore(query=8, keys=8, hidden=8))
    query, clean, dirty = drawn()
    found = []
    for keys, values in (clean, dirty):
        first = attention.prepare(keys[:, :40], values[:, :40], Mask(lengths=LENGTHS.clamp(max=40)))
        last = attention.prepare(keys[:, 40:], values[:, 40:], ROWS[..., 40:])
        source = first.append(last).select(torch.tensor([1, 0, 2])).at(2)
        assert source.is_silent
        assert source.spread().is_silent
        assert not replace(source, mask=Mask(lengths=LENGTHS)).is_silent
        by_hand = Source(first.keys, first.values, first.mask).append(
            Source(last.keys, last.values, last.mask)
        )
        found.append([attention(query, source).context, attention(query, by_hand).context])
    check_same(found[1], found[0])


def test_queries_that_share_a_row_do_not_notice_it():
    attention = Attention(DotScore())
    query, clean, dirty = drawn()
    query = query[:, :2].flatten(0, 1).unsqueeze(1)  # (2 B, 1, D)
    found = []
    for keys, values in (clean, dirty):
        source = Source(keys, values, Mask(lengths=LENGTHS)).share(torch.arange(2 * B) // 2)
        found.append([attention(query, source).context])
    check_same(found[1], found[0])


def test_a_hard_choice_does_not_notice_it():
    attention = Attention(DotScore(), normalizer=Hard()).eval()
    query, clean, dirty = drawn()
    for mask in MASKS.values():
        found, expected = (answers(attention, mask, query, *x, gradient=False) for x in (dirty, clean))
        check_same(found, expected)


@pytest.mark.parametrize("score", ["dot", "additive"])
@pytest.mark.parametrize("name", ["lengths", "causal lengths", "a dense row"])
def test_compiled_graphs_do_not_notice_it(score, name):
    attention = built(score, SIZES)
    query, clean, dirty = drawn()

    def asked(query, keys, values):
        return attention(query, attention.prepare(keys, values, MASKS[name])).context

    compiled = torch.compile(asked, fullgraph=True, backend="aot_eager")
    inputs = [x.clone().requires_grad_() for x in (query, *dirty)]
    context = compiled(*inputs)
    found = [context, *torch.autograd.grad(context.square().sum(), inputs)]
    others = [x.clone().requires_grad_() for x in (query, *clean)]
    context = asked(*others)
    expected = [context, *torch.autograd.grad(context.square().sum(), others)]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


EARLIER = {
    "causal": (Mask(causal=True), None),
    "a window": (Mask(window=(4, 0)), None),
    "dense": (Mask(dense=torch.arange(S) <= torch.arange(T)[:, None]), None),
    "local": (Mask(), LocalMonotonic(half_width=2)),
}


@pytest.mark.parametrize("case", EARLIER)
@pytest.mark.parametrize("place", ["keys", "values"])
@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax"])
@pytest.mark.parametrize("score", ["dot", "additive"])
def test_queries_that_may_not_see_garbage_do_not_notice_it_and_others_say_nan(score, normalizer, place, case):
    mask, window = EARLIER[case]
    attention = built(score, SIZES, normalizer=normalizer).eval()
    attention.window = window
    query, keys, values = torch.randn(B, T, D), torch.randn(B, S, D), torch.randn(B, S, D)
    at = 9  # queries before this one do not see position 11
    clean = answers(attention, mask, query, keys, values)
    rubbish = keys if place == "keys" else values
    rubbish[:, 11] = math.nan
    inputs = [x.clone().requires_grad_() for x in (query, keys, values)]
    source = attention.prepare(*inputs[1:], mask)
    if score == "additive":  # the gradient of U reads the keys
        source = Source(attention.prepare(keys).keys.detach(), inputs[2], mask)
    result = attention(inputs[0], source)
    assert result.kernel == "reference"
    torch.testing.assert_close(result.context[:, :at], clean[0][:, :at], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(result.weights[:, :at], clean[1][:, :at], atol=1e-5, rtol=1e-4)
    assert result.context[:, 11].isnan().all() or normalizer == "sparsemax"
    (of_query,) = torch.autograd.grad(result.context[:, :at].square().sum(), inputs[0])
    assert of_query.isfinite().all()
    assert of_query[:, :at].abs().sum() > 0


def test_a_kernel_asked_for_by_name_says_why_it_cannot():
    attention = Attention(DotScore(), kernel="sdpa")
    x = torch.randn(2, 9, 4)
    x[:, 5] = math.nan
    with pytest.raises(KernelRefused, match="NaN or infinity stands where some queries may look"):
        attention(torch.randn(2, 9, 4), attention.prepare(x, mask=Mask(causal=True)))
    assert (
        attention(torch.randn(2, 9, 4), attention.prepare(x[:, :5], mask=Mask(causal=True))).kernel == "sdpa"
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_padding_whose_projection_overflows_half_precision_is_not_noticed(dtype):
    score = GeneralScore(query=D, keys=D).to(dtype)
    with torch.no_grad():
        score.W.weight.fill_(2.0)
    attention = Attention(score)
    query, keys = torch.randn(2, 3, D, dtype=dtype).requires_grad_(), torch.randn(2, 6, D, dtype=dtype)
    values = keys.clone()
    expected = attention(query, attention.prepare(keys, values, Mask(lengths=[4, 4]))).context
    keys[:, 4:] = torch.finfo(dtype).max
    context = attention(query, attention.prepare(keys, values, Mask(lengths=[4, 4]))).context
    assert torch.equal(context, expected)
    for slope in torch.autograd.grad(context.sum(), [query, score.W.weight]):
        assert slope.isfinite().all()
