"""From a picture to a grid of annotations: a small trainable network, and the pretrained SqueezeNet.

    a = {a_1, …, a_L},  a_i ∈ R^D                                     L places of the grid, row by row

A convolution is translation invariant. The small network's last layer therefore also reads the coordinates of
each place (Liu et al. 2018); otherwise attention could not find, say, the uppermost object. A place sees
22 × 22 pixels around its own 8 × 8, and nothing else of the picture.

Iandola, Han, Moskewicz, Ashraf, Dally, Keutzer. SqueezeNet. 2016. https://arxiv.org/abs/1602.07360
Liu et al. An intriguing failing of convolutional neural networks and the CoordConv solution. 2018.
https://arxiv.org/abs/1807.03247
Ioffe, Szegedy. Batch normalization. 2015. https://arxiv.org/abs/1502.03167
"""

from collections.abc import Mapping
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import ConfigError, DataError, check_shapes, check_whole

WAVES = 4  # features for a place's row, and as many for its column


class SmallConvolution(nn.Module):
    """Three convolutions with stride 2 and one layer per place: (B, H, W, 3) bytes -> (B, L, D).

    With batch normalisation (Ioffe, Szegedy 2015): on pictures that are mostly background, a network without
    it took several times as long to tell colours apart.
    """

    stride: ClassVar[int] = 8

    def __init__(self, *, channels: int, features: int) -> None:
        super().__init__()
        widths = (channels, channels, features)
        # even kernels, so that a place's receptive field is centred on its own pixels
        self.first = nn.Conv2d(3, channels, 4, stride=2, padding=1)
        self.second = nn.Conv2d(channels, channels, 4, stride=2, padding=1)
        self.third = nn.Conv2d(channels, features, 4, stride=2, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in widths)
        self.place = nn.Conv2d(features + 2 * WAVES, features, 1)
        for layer in (self.first, self.second, self.third, self.place):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")  # He et al. 2015

    def forward(self, pictures: Tensor) -> Tensor:
        check_shapes("SmallConvolution", ("pictures", pictures, "B H W C"), C=3)
        x = pictures.permute(0, 3, 1, 2).to(self.first.weight.dtype) / 255
        for layer, norm in zip((self.first, self.second, self.third), self.norms, strict=True):
            x = torch.relu(norm(layer(x)))
        return annotations(torch.relu(self.place(torch.cat([x, places(x)], 1))))


def places(x: Tensor) -> Tensor:
    """(B, C, H, W) -> (B, 2 WAVES, H, W): the coordinates of each place, as half-waves down and right.

    cos(π k u) for u from 0 to 1 and k from 1: roughly the coordinate itself, then finer resolution.
    """
    B, _, H, W = x.shape
    k = torch.arange(1, WAVES + 1, device=x.device, dtype=x.dtype)[:, None, None] * torch.pi
    down = torch.cos(k * ((torch.arange(H, device=x.device, dtype=x.dtype) + 0.5) / H)[:, None])
    right = torch.cos(k * ((torch.arange(W, device=x.device, dtype=x.dtype) + 0.5) / W))
    planes = torch.cat([down.expand(WAVES, H, W), right.expand(WAVES, H, W)])
    return planes.expand(B, 2 * WAVES, H, W)


def annotations(x: Tensor) -> Tensor:
    """(B, D, h, w) -> (B, h w, D), row by row; pictures of attention are laid out in the same order."""
    return x.flatten(2).transpose(1, 2)


class Fire(nn.Module):
    """Squeeze to few channels, then expand by parallel 1 × 1 and 3 × 3 convolutions."""

    def __init__(self, inputs: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeeze, 1)
        self.expand1 = nn.Conv2d(squeeze, expand, 1)
        self.expand3 = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.squeeze(x))
        return torch.relu(torch.cat([self.expand1(x), self.expand3(x)], 1))


