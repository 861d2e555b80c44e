"""record(model) for models that are not ours: what their attention functions saw, and nothing else."""

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import types
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from regard import Attention, ConfigError, DotScore, MultiHead, ablate, record
from regard.attention.record import UnseenWarning
from regard.attention.summary import HEADER

CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def softmax(scores):
    """In NumPy, float64; a row that sees nothing has weights of zero."""
    scores = np.asarray(scores, dtype=np.float64)
    most = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isinf(most), 0.0, most))
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total == 0, 1.0, total)


def formula(q, k, *, visible=None, bias=None, scale=None):
    """softmax(q kᵀ · scale + bias) over what is visible, in NumPy."""
    q, k = (x.detach().double().numpy() for x in (q, k))
    if q.ndim > 3 and k.shape[-3] != q.shape[-3]:
        k = np.repeat(k, q.shape[-3] // k.shape[-3], -3)
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if bias is None else scores + bias.detach().double().numpy()
    scores = scores if visible is None else np.where(visible.numpy(), scores, -np.inf)
    return torch.from_numpy(softmax(scores)).float()


class Calls(nn.Module):
    """Calls scaled_dot_product_attention with what it is given."""

    def __init__(self, function=None):
        super().__init__()
        self.function = function
        self.linear = nn.Linear(1, 1)

    def forward(self, *given, **named):
        function = F.scaled_dot_product_attention if self.function is None else self.function
        return function(*given, **named)


def tensors(*, B=2, H=4, T=5, S=7, D=8, G=1, **options):
    q = torch.randn(B, H, T, D, **options)
    k, v = (torch.randn(B, H // G, S, D, **options) for _ in range(2))
    return q, k, v


CASES = {
    "plain": lambda T, S: ({}, {}),
    "scale": lambda T, S: ({"scale": 0.3}, {"scale": 0.3}),
    "causal": lambda T, S: ({"is_causal": True}, {"visible": torch.ones(T, S).tril().bool()}),
    "boolean": lambda T, S: _boolean(torch.rand(2, 1, T, S) < 0.6),
    "boolean, a row sees nothing": lambda T, S: _boolean(torch.arange(T)[:, None] > torch.arange(S) + 1),
    "boolean by head": lambda T, S: _boolean(torch.rand(2, 4, T, S) < 0.8),
    "a number is added": lambda T, S: _added(torch.randn(T, S)),
    "minus infinity": lambda T, S: _added(
        torch.zeros(2, 1, 1, S).masked_fill(torch.rand(2, 1, 1, S) < 0.3, -torch.inf)
    ),
    "a bias by head": lambda T, S: _added(torch.randn(1, 4, T, S)),
}


def _boolean(visible):
    return {"attn_mask": visible}, {"visible": visible}


def _added(bias):
    return {"attn_mask": bias}, {"bias": bias}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("T", [7, 5, 1])
def test_weights_are_those_of_the_formula_and_the_output_is_unchanged(case, T):
    given, expected = CASES[case](T, 7)
    model, (q, k, v) = Calls(), tensors(T=T)
    plain = model(q, k, v, **given)
    with record(model) as trace:
        out = model(q, k, v, **given)
    assert torch.equal(out, plain) or (out.isnan() == plain.isnan()).all()
    (result,) = trace[""]
    weights = formula(q, k, **expected)
    assert not result.has_weights
    rows = torch.tensor([T - 1, 0])
    torch.testing.assert_close(result.rows(rows), weights[..., rows, :], **CLOSE)
    values, places = result.top(3)
    torch.testing.assert_close(values, weights.topk(3).values, **CLOSE)
    torch.testing.assert_close(weights.gather(-1, places), values, **CLOSE)
    assert not result.has_weights
    torch.testing.assert_close(result.weights, weights, **CLOSE)
    assert result.kernel == "sdpa"


def test_queries_of_a_group_share_their_keys():
    model, (q, k, v) = Calls(), tensors(G=2)
    with record(model) as trace:
        out = model(q, k, v, enable_gqa=True)
    (result,) = trace[""]
    torch.testing.assert_close(result.weights, formula(q, k), **CLOSE)
    torch.testing.assert_close(result.weights @ v.repeat_interleave(2, 1), out, **CLOSE)
    torch.testing.assert_close(result.top(2)[0], formula(q, k).topk(2).values, **CLOSE)


def test_without_an_axis_of_heads():
    model, (q, k, v) = Calls(), tensors()
    with record(model) as trace:
        model(q[:, 0], k[:, 0], v[:, 0], is_causal=True)
    visible = torch.ones(5, 7).tril().bool()
    torch.testing.assert_close(trace[""][0].weights, formula(q[:, 0], k[:, 0], visible=visible), **CLOSE)


def test_dropout_is_noted_and_the_weights_are_those_before_it():
    model, (q, k, v) = Calls(), tensors()
    with record(model) as trace:
        model(q, k, v, dropout_p=0.4)
    assert trace[""][0].dropout == 0.4
    torch.testing.assert_close(trace[""][0].weights, formula(q, k), **CLOSE)


def test_arguments_may_have_names():
    model, (q, k, v) = Calls(), tensors()
    with record(model) as trace:
        model(query=q, key=k, value=v)
    torch.testing.assert_close(trace[""][0].weights, formula(q, k), **CLOSE)


def test_query_and_keys_are_held_by_reference_and_values_are_not():
    model, (q, k, v) = Calls(), tensors()
    with record(model) as trace:
        model(q, k, v)
    seen = trace[""][0].seen
    assert seen.query is q
    assert seen.keys is k
    assert seen.values is None


def test_the_tensors_are_free_as_soon_as_the_trace_is_dropped():
    model, (q, k, v) = Calls(), tensors()
    with record(model) as trace:
        context = weakref.ref(model(q, k, v))
    gc.disable()
    try:
        trace[""][0].top(2)
        assert context() is not None
        del trace
        assert context() is None
    finally:
        gc.enable()


def test_a_change_in_place_is_noticed_at_the_look():
    model, (q, k, v) = Calls(), tensors()
    with record(model) as trace:
        model(q, k, v)
    k.zero_()
    with pytest.raises(ConfigError, match=r"`mask` of 'sdpa' has changed in place since the call"):
        _ = trace[""][0].weights


def test_a_copy_does_not_mind():
    model, (q, k, v) = Calls(), tensors()
    with record(model, to="cpu") as trace:
        model(q, k, v)
    expected = formula(q, k)
    k.zero_()
    torch.testing.assert_close(trace[""][0].weights, expected, **CLOSE)
    assert not trace[""][0].weights.requires_grad


# where it is called from


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.inner = nn.Identity()

    def forward(self, x):
        return x + _by_a_function(self.qkv(x).chunk(3, -1))


def _by_a_function(parts):
    q, k, v = (torch.unflatten(x, -1, (2, 4)).transpose(1, 2) for x in parts)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def blocks():
    return nn.Sequential(Block(), nn.ReLU(), nn.Sequential(Block(), Block()))


def test_results_are_kept_by_the_path_of_the_innermost_module_that_called():
    net, x = blocks(), torch.randn(2, 3, 8)
    with record(net) as trace:
        net(x)
        net(x)
    assert {path: len(results) for path, results in trace.items()} == {"0": 2, "2.0": 2, "2.1": 2}
    assert trace.unseen == {}


def test_a_module_whose_forward_is_called_by_hand_is_seen_too():
    net, x = blocks(), torch.randn(2, 3, 8)
    with record(net) as trace:
        net[2][1].forward(x)
    assert list(trace) == ["2.1"]


def test_calls_outside_of_the_model_leave_nothing():
    net, other, x = blocks(), blocks(), torch.randn(2, 3, 8)
    with record(net) as trace:
        other(x)
        F.scaled_dot_product_attention(*tensors())
    assert trace == {}


def test_recordings_of_a_model_and_of_a_part_have_their_own_paths():
    net, x = blocks(), torch.randn(2, 3, 8)
    with record(net) as outer, record(net[2]) as inner:
        net(x)
    assert list(outer) == ["0", "2.0", "2.1"]
    assert list(inner) == ["0", "1"]


def test_our_own_attention_is_recorded_once_beside_that_of_others():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.ours, self.theirs = MultiHead(8, 2), Block()

        def forward(self, x):
            return self.theirs(self.ours(x, self.ours.prepare(x)).context)

    net, x = Both(), torch.randn(2, 3, 8)
    with record(net) as trace:
        net(x)
    assert {path: len(results) for path, results in trace.items()} == {"ours.attention": 1, "theirs": 1}


def test_everything_is_put_back():
    before = [F.scaled_dot_product_attention, F.multi_head_attention_forward]
    net, x = blocks(), torch.randn(2, 3, 8)
    outer, inner = record(net), record(net)
    outer.__enter__()
    inner.__enter__()
    assert F.scaled_dot_product_attention is not before[0]
    outer.__exit__(None, None, None)
    assert F.scaled_dot_product_attention is not before[0]
    inner.__exit__(None, None, None)
    assert [F.scaled_dot_product_attention, F.multi_head_attention_forward] == before
    with pytest.raises(RuntimeError, match="broke"), record(net) as trace:
        raise RuntimeError("broke")
    assert [F.scaled_dot_product_attention, F.multi_head_attention_forward] == before
    net(x)
    assert trace == {}


def test_what_somebody_else_replaces_in_the_block_stays(monkeypatch):
    plain = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", plain)  # put back after the test
    net = blocks()
    with record(net):
        seen = F.scaled_dot_product_attention
        F.scaled_dot_product_attention = theirs = lambda *a, **k: seen(*a, **k)
    assert F.scaled_dot_product_attention is theirs
    net(torch.randn(2, 3, 8))


EARLY = """
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as attend

class Early(nn.Module):
    def forward(self, *given):
        return attend(*given)
"""


def test_a_name_that_was_bound_before_is_seen_and_put_back(monkeypatch):
    module = types.ModuleType("somebodys_layers")
    monkeypatch.setitem(sys.modules, "somebodys_layers", module)
    exec(EARLY, vars(module))
    plain = module.attend
    model, (q, k, v) = module.Early(), tensors()
    with record(model) as trace:
        model(q, k, v)
    assert module.attend is plain
    torch.testing.assert_close(trace[""][0].weights, formula(q, k), **CLOSE)


# threads, tasks, gradients, precision


def test_threads_have_recordings_of_their_own():
    net, found, start = blocks(), {}, threading.Barrier(4)

    def one(calls):
        start.wait()
        for _ in range(20):
            with record(net) as trace:
                for _ in range(calls):
                    net(torch.full((1, 3, 8), float(calls)))
            found.setdefault(calls, set()).add(tuple(len(results) for results in trace.values()))

    plain = F.scaled_dot_product_attention
    threads = [threading.Thread(target=one, args=(calls,)) for calls in (1, 2, 3)]
    for thread in threads:
        thread.start()
    start.wait()
    for thread in threads:
        thread.join()
    assert found == {calls: {(calls,) * 3} for calls in (1, 2, 3)}
    assert F.scaled_dot_product_attention is plain


def test_another_thread_leaves_nothing_unless_it_is_given_the_context():
    net, x = blocks(), torch.randn(2, 3, 8)
    with record(net) as trace:
        alone = threading.Thread(target=net, args=(x,))
        alone.start()
        alone.join()
        assert trace == {}
        given = threading.Thread(target=contextvars.copy_context().run, args=(net, x))
        given.start()
        given.join()
    assert list(trace) == ["0", "2.0", "2.1"]


def test_tasks_have_recordings_of_their_own():
    net, x = blocks(), torch.randn(2, 3, 8)

    async def one(calls):
        with record(net) as trace:
            for _ in range(calls):
                await asyncio.sleep(0)
                net(x)
        return len(trace["0"])

    async def several():
        return await asyncio.gather(*(one(calls) for calls in (1, 2, 3)))

    assert asyncio.run(several()) == [1, 2, 3]


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_is_recorded_once_though_it_is_computed_twice(reentrant):
    net = blocks()
    x = torch.randn(2, 3, 8, requires_grad=True)
    with record(net) as trace:
        checkpoint(net, x, use_reentrant=reentrant).sum().backward()
    assert {path: len(results) for path, results in trace.items()} == {"0": 1, "2.0": 1, "2.1": 1}
    assert x.grad is not None


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(mode):
    net, x = blocks(), torch.randn(2, 3, 8)
    with mode(), record(net) as trace:
        net(x)
    weights = trace["0"][0].weights
    assert weights.shape == (2, 2, 3, 3)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 3))


def test_gradients_flow_through_weights_that_are_looked_at():
    net, x = blocks(), torch.randn(2, 3, 8)
    with record(net) as trace:
        net(x)
    (trace["2.1"][0].weights ** 2).sum().backward()
    assert net[0].qkv.weight.grad.abs().sum() > 0


def test_under_autocast_the_weights_are_those_of_the_rounded_inputs():
    model, (q, k, v) = Calls(), tensors()
    with torch.autocast("cpu", torch.bfloat16), record(model) as trace:
        out = model(q, k, v)
    assert out.dtype == torch.bfloat16
    weights = trace[""][0].weights  # looked at when autocast is over
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights, formula(q.bfloat16(), k.bfloat16()), **CLOSE)


