"""record(model): what every attention did, by path, in order, without a flag."""

import asyncio
import re

import pytest
import torch
from torch import nn

from regard import (
    AdditiveScore,
    Attention,
    AttentionResult,
    ConfigError,
    CoverageScore,
    DotScore,
    InOrder,
    Mask,
    MultiHead,
    Trace,
    record,
)
from regard.attention.record import UnseenWarning


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = MultiHead(6, 2)
        self.pointer = Attention(AdditiveScore(query=6, keys=6, hidden=3))

    def forward(self, x):
        x = self.heads(x, self.heads.prepare(x, None, Mask(causal=True))).context
        source = self.pointer.prepare(x)
        return torch.cat([self.pointer(x[:, t : t + 1], source).context for t in range(3)], 1)


def model():
    return nn.Sequential(Layer(), Layer())


def test_results_are_kept_by_module_path_in_order():
    net, x = model(), torch.randn(2, 3, 6)
    with record(net) as trace:
        net(x)
    assert isinstance(trace, Trace)
    assert list(trace) == ["0.heads.attention", "0.pointer", "1.heads.attention", "1.pointer"]
    assert [len(results) for results in trace.values()] == [1, 3, 1, 3]
    assert all(isinstance(result, AttentionResult) for results in trace.values() for result in results)


def test_steps_come_in_the_order_they_were_taken():
    attention, x = Attention(DotScore()), torch.randn(2, 3, 6)
    source = attention.prepare(x)
    with record(attention) as trace:
        expected = [attention(x[:, t : t + 1], source) for t in range(3)]
    assert trace[""] == expected  # the model is the attention itself: its path is empty


def test_recorded_weights_are_computed_when_looked_at():
    net, x = model(), torch.randn(2, 3, 6)
    with record(net) as trace:
        net(x)
    (result,) = trace["0.heads.attention"]
    assert not result.has_weights
    assert result.weights.shape == (2, 2, 3, 3)
    assert (result.weights.triu(1) == 0).all()


def test_recorded_heads_tell_rows_and_the_largest_weights_without_building_all():
    net, x = model(), torch.randn(2, 3, 6)
    with torch.no_grad(), record(net) as trace:
        net(x)
    (result,) = trace["0.heads.attention"]
    rows, (values, positions) = result.rows(torch.tensor([2])), result.top(2)
    assert not result.has_weights
    torch.testing.assert_close(rows, result.weights[..., 2:, :])
    torch.testing.assert_close(values, result.weights.topk(2).values)
    torch.testing.assert_close(result.weights.gather(-1, positions), values)


def test_recording_changes_nothing():
    net, x = model(), torch.randn(2, 3, 6)
    before = net(x)
    with record(net):
        assert torch.equal(net(x), before)


def test_nothing_is_recorded_after_the_block():
    net, x = model(), torch.randn(2, 3, 6)
    with record(net) as trace:
        net(x)
    net(x)
    assert len(trace["0.heads.attention"]) == 1


def test_nothing_is_recorded_after_an_error_either():
    net, x = model(), torch.randn(2, 3, 6)
    with pytest.raises(RuntimeError, match="the model broke"), record(net) as trace:
        raise RuntimeError("the model broke")
    net(x)
    assert trace == {}


def test_an_attention_outside_the_recorded_model_leaves_nothing():
    net, other, x = model(), model(), torch.randn(2, 3, 6)
    with pytest.warns(UnseenWarning, match="no attention was seen in the block"), record(net[0]) as trace:
        other(net[1](x))
    assert trace == {}


def test_recordings_may_be_nested():
    net, x = model(), torch.randn(2, 3, 6)
    with record(net) as outer:
        net(x)
        with record(net[0]) as inner:
            net(x)
    assert list(inner) == ["heads.attention", "pointer"]
    assert len(inner["heads.attention"]) == 1
    assert len(outer["0.heads.attention"]) == 2


def test_two_traces_do_not_share_results():
    net, x = model(), torch.randn(2, 3, 6)
    with record(net) as first:
        net(x)
    with record(net) as second:
        net(x)
    assert first["0.pointer"][0] is not second["0.pointer"][0]
    assert len(second["0.pointer"]) == 3


