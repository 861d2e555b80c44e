"""record(model) over libraries that need a GPU: modules with their signatures compute the same on a CPU."""

import sys
import types

import pytest
import torch
import torch.nn.functional as F
from foreign_calls import CLOSE, Calls, tensors

from regard import ablate, record
from regard.attention.record import UnseenWarning


def fake_flash():
    module = types.ModuleType("flash_attn")

    def flash_attn_func(
        q,
        k,
        v,
        dropout_p=0.0,
        softmax_scale=None,
        causal=False,
        window_size=(-1, -1),
        softcap=0.0,
        alibi_slopes=None,
        deterministic=False,
        return_attn_probs=False,
    ):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        T, S = q.shape[-2], k.shape[-2]
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        scores = q @ k.mT * (q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale)
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        ahead = torch.arange(S) - (torch.arange(T)[:, None] + S - T)
        if alibi_slopes is not None:
            scores = scores - alibi_slopes[:, None, None] * ahead.abs()
        hidden = (ahead > 0) & torch.tensor(causal)
        left, right = window_size
        hidden = hidden | ((ahead < -left) & (left >= 0)) | ((ahead > right) & (right >= 0))
        out = (scores.masked_fill(hidden, -torch.inf).softmax(-1).nan_to_num(0.0) @ v).transpose(1, 2)
        return (out, None, None) if return_attn_probs else out

    def flash_attn_qkvpacked_func(qkv, *given, **named):
        return flash_attn_func(*qkv.unbind(2), *given, **named)

    def flash_attn_kvpacked_func(q, kv, *given, **named):
        return flash_attn_func(q, *kv.unbind(2), *given, **named)

    def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, **named):
        spans = [
            list(zip(x[:-1].tolist(), x[1:].tolist(), strict=True)) for x in (cu_seqlens_q, cu_seqlens_k)
        ]
        parts = [
            flash_attn_func(q[None, a:b], k[None, c:d], v[None, c:d], **named)[0]
            for (a, b), (c, d) in zip(*spans, strict=True)
        ]
        return torch.cat(parts)

    def flash_attn_with_kvcache(q, k_cache, v_cache, **named):
        return flash_attn_func(q, k_cache, v_cache, causal=True)

    vars(module).update({name: f for name, f in locals().items() if name.startswith("flash")})
    return module


@pytest.fixture
def flash(monkeypatch):
    module = fake_flash()
    monkeypatch.setitem(sys.modules, "flash_attn", module)
    return module


FLASH = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window_size": (2, 1)},
    "causal window": {"causal": True, "window_size": (2, -1)},
    "softcap": {"softcap": 0.7, "softmax_scale": 1.0},
    "alibi": {"alibi_slopes": torch.tensor([0.5, 0.25, 0.1, 0.7]), "causal": True},
    "probabilities": {"return_attn_probs": True},
}


@pytest.mark.parametrize("options", FLASH.values(), ids=FLASH)
@pytest.mark.parametrize("T", [7, 5, 1])
def test_flash_attention_by_its_output(flash, options, T):
    """What the weights make of the values is what the function returned."""
    (q, k, v), model = tensors(T=T, G=2), Calls(lambda *a, **o: flash.flash_attn_func(*a, **o))
    with record(model) as trace:
        out = model(*(x.transpose(1, 2) for x in (q, k, v)), **options)
    out = out[0] if isinstance(out, tuple) else out
    (result,) = trace[""]
    torch.testing.assert_close(result.weights @ v.repeat_interleave(2, 1), out.transpose(1, 2), **CLOSE)
    torch.testing.assert_close(result.rows(torch.tensor([T - 1])), result.weights[..., -1:, :], **CLOSE)
    torch.testing.assert_close(result.context, out.transpose(1, 2))
    assert result.kernel == "flash"


def test_packed_flash_attention_by_its_output(flash):
    (q, k, v), model = tensors(T=7), Calls(lambda name, *a, **o: getattr(flash, name)(*a, **o))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    with record(model) as trace:
        one = model("flash_attn_qkvpacked_func", torch.stack([q, k, v], 2), causal=True)
        two = model("flash_attn_kvpacked_func", q, torch.stack([k, v], 2), causal=True)
    for result, out in zip(trace[""], (one, two), strict=True):
        torch.testing.assert_close(result.weights @ v.transpose(1, 2), out.transpose(1, 2), **CLOSE)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window_size": (1, 0)}, {"softcap": 0.5}])