def test_in_half_precision_the_weights_are_computed_in_single():
    model, (q, k, v) = Calls(), tensors(dtype=torch.bfloat16)
    with record(model) as trace:
        model(q, k, v)
    torch.testing.assert_close(trace[""][0].weights, formula(q, k), **CLOSE)


def test_the_model_of_distributed_data_parallel(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        net = nn.parallel.DistributedDataParallel(blocks())
        with record(net) as trace:
            net(torch.randn(2, 3, 8)).sum().backward()
        assert list(trace) == ["module.0", "module.2.0", "module.2.1"]
        with record(net.module) as trace:
            net(torch.randn(2, 3, 8)).sum().backward()
        assert list(trace) == ["0", "2.0", "2.1"]
        assert [len(results) for results in trace.values()] == [1, 1, 1]
    finally:
        torch.distributed.destroy_process_group()


# what is kept


def test_chosen_layers_alone():
    net, x = blocks(), torch.randn(2, 3, 8)
    with record(net, layers=["2"]) as trace:
        net(x)
    assert list(trace) == ["2.0", "2.1"]


@pytest.mark.parametrize(
    "case", ["plain", "causal", "boolean by head", "a bias by head", "a number is added"]
)
@pytest.mark.parametrize("G", [1, 2])
def test_chosen_heads_and_queries_alone(case, G):
    given, expected = CASES[case](5, 7)
    model, (q, k, v) = Calls(), tensors(G=G)
    with record(model, heads=[3, 0], queries=[1, -1, 99], to="cpu") as trace:
        out = model(q, k, v, enable_gqa=G > 1, **given)
    (result,) = trace[""]
    weights = formula(q, k, **expected)[:, [3, 0]][:, :, [1, 4]]
    torch.testing.assert_close(result.weights, weights, **CLOSE)
    torch.testing.assert_close(result.rows(torch.tensor([1])), weights[..., 1:, :], **CLOSE)
    torch.testing.assert_close(result.top(2)[0], weights.topk(2).values, **CLOSE)
    assert torch.equal(result.context, out[:, [3, 0]][:, :, [1, 4]])
    assert result.seen.query.shape == (2, 2, 2, 8)


def test_chosen_heads_and_queries_of_our_own_attention():
    heads, x = MultiHead(8, 4), torch.randn(2, 5, 8)
    with record(heads) as whole, record(heads, heads=[2], queries=[0, -1], to="cpu") as part:
        heads(x, heads.prepare(x))
    expected = whole["attention"][0].weights[:, [2]][:, :, [0, 4]]
    torch.testing.assert_close(part["attention"][0].weights, expected)
    torch.testing.assert_close(part["attention"][0].rows(torch.tensor([1])), expected[..., 1:, :])
    assert not part["attention"][0].weights.requires_grad


def test_a_mask_that_layers_share_is_copied_once():
    model, (q, k, v), mask = Calls(), tensors(), torch.rand(5, 7) < 0.7
    with record(model, to="cpu") as trace:
        model(q, k, v, attn_mask=mask)
        model(q, k, v, attn_mask=mask)
    first, second = (result.seen.mask.dense for result in trace[""])
    assert first is second
    assert first is not mask


WRONG = {
    "layers": ({"layers": ["2.7"]}, r"`layers` has '2.7'; expected module paths, such as"),
    "one layer": ({"layers": "2"}, r"`layers` has '2'; expected a list of module paths\."),
    "heads": ({"heads": 3}, r"`heads` has 3; expected a list of whole numbers, or None\."),
    "queries": ({"queries": [0.5]}, r"`queries` has \[0\.5\]; expected a list of whole numbers, or None\."),
}


@pytest.mark.parametrize(("options", "text"), WRONG.values(), ids=WRONG)
def test_options_that_cannot_be_used_are_refused(options, text):
    with pytest.raises(ConfigError, match=f"^record: {text}"), record(blocks(), **options):
        pass


def test_a_head_that_is_not_there_is_refused():
    net = blocks()
    with (
        pytest.raises(ConfigError, match=r"^record: `heads` has 2; expected 0 to 1\."),
        record(net, heads=[2]),
    ):
        net(torch.randn(2, 3, 8))


# PyTorch's own layers


def masks_of(T):
    causal = torch.ones(T, T).triu(1).bool()
    padding = torch.zeros(2, T, dtype=torch.bool)
    padding[1, T - 2 :] = True
    return {
        "none": (None, None),
        "causal": (causal, None),
        "padding": (None, padding),
        "both": (causal, padding),
    }


def expected_heads(module, query, key, hidden, padding):
    """The weights of nn.MultiheadAttention by its parameters."""
    E, H = module.embed_dim, module.num_heads
    if not module.batch_first:
        query, key = query.transpose(0, 1), key.transpose(0, 1)
    weight, bias = module.in_proj_weight.detach(), module.in_proj_bias.detach()
    q = F.linear(query, weight[:E], bias[:E]).unflatten(-1, (H, -1)).transpose(1, 2)
    k = F.linear(key, weight[E : 2 * E], bias[E : 2 * E]).unflatten(-1, (H, -1)).transpose(1, 2)
    visible = torch.ones(q.shape[0], 1, q.shape[-2], k.shape[-2], dtype=torch.bool)
    visible = visible if hidden is None else visible & ~hidden
    visible = visible if padding is None else visible & ~padding[:, None, None]
    return formula(q, k, visible=visible)


@pytest.mark.parametrize("masks", masks_of(6))
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_multihead_attention(masks, need_weights, training, batch_first):
    module = nn.MultiheadAttention(8, 2, batch_first=batch_first).train(training)
    x = torch.randn(2, 6, 8) if batch_first else torch.randn(6, 2, 8)
    hidden, padding = masks_of(6)[masks]
    options = {"attn_mask": hidden, "key_padding_mask": padding, "need_weights": need_weights}
    with torch.no_grad():
        plain = module(x, x, x, **options)
        with record(module) as trace:
            out = module(x, x, x, **options)
    assert torch.equal(out[0], plain[0])
    assert out[1] is None if not need_weights else torch.equal(out[1], plain[1])
    (result,) = trace[""]
    expected = expected_heads(module, x, x, hidden, padding)
    torch.testing.assert_close(result.weights, expected, **CLOSE)
    torch.testing.assert_close(result.rows(torch.tensor([3])), expected[..., 3:4, :], **CLOSE)
    torch.testing.assert_close(result.top(2)[0], expected.topk(2).values, **CLOSE)
    fast = batch_first and not training
    assert result.kernel == ("native" if fast else "bmm" if need_weights else "sdpa")


def test_multihead_attention_of_another_sequence_with_dropout_and_an_extra_key():
    module = nn.MultiheadAttention(8, 2, dropout=0.5, add_zero_attn=True, batch_first=True)
    query, key = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    with record(module) as trace:
        module(query, key, key)
    (result,) = trace[""]
    assert result.dropout == 0.5
    assert result.weights.shape == (2, 2, 3, 6)
    torch.testing.assert_close(result.weights.sum(-1), torch.ones(2, 2, 3))
    torch.testing.assert_close(
        result.weights[..., -1], result.scores[..., -1].exp() / result.scores.exp().sum(-1)
    )
    assert (result.scores[..., -1] == 0).all()


def test_multihead_attention_without_a_batch():
    module = nn.MultiheadAttention(8, 2)
    x = torch.randn(4, 8)
    with record(module) as trace:
        module(x, x, x)
    expected = expected_heads(module, x[:, None], x[:, None], None, None)
    torch.testing.assert_close(trace[""][0].weights, expected, **CLOSE)


def test_the_weights_of_the_fast_path_are_those_of_the_call_whatever_becomes_of_the_parameters():
    module = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 6, 8)
    with torch.no_grad(), record(module) as trace:
        module(x, x, x)
    expected = expected_heads(module, x, x, None, None)
    with torch.no_grad():
        module.in_proj_weight.zero_()
    torch.testing.assert_close(trace[""][0].weights, expected, **CLOSE)


