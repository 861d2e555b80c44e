"""Encoders of pictures: their grids, their original weights, what a place sees."""

import numpy as np
import pytest
import torch
from seeds import offset_seed
from torch import nn

from regard.errors import ConfigError, DataError, ShapeError
from regard.layers.convolution import FIRES, PARTS, SmallConvolution, SqueezeNet, TorchvisionGrid, annotations


def pixels(side, rows=2):
    return torch.from_numpy(
        np.random.default_rng(offset_seed(0)).integers(0, 256, (rows, side, side, 3), dtype=np.uint8)
    )


@pytest.mark.parametrize("side", [16, 48, 128])
def test_the_small_net_has_a_place_for_every_eight_pixels(side):
    net = SmallConvolution(channels=4, features=6)
    assert net(pixels(side)).shape == (2, (side // 8) ** 2, 6)


def test_a_change_of_eight_pixels_is_seen_around_its_own_place():
    """The order of the places is that of the rows, which pictures of attention rely on."""
    black = torch.zeros(1, 48, 48, 3, dtype=torch.uint8)
    spot = black.clone()
    spot[0, 8:16, 32:40] = 255  # row 1, column 4 of 6 × 6
    moved = torch.zeros(36)
    torch.manual_seed(offset_seed(0))
    nets = 60  # one net's random weights may favour a neighbour
    for _ in range(nets):
        net = SmallConvolution(channels=8, features=8).eval()
        moved += (net(spot) - net(black)).square().sum(-1)[0].detach()
    # the mean place over twenty seeds: 0.99 ± 0.05 and 3.97 ± 0.06
    grid = moved.reshape(6, 6) / moved.sum()
    assert (grid.sum(1) @ torch.arange(6.0)).item() == pytest.approx(1, abs=0.25)
    assert (grid.sum(0) @ torch.arange(6.0)).item() == pytest.approx(4, abs=0.25)


def test_annotations_go_row_by_row():
    grid = torch.arange(6.0).reshape(1, 1, 2, 3)
    assert annotations(grid).flatten().tolist() == [0, 1, 2, 3, 4, 5]


def original():
    """Random arrays under the names of the release."""
    generator = torch.Generator().manual_seed(offset_seed(0))
    shapes = {"conv1": (96, 3, 7, 7), "conv_final": (1000, 512, 1, 1)}
    inputs = 96
    for number, (squeeze, expand) in FIRES.items():
        shapes[f"fire{number}/{PARTS['squeeze']}"] = (squeeze, inputs, 1, 1)
        shapes[f"fire{number}/{PARTS['expand1']}"] = (expand, squeeze, 1, 1)
        shapes[f"fire{number}/{PARTS['expand3']}"] = (expand, squeeze, 3, 3)
        inputs = 2 * expand
    arrays = {}
    for name, shape in shapes.items():
        arrays[f"{name}.weight"] = torch.randn(shape, generator=generator) * (2 / np.prod(shape[1:])) ** 0.5
        arrays[f"{name}.bias"] = torch.zeros(shape[0])
    return arrays


def test_squeezenet_takes_the_52_arrays_of_the_release_and_has_13_by_13_places():
    arrays = original()
    assert len(arrays) == 52
    net = SqueezeNet()
    net.load_original(arrays)
    assert torch.equal(net.fires["fire5"].expand3.weight, arrays["fire5/conv3x3_2.weight"])
    classifier = sum(arrays[f"conv_final.{kind}"].numel() for kind in ("weight", "bias"))
    assert sum(p.numel() for p in net.parameters()) + classifier == 1_248_424  # as published
    with torch.no_grad():
        assert net(pixels(64, 1)).shape == (1, 169, 512)


def test_squeezenet_reads_blue_first_and_subtracts_the_mean():
    net = SqueezeNet(side=32)
    colour = torch.tensor([123, 117, 104], dtype=torch.uint8).expand(1, 32, 32, 3)
    seen = []
    net.conv1.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    net(colour)
    assert seen[0].abs().max() == 0
    red = colour.clone()
    red[..., 0] += 5
    net(red)
    assert seen[1][0, :, 0, 0].tolist() == [0, 0, 5]


def test_wrong_weights_and_sizes_are_refused():
    arrays = original()
    del arrays["fire3/conv1x1_1.bias"]
    with pytest.raises(DataError) as error:
        SqueezeNet().load_original(arrays)
    assert str(error.value) == (
        "SqueezeNet: 'fire3/conv1x1_1.bias' is missing; expected shape (16,), as in version 1.0."
    )
    with pytest.raises(ConfigError, match=r"^SqueezeNet: `side` has 8; expected 32 or more\.$"):
        SqueezeNet(side=8)
    with pytest.raises(ShapeError, match=r"^SmallConvolution: `pictures` has shape"):
        SmallConvolution(channels=2, features=2)(torch.zeros(2, 3, 8, 8))


class Residual(nn.Module):
    """The outline of a residual network of torchvision."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 7, 3, stride=32)
        self.layer1 = nn.ReLU()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(7, 10)


def test_networks_of_torchvisions_build_lose_their_head():
    assert TorchvisionGrid(Residual())(pixels(48)).shape == (2, 49, 7)
    vgg = nn.Module()
    vgg.features = nn.Conv2d(3, 5, 3, stride=32)
    assert TorchvisionGrid(vgg)(pixels(48)).shape == (2, 49, 5)
    vgg.features = nn.Sequential(nn.Conv2d(3, 5, 3, stride=16, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    assert TorchvisionGrid(vgg)(pixels(48)).shape == (2, 14 * 14, 5), "as in the paper, before the pooling"
    with pytest.raises(ConfigError, match=r"^TorchvisionGrid: `network` has type Linear; expected one with"):
        TorchvisionGrid(nn.Linear(2, 2))


def test_torchvisions_own_networks():
    torchvision = pytest.importorskip("torchvision")
    net = TorchvisionGrid(torchvision.models.resnet18(weights=None)).eval()
    with torch.no_grad():
        assert net(pixels(48)).shape == (2, 49, 512)
