"""Laws of independence: batch rows, padding, source order, one step at a time, layout of the inputs."""

import pytest
import torch
from laws.cases import DV, EACH, HISTORY, PRODUCT, B, S, T, build, call, inputs, parametrize
from torch.testing import assert_close

from regard import Mask


@parametrize(PRODUCT)
def test_batch_rows_are_independent(case):
    attention, x = build(case), inputs(case)
    together = call(attention, x, Mask(lengths=torch.tensor([7, 4])))
    for b, length in enumerate((7, 4)):
        alone = call(attention, x.map(lambda a, b=b: a[b : b + 1]), Mask(lengths=torch.tensor([length])))
        assert_close(alone.context[0], together.context[b])
        assert_close(alone.weights[0], together.weights[b])


@parametrize(PRODUCT)
def test_more_padding_changes_nothing(case):
    attention, x = build(case), inputs(case)
    mask = Mask(lengths=torch.tensor([7, 4]))
    padded = x.source(lambda a: torch.cat([a, torch.randn_like(a[..., :4, :])], -2))
    before, after = call(attention, x, mask), call(attention, padded, mask)
    if case.score == "location-aware":  # the convolution looks across the end; weights there are zero in use
        history = padded.history._replace(previous=padded.history.previous.clone())
        history.previous[..., S:] = 0
        source = attention.prepare(padded.keys, padded.values, mask)
        after = attention(padded.query, source, history=history)
    assert_close(after.context, before.context)
    assert_close(after.weights[..., :S], before.weights)
    assert (after.weights[..., S:] == 0).all()


@parametrize([case for case in PRODUCT if not case.positional])
def test_permuting_the_source_permutes_the_weights(case):
    attention, x = build(case), inputs(case)
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    visible = torch.arange(B * T * S).view(B, T, S) % 3 != 1
    before = call(attention, x, visible)
    after = call(attention, x.source(lambda a: a[..., order, :]), visible[..., order])
    assert_close(after.weights, before.weights[..., order])
    assert_close(after.scores, before.scores[..., order])
    assert_close(after.context, before.context)


@parametrize([case for case in EACH if case.positional])
def test_positional_mechanisms_do_depend_on_the_order(case):
    attention, x = build(case), inputs(case)
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    before, after = call(attention, x), call(attention, x.source(lambda a: a[..., order, :]))
    assert not torch.allclose(after.weights, before.weights[..., order])


STEPS = {
    "nothing hidden": None,
    "lengths": Mask(lengths=torch.tensor([7, 4])),
    "causal": Mask(causal=True),
    "window": Mask(window=(2, 1)),
    "causal and window": Mask(causal=True, window=(1, 3)),
    "dense": torch.tensor([True, True, False, True, True, True, False]),
    "lengths and causal": Mask(causal=True, lengths=torch.tensor([7, 2])),
}


@parametrize(PRODUCT)
def test_one_step_at_a_time_equals_all_at_once(case):
    attention, x = build(case), inputs(case, t=5)
    for name, mask in STEPS.items():
        source = attention.prepare(x.keys, x.values, mask)
        whole = attention(x.query, source, history=x.history)
        steps = [
            attention(x.query[:, t : t + 1], source.at(t), history=x.history) for t in range(x.query.shape[1])
        ]
        assert_close(torch.cat([step.context for step in steps], 1), whole.context, msg=name)
        assert_close(torch.cat([step.weights for step in steps], 1), whole.weights, msg=name)


@parametrize(EACH)
def test_a_target_longer_than_its_source_still_sees_it(case):
    """Local windows stay at the end of the source when the target goes on."""
    attention, x = build(case), inputs(case, t=19)
    result = call(attention, x, Mask(lengths=torch.tensor([7, 4])))
    assert torch.isfinite(result.context).all()
    if case.sums_to_one:
        assert_close(result.weights.sum(-1), torch.ones(B, 19, dtype=torch.float64))


