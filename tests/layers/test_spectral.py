"""Spectral normalisation against PyTorch's own, and against the singular values themselves."""

import copy

import pytest
import torch
from seeds import offset_seed
from torch import nn
from torch.nn.utils import parametrizations

from regard.layers.spectral import spectral_norm

LAYERS = {
    "linear": (lambda: nn.Linear(6, 4), lambda: torch.randn(3, 6)),
    "convolution": (lambda: nn.Conv2d(3, 5, 3, padding=1), lambda: torch.randn(2, 3, 4, 4)),
    "embedding": (lambda: nn.Embedding(7, 5), lambda: torch.randint(7, (9,))),
}


def pair(name):
    """One layer, normed here and by PyTorch, from the same vectors."""
    build, draw = LAYERS[name]
    layer = build().double()
    torch.manual_seed(offset_seed(3))
    ours = spectral_norm(copy.deepcopy(layer))
    torch.manual_seed(offset_seed(3))
    theirs = parametrizations.spectral_norm(copy.deepcopy(layer))
    x = draw()
    return ours, theirs, x.double() if x.is_floating_point() else x


@pytest.mark.parametrize("name", LAYERS)
def test_outputs_gradients_and_vectors_are_pytorch_s_while_it_learns(name):
    ours, theirs, x = pair(name)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for _ in range(3):
        for layer in (ours, theirs):
            layer.zero_grad()
            layer(x).pow(3).sum().backward()
            with torch.no_grad():
                for parameter in layer.parameters():
                    parameter -= 0.05 * parameter.grad
        for (key, mine), (_, other) in zip(
            [*ours.named_parameters(), *ours.named_buffers()],
            [*theirs.named_parameters(), *theirs.named_buffers()],
            strict=True,
        ):
            torch.testing.assert_close(mine, other, msg=lambda m, key=key: f"{key}: {m}")
            if mine.requires_grad:
                torch.testing.assert_close(mine.grad, other.grad)
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(x), theirs(x))


def test_the_largest_singular_value_comes_to_1():
    layer = spectral_norm(nn.Conv2d(3, 5, 3).double())
    for _ in range(200):
        weight = layer.weight
    torch.testing.assert_close(
        torch.linalg.matrix_norm(weight.flatten(1), 2), torch.ones((), dtype=torch.float64)
    )


def test_evaluation_moves_nothing():
    layer = spectral_norm(nn.Linear(6, 4)).eval()
    before = {key: value.clone() for key, value in layer.state_dict().items()}
    layer(torch.randn(2, 6))
    assert all(torch.equal(value, before[key]) for key, value in layer.state_dict().items())


def test_a_weight_used_twice_in_one_pass_has_its_gradient():
    layer = spectral_norm(nn.Linear(4, 4).double())
    x = torch.randn(2, 4, dtype=torch.float64)
    layer(layer(x)).sum().backward()
    assert layer.parametrizations.weight.original.grad.isfinite().all()


def test_autocast_does_not_round_the_norm():
    layer = spectral_norm(nn.Linear(64, 64)).eval()
    plain = layer.weight
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer.weight, plain)
        layer.train()
        assert layer.weight.dtype == torch.float32
    assert layer.parametrizations.weight[0]._u.dtype == torch.float32


def test_a_weight_of_zeros_stays_finite():
    layer = nn.Linear(3, 2)
    nn.init.zeros_(layer.weight)
    layer = spectral_norm(layer)
    assert layer.parametrizations.weight[0]._u.isfinite().all()
