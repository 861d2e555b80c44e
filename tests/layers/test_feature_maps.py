"""Self-attention over feature maps and the non-local block: the equations, and the identity at first."""

import pytest
import torch
from oracles import feature_maps as oracle
from torch.nn.utils.parametrizations import spectral_norm
from torch.testing import assert_close

from regard import Attention, ConfigError, DotScore, ShapeError, record
from regard.layers.feature_maps import PAIRWISE, NonLocalBlock, SelfAttention2d, as_map, as_rows

FORMS = tuple(PAIRWISE)


def matrix(layer):
    return layer.weight.detach().flatten(1).tolist()


def affine(layer):
    return matrix(layer), layer.bias.detach().tolist()


def disturbed(module):
    """Every parameter away from its first value, so that nothing is multiplied by 0."""
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.6) if parameter.ndim else parameter.data.fill_(0.7)
    return module.double()


@pytest.mark.parametrize("pool", [1, 2])
def test_self_attention_agrees_with_its_paper(pool):
    layer = disturbed(SelfAttention2d(16, pool=pool))
    x = torch.randn(2, 16, 4, 6).double()
    weights = [matrix(each) for each in (layer.f, layer.g, layer.h, layer.v)]
    expected = [oracle.self_attention(each.tolist(), *weights, layer.gamma.item(), pool) for each in x]
    assert_close(layer(x), torch.tensor(expected, dtype=torch.float64), atol=1e-10, rtol=1e-9)


@pytest.mark.parametrize("pool", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_the_non_local_block_agrees_with_its_paper(form, pool):
    block = disturbed(NonLocalBlock(6, form=form, pool=pool, norm=False))
    x = 0.7 * torch.randn(2, 6, 4, 5).double()
    embeds = form != "gaussian"
    # without θ and φ the comparison is over the 6 channels of x
    theta, phi = ((affine(block.theta), affine(block.phi)) if embeds else (None, None))  # fmt: skip
    score = block.attention.score
    w_f = None
    if form == "concatenation":
        w_f = [*score.W.weight[0].tolist(), *score.U.weight[0].tolist()]
    expected = [
        oracle.non_local(each.tolist(), form, theta, phi, affine(block.g), affine(block.W_z), pool, w_f)
        for each in x
    ]
    assert_close(block(x), torch.tensor(expected, dtype=torch.float64), atol=1e-10, rtol=1e-9)


LAYERS = {
    "self-attention": lambda: SelfAttention2d(16),
    **{f"{form}, batch norm": lambda form=form: NonLocalBlock(16, form=form, pool=2) for form in FORMS},
    **{f"{form}, W_z": lambda form=form: NonLocalBlock(16, form=form, norm=False) for form in FORMS},
}


@pytest.mark.parametrize("name", LAYERS)
def test_at_first_the_layer_is_the_identity_and_only_its_door_gets_a_gradient(name):
    """γ, the scale of the batch norm or W_z opens the door; until then nothing behind it can learn."""
    layer, x = LAYERS[name](), torch.randn(3, 16, 8, 8)
    out = layer(x)
    assert torch.equal(out, x)
    (out * torch.randn_like(out)).sum().backward()
    grads = {n: p.grad for n, p in layer.named_parameters()}
    [door] = [n for n in grads if n in ("gamma", "norm.weight", "W_z.weight") and grads[n].any()]
    inner_parts = [n for n in grads if n.split(".")[0] in ("f", "g", "h", "v", "theta", "phi", "attention")]
    assert inner_parts
    assert all(grads[n] is None or not grads[n].any() for n in inner_parts)
    assert door


def test_the_embedded_gaussian_is_the_dot_product_attention_of_the_same_projections():
    block = disturbed(NonLocalBlock(8, norm=False))
    x = torch.randn(2, 8, 5, 5).double()
    attention = Attention(DotScore(1.0), kernel="reference")
    source = attention.prepare(as_rows(block.phi(x)), as_rows(block.g(x)))
    expected = x + block.W_z(as_map(attention(as_rows(block.theta(x)), source).context, x))
    assert_close(block(x), expected, atol=1e-9, rtol=1e-9)


def test_rows_and_maps_are_inverse_and_row_by_row():
    x = torch.arange(2 * 3 * 4 * 5.0).view(2, 3, 4, 5)
    rows = as_rows(x)
    assert rows.shape == (2, 1, 20, 3)
    assert torch.equal(rows[1, 0, 7], x[1, :, 1, 2])
    assert torch.equal(as_map(rows, x), x)


def test_the_softmax_forms_run_fused_and_keep_no_weights():
    """Without fusing, 32 × 32 places at a batch of 64 keep 64 · 1024² weights: 268 MB a copy in float32."""
    for layer in (SelfAttention2d(16), NonLocalBlock(16), NonLocalBlock(16, form="gaussian")):
        with record(layer) as trace:
            layer(torch.randn(2, 16, 8, 8))
        [result] = trace["attention"]
        assert result.kernel == "sdpa"
        assert not result.has_weights
        assert result.context.ndim == 4  # fused kernels of a GPU take four axes alone


def saved_bytes(layer, x):
    """Bytes that a forward pass keeps for its backward pass, parameters and input left out."""
    seen, own = {}, {t.untyped_storage().data_ptr() for t in (*layer.parameters(), x)}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = layer(x)
    del out
    return sum(seen.values())


def test_what_training_keeps_grows_with_the_places_and_not_with_their_square():
    """Equal head sizes take the fused path on a CPU too: twice the side keeps four times as much, not 16."""
    layer = SelfAttention2d(16, narrow=2, halve=2, pool=1)
    small, large = (saved_bytes(layer, torch.randn(1, 16, side, side)) for side in (16, 32))
    assert large < 5 * small
    assert large < 1024 * 1024 * 4  # one matrix of 1024 × 1024 weights would be as much


def test_sub_sampling_quarters_the_keys_and_keeps_the_queries():
    layer = SelfAttention2d(8, pool=2)
    with record(layer) as trace:
        layer(torch.randn(1, 8, 8, 8))
    assert trace["attention"][0].weights.shape == (1, 1, 64, 16)


def test_every_convolution_is_wrapped():
    layer = SelfAttention2d(8, wrap=spectral_norm)
    for part in (layer.f, layer.g, layer.h, layer.v):
        part.eval()
        largest = torch.linalg.matrix_norm(part.weight.detach().flatten(1), 2)
        assert float(largest) == pytest.approx(1.0, abs=0.05)


def test_what_cannot_be_built_is_said():
    with pytest.raises(ConfigError, match=r"^SelfAttention2d: `channels` has 4; expected 8 or more"):
        SelfAttention2d(4)
    with pytest.raises(ConfigError, match=r"^NonLocalBlock: `form` has 'gauss'; expected one of gaussian, "):
        NonLocalBlock(8, form="gauss")
    with pytest.raises(
        ConfigError, match=r"^NonLocalBlock: `pool` has 4; expected at most 2, a feature map of 2 × 8\.$"
    ):
        NonLocalBlock(8, pool=4)(torch.zeros(1, 8, 2, 8))
    with pytest.raises(
        ShapeError, match=r"^SelfAttention2d: `x` has shape \(8, 4, 4\); expected \(B, C, H, W"
    ):
        SelfAttention2d(8)(torch.zeros(8, 4, 4))