@pytest.mark.parametrize("masks", masks_of(6))
@pytest.mark.parametrize(("nested", "norm_first"), [(True, False), (False, False), (False, True)])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype")
def test_the_encoder_stays_on_its_fast_path(masks, nested, norm_first):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested).eval()
    hidden, padding = masks_of(6)[masks]
    x = torch.randn(2, 6, 8)
    with torch.no_grad():
        plain = model(x, mask=hidden, src_key_padding_mask=padding)
        with record(model) as trace:
            out = model(x, mask=hidden, src_key_padding_mask=padding)
    assert torch.equal(out, plain)
    assert [result.kernel for results in trace.values() for result in results] == ["native", "native"]
    first = model.layers[0]
    attended = first.norm1(x) if norm_first else x
    expected = expected_heads(first.self_attn, attended, attended, hidden, padding)
    weights = trace["layers.0"][0].weights
    lengths = [6, 6] if padding is None else [6, 4]
    for row, length in enumerate(lengths):  # nested rows end where their padding begins
        torch.testing.assert_close(weights[row, :, :length], expected[row, :, :length], **CLOSE)


def test_the_decoder_attends_to_itself_and_to_the_memory():
    layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerDecoder(layer, 2).eval()
    target, memory = torch.randn(2, 4, 8), torch.randn(2, 6, 8)
    causal = nn.Transformer.generate_square_subsequent_mask(4)
    with record(model) as trace:
        model(target, memory, tgt_mask=causal, tgt_is_causal=True)
    shapes = {path: tuple(results[0].weights.shape) for path, results in trace.items()}
    assert shapes == {
        f"layers.{n}.{name}": shape
        for n in range(2)
        for name, shape in (("self_attn", (2, 2, 4, 4)), ("multihead_attn", (2, 2, 4, 6)))
    }
    assert (trace["layers.0.self_attn"][0].weights.triu(1) == 0).all()