@pytest.mark.parametrize("compiled", ["wrapped", "in place"])
def test_a_compiled_model_is_refused_since_it_would_leave_nothing(compiled):
    model = Attention(DotScore())
    if compiled == "wrapped":
        model = torch.compile(model, backend="eager")
    else:
        model.compile(backend="eager")
    text = (
        "whose attention cannot be recorded; expected what torch.compile was given, which has the same "
        "parameters."
    )
    with (
        pytest.raises(ConfigError, match=rf"^record: `model` has a compiled \w+, {re.escape(text)}$"),
        record(model),
    ):
        pass


WITHOUT = {
    "linear": lambda: nn.Linear(3, 3),
    "none": nn.Sequential,
}


@pytest.mark.parametrize("make", WITHOUT.values(), ids=WITHOUT)
def test_a_model_without_attention_is_refused(make):
    net = make()
    text = (
        f"record: `model` has no attention inside its {type(net).__name__}; expected one or more. "
        "Of PyTorch's own layers, only nn.MultiheadAttention and those that contain it have attention."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}$"), record(net):
        pass


class Twice(Attention):
    """A subclass that asks its parent twice and has a result of its own."""

    def forward(self, query, source, **options):
        first, second = (super(Twice, self).forward(query, source, **options) for _ in range(2))
        return first.with_context(first.context + second.context)


def test_a_subclass_leaves_the_result_that_it_returns_and_no_other():
    attention, x = Twice(DotScore()), torch.randn(2, 3, 6)
    with record(attention) as trace:
        result = attention(x, attention.prepare(x))
    assert trace == {"": [result]}


def test_hypotheses_that_share_a_source_leave_one_result():
    attention, x = Attention(DotScore()), torch.randn(2, 3, 6)
    shared = attention.prepare(x).share(torch.tensor([0, 0, 1, 1]))
    with record(attention) as trace:
        result = attention(torch.randn(4, 1, 6), shared)
    assert trace == {"": [result]}


def test_queries_in_order_leave_one_result():
    attention = InOrder(CoverageScore(query=6, keys=6, hidden=3))
    x = torch.randn(2, 3, 6)
    with record(attention) as trace:
        result = attention(x, attention.prepare(x))
    assert trace == {"": [result]}


def test_inner_and_outer_recordings_may_end_in_any_order():
    attention, x = Attention(DotScore()), torch.randn(2, 3, 6)
    source = attention.prepare(x)
    outer, inner = record(attention), record(attention)
    first, second = outer.__enter__(), inner.__enter__()
    attention(x, source)
    outer.__exit__(None, None, None)
    attention(x, source)
    inner.__exit__(None, None, None)
    attention(x, source)
    assert (len(first[""]), len(second[""])) == (1, 2)


def test_tasks_have_recordings_of_their_own():
    attention, x = Attention(DotScore()), torch.randn(2, 3, 6)
    source = attention.prepare(x)

    async def one(calls):
        with record(attention) as trace:
            for _ in range(calls):
                await asyncio.sleep(0)
                attention(x, source)
        return len(trace[""])

    async def several():
        return await asyncio.gather(*(one(calls) for calls in (1, 2, 3, 4)))

    assert asyncio.run(several()) == [1, 2, 3, 4]


def test_a_task_that_outlives_the_block_leaves_nothing_more():
    attention, x = Attention(DotScore()), torch.randn(2, 3, 6)
    source = attention.prepare(x)

    async def later():
        await asyncio.sleep(0)
        attention(x, source)

    async def all_of_it():
        with record(attention) as trace:
            attention(x, source)
            task = asyncio.create_task(later())
        await task
        return len(trace[""])

    assert asyncio.run(all_of_it()) == 1


def test_a_graph_compiled_inside_the_block_holds_no_recording():
    attention, x = Attention(DotScore()), torch.randn(2, 3, 6)

    def context(x):
        return attention(x, attention.prepare(x)).context

    with pytest.warns(UnseenWarning, match="no attention was seen in the block"), record(attention) as trace:
        compiled = torch.compile(context, backend="eager", fullgraph=True)(x)
    assert torch.equal(compiled, context(x))
    assert trace == {}
