"""What a trace tells: its summary, its steps, the gradients of its weights."""

import copy

import numpy as np
import pytest
import torch
from foreign_calls import CLOSE, Calls, formula, tensors
from torch import nn

from regard import Attention, ConfigError, DotScore, MultiHead, record
from regard.attention.record import UnseenWarning
from regard.attention.summary import Row


def test_the_summary_by_the_formulas():
    model, (q, k, v) = Calls(), tensors(T=6, S=6)
    with record(model) as trace:
        model(q, k, v, is_causal=True)
        model(q, k, v)
    (row,) = trace.summary()
    causal = formula(q, k, visible=torch.ones(6, 6).tril().bool()).double()
    weights = torch.cat([causal, formula(q, k).double()])
    apart = (torch.arange(6)[:, None] - torch.arange(6)).abs()
    entropy = -(weights * weights.clamp_min(1e-300).log2()).sum(-1).mean()
    last = torch.cat([causal.diagonal(dim1=-2, dim2=-1), formula(q, k).double()[..., -1]]).mean()
    assert row[:6] == ("", 2, 4, 6, 6, "sdpa")
    expected = (entropy, (weights * apart).sum(-1).mean(), weights[..., 0].mean(), last)
    np.testing.assert_allclose(row[6:], [x.item() for x in expected], rtol=1e-6)
    header, line = str(trace.summary()).splitlines()
    assert header.split() == list(Row._fields)
    assert line.split()[:2] == ["(the", "model)"]


def test_the_summary_of_another_sequence_has_no_distance():
    model, (q, k, v) = Calls(), tensors()
    with record(model) as trace:
        model(q, k, v)
    (row,) = trace.summary()
    assert np.isnan(row.distance)
    assert "–" in str(trace.summary())


def test_the_summary_leaves_rows_out_that_see_nothing():
    model, (q, k, v) = Calls(), tensors(T=3, S=3)
    with record(model) as trace:
        model(q, k, v, attn_mask=torch.tensor([[True] * 3, [False] * 3, [True] * 3]))
    (row,) = trace.summary()
    weights = formula(q, k)[..., [0, 2], :]
    np.testing.assert_allclose(row.first, weights[..., 0].mean().item(), rtol=1e-5)


def test_steps_with_a_growing_cache_are_one_lower_triangle():
    model, (q, k, v) = Calls(), tensors(T=8, S=8)
    with record(model) as trace:
        model(q[:, :, :4], k[:, :, :4], v[:, :, :4], is_causal=True)
        for t in range(4, 8):
            model(q[:, :, t : t + 1], k[:, :, : t + 1], v[:, :, : t + 1])
    expected = formula(q, k, visible=torch.ones(8, 8).tril().bool())
    torch.testing.assert_close(trace.steps(""), expected, **CLOSE)
    (row,) = trace.summary()
    apart = (torch.arange(8)[:, None] - torch.arange(8)).abs()
    np.testing.assert_allclose(row.distance, (expected * apart).sum(-1).mean().item(), rtol=1e-5)


def test_steps_with_a_sliding_cache_keep_their_columns():
    model, (q, k, v), W = Calls(), tensors(T=8, S=8), 3
    with record(model) as trace:
        model(q[:, :, :3], k[:, :, :3], v[:, :, :3], is_causal=True)
        for t in range(3, 8):
            seen = slice(t + 1 - W, t + 1)
            model(q[:, :, t : t + 1], k[:, :, seen], v[:, :, seen])
    visible = torch.ones(8, 8).tril().bool() & torch.ones(8, 8).triu(1 - W).bool()
    torch.testing.assert_close(trace.steps(""), formula(q, k, visible=visible), **CLOSE)


def test_steps_over_another_sequence_are_stacked():
    model, (q, k, v) = Calls(), tensors(T=9, S=4)
    with record(model) as trace:
        for t in range(9):
            model(q[:, :, t : t + 1], k, v)
    torch.testing.assert_close(trace.steps(""), formula(q, k), **CLOSE)


def test_steps_of_an_unknown_path_and_of_two_batches_are_refused():
    model, (q, k, v) = Calls(), tensors()
    with record(model) as trace:
        model(q, k, v)
        model(q[:1], k[:1], v[:1])
    with pytest.raises(ConfigError, match=r"^Trace.steps: `path` has 'h'; expected a recorded path: ''\."):
        trace.steps("h")
    with pytest.raises(ConfigError, match="whose calls differ in rows or heads"):
        trace.steps("")


def test_the_gradient_of_the_weights_is_that_of_the_formula():
    model, (q, k, v) = Calls(), tensors(requires_grad=True, G=2)
    loss = torch.randn(2, 4, 5, 8)
    with record(model, gradients=True) as trace:
        (model(q, k, v, enable_gqa=True) * loss).sum().backward()
    weights = formula(q, k).requires_grad_()
    ((weights @ v.detach().repeat_interleave(2, 1)) * loss).sum().backward()
    torch.testing.assert_close(trace[""][0].weight_gradients, weights.grad, **CLOSE)


def test_gradients_that_were_not_asked_for_or_not_computed_are_refused():
    model, (q, k, v) = Calls(), tensors(requires_grad=True)
    with record(model) as without, record(model, gradients=True) as early:
        model(q, k, v)
    with pytest.raises(ConfigError, match=r"expected record\(model, gradients=True\)"):
        _ = without[""][0].weight_gradients
    with pytest.raises(ConfigError, match="expected a backward pass before it is read"):
        _ = early[""][0].weight_gradients


def test_an_attention_of_ours_that_is_not_of_the_model_leaves_nothing():
    attention, x = Attention(DotScore()), torch.randn(2, 3, 6)

    class Uses(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(6, 6)

        def forward(self, x):
            return attention(self.inner(x), attention.prepare(x)).context

    model = Uses()
    with pytest.warns(UnseenWarning, match="no attention was seen in the block"), record(model) as trace:
        model(x)
    assert trace == {}


@pytest.mark.parametrize("options", [{}, {"to": "cpu"}, {"heads": [1], "queries": [0, -1]}])
@pytest.mark.parametrize("ours", [True, False])
def test_a_trace_that_was_saved_or_copied_has_the_same_weights(ours, options, tmp_path):
    heads, (q, k, v), x = MultiHead(8, 4), tensors(), torch.randn(2, 5, 8)
    model = nn.ModuleList([Calls(), heads])
    with torch.no_grad(), record(model, **options) as trace:
        if ours:
            heads(x)
        else:
            q += 1.0  # changed before the call, as a copy has never been
            model[0](q, k, v)
    torch.save(trace, tmp_path / "trace.pt")
    for same in (torch.load(tmp_path / "trace.pt", weights_only=False), copy.deepcopy(trace)):
        for path, (result,) in trace.items():
            (found,) = same[path]
            assert torch.equal(found.weights, result.weights)
            assert torch.equal(found.scores, result.scores)
            assert torch.equal(found.context, result.context)
            assert torch.equal(found.rows(torch.tensor([-1])), result.rows(torch.tensor([-1])))
            assert torch.equal(found.top(2)[1], result.top(2)[1])
            assert found.kernel == result.kernel
    assert list(same) == list(trace) == (["1.attention"] if ours else ["0"])


def test_the_summary_of_an_empty_source():
    model, (q, k, v) = Calls(), tensors(S=0)
    with record(model) as trace:
        model(q, k, v)
    (row,) = trace.summary()
    assert (row.T, row.S, row.entropy) == (5, 0, 0.0)