# FlexAttention

EAGER_FLEX = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


@pytest.fixture(scope="module")
def flex():
    from torch.nn.attention import flex_attention

    return flex_attention


@EAGER_FLEX
def test_flex_attention_with_a_score_mod_that_reads_tensors(flex):
    slopes, bias = torch.rand(4), torch.randn(5, 7)
    (q, k, v), model = tensors(), Calls(lambda *a, **o: flex.flex_attention(*a, **o))

    def mod(score, b, h, t, s):
        return score * 0.5 + slopes[h] * (t - s) + bias[t, s] + b

    with record(model) as trace:
        out = model(q, k, v, score_mod=mod)
    t, s = torch.arange(5)[:, None], torch.arange(7)
    added = slopes[:, None, None] * (t - s) + bias + torch.arange(2)[:, None, None, None]
    expected = formula(q, k, bias=added, scale=0.5 * 8**-0.5)
    (result,) = trace[""]
    torch.testing.assert_close(result.weights, expected, **CLOSE)
    torch.testing.assert_close(result.rows(torch.tensor([4, 1])), expected[..., [4, 1], :], **CLOSE)
    torch.testing.assert_close(expected @ v, out, **CLOSE)
    assert result.kernel == "flex"


@EAGER_FLEX
def test_flex_attention_with_a_block_mask_and_groups(flex):
    documents = torch.tensor([[0] * 100 + [1] * 100, [0] * 40 + [1] * 160])

    def visible(b, h, t, s):
        return (documents[b, t] == documents[b, s]) & (t >= s)

    mask = flex.create_block_mask(visible, 2, None, 200, 200, device="cpu", BLOCK_SIZE=64)
    (q, k, v), model = tensors(T=200, S=200, G=2), Calls(lambda *a, **o: flex.flex_attention(*a, **o))
    with record(model, heads=[3, 1]) as trace:
        out = model(q, k, v, block_mask=mask, enable_gqa=True)
    dense = (documents[:, None, :, None] == documents[:, None, None]) & torch.ones(200, 200).tril().bool()
    expected = formula(q, k, visible=dense)
    torch.testing.assert_close(trace[""][0].weights, expected[:, [3, 1]], **CLOSE)
    torch.testing.assert_close(expected @ v.repeat_interleave(2, 1), out, **CLOSE)


