"""Queries in order: each sees where those before it attended; as loops over scalars, and call by call."""

import built as by_key
import pytest
import torch
from oracles import coverage, location_aware
from oracles.linear import apply
from oracles.softmax import softmax
from seeds import offset_seed
from torch.testing import assert_close

from regard import Attention, CoverageScore, History, LocationAwareScore, Mask, MultiHead, catalog, record
from regard.attention.in_order import InOrder, in_order
from regard.attention.normalizers.hard import Hard
from regard.attention.parts import Sizes
from regard.attention.scores.base import HistoryScore
from regard.errors import KernelRefused

B, T, S, DIM, HEADS = 2, 4, 6, 6, 2
D = DIM // HEADS
SIZES = Sizes(query=5, keys=5, hidden=7, positions=S, half_width=2, filters=3, width=3, temperature=0.3)
LOOKING_BACK = ["coverage", "location-aware"]
LENGTHS = torch.tensor([S, 4])
ROWS = (
    torch.rand(B, T, S, generator=torch.Generator().manual_seed(offset_seed(3))) > 0.3
)  # another mask for each query
MASKS = {
    "everything": Mask(),
    "lengths": Mask(lengths=LENGTHS),
    "causal": Mask(causal=True, lengths=LENGTHS),
    "window": Mask(window=(1, 2)),
    "rows of its own": Mask(dense=ROWS),
    "an empty row": Mask(dense=ROWS & (torch.arange(T) != 1)[:, None]),
    "at an offset": Mask(causal=True, offset=2),
}
looking_back = pytest.mark.parametrize("score", LOOKING_BACK)
every_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


def built(score, **parts):
    torch.manual_seed(offset_seed(0))
    attention = in_order(by_key.built(score, SIZES, **parts)).double().eval()
    with torch.no_grad():
        for parameter in attention.parameters():  # large enough that a history decides
            parameter.mul_(3.0)
    return attention


def tensors():
    torch.manual_seed(offset_seed(1))
    return torch.randn(B, T, 5).double(), torch.randn(B, S, 5).double()


def one_by_one(attention, query, source, mask):
    """What a recurrent decoder does: a call for each query, and the history from one to the next."""
    plain = Attention(attention.score, normalizer=attention.normalizer, window=attention.window).eval()
    history, results = History.start(source), []
    for t in range(query.shape[-2]):
        here = mask.at(mask.offset + t)
        if mask.dense is not None:
            here = Mask(dense=mask.dense[:, t : t + 1])
        prepared = plain.prepare(source.values, mask=here)
        results.append(plain(query[:, t : t + 1], prepared, history=history))
        history = history.advance(results[-1].weights)
    return results, history


# one layer's attention, as loops over scalars


def scorer(score):
    """(query, key, its place, the last alignment, the sum of all) -> a number."""
    if isinstance(score, CoverageScore):
        V, U_f = [row[0] for row in score.V.weight.tolist()], score.U_f.weight.tolist()[0]
        W, U, b, v = (x.tolist() for x in (score.W.weight, score.U.weight, score.U.bias, score.v.weight[0]))
        return lambda q, k, s, last, total: coverage.coverage(q, k, total[s], W, U, b, V, U_f, 2.0, v)
    W, V, b, U, w = (
        x.tolist() for x in (score.W.weight, score.V.weight, score.V.bias, score.U.weight, score.w.weight[0])
    )
    F = [kernel[0] for kernel in score.F.weight.tolist()]
    return lambda q, k, s, last, total: location_aware.location_aware(q, k, s, last, W, V, b, U, F, w)