@parametrize([case for case in EACH if case.score not in HISTORY])
def test_a_growing_source_equals_causal_attention(case):
    """The decoder's cache: append one position, ask with one query."""
    attention, x = build(case), inputs(case, t=S)
    whole = call(attention, x, Mask(causal=True))
    source, contexts = None, []
    for t in range(S):
        one = attention.prepare(x.keys[:, t : t + 1], x.values[:, t : t + 1], Mask(causal=True))
        source = one if source is None else source.append(one)
        contexts.append(attention(x.query[:, t : t + 1], source.at(t)).context)
    assert_close(torch.cat(contexts, 1), whole.context)


@parametrize(EACH)
@pytest.mark.parametrize("lead", [(), (2, 3), (1,)], ids=["none", "two", "one row"])
def test_any_number_of_leading_axes(case, lead):
    attention, x = build(case), inputs(case, lead=lead)
    result = call(attention, x, Mask(causal=True))
    assert result.context.shape == (*lead, T, DV)
    assert result.weights.shape == (*lead, T, S)
    flat = call(attention, x.map(lambda a: a.reshape(-1, *a.shape[-2:])), Mask(causal=True))
    assert_close(result.context.reshape(-1, T, DV), flat.context)
    assert_close(result.weights.reshape(-1, T, S), flat.weights)


@parametrize(EACH)
@pytest.mark.parametrize("lead", [(2,), (2, 3)], ids=["one", "two"])
def test_lengths_belong_to_the_first_axis(case, lead):
    attention, x = build(case), inputs(case, lead=lead)
    result = call(attention, x, Mask(lengths=torch.tensor([7, 4])))
    assert (result.weights[1, ..., 4:] == 0).all()
    assert_close(result.context, result.weights @ x.values)
    if case.window == "global" and case.sums_to_one:
        assert_close(result.weights.sum(-1), torch.ones(*lead, T, dtype=torch.float64))


@parametrize(PRODUCT)
def test_the_smallest_sizes(case):
    attention = build(case)
    for t, s in ((1, 1), (1, 7), (3, 1)):
        x = inputs(case, t=t, s=s)
        result = call(attention, x)
        assert_close(result.weights @ x.values, result.context)
        if s == 1 and case.sums_to_one:
            assert (result.weights == 1).all()


@parametrize(PRODUCT)
def test_the_layout_of_the_inputs_does_not_matter(case):
    attention, x = build(case), inputs(case)
    mask = Mask(lengths=torch.tensor([7, 4]))
    strided = x.map(lambda a: a.transpose(0, -1).contiguous().transpose(0, -1))
    assert not strided.keys.is_contiguous()
    every_other = x.map(lambda a: torch.stack([a, torch.full_like(a, torch.nan)], -1)[..., 0])
    expected = call(attention, x, mask)
    for other in (strided, every_other):
        result = call(attention, other, mask)
        assert_close(result.context, expected.context)
        assert_close(result.weights, expected.weights)


@parametrize(EACH)
def test_a_source_without_batch_axis_serves_every_row(case):
    attention, x = build(case), inputs(case)
    shared = x.source(lambda a: a[:1].expand(B, *a.shape[1:]))
    expected = call(attention, shared, Mask(causal=True))
    source = attention.prepare(x.keys[0], x.values[0], Mask(causal=True))
    history = None if shared.history is None else type(shared.history)(*(h[0] for h in shared.history))
    result = attention(x.query, source, history=history)
    assert_close(result.context, expected.context)
    assert_close(result.weights, expected.weights)


@parametrize(PRODUCT)
def test_a_mask_may_hide_whole_queries_with_one_column(case):
    """`dense` broadcasts: (B, T, 1) says of each query whether it may look at all."""
    attention, x = build(case), inputs(case)
    column = torch.tensor([[True, False, True], [True, True, False]])[..., None]
    narrow, wide = call(attention, x, column), call(attention, x, column.expand(B, T, S))
    assert_close(narrow.weights, wide.weights)
    assert_close(narrow.context, wide.context)
