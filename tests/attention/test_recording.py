"""record(model): what every attention did, by path, in order, without a flag."""

import re

import pytest
import torch
from torch import nn

from regard import (
    AdditiveScore,
    Attention,
    AttentionResult,
    ConfigError,
    DotScore,
    Mask,
    MultiHead,
    Trace,
    record,
)


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


def hooks(module):
    return sum(len(m._forward_hooks) for m in module.modules())


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


def test_hooks_are_gone_afterwards():
    net, x = model(), torch.randn(2, 3, 6)
    assert hooks(net) == 0
    with record(net) as trace:
        assert hooks(net) == 4
        net(x)
    assert hooks(net) == 0
    net(x)
    assert len(trace["0.heads.attention"]) == 1


def test_hooks_are_gone_after_an_error_too():
    net = model()
    with pytest.raises(RuntimeError, match="the model broke"), record(net):
        raise RuntimeError("the model broke")
    assert hooks(net) == 0


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
        "which leaves no results; expected the modules given to torch.compile. They have the same parameters."
    )
    with (
        pytest.raises(ConfigError, match=rf"^record: `model` has a compiled \w+, {re.escape(text)}$"),
        record(model),
    ):
        pass