def by_loops(heads, queries, words, visible):
    """Multi-head attention of T queries over S words; visible(t, s) says what query t sees."""
    e = scorer(heads.attention.score)
    W_Q, W_K, W_V, W_O = (W.weight.tolist() for W in (heads.W_Q, heads.W_K, heads.W_V, heads.W_O))
    joined, alignments = [[] for _ in queries], []
    for h in range(HEADS):
        part = slice(h * D, (h + 1) * D)
        keys, values = ([apply(W[part], word) for word in words] for W in (W_K, W_V))
        last, total, rows = [0.0] * len(words), [0.0] * len(words), []
        for t, query in enumerate(queries):
            seen = [s for s in range(len(words)) if visible(t, s)]
            weights = softmax([e(apply(W_Q[part], query), keys[s], s, last, total) for s in seen])
            last = [0.0] * len(words)
            for s, weight in zip(seen, weights, strict=True):
                last[s] = weight
            total = [a + b for a, b in zip(total, last, strict=True)]
            rows.append(last)
            joined[t] += [sum(last[s] * values[s][d] for s in seen) for d in range(D)]
        alignments.append(rows)
    return [apply(W_O, each) for each in joined], alignments


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "score",
    [
        lambda: CoverageScore(query=D, keys=D, hidden=5),
        lambda: LocationAwareScore(query=D, keys=D, hidden=5, filters=2, width=3),
    ],
    ids=LOOKING_BACK,
)
def test_two_heads_are_the_papers_equations_query_by_query(score, causal):
    heads = MultiHead(DIM, HEADS, attention=in_order(Attention(score()))).double()
    with torch.no_grad():
        for parameter in heads.parameters():
            parameter.copy_(torch.randn_like(parameter))
    words = torch.randn(B, S, DIM).double()
    queries = words if causal else torch.randn(B, T, DIM).double()
    result = heads(queries, heads.prepare(words, mask=Mask(lengths=LENGTHS, causal=causal)))
    for b in range(B):
        length = int(LENGTHS[b])
        outputs, weights = by_loops(
            heads,
            queries[b].tolist(),
            words[b].tolist(),
            lambda t, s, length=length: s < length and (not causal or s <= t),
        )
        assert_close(result.context[b], torch.tensor(outputs, dtype=torch.float64))
        assert_close(result.weights[b], torch.tensor(weights, dtype=torch.float64))


# against one call for each query


@every_mask
@looking_back
def test_many_queries_in_one_call_are_as_many_calls(score, mask):
    attention, (query, keys) = built(score), tensors()
    source = attention.prepare(keys, mask=mask)
    result, (expected, _) = attention(query, source), one_by_one(attention, query, source, mask)
    for name in ("context", "weights", "scores"):
        assert_close(getattr(result, name), torch.cat([getattr(each, name) for each in expected], -2))
    aligned = attention.align(query, source)
    assert_close(aligned.weights, result.weights)


@pytest.mark.parametrize("window", ["local-monotonic", "local-predictive"])
@pytest.mark.parametrize("normalizer", ["sparsemax", "mean"])
@looking_back
def test_windows_and_normalizers_act_on_each_query(score, normalizer, window):
    attention, (query, keys) = built(score, normalizer=normalizer, window=window), tensors()
    mask = Mask(lengths=LENGTHS)
    source = attention.prepare(keys, mask=mask)
    expected, _ = one_by_one(attention, query, source, mask)
    assert_close(attention(query, source).context, torch.cat([each.context for each in expected], -2))


@looking_back
def test_a_call_goes_on_from_the_history_that_it_is_given(score):
    attention, (query, keys) = built(score), tensors()
    source = attention.prepare(keys, mask=Mask(causal=True, offset=1))
    whole = attention(query, source)
    first = attention(query[:, :2], source)
    history = History.start(source).advance(first.weights)
    second = attention(query[:, 2:], source.at(3), history=history)
    assert_close(torch.cat([first.weights, second.weights], -2), whole.weights)
    assert_close(torch.cat([first.context, second.context], -2), whole.context)
    assert not torch.allclose(attention(query[:, 2:], source.at(3)).weights, second.weights, atol=1e-3)


@looking_back
def test_gradients_pass_through_the_history(score):
    attention, (query, keys) = built(score), tensors()
    query.requires_grad_()
    source = attention.prepare(keys)
    expected, _ = one_by_one(attention, query, source, Mask())
    a, b = (
        torch.autograd.grad(context.square().sum(), [query, *attention.parameters()])
        for context in (attention(query, source).context, torch.cat([x.context for x in expected], -2))
    )
    assert_close(a, b)
    last = attention(query, source).weights[:, -1].square().sum()
    [slope] = torch.autograd.grad(last, query)
    assert (slope[:, 0].abs().sum(-1) > 0).all()  # the first query moves the last alignment, however little


@looking_back
def test_hidden_positions_and_later_queries_change_nothing(score):
    attention, (query, keys) = built(score), tensors()
    short = attention(query[1:, :3], attention.prepare(keys[1:, :4]))
    padded = attention(query[1:], attention.prepare(keys[1:], mask=Mask(lengths=LENGTHS[1:])))
    assert_close(padded.weights[:, :3, :4], short.weights)
    assert_close(padded.context[:, :3], short.context)
    assert (padded.weights[:, :, 4:] == 0).all()