# squeeze and expand of fire2 … fire9; those in POOLED follow a pooling layer, as in version 1.0
FIRES = {number: (number // 2 * 16, number // 2 * 64) for number in range(2, 10)}
POOLED = (2, 5, 9)
PARTS = {"squeeze": "conv1x1_1", "expand1": "conv1x1_2", "expand3": "conv3x3_2"}  # here -> the original's
MEAN = (104.0, 117.0, 123.0)  # of blue, green, red; there is no scaling
LOUD = 40.0  # root mean square of the last fire module on photographs


class SqueezeNet(nn.Module):
    """SqueezeNet 1.0: (B, H, W, 3) bytes, red first -> (B, L, 512), the output of its last fire module.

    Pictures are resized to `side`; at 227, the size it was trained at, the grid is 13 × 13.
    """

    features: ClassVar[int] = 512

    def __init__(self, *, side: int = 227) -> None:
        super().__init__()
        check_whole("SqueezeNet", least=32, side=side)
        self.side = side
        self.conv1 = nn.Conv2d(3, 96, 7, stride=2)
        inputs, fires = 96, {}
        for number, (squeeze, expand) in FIRES.items():
            fires[f"fire{number}"] = Fire(inputs, squeeze, expand)
            inputs = 2 * expand
        self.fires = nn.ModuleDict(fires)
        self.register_buffer("mean", torch.tensor(MEAN)[:, None, None], persistent=False)

    def load_original(self, arrays: Mapping[str, Tensor]) -> None:
        """Load weights under their original names: `conv1.weight`, `fire2/conv1x1_1.bias`, …"""
        names = {"conv1": "conv1"}
        for number in FIRES:
            for part, name in PARTS.items():
                names[f"fires.fire{number}.{part}"] = f"fire{number}/{name}"
        for here, original in names.items():
            module = cast(nn.Conv2d, self.get_submodule(here))
            for kind in ("weight", "bias"):
                own, key = cast(Tensor, getattr(module, kind)), f"{original}.{kind}"
                if key not in arrays or arrays[key].shape != own.shape:
                    had = f"has shape {tuple(arrays[key].shape)}" if key in arrays else "is missing"
                    raise DataError(
                        f"SqueezeNet: {key!r} {had}; expected shape {tuple(own.shape)}, as in version 1.0."
                    )
                own.data.copy_(arrays[key])

    def forward(self, pictures: Tensor) -> Tensor:
        """The grid as annotations, scaled to about 1 so that a decoder learns at usual rates."""
        check_shapes("SqueezeNet", ("pictures", pictures, "B H W C"), C=3)
        x = pictures.permute(0, 3, 1, 2).to(self.conv1.weight.dtype)
        if x.shape[-2:] != (self.side, self.side):
            x = F.interpolate(x, (self.side, self.side), mode="bilinear", antialias=True)
        x = torch.relu(self.conv1(x.flip(1) - cast(Tensor, self.mean)))  # blue, green, red
        for number in FIRES:
            if number in POOLED:
                x = F.max_pool2d(x, 3, stride=2, ceil_mode=True)
            x = self.fires[f"fire{number}"](x)
        return annotations(x) / LOUD


class TorchvisionGrid(nn.Module):
    """A torchvision network without its head: (B, H, W, 3) bytes, red first -> (B, L, D).

    Supports networks with their convolutions in `features` (VGG, DenseNet, MobileNet, EfficientNet, …) and
    residual networks, which end in `avgpool` and `fc`. A final pooling layer is left out: from
    pictures of `side` pixels VGG then makes the 14 × 14 places of Xu et al. (2015).
    """

    side: ClassVar[int] = 224

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        children = dict(network.named_children())
        if "features" in children:
            self.body = children["features"]
            if isinstance(self.body, nn.Sequential) and isinstance(self.body[-1], nn.MaxPool2d):
                self.body = self.body[:-1]
        elif list(children)[-2:] == ["avgpool", "fc"]:
            self.body = nn.Sequential(*list(children.values())[:-2])
        else:
            kind = type(network).__name__
            raise ConfigError(
                f"TorchvisionGrid: `network` has type {kind}; expected one with `features`, or with "
                "`avgpool` and `fc` at its end."
            )
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406])[:, None, None], persistent=False)
        self.register_buffer(
            "deviation", torch.tensor([0.229, 0.224, 0.225])[:, None, None], persistent=False
        )

    def forward(self, pictures: Tensor) -> Tensor:
        check_shapes("TorchvisionGrid", ("pictures", pictures, "B H W C"), C=3)
        x = pictures.permute(0, 3, 1, 2).float() / 255
        x = F.interpolate(x, (self.side, self.side), mode="bilinear", antialias=True)
        return annotations(self.body((x - cast(Tensor, self.mean)) / cast(Tensor, self.deviation)))
