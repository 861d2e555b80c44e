"""SAGAN: its losses by hand, its norms, its average, its sides; what cannot be built is said."""

import copy

import pytest
import torch
from seeds import offset_seed
from torch.testing import assert_close

from regard import ConfigError, ShapeError, record
from regard.layers.feature_maps import SelfAttention2d
from regard.models.sagan import (
    SAGAN,
    ConditionalBatchNorm,
    SAGANConfig,
    discriminator_sides,
    generator_sides,
)

SMALL = {"classes": 3, "side": 16, "noise": 6, "generator": 8, "discriminator": 8, "attention": (8,)}


def build(**changes):
    torch.manual_seed(offset_seed(0))
    return SAGAN(SAGANConfig(**(SMALL | changes)))


def batch(model, B=4):
    side = model.config.side
    return torch.rand(B, 3, side, side) * 2 - 1, torch.arange(B) % 3


@pytest.mark.parametrize(
    ("side", "generator", "discriminator"),
    [(8, [8], [4, 4, 4, 4]), (16, [8, 16], [8, 4, 4, 4]), (32, [8, 16, 32], [16, 8, 8, 8])],
)
def test_sides_double_in_the_generator_and_halve_in_the_discriminator(side, generator, discriminator):
    assert generator_sides(side) == generator
    assert discriminator_sides(side) == discriminator
    model = build(side=side, attention=(8,) if side > 8 else (4, 8))
    noise = torch.randn(2, 6)
    pictures = model.synthesize(noise, torch.tensor([0, 2]))
    assert pictures.shape == (2, 3, side, side)
    assert pictures.abs().max() <= 1
    assert model.judge(pictures, torch.tensor([0, 2])).shape == (2,)


def test_attention_stands_where_the_config_says():
    model = build()
    paths = [path for path, module in model.named_modules() if isinstance(module, SelfAttention2d)]
    assert paths == ["generator.attentions.0", "discriminator.attentions.0", "average.attentions.0"]
    assert model.aligner == "average.attentions.0.attention"
    assert set(model.gammas().values()) == {0.0}
    without = build(attention=())
    assert without.aligner is None
    assert without.gammas() == {}
    drawing = build(networks="generator")
    assert set(drawing.gammas()) == {"generator.attentions.0", "average.attentions.0"}
    assert drawing.aligner == model.aligner
    judging = build(networks="discriminator")
    assert set(judging.gammas()) == {"discriminator.attentions.0"}
    assert judging.aligner is None


def test_the_losses_are_hinges_of_what_the_discriminator_says():
    model = build().eval()
    x, y = batch(model)
    noise = torch.randn(4, 6)
    generated = model.synthesize(noise, y)
    real, fake = model.judge(x, y), model.judge(generated, y)
    expected = [max(0, 1 - r) + max(0, 1 + f) for r, f in zip(real.tolist(), fake.tolist(), strict=True)]
    assert_close(model.discriminator_losses(x, y, noise), torch.tensor(expected), atol=1e-5, rtol=1e-5)
    assert_close(model.generator_losses(x, y, noise), -fake)


def test_the_discriminator_is_a_sum_over_places_and_a_projection_on_the_class():
    """D(x, y) = ψ(φ) + ⟨φ, V_y⟩ with φ the features summed over places."""
    model = build().eval()
    x, _ = batch(model, 2)
    D, seen = model.discriminator, []
    D.attentions[-1].register_forward_hook(lambda module, inputs, output: seen.append(output))
    said = [D(x, torch.full((2,), y)) for y in range(3)]
    phi = seen[0].relu().sum((2, 3))
    for y in range(3):
        expected = D.psi(phi).squeeze(1) + phi @ D.V.weight[y]
        assert_close(said[y], expected, atol=1e-4, rtol=1e-4)


def test_the_discriminators_turn_leaves_the_generator_without_gradient():
    model = build()
    x, y = batch(model)
    model(x, y, player="discriminator").sum().backward()
    assert all(p.grad is None for p in model.generator.parameters())
    assert any(p.grad is not None and p.grad.any() for p in model.discriminator.parameters())


def test_both_networks_have_unit_spectral_norms():
    """After some power iterations the largest singular value of every normed matrix is 1."""
    model = build()
    x, y = batch(model)
    with torch.no_grad():
        for _ in range(50):
            model(x, y, player="generator")
    checked = 0
    for network in (model.generator.eval(), model.discriminator.eval()):
        for module in network.modules():
            if hasattr(module, "parametrizations"):
                largest = torch.linalg.matrix_norm(module.weight.detach().flatten(1), 2)
                assert float(largest) == pytest.approx(1.0, abs=2e-2)
                checked += 1
    assert checked > 20


