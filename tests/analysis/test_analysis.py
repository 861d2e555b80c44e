"""What is computed from traces, against the formulas of the papers in NumPy."""

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard import Attention, ConfigError, DotScore, MultiHead, Trace, ablate, record
from regard.analysis.ablation import head_importance
from regard.analysis.alignments import METHODS, merge_subwords, symmetrize, turned
from regard.analysis.rollout import gradient_relevance, rollout
from regard.evaluate.alignment import Link


class Layer(nn.Module):
    """Self-attention with a residual connection, on scaled_dot_product_attention."""

    def __init__(self, D=8, H=2):
        super().__init__()
        self.H = H
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        q, k, v = (torch.unflatten(y, -1, (self.H, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        context = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(context.transpose(1, 2).flatten(2))


def layers(n=3):
    return nn.Sequential(*(Layer() for _ in range(n)))


def test_rollout_is_the_product_of_the_layers():
    net, x = layers(), torch.randn(2, 5, 8)
    with torch.no_grad(), record(net) as trace:
        net(x)
    expected = np.eye(5)
    for n in range(3):
        A = trace[str(n)][0].weights.double().numpy().mean(1)
        expected = (0.5 * A + 0.5 * np.eye(5)) @ expected
    np.testing.assert_allclose(rollout(trace).numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(rollout(trace).sum(-1), 1.0, atol=1e-6)
    alone = 0.7 * trace["1"][0].weights.mean(1) + 0.3 * torch.eye(5)
    torch.testing.assert_close(rollout(trace, ["1"], residual=0.3), alone)


def explicit(net, x):
    """The same layers with weights that are in the graph."""
    found = []
    for layer in net:
        q, k, v = (torch.unflatten(y, -1, (layer.H, -1)).transpose(1, 2) for y in layer.qkv(x).chunk(3, -1))
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        weights.retain_grad()
        found.append(weights)
        x = x + layer.out((weights @ v).transpose(1, 2).flatten(2))
    return x, found


def test_gradient_relevance_by_the_rule_of_the_paper():
    net, x = layers(), torch.randn(2, 5, 8)
    with record(net, gradients=True) as trace:
        net(x)[:, 0].square().sum().backward()
    out, found = explicit(net, x)
    out[:, 0].square().sum().backward()
    R = np.eye(5)[None].repeat(2, 0)
    for weights in found:
        A = np.maximum(weights.grad.numpy() * weights.detach().numpy(), 0).mean(1)
        R = R + A @ R
    np.testing.assert_allclose(gradient_relevance(trace).numpy(), R, rtol=1e-4, atol=1e-5)


def test_traces_that_are_no_stack_are_refused():
    net, x = layers(), torch.randn(2, 5, 8)
    with record(net) as trace:
        net(x)
        net[0](x)
    with pytest.raises(ConfigError, match=r"^rollout: `trace` has 2 calls at '0'; expected one"):
        rollout(trace)
    with pytest.raises(
        ConfigError, match=r"^rollout: `paths` has 'h'; expected recorded paths: '0', '1', '2'"
    ):
        rollout(trace, ["h"])
    with pytest.raises(ConfigError, match=r"^gradient_relevance: `trace` has no results"):
        gradient_relevance(Trace())
    cross, memory = nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(2, 4, 8)
    with record(cross) as trace:
        cross(x, memory, memory)
    with pytest.raises(ConfigError, match=r"^rollout: `paths` has layers of sizes \[\(5, 4\)\]"):
        rollout(trace)


# ablation


def without(layer, heads):
    """The layer with zeros in the columns of W_O that read these heads."""
    width = layer.out.in_features // layer.H
    with torch.no_grad():
        for head in heads:
            layer.out.weight[:, head * width : (head + 1) * width] = 0.0


@pytest.mark.parametrize("heads", [[0], [1], [0, 1]])
def test_a_removed_head_is_one_that_the_output_projection_does_not_read(heads):
    net, x = layers(), torch.randn(2, 5, 8)
    plain = net(x)
    with regard.ablate(net, {"1": heads}):
        removed = net(x)
    assert torch.equal(net(x), plain)
    without(net[1], heads)
    torch.testing.assert_close(removed, net(x))
    assert not torch.allclose(removed, plain)


def test_gradients_do_not_reach_a_removed_head():
    net, x = layers(1), torch.randn(2, 5, 8)
    with ablate(net, {"0": [1]}):
        net(x).sum().backward()
    values = net[0].qkv.weight.grad[16:]  # of both heads' values
    assert (values[4:] == 0).all()
    assert (values[:4] != 0).any()


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_heads_of_multihead_attention(need_weights, training):
    module = nn.MultiheadAttention(8, 2, batch_first=True).train(training)
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        with ablate(module, {"": [1]}):  # off its fast path, which is one call for all heads
            removed, _ = module(x, x, x, need_weights=need_weights)
        module.out_proj.weight[:, 4:] = 0.0
        torch.testing.assert_close(removed, module(x, x, x)[0])


def test_heads_of_an_encoder_of_pytorch():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        with ablate(model, {"layers.1.self_attn": [0]}):
            removed = model(x)
        model.layers[1].self_attn.out_proj.weight[:, :4] = 0.0
        torch.testing.assert_close(removed, model(x))


def test_heads_of_our_own():
    module, x = MultiHead(8, 2), torch.randn(2, 5, 8)
    with ablate(module, {"attention": [1]}):
        removed = module(x, module.prepare(x)).context
    with torch.no_grad():
        module.W_O.weight[:, 4:] = 0.0
    torch.testing.assert_close(removed, module(x, module.prepare(x)).context)


def test_an_attention_without_heads_is_head_0():
    attention, x = Attention(DotScore()), torch.randn(2, 5, 8)
    with ablate(attention, {"": [0]}):
        assert (attention(x, attention.prepare(x)).context == 0).all()


def test_what_cannot_be_removed_is_refused():
    net, x = layers(), torch.randn(2, 5, 8)
    with (
        pytest.raises(ConfigError, match=r"^ablate: `heads` has 'h.3'; expected module paths"),
        ablate(net, {"h.3": [0]}),
    ):
        pass
    with (
        pytest.raises(ConfigError, match=r"^ablate: `heads` of '0' has 2; expected 0 to 1"),
        ablate(net, {"0": [2]}),
    ):
        net(x)
    with (
        pytest.raises(ConfigError, match=r"^ablate: `heads` has '0.out', which called no"),
        ablate(net, {"0.out": [0]}),
    ):
        net(x)
    net[1].compile(backend="eager")
    with pytest.raises(ConfigError, match=r"^ablate: `model` has a compiled Layer"), ablate(net, {"0": [0]}):
        pass


def test_recording_and_removing_at_once():
    net, x = layers(), torch.randn(2, 5, 8)
    with ablate(net, {"0": [0]}), record(net) as trace:
        net(x)
    assert (trace["0"][0].context[:, 0] == 0).all()
    assert (trace["0"][0].context[:, 1] != 0).any()


def test_importance_is_what_the_loss_grows_by():
    net, x = layers(2), torch.randn(2, 5, 8)
    target = torch.randn(2, 5, 8)

    def loss():
        return F.mse_loss(net(x), target)

    found = head_importance(net, loss)
    assert {path: len(each) for path, each in found.items()} == {"0": 2, "1": 2}
    whole = loss().item()
    for path, head in itertools.product("01", (0, 1)):
        changed = layers(2)
        changed.load_state_dict(net.state_dict())
        without(changed[int(path)], [head])
        expected = F.mse_loss(changed(x), target).item() - whole
        assert found[path][head].item() == pytest.approx(expected, rel=1e-3, abs=1e-6)


# alignments

FORWARD = frozenset(Link(*x) for x in [(0, 0), (1, 1), (1, 2), (3, 3), (5, 5)])
BACKWARD = frozenset(Link(*x) for x in [(0, 0), (1, 1), (2, 2), (4, 3), (5, 6)])
JOINED = {
    "intersection": {(0, 0), (1, 1)},
    "union": {(0, 0), (1, 1), (1, 2), (2, 2), (3, 3), (4, 3), (5, 5), (5, 6)},
    # (1, 2) is next to (1, 1) and its target is free, (2, 2) has a free source; then (3, 3), then (4, 3)
    "grow-diag": {(0, 0), (1, 1), (1, 2), (2, 2), (3, 3), (4, 3)},
    "grow-diag-final": {(0, 0), (1, 1), (1, 2), (2, 2), (3, 3), (4, 3), (5, 5), (5, 6)},
    "grow-diag-final-and": {(0, 0), (1, 1), (1, 2), (2, 2), (3, 3), (4, 3), (5, 5)},
}


@pytest.mark.parametrize("method", METHODS)
def test_symmetrisation_of_an_example_by_hand(method):
    assert symmetrize(FORWARD, BACKWARD, method) == JOINED[method]


@pytest.mark.parametrize("method", METHODS)
def test_symmetrisation_lies_between_intersection_and_union(method):
    generator = np.random.default_rng(torch.initial_seed())
    for _ in range(50):
        a, b = (
            frozenset(Link(*map(int, pair)) for pair in np.argwhere(generator.random((6, 5)) < 0.25))
            for _ in range(2)
        )
        joined = symmetrize(a, b, method)
        assert a & b <= joined <= a | b
        if method.startswith("grow"):  # whatever can still grow has both words taken
            for link in (a | b) - symmetrize(a, b, "grow-diag"):
                grown = symmetrize(a, b, "grow-diag")
                near = any(max(abs(link.source - x.source), abs(link.target - x.target)) == 1 for x in grown)
                taken = {x.source for x in grown}, {x.target for x in grown}
                assert not near or (link.source in taken[0] and link.target in taken[1])


def test_an_unknown_symmetrisation_is_refused():
    with pytest.raises(
        ConfigError, match=r"^symmetrize: `method` has 'grow'; expected one of intersection, union"
    ):
        symmetrize(FORWARD, BACKWARD, "grow")


def test_links_of_the_way_back_are_turned():
    assert turned(frozenset({Link(1, 2)})) == {Link(2, 1)}


def test_pieces_become_words():
    weights = torch.rand(4, 5)
    merged = merge_subwords(weights, [0, 0, 1, -1], [-1, 0, 0, 1, 1])
    w = weights.double().numpy()
    expected = np.array(
        [
            [(w[0, 1:3].sum() + w[1, 1:3].sum()) / 2, (w[0, 3:].sum() + w[1, 3:].sum()) / 2],
            [w[2, 1:3].sum(), w[2, 3:].sum()],
        ]
    )
    np.testing.assert_allclose(merged.numpy(), expected, rtol=1e-5)