COMPILED_FLEX = """
import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
attend = torch.compile(flex_attention, backend="eager")

class Flex(nn.Module):
    def forward(self, *given):
        return attend(*given)
"""


def test_a_compiled_flex_attention_is_seen_by_the_name_that_it_has(monkeypatch):
    module = types.ModuleType("somebodys_flex")
    monkeypatch.setitem(sys.modules, "somebodys_flex", module)
    exec(COMPILED_FLEX, vars(module))
    model, (q, k, v) = module.Flex(), tensors()
    with record(model) as trace:
        model(q, k, v)
    torch.testing.assert_close(trace[""][0].weights, formula(q, k), **CLOSE)


# libraries that need a GPU, by modules that have their signatures and compute the same on a CPU


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


# what cannot be seen is named


class OwnAttention(nn.Module):
    """Computes its weights itself."""

    def forward(self, x):
        return (x @ x.mT).softmax(-1) @ x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.block, self.never = OwnAttention(), Block(), OwnAttention()

    def forward(self, x):
        return self.block(self.attention(x))


def test_attention_that_computes_its_weights_itself_is_named_and_only_if_it_ran():
    net, x = Net(), torch.randn(2, 3, 8)
    plain = net(x)
    with (
        pytest.warns(UnseenWarning, match=r"at 'attention': OwnAttention ran and called no"),
        record(net) as trace,
    ):
        assert torch.equal(net(x), plain)
    assert list(trace) == ["block"]
    assert list(trace.unseen) == ["attention"]
    assert "set_attn_implementation" in trace.unseen["attention"]
    assert "not seen: attention: OwnAttention ran" in str(trace.summary())
    assert not net.attention._forward_pre_hooks


