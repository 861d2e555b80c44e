"""record(model) for models that are not ours: what their attention functions saw, and nothing else."""

import asyncio
import contextvars
import gc
import sys
import threading
import types
import weakref

import pytest
import torch
import torch.nn.functional as F
from foreign_calls import CLOSE, Block, Calls, blocks, formula, tensors
from torch import nn
from torch.utils.checkpoint import checkpoint

from regard import ConfigError, MultiHead, record
from regard.attention.record import UnseenWarning

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
    with pytest.warns(UnseenWarning, match="no attention was seen in the block"), record(net) as trace:
        other(F.scaled_dot_product_attention(x, x, x))
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


def test_a_module_that_was_replaced_or_moved_since_the_last_recording_has_its_own_path():
    net, x = blocks(), torch.randn(2, 3, 8)

    def paths():
        with record(net) as trace:
            net(x)
        return list(trace)

    assert paths() == ["0", "2.0", "2.1"]
    net[2][0] = nn.Sequential(nn.ReLU(), Block())
    assert paths() == ["0", "2.0.1", "2.1"]
    net[0], net[2][1] = net[2][1], net[0]
    assert paths() == ["0", "2.0.1", "2.1"]
    net[1] = Block()  # where a layer was in which nothing attends
    assert paths() == ["0", "1", "2.0.1", "2.1"]
    net[2]._modules["last"] = net[2]._modules.pop("1")
    assert paths() == ["0", "1", "2.0.1", "2.last"]
    del net[2]
    assert paths() == ["0", "1"]


def test_a_module_of_several_places_has_the_path_of_the_first():
    block = Block()
    net, x = nn.Sequential(nn.Sequential(nn.ReLU(), block), block), torch.randn(2, 3, 8)
    for _ in range(2):
        with record(net) as trace:
            net(x)
        assert {path: len(results) for path, results in trace.items()} == {"0.1": 2}
    net[1] = Block()
    with record(net) as trace:
        net(x)
    assert {path: len(results) for path, results in trace.items()} == {"0.1": 1, "1": 1}


def test_what_is_known_of_a_model_keeps_no_module_of_it():
    net, x = blocks(), torch.randn(2, 3, 8)
    with record(net):
        net(x)
    model, part = weakref.ref(net), weakref.ref(net[0])
    gc.disable()
    try:
        net[0] = nn.ReLU()
        assert part() is None
        del net
        assert model() is None
    finally:
        gc.enable()


def test_a_module_of_another_class_since_the_last_recording_is_known_by_that():
    class OwnAttention(Block):
        def forward(self, x):
            return (x @ x.mT).softmax(-1) @ x

    net, x = blocks(), torch.randn(2, 3, 8)
    with record(net) as trace:
        net(x)
    net[2][1].__class__ = OwnAttention
    with pytest.warns(UnseenWarning, match=r"at '2.1': OwnAttention ran"), record(net) as trace:
        net(x)
    assert list(trace) == ["0", "2.0"]
    net.__class__ = type("Attentions", (nn.Sequential,), {})
    with pytest.warns(UnseenWarning, match=r"at '2.1': OwnAttention ran"), record(net) as trace:
        net(x)
    assert list(trace.unseen) == ["2.1"]


def test_a_trace_may_be_looked_at_in_the_block_and_results_taken_out():
    net, x = blocks(), torch.randn(2, 3, 8)
    with record(net) as trace:
        net(x)
        first = trace.pop("0")
        assert list(trace) == ["2.0", "2.1"]
        net(x)
    assert {path: len(results) for path, results in trace.items()} == {"2.0": 2, "2.1": 2, "0": 1}
    assert trace.unseen == {}
    torch.testing.assert_close(trace["0"][0].weights, first[0].weights)
    trace["0"] = first
    assert dict(trace)["0"] is first
    assert repr(trace) == repr(dict(trace))


def test_a_call_by_a_function_mode_is_seen_once():
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, given=(), named=None):
            if function is not plain:
                return function(*given, **(named or {}))
            with torch._C.DisableTorchFunction():
                return F.scaled_dot_product_attention(*given, **(named or {}))

    plain = F.scaled_dot_product_attention
    model, (q, k, v) = Calls(), tensors()
    with record(model) as trace, Mode():
        model(q, k, v)
    assert len(trace[""]) == 1


def test_everything_is_put_back():
    before = [F.scaled_dot_product_attention, F.multi_head_attention_forward]
    net, x = blocks(), torch.randn(2, 3, 8)
    outer, inner = record(net), record(net)
    outer.__enter__()
    inner.__enter__()
    net(x)
    assert F.scaled_dot_product_attention is not before[0]
    outer.__exit__(None, None, None)
    assert F.scaled_dot_product_attention is not before[0]
    net(x)
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
        net(torch.randn(2, 3, 8))
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


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_name_that_was_bound_before_is_seen_and_put_back(elsewhere, monkeypatch):
    module, other = types.ModuleType("somebodys_layers"), types.ModuleType("somebodys_functions")
    monkeypatch.setitem(sys.modules, "somebodys_layers", module)
    monkeypatch.setitem(sys.modules, "somebodys_functions", other)
    exec(EARLY, vars(module))
    plain = module.attend
    model, (q, k, v) = module.Early(), tensors()
    if elsewhere:
        other.attend = plain
        module.attend = lambda *given: other.attend(*given)
        plain = module.attend
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


def test_a_model_on_the_meta_device_has_weights_of_the_right_shapes():
    model, (q, k, v) = Calls(), tensors(device="meta")
    with record(model) as trace:
        model(q, k, v, is_causal=True)
    (result,) = trace[""]
    assert result.weights.device.type == "meta"
    assert result.weights.shape == (2, 4, 5, 7)
    assert result.top(2)[0].shape == (2, 4, 5, 2)


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


def test_rows_of_a_batch_without_heads_are_not_taken_for_heads():
    model, q, k = Calls(), torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    with record(model, heads=[0], queries=[-1]) as trace:
        out = model(q, k, k)
    torch.testing.assert_close(trace[""][0].weights, (q @ k.mT / 2).softmax(-1)[:, -1:], **CLOSE)
    assert torch.equal(trace[""][0].context, out[:, -1:])


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