@looking_back
def test_rows_that_share_a_source_have_a_history_each(score):
    attention, (query, keys) = built(score), tensors()
    query = torch.cat([query, query.flip(1)])
    rows = torch.tensor([0, 0, 1, 1])
    source = attention.prepare(keys, mask=Mask(lengths=LENGTHS))
    shared = source.share(rows)
    assert shared.copies == 2
    for T in (1, 4):
        expected = attention(query[:, :T], source.select(rows))
        assert_close(attention(query[:, :T], shared).weights, expected.weights)
    history = History(torch.rand(4, 1, S).double(), torch.rand(4, 1, S).double())
    expected = attention(query, source.select(rows), history=history)
    assert_close(attention(query, shared, history=history).context, expected.context)


def test_dropout_leaves_the_history_alone():
    attention, (query, keys) = built("coverage"), tensors()
    source = attention.prepare(keys)
    expected = attention(query, source)
    attention.dropout = 0.5
    dropped = attention.train()(query, source)
    assert_close(dropped.weights, expected.weights)
    assert not torch.allclose(dropped.context, expected.context)


def test_a_choice_is_drawn_for_each_query_and_kept():
    attention = InOrder(CoverageScore(query=5, keys=5, hidden=7), normalizer=Hard()).train()
    query, keys = (x.float() for x in tensors())
    source = attention.prepare(keys)
    a, b = (
        attention(query, source, generator=torch.Generator().manual_seed(offset_seed(7))) for _ in range(2)
    )
    assert torch.equal(a.weights, b.weights)
    assert torch.equal(a.weights.sum(-1), torch.ones(B, T))
    assert a.log_probability.shape == (B, T)


# what comes back


def test_one_result_has_the_rows_of_all_queries():
    attention, (query, keys) = built("location-aware"), tensors()
    with record(attention) as trace:
        result = attention(query, attention.prepare(keys))
    [kept] = trace[""]
    assert kept.has_weights
    assert kept.kernel == "reference"
    assert kept.weights.shape == (B, T, S)
    assert_close(result.rows(torch.tensor([2, -1])), kept.weights[:, [2, 3]])
    assert_close(result.top(2)[0], kept.weights.topk(2).values)


def test_no_queries_give_no_rows():
    attention, (query, keys) = built("coverage"), tensors()
    source = attention.prepare(keys)
    result = attention(query[:, :0], source)
    assert result.context.shape == (B, 0, 5)
    assert result.weights.shape == (B, 0, S)
    history = History(torch.rand(B, 1, S), torch.rand(B, 1, S))
    assert history.advance(result.weights) is history


def test_a_history_grows_by_positions_that_nobody_saw():
    attention, (_, keys) = built("coverage"), tensors()
    history = History(torch.rand(B, 1, 4), torch.rand(B, 1, 4))
    grown = history.grown(attention.prepare(keys))
    for before, after in zip(history, grown, strict=True):
        assert torch.equal(after[..., :4], before)
        assert torch.equal(after[..., 4:], torch.zeros(B, 1, S - 4))


# which attentions go in order


@pytest.mark.parametrize("score", catalog.names("score"))
def test_only_what_looks_back_goes_in_order(score):
    attention = by_key.built(score, SIZES, dropout=0.25).eval()
    found = in_order(attention)
    looks_back = isinstance(attention.score, HistoryScore)
    assert looks_back == (score in LOOKING_BACK)
    assert isinstance(found, InOrder) == looks_back
    assert (found is attention) != looks_back
    assert (found.score, found.normalizer, found.dropout) == (attention.score, attention.normalizer, 0.25)
    assert not found.training


def test_kernels_are_refused():
    with pytest.raises(KernelRefused) as error:
        in_order(by_key.built("coverage", SIZES, kernel="sdpa"))
    assert str(error.value) == (
        "kernel 'sdpa' cannot run queries in order: each reads the weights of those before it; expected "
        "'auto' or 'reference'."
    )


@looking_back
def test_a_call_can_be_compiled(score):
    attention, (query, keys) = built(score), tensors()

    def attend(query, keys):
        return attention(query, attention.prepare(keys, mask=Mask(causal=True))).context

    compiled = torch.compile(attend, backend="eager", fullgraph=True)
    assert_close(compiled(query, keys), attend(query, keys))
