"""Sources and histories: state as values that grow, are selected and never change."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from seeds import offset_seed
from torch.testing import assert_close

from regard import (
    AdditiveScore,
    Attention,
    DotScore,
    History,
    InOrder,
    LocalMonotonic,
    LocationAwareScore,
    Mask,
    MaskError,
    MultiHead,
    ShapeError,
    Softmax,
    Source,
)

B, T, D = 2, 3, 5
quick = settings(max_examples=60, deadline=None)


def lengths(values):
    return Mask(lengths=torch.tensor(values))


@st.composite
def parts(draw):
    """Two sources, each with its own mask, and the dense mask of the whole."""
    sources, columns = [], []
    causal = draw(st.booleans())
    window = draw(st.none() | st.tuples(st.integers(0, 3), st.integers(0, 3)))
    for _ in range(draw(st.integers(2, 3))):
        S = draw(st.integers(1, 4))
        visible = torch.ones(B, S, dtype=torch.bool)
        mask = Mask(causal=causal, window=window)
        if draw(st.booleans()):
            n = draw(st.lists(st.integers(0, S), min_size=B, max_size=B))
            mask &= lengths(n)
            visible &= torch.arange(S) < torch.tensor(n)[:, None]
        if draw(st.booleans()):
            shape = draw(st.sampled_from([(S,), (1, S), (B, 1, S), (B, 1, 1)]))
            count = torch.Size(shape).numel()
            table = torch.tensor(draw(st.lists(st.booleans(), min_size=count, max_size=count))).view(shape)
            mask &= table
            visible &= table.expand(B, 1, S)[:, 0]
        generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
        keys, values = (torch.randn(B, S, D, generator=generator) for _ in range(2))
        sources.append(Source(keys, values, mask))
        columns.append(visible)
    return sources, Mask(causal=causal, window=window, dense=torch.cat(columns, 1)[:, None])


@quick
@given(parts())
def test_appending_equals_building_the_whole_at_once(case):
    sources, mask = case
    grown = sources[0]
    for part in sources[1:]:
        grown = grown.append(part)
    whole = Source(torch.cat([s.keys for s in sources], 1), torch.cat([s.values for s in sources], 1), mask)
    assert torch.equal(grown.keys, whole.keys)
    assert torch.equal(grown.values, whole.values)
    assert grown.S == whole.S
    query = torch.randn(B, T, D, generator=torch.Generator().manual_seed(offset_seed(0)))
    attention = Attention(DotScore(), kernel="reference")
    for offset in (0, 2):
        assert_close(attention(query, grown.at(offset)).weights, attention(query, whole.at(offset)).weights)


@pytest.mark.parametrize("name", ["dot", "additive", "heads", "in order", "local-m"])
@pytest.mark.parametrize("first", [0, 1, 4])
def test_queries_after_an_append_stand_at_the_end(name, first):
    """Where `at` says nothing: a decoder that grows its source step by step equals all steps at once."""
    attention = {
        "dot": lambda: Attention(DotScore()),
        "additive": lambda: Attention(AdditiveScore(query=6, keys=6, hidden=5)),
        "heads": lambda: MultiHead(6, 2),
        "in order": lambda: InOrder(DotScore()),
        "local-m": lambda: Attention(DotScore(), window=LocalMonotonic(half_width=1)),
    }[name]()
    x, causal = torch.randn(B, 7, 6), Mask(causal=True)
    expected = attention(x, attention.prepare(x, mask=causal))
    grown = attention.prepare(x[:, :first], mask=causal)
    for t in range(first, 7):
        grown = grown.append(attention.prepare(x[:, t : t + 1]))
        for source in (grown, grown.at(t), grown.select(torch.arange(B))):
            result = attention(x[:, t : t + 1], source)
            assert_close(result.context, expected.context[:, t : t + 1])
            assert_close(result.weights, expected.weights[..., t : t + 1, : t + 1])
    twice = grown.select(torch.tensor([1, 1, 0]))  # a beam keeps where its queries stand
    assert_close(attention(x[[1, 1, 0], 5:], twice).context, expected.context[[1, 1, 0], 5:])
    if name != "heads":
        assert_close(attention.align(x[:, 5:], grown).weights, expected.weights[:, 5:])


def test_where_queries_stand_can_still_be_said():
    attention, x = Attention(DotScore()), torch.randn(B, 6, 4)
    grown = attention.prepare(x[:, :3], mask=Mask(causal=True)).append(attention.prepare(x[:, 3:]))
    whole = attention.prepare(x, mask=Mask(causal=True))
    for offset in (0, 2, 4):
        query = x[:, offset : offset + 2]
        assert_close(attention(query, grown.at(offset)).context, attention(query, whole.at(offset)).context)


def test_appending_leaves_the_parts_as_they_were():
    first = Source(torch.randn(B, 2, D), torch.randn(B, 2, D), lengths([1, 2]))
    before = first.keys.clone()
    first.append(Source(torch.randn(B, 1, D), torch.randn(B, 1, D), Mask()))
    assert torch.equal(first.keys, before)
    assert first.S == 2
    assert first.mask == lengths([1, 2])


def test_appending_to_an_all_visible_source_needs_no_mask():
    part = Source(torch.randn(B, 2, D), torch.randn(B, 2, D), Mask(causal=True))
    assert part.append(part).mask == Mask(causal=True)


def test_appending_keeps_the_mask_of_heads():
    heads = MultiHead(10, 2).double()
    x = torch.randn(B, 7, 10).double()
    whole = heads.prepare(x, mask=lengths([7, 4]))
    left, right = heads.prepare(x[:, :3], mask=lengths([3, 3])), heads.prepare(x[:, 3:], mask=lengths([4, 1]))
    assert_close(heads(x, left.append(right)).weights, heads(x, whole).weights)


@quick
@given(st.lists(st.integers(0, B - 1), min_size=1, max_size=5), parts())
def test_selecting_rows_is_indexing_the_result(rows, case):
    rows = torch.tensor(rows)
    attention = Attention(DotScore(), kernel="reference")
    query = torch.randn(B, T, D, generator=torch.Generator().manual_seed(offset_seed(0)))
    for source in case[0]:
        everything, selected = attention(query, source), attention(query[rows], source.select(rows))
        assert_close(selected.context, everything.context[rows])
        assert_close(selected.weights, everything.weights[rows])


@pytest.mark.parametrize("shape", [(B, 4, 6), (1, 4, 6), (4, 6), (6,), (B, 4, 1)], ids=str)
def test_selecting_rows_selects_a_dense_mask(shape):
    table = torch.rand(shape) > 0.4
    attention = Attention(AdditiveScore(query=D, keys=D, hidden=7))
    query, rows = torch.randn(B, 4, D), torch.tensor([1, 1, 0])
    source = attention.prepare(torch.randn(B, 6, D), mask=table)
    assert_close(attention(query[rows], source.select(rows)).weights, attention(query, source).weights[rows])


def test_selecting_rows_selects_a_dense_mask_of_queries_with_more_axes():
    attention, query, rows = Attention(DotScore()), torch.randn(4, B, T, D), torch.tensor([1, 1, 0])
    source = attention.prepare(torch.randn(B, 6, D), mask=torch.rand(4, B, 1, 6) > 0.4)
    expected = attention(query, source).weights[:, rows]
    assert_close(attention(query[:, rows], source.select(rows)).weights, expected)


def test_selecting_rows_of_heads():
    heads, query, rows = MultiHead(10, 2), torch.randn(B, 4, 10), torch.tensor([1, 1, 0])
    table = torch.rand(B, 4, 6) > 0.4
    source = heads.prepare(torch.randn(B, 6, 10), mask=lengths([6, 3]) & table)
    assert_close(heads(query[rows], source.select(rows)).context, heads(query, source).context[rows])


def test_a_dense_mask_for_given_queries_cannot_grow():
    rows = Source(
        torch.randn(B, 2, D), torch.randn(B, 2, D), Mask(dense=torch.ones(B, T, 2, dtype=torch.bool))
    )
    plain = Source(torch.randn(B, 1, D), torch.randn(B, 1, D), Mask())
    text = (
        r"^Source\.append: `dense` has shape \(2, 3, 2\); expected \(\.\.\., 1, S\), "
        r"since a growing source is seen by later queries too\.$"
    )
    for first, second in ((rows, plain), (plain, rows)):
        with pytest.raises(MaskError, match=text):
            first.append(second)


def test_parts_of_different_sizes_cannot_be_joined():
    keys, values = torch.randn(B, 2, D), torch.randn(B, 2, D)
    with pytest.raises(
        ShapeError,
        match=r"^Source\.append: `other\.keys` has shape \(2, 2, 4\); expected \(\.\.\., S2=2, Dp=5\)\.$",
    ):
        Source(keys, values, Mask()).append(Source(keys[..., :4], values, Mask()))
    with pytest.raises(
        ShapeError,
        match=r"^Source\.append: `other\.values` has shape \(2, 2, 4\); expected \(\.\.\., S2=2, Dv=5\)\.$",
    ):
        Source(keys, values, Mask()).append(Source(keys, values[..., :4], Mask()))


def source(dtype=torch.float32, lead=(B,)):
    return Source(torch.randn(*lead, 6, D).to(dtype), torch.randn(*lead, 6, D).to(dtype), Mask())


@pytest.mark.parametrize("lead", [(), (B,), (B, 3)], ids=str)
def test_a_history_starts_with_nothing_or_at_one_position(lead):
    nothing = History.start(source(lead=lead))
    assert nothing.previous.shape == nothing.cumulative.shape == (*lead, 1, 6)
    assert (nothing.previous == 0).all()
    begin = History.start(source(lead=lead), at=2)
    assert (begin.previous.argmax(-1) == 2).all()
    assert_close(begin.previous.sum(-1), torch.ones(*lead, 1))
    assert (begin.cumulative == 0).all()


def test_a_history_is_kept_in_full_precision():
    assert History.start(source(torch.bfloat16)).previous.dtype == torch.float32
    assert History.start(source(torch.float64)).previous.dtype == torch.float64


def test_a_history_advances_step_by_step_as_by_several_steps_at_once():
    weights = Softmax()(torch.randn(B, 4, 6))
    at_once = History.start(source()).advance(weights)
    steps = History.start(source())
    for t in range(4):
        steps = steps.advance(weights[:, t : t + 1])
    assert_close(steps.previous, at_once.previous)
    assert_close(steps.cumulative, at_once.cumulative)
    assert_close(at_once.previous, weights[:, -1:])
    assert_close(at_once.cumulative, weights.sum(1, keepdim=True))


def test_selecting_a_history_selects_its_rows():
    history, rows = History(torch.rand(B, 1, 6), torch.rand(B, 1, 6)), torch.tensor([1, 1, 0])
    selected = history.select(rows)
    assert torch.equal(selected.previous, history.previous[rows])
    assert torch.equal(selected.cumulative, history.cumulative[rows])


def test_a_recurrent_decoder_moves_on_with_its_history():
    """The filter looks one position back: attention that began at 0 walks along the source, one step each."""
    score = LocationAwareScore(query=1, keys=1, hidden=1, filters=1, width=3)
    with torch.no_grad():
        for name in ("W", "V", "U", "w"):
            getattr(score, name).weight.fill_(0.0 if name in ("W", "V") else 30.0)
        score.V.bias.zero_()
        score.F.weight.copy_(torch.tensor([[[1.0, 0.0, 0.0]]]))
    attention = Attention(score)
    prepared = attention.prepare(torch.zeros(1, 5, 1))
    history, path = History.start(prepared, at=0), []
    for _ in range(4):
        result = attention(torch.zeros(1, 1, 1), prepared, history=history)
        history = history.advance(result.weights)
        path.append(result.weights.argmax(-1).item())
    assert path == [1, 2, 3, 4]
    assert history.cumulative.sum().item() == pytest.approx(4.0, abs=1e-5)


def test_a_source_prints_its_shapes_and_no_numbers():
    source = Source(torch.zeros(2, 5, 3), torch.zeros(2, 5, 4), Mask(lengths=torch.tensor([5, 2])))
    assert repr(source) == ("Source(keys=(2, 5, 3), values=(2, 5, 4), float32 on cpu, Mask(lengths=[5, 2]))")
    assert repr(source.append(source)).endswith(", grown)")