def test_what_was_not_asked_for_is_not_named():
    net, x = Net(), torch.randn(2, 3, 8)
    net.never.compile(backend="aot_eager")
    with record(net, layers=["block"]) as trace:
        net(x)
    assert list(trace) == ["block"]
    assert trace.unseen == {}


def test_a_compiled_part_is_named_and_the_rest_is_recorded():
    net, x = blocks(), torch.randn(2, 3, 8)
    net[2][0].compile(backend="aot_eager")
    with pytest.warns(UnseenWarning, match=r"at '2.0': Block is compiled"), record(net) as trace:
        net(x)
    assert list(trace) == ["0", "2.1"]
    assert 'torch.compiler.set_stance("force_eager")' in trace.unseen["2.0"]


def test_the_remedy_for_a_compiled_part_works():
    net, x = blocks(), torch.randn(2, 3, 8)
    net[2][0].compile(backend="aot_eager")
    with torch.compiler.set_stance("force_eager"), record(net) as trace:
        net(x)
    assert list(trace) == ["0", "2.0", "2.1"]
    compiled = torch.compile(blocks(), backend="aot_eager")
    with torch.compiler.set_stance("force_eager"), record(compiled) as trace:
        compiled(x)
    assert list(trace) == ["_orig_mod.0", "_orig_mod.2.0", "_orig_mod.2.1"]