def test_flash_attention_of_sequences_one_after_another(flash, options):
    model = Calls(lambda *a, **o: flash.flash_attn_varlen_func(*a, **o))
    q, k, v = torch.randn(7, 2, 4), torch.randn(9, 2, 4), torch.randn(9, 2, 4)
    starts = torch.tensor([0, 3, 7]), torch.tensor([0, 5, 9])
    with record(model) as trace:
        out = model(q, k, v, *starts, 4, 5, **options)
    (result,) = trace[""]
    assert (result.weights[..., :3, 5:] == 0).all()
    torch.testing.assert_close(result.weights @ v.transpose(0, 1), result.context, **CLOSE)
    assert torch.equal(result.context[0], out.transpose(0, 1))
    with ablate(model, {"": [1]}):
        removed = model(q, k, v, *starts, 4, 5, **options)
    assert torch.equal(removed[:, 0], out[:, 0])
    assert (removed[:, 1] == 0).all()
    torch.testing.assert_close(result.rows(torch.tensor([5])), result.weights[..., 5:6, :], **CLOSE)


def test_flash_attention_that_changes_its_cache_is_named(flash):
    model, (q, k, v) = Calls(lambda *a: flash.flash_attn_with_kvcache(*a)), tensors()
    with pytest.warns(UnseenWarning, match="Run the model on sdpa"), record(model) as trace:
        model(*(x.transpose(1, 2) for x in (q, k, v)))
    assert trace == {}
    assert "flash_attn_with_kvcache" in trace.unseen[""]


def test_what_runs_inside_torch_func_is_named():
    model, (q, k, v) = Calls(), tensors()
    with pytest.warns(UnseenWarning, match="it ran inside torch.func"), record(model) as trace:
        out = torch.vmap(lambda *parts: model(*parts))(q, k, v)
    torch.testing.assert_close(out, model(q, k, v))
    assert trace == {}


def test_a_function_with_arguments_of_a_later_version_runs_and_is_named(flash, monkeypatch):
    def later(q, k, v, *, new):
        return q

    monkeypatch.setattr(flash, "flash_attn_kvpacked_func", later)
    model, q = Calls(lambda *a, **o: flash.flash_attn_kvpacked_func(*a, **o)), torch.randn(1, 2, 2, 4)
    with pytest.warns(UnseenWarning), record(model) as trace:
        assert model(q, q, q, new=1) is q
    assert "flash_attn_kvpacked_func was called in a way that is not known here" in trace.unseen[""]


class LowerTriangle:
    """As xformers' LowerTriangularMask: no tensor, but it can become one."""

    def materialize(self, shape, dtype, device):
        return torch.full(shape, -torch.inf, dtype=dtype, device=device).triu(1)


@pytest.mark.parametrize("bias", ["none", "tensor", "object"])
def test_xformers_by_its_output(monkeypatch, bias):
    ops = types.ModuleType("xformers.ops")

    def memory_efficient_attention(query, key, value, attn_bias=None, p=0.0, scale=None, *, op=None):
        q, k, v = (x.transpose(1, 2) for x in (query, key, value))
        if isinstance(attn_bias, LowerTriangle):
            attn_bias = attn_bias.materialize((*q.shape[:-1], k.shape[-2]), q.dtype, q.device)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_bias, scale=scale).transpose(1, 2)

    ops.memory_efficient_attention = memory_efficient_attention
    monkeypatch.setitem(sys.modules, "xformers.ops", ops)
    model, (q, k, v) = Calls(lambda *a, **o: ops.memory_efficient_attention(*a, **o)), tensors()
    attn_bias = {"none": None, "tensor": torch.randn(2, 4, 5, 7), "object": LowerTriangle()}[bias]
    with record(model, heads=[1, 2]) as trace:
        out = model(*(x.transpose(1, 2) for x in (q, k, v)), attn_bias)
    (result,) = trace[""]  # once: what the function calls in turn is its own affair
    assert result.kernel == "xformers"
    torch.testing.assert_close(result.weights @ v[:, [1, 2]], out.transpose(1, 2)[:, [1, 2]], **CLOSE)
    torch.testing.assert_close(result.rows(torch.tensor([2])), result.weights[..., 2:3, :], **CLOSE)