def test_conditional_batch_norm_has_a_gain_and_a_bias_for_each_class():
    norm = ConditionalBatchNorm(2, 3)
    norm.gain.weight.data[1] = torch.tensor([2.0, 3.0])
    norm.bias.weight.data[1] = torch.tensor([-1.0, 5.0])
    h = torch.randn(6, 2, 4, 4)
    plain = (h - h.mean((0, 2, 3), keepdim=True)) / (
        h.var((0, 2, 3), keepdim=True, correction=0) + 1e-5
    ).sqrt()
    out = norm(h, torch.tensor([0, 1, 0, 1, 2, 2]))
    assert_close(out[0], plain[0], atol=1e-5, rtol=1e-5)
    assert_close(out[1, 0], 2 * plain[1, 0] - 1, atol=1e-5, rtol=1e-5)
    assert_close(out[3, 1], 3 * plain[3, 1] + 5, atol=1e-5, rtol=1e-5)


def test_the_average_follows_the_generator_slowly_and_is_what_samples_come_from():
    model = build(decay=0.9)
    first = copy.deepcopy(model.average.state_dict())
    for parameter in model.generator.parameters():
        parameter.data += 1.0
    model.after_step(1000)
    for name, tensor in model.average.named_parameters():
        assert_close(tensor.detach(), first[name] + 0.1, atol=1e-5, rtol=1e-4)
        assert not tensor.requires_grad
    model.eval()
    noise, y = torch.randn(2, 6), torch.tensor([0, 1])
    assert torch.equal(model.sample(noise, y), model.average(noise, y))
    early = build(decay=0.9)
    for parameter in early.generator.parameters():
        parameter.data += 1.0
    early.after_step(1)  # decay 1/11: what the first random weights were is soon forgotten
    name, tensor = next(iter(early.average.named_parameters()))
    assert_close(tensor.detach(), first[name] + 10 / 11, atol=1e-5, rtol=1e-4)


def test_the_average_also_follows_a_generator_of_another_precision_and_a_copy():
    """It looks tensors up where they are registered, so none of an earlier state is moved."""
    model = copy.deepcopy(build(decay=0.0)).double()
    for tensor in model.generator.state_dict().values():
        if tensor.is_floating_point():
            tensor += 1.0
    model.after_step(1000)
    for name, tensor in model.average.state_dict().items():
        if tensor.is_floating_point():
            assert torch.equal(tensor, model.generator.state_dict()[name]), name


def test_gamma_learns_at_its_pace():
    """Adam's first step has the size of the learning rate: γ's has `pace` times that."""
    moved = {}
    for pace in (1.0, 10.0):
        model = build(pace=pace, networks="generator")
        optimizer = torch.optim.Adam(model.generator.parameters(), lr=0.001)
        model(*batch(model), player="generator").sum().backward()
        optimizer.step()
        moved[pace] = abs(model.gammas()["generator.attentions.0"])
    assert moved == {1.0: pytest.approx(0.001, rel=1e-3), 10.0: pytest.approx(0.01, rel=1e-3)}


def test_cosines_look_somewhere_where_spectral_norm_leaves_dot_products_even():
    """How many of 64 places count for the discriminator: exp of the entropy of its weights."""
    counted = {}
    for strength in (0.0, 10.0):
        model = build(networks="discriminator", discriminator=32, pool=1, strength=strength)
        with record(model) as trace:
            model.judge(*batch(model))
        weights = trace["discriminator.attentions.0.attention"][0].weights.detach()
        counted[strength] = float(torch.special.entr(weights).sum(-1).exp().mean())
    assert counted[0.0] > 63.5
    assert counted[10.0] < 50


def test_autocast_gives_losses_in_float32_close_to_the_exact_ones():
    model = build().eval()
    x, y = batch(model)
    noise = torch.randn(4, 6)
    exact = model.discriminator_losses(x, y, noise)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model.discriminator_losses(x, y, noise)
    assert rounded.dtype == torch.float32
    assert_close(rounded, exact, atol=0.3, rtol=0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"side": 20}, r"^sagan: `side` has 20; expected 8, 16, 32, 64 or 128\.$"),
        ({"attention": (7,)}, r"^sagan: `attention` has 7; expected sides of feature maps .*\(4, 8, 16\)"),
        ({"decay": 1.0}, r"^sagan: `decay` has 1\.0; expected 0 or more and less than 1\.$"),
        ({"turns": 0}, r"^sagan: `turns` has 0; expected 1 or more\.$"),
        ({"pace": 0.0}, r"^sagan: `pace` has 0\.0; expected a finite number above 0\.$"),
        ({"strength": -1.0}, r"^sagan: `strength` has -1\.0; expected 0 or more\.$"),
    ],
)
def test_what_cannot_be_built_is_said(changes, message):
    with pytest.raises(ConfigError, match=message):
        SAGANConfig(**(SMALL | changes))


def test_pictures_of_another_side_are_refused():
    with pytest.raises(
        ShapeError, match=r"^SAGAN: `pictures` has shape \(2, 3, 8, 8\); expected \(B=2, C=3, H=16"
    ):
        build()(torch.zeros(2, 3, 8, 8), torch.tensor([0, 1]))
