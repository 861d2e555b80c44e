"""What record(model) cannot see is named."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from foreign_calls import Block, blocks, tensors
from torch import nn

from regard import record
from regard.attention.record import UnseenWarning


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
        pytest.warns(UnseenWarning, match=r"at 'attention': OwnAttention ran without calling"),
        record(net) as trace,
    ):
        assert torch.equal(net(x), plain)
    assert list(trace) == ["block"]
    assert list(trace.unseen) == ["attention"]
    assert "set_attn_implementation" in trace.unseen["attention"]
    assert "not seen: attention: OwnAttention ran" in str(trace.summary())
    assert not net.attention._forward_pre_hooks


def test_a_model_of_which_nothing_was_seen_is_named_whatever_its_classes_are_called():
    class Mixes(nn.Module):
        def forward(self, x):
            return (x @ x.mT).softmax(-1) @ x

    net, x = Mixes(), torch.randn(2, 3, 8)
    with (
        pytest.warns(UnseenWarning, match=r"at '': no attention was seen in the block: .* weights itself\."),
        record(net) as trace,
    ):
        net(x)
    assert list(trace.unseen) == [""]


def test_a_compiled_copy_of_the_recorded_model_is_named():
    net, x = blocks(), torch.randn(2, 3, 8)
    compiled = torch.compile(net, backend="eager")
    with pytest.warns(UnseenWarning, match=r"at '': Sequential is compiled"), record(net) as trace:
        compiled(x)
    assert trace == {}
    with torch.compiler.set_stance("force_eager"), record(net) as trace:
        compiled(x)
    assert list(trace) == ["0", "2.0", "2.1"]


def test_a_part_whose_forward_was_compiled_is_named():
    net, x = blocks(), torch.randn(2, 3, 8)
    net[2].forward = torch.compile(net[2].forward, backend="eager")
    with pytest.warns(UnseenWarning, match=r"at '2': Sequential is compiled"), record(net) as trace:
        net(x)
    assert list(trace) == ["0"]
    with record(net, layers=["0"]) as trace:
        net(x)
    assert trace.unseen == {}


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


class Replaying(nn.Module):
    """Replays a graph where it had attended."""

    def forward(self, x):
        torch.cuda.CUDAGraph.replay(None)
        return x


def test_a_module_that_replays_a_cuda_graph_is_named(monkeypatch):
    replayed = []
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", replayed.append)
    plain = torch.cuda.CUDAGraph.replay
    net, x = nn.Sequential(Block(), nn.Sequential(Replaying())), torch.randn(2, 3, 8)
    with pytest.warns(UnseenWarning, match=r"at '1.0': it replayed a CUDA graph"), record(net) as trace:
        net(x)
    assert list(trace) == ["0"]
    assert list(trace.unseen) == ["1.0"]
    with record(net, layers=["0"]) as trace:
        net(x)
    assert trace.unseen == {}
    assert len(replayed) == 2
    assert torch.cuda.CUDAGraph.replay is plain


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_graphed_module_is_named_while_it_replays_and_recorded_while_it_does_not():
    net, x = blocks().cuda().requires_grad_(False), torch.randn(2, 3, 8, device="cuda")
    torch.cuda.make_graphed_callables(net[2], (x,))
    with pytest.warns(UnseenWarning, match=r"at '2': it replayed a CUDA graph"), record(net) as trace:
        net(x)
    assert list(trace) == ["0"]
    net.eval()  # captured in training mode, so the modules themselves run
    with record(net) as trace:
        net(x)
    assert list(trace) == ["0", "2.0", "2.1"]
    assert trace.unseen == {}


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
    plain, compiled = net(x), torch.compile(lambda x: net(x), backend="eager", fullgraph=True)
    with pytest.warns(UnseenWarning, match="a function given to torch.compile"), record(net) as trace:
        assert torch.equal(compiled(x), plain)
    assert trace == {}
    assert torch.equal(compiled(x), plain)