@pytest.mark.parametrize("traced", ["export", "fx", "script"])
@pytest.mark.filterwarnings("ignore:`torch.jit.* is deprecated:DeprecationWarning")
def test_a_traced_graph_is_named(traced):
    class Plain(nn.Module):
        def forward(self, q, k, v):
            return F.scaled_dot_product_attention(q, k, v)

    q, k, v = tensors()
    make = {
        "export": lambda: torch.export.export(Plain(), (q, k, v)).module(),
        "fx": lambda: torch.fx.symbolic_trace(Plain()),
        "script": lambda: torch.jit.trace(Plain(), (q, k, v)),
    }
    net = nn.Sequential(nn.Sequential(make[traced]()))
    with pytest.warns(UnseenWarning, match="a traced graph, which runs without Python"), record(net) as trace:
        net[0][0](q, k, v)
    assert list(trace.unseen) == ["0.0"]


FRESH = """
import torch, regard
from torch import nn
module = nn.MultiheadAttention(8, 2, batch_first=True)

class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)

model, x = Model(), torch.randn(1, 2, 3, 4)
with regard.record(model) as trace:  # the compiler is first imported here
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), model.forward(x))
assert len(trace[""]) == 1, trace
heads = torch.compile(nn.MultiheadAttention(8, 2, batch_first=True).eval(), backend="eager", fullgraph=True)
with torch.no_grad():
    heads(*[torch.randn(1, 3, 8)] * 3)
"""


def test_the_compiler_may_be_imported_inside_the_block():
    """It looks PyTorch's functions up once: what it finds then must not be ours for ever."""
    subprocess.run([sys.executable, "-c", FRESH], check=True, timeout=120)


def test_a_graph_compiled_inside_the_block_holds_no_recording():
    net, x = blocks(), torch.randn(2, 3, 8)
    plain = net(x)
    with record(net) as trace:
        compiled = torch.compile(lambda x: net(x), backend="eager", fullgraph=True)
        assert torch.equal(compiled(x), plain)
    assert trace == {}
    assert torch.equal(compiled(x), plain)


# what the trace tells


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
    assert header.split() == list(HEADER)
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
    with pytest.raises(ConfigError, match="expected a backward pass before the look"):
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
    with record(model) as trace:
        model(x)
    assert trace == {}
