"""SAGAN: a generator and a discriminator that attend across the whole picture, trained against each other.

    L_D = E[max(0, 1 - D(x, y))] + E[max(0, 1 + D(G(z, y), y))]
    L_G = -E[D(G(z, y), y)]                                              z ~ N(0, I)
    D(x, y) = ψ(φ(x)) + ⟨φ(x), V_y⟩                                      projection discriminator
    W̄ = W / σ(W)                                                         spectral norm, in both networks
    CBN(h, y) = gain_y (h - μ) / σ + bias_y                              conditional batch norm, in G
    average ← decay average + (1 - decay) G                              what samples are drawn from

    paper     here                     shape
    x         pictures                 (B, 3, side, side), from -1 to 1
    y         labels                   (B,)
    z         noise                    (B, 128)
    G         generator                (z, y) -> pictures
    D         discriminator            (x, y) -> (B,)
    φ(x)      features summed over places, (B, C)
    γ         `gamma` of each attention layer, from 0

Both networks are residual, with feature maps of side 4 · 2^k: each generator block doubles the side, the
first two discriminator blocks halve it and the others keep it. `attention` lists the sides of the feature
maps followed by a self-attention layer, and is empty for the network without; `networks` says which network
has them: in the paper both. The paper has 128 × 128 pictures with attention at side 64 (or 32); here pictures
are small, as in Miyato et al.

Each player has its own learning rate (Heusel et al. 2017): `train.lr` is the generator's, 1e-4 in the paper;
the discriminator's is `rate` times that. The training loop gives them turns (see `Model.players`).

Adam moves every parameter by about its learning rate: the small weights of a convolution as much as γ, which
starts at 0 and is useful near 1. A thousand updates at 1e-4 take it to about 0.1; the paper makes a million.
`pace` multiplies γ's learning rate, for short training. With spectral norm a score is at most the product of
two feature vectors' lengths, and the discriminator's are short, so its weights stay nearly even. `strength`
uses cosines times this number instead, which do not depend on lengths.

Zhang, Goodfellow, Metaxas, Odena. Self-attention generative adversarial networks. 2018.
https://arxiv.org/abs/1805.08318
Miyato, Kataoka, Koyama, Yoshida. Spectral normalization for generative adversarial networks. 2018.
https://arxiv.org/abs/1802.05957
Miyato, Koyama. cGANs with projection discriminator. 2018. https://arxiv.org/abs/1802.05637
Heusel et al. GANs trained by a two time-scale update rule. 2017. https://arxiv.org/abs/1706.08500
"""

import copy
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.numerics import no_autocast
from regard.attention.scores.cosine import CosineScore
from regard.attention.scores.dot import DotScore
from regard.catalog import card
from regard.errors import ConfigError, check_finite, check_shapes, check_sizes
from regard.layers.feature_maps import SelfAttention2d
from regard.layers.spectral import spectral_norm
from regard.models.base import Model, Player, Settings, Size

Network = Literal["both", "generator", "discriminator"]
SMALLEST = 4  # side of the generator's first feature map


@dataclass(frozen=True, kw_only=True)
class SAGANConfig(Settings, key="sagan"):
    """Sizes and choices; the widths are those of Miyato et al. for pictures of 32 × 32."""

    classes: int
    side: int  # of a picture
    noise: Size = 128
    generator: Size = 256  # channels
    discriminator: Size = 128
    attention: tuple[int, ...] = (16,)  # sides of the feature maps with self-attention; () for none
    networks: Network = "both"  # which of them have it
    pool: Size = 2  # pooling factor of keys and values; 1: as fine as the queries
    pace: float = 1.0  # learning rate of γ, as a multiple of its network's
    strength: float = 0.0  # factor on cosines of queries and keys; 0: dot products, as in the paper
    rate: float = 4.0  # the discriminator's learning rate as a multiple of the generator's
    turns: Size = 1  # of the discriminator per update
    decay: float = 0.999  # of the moving average of the generator's weights

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.side not in (8, 16, 32, 64, 128):
            raise ConfigError(f"sagan: `side` has {self.side}; expected 8, 16, 32, 64 or 128.")
        sides = sorted({*generator_sides(self.side), *discriminator_sides(self.side)})
        for side in self.attention:
            if side not in sides:
                known = ", ".join(map(str, sides))
                raise ConfigError(
                    f"sagan: `attention` has {side}; expected sides of feature maps in either network "
                    f"({known}), or an empty list for no attention."
                )
        check_finite("sagan", above=0, pace=self.pace, rate=self.rate)
        check_sizes("sagan", self, "strength", least=0)
        if not 0 <= self.decay < 1:
            raise ConfigError(f"sagan: `decay` has {self.decay}; expected 0 or more and less than 1.")


def generator_sides(side: int) -> list[int]:
    """The sides of the feature maps after the generator's blocks: 8, 16, …, side."""
    return [SMALLEST * 2**k for k in range(1, (side // SMALLEST).bit_length())]


def discriminator_sides(side: int) -> list[int]:
    """The same for the discriminator: two blocks halve the side, down to 4, and two keep it."""
    halved = max(side // 4, SMALLEST)
    return [side // 2, halved, halved, halved]


# Parts --------------------------------------------------------------------------------------------------


def convolution(inputs: int, outputs: int, width: int) -> nn.Module:
    """A convolution that keeps the side, with Glorot initialization and spectral norm."""
    return _normed(nn.Conv2d(inputs, outputs, width, padding=width // 2))


def linear(inputs: int, outputs: int) -> nn.Module:
    """A linear layer with Glorot initialization and spectral norm."""
    return _normed(nn.Linear(inputs, outputs))


def _normed(layer: nn.Conv2d | nn.Linear) -> nn.Module:
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return spectral_norm(layer)


def attention_at(side: int, channels: int, config: SAGANConfig, network: Network) -> nn.Module:
    """Self-attention after a feature map of this side, if configured; otherwise the identity."""
    if side not in config.attention or config.networks not in ("both", network):
        return nn.Identity()
    score = CosineScore(strength=config.strength) if config.strength else DotScore(1.0)
    return SelfAttention2d(channels, pool=config.pool, pace=config.pace, score=score, wrap=spectral_norm)


class ConditionalBatchNorm(nn.Module):
    """Batch norm with gain and bias per class: (B, C, H, W), (B,) -> (B, C, H, W)."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.gain = nn.Embedding(classes, channels)
        self.bias = nn.Embedding(classes, channels)
        nn.init.ones_(self.gain.weight)
        nn.init.zeros_(self.bias.weight)

    def forward(self, h: Tensor, labels: Tensor) -> Tensor:
        normed = self.norm(h)
        gain, bias = (each(labels)[..., None, None].to(normed.dtype) for each in (self.gain, self.bias))
        return torch.addcmul(bias, gain, normed)


class GeneratorBlock(nn.Module):
    """Doubles the side: h + conv(relu(cbn(conv(up(relu(cbn(h)))))))."""

    def __init__(self, inputs: int, outputs: int, classes: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = (ConditionalBatchNorm(size, classes) for size in (inputs, outputs))
        self.conv1, self.conv2 = convolution(inputs, outputs, 3), convolution(outputs, outputs, 3)
        self.skip = convolution(inputs, outputs, 1)

    def forward(self, h: Tensor, labels: Tensor) -> Tensor:
        branch = self.conv1(_doubled(torch.relu(self.norm1(h, labels))))
        branch = self.conv2(torch.relu(self.norm2(branch, labels)))
        return branch + _doubled(self.skip(h))  # a 1 × 1 convolution commutes with doubling


class DiscriminatorBlock(nn.Module):
    """h + conv(relu(conv(relu(h)))), optionally halving the side; the first block starts without a ReLU."""

    def __init__(self, inputs: int, outputs: int, *, halve: bool, first: bool = False) -> None:
        super().__init__()
        self.conv1, self.conv2 = convolution(inputs, outputs, 3), convolution(outputs, outputs, 3)
        self.skip = convolution(inputs, outputs, 1) if halve or inputs != outputs else nn.Identity()
        self.before = nn.Identity() if first else nn.ReLU()
        self.halve = nn.AvgPool2d(2) if halve else nn.Identity()

    def forward(self, h: Tensor) -> Tensor:
        branch = self.conv2(torch.relu(self.conv1(self.before(h))))
        # averaging commutes with a 1 × 1 convolution, which then costs a quarter
        return self.halve(branch) + self.skip(self.halve(h))


def _doubled(h: Tensor) -> Tensor:
    with no_autocast(h):  # autocast would convert to float32, though nothing is computed here
        return F.interpolate(h, scale_factor=2, mode="nearest")


# Networks -----------------------------------------------------------------------------------------------


class Generator(nn.Module):
    """(B, noise), (B,) labels -> (B, 3, side, side) from -1 to 1."""

    def __init__(self, config: SAGANConfig) -> None:
        super().__init__()
        C = config.generator
        self.start = linear(config.noise, C * SMALLEST**2)
        sides = generator_sides(config.side)
        self.blocks = nn.ModuleList(GeneratorBlock(C, C, config.classes) for _ in sides)
        self.attentions = nn.ModuleList(attention_at(side, C, config, "generator") for side in sides)
        self.norm = nn.BatchNorm2d(C)
        self.paint = convolution(C, 3, 3)

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        h = self.start(noise).unflatten(1, (-1, SMALLEST, SMALLEST))
        h = h.contiguous(memory_format=torch.channels_last)
        for block, attention in zip(self.blocks, self.attentions, strict=True):
            h = attention(block(h, labels))
        return torch.tanh(self.paint(torch.relu(self.norm(h))))


class Discriminator(nn.Module):
    """(B, 3, side, side), (B,) labels -> (B,): high if a picture looks real and of its class."""

    def __init__(self, config: SAGANConfig) -> None:
        super().__init__()
        C = config.discriminator
        sides = discriminator_sides(config.side)
        before = [config.side, *sides[:-1]]
        self.blocks = nn.ModuleList(
            DiscriminatorBlock(C if number else 3, C, halve=side < came, first=number == 0)
            for number, (came, side) in enumerate(zip(before, sides, strict=True))
        )
        # one layer per side, after the first block with that side
        self.attentions = nn.ModuleList(
            attention_at(side, C, config, "discriminator") if side < came else nn.Identity()
            for came, side in zip(before, sides, strict=True)
        )
        self.psi = linear(C, 1)
        embedding = nn.Embedding(config.classes, C)
        nn.init.xavier_uniform_(embedding.weight)
        self.V = spectral_norm(embedding)

    def forward(self, pictures: Tensor, labels: Tensor) -> Tensor:
        h = pictures.contiguous(memory_format=torch.channels_last)
        for block, attention in zip(self.blocks, self.attentions, strict=True):
            h = attention(block(h))
        features = torch.relu(h).float().sum((2, 3))  # (B, C)
        with no_autocast(features):  # sums over positions are large, and the hinge is at 1
            return self.psi(features).squeeze(1) + (self.V(labels) * features).sum(1)


@card(
    "model",
    "sagan",
    title="Self-attention GAN",
    authors="Zhang, Goodfellow, Metaxas, Odena",
    year=2018,
    link="https://arxiv.org/abs/1805.08318",
    sentence="A generator and a discriminator with self-attention over their feature maps, trained in turn.",
)
class SAGAN(Model):
    """Generator, discriminator, and the averaged generator that draws the samples."""

    Config = SAGANConfig
    reads = ("pictures to imitate",)
    steps = ("synthesize", "judge")

    def __init__(self, config: SAGANConfig) -> None:
        super().__init__(config)
        self.generator = Generator(config)
        self.discriminator = Discriminator(config)
        self.average = copy.deepcopy(self.generator).requires_grad_(False)
        self._followed = _pairs(self.average, self.generator)
        self.players = (
            Player("discriminator", rate=config.rate, turns=config.turns),
            Player("generator"),
        )
        looking = [n for n, side in enumerate(generator_sides(config.side)) if side in config.attention]
        if looking and config.networks != "discriminator":
            self.aligner = f"average.attentions.{looking[-1]}.attention"

    def forward(self, pictures: Tensor, labels: Tensor, *, player: str = "discriminator") -> Tensor:
        """(B, 3, side, side) real pictures, (B,) labels -> (B,) losses of one player."""
        given, side = (("pictures", pictures, "B C H W"), ("labels", labels, "B")), self.config.side
        check_shapes("SAGAN", *given, C=3, H=side, W=side)
        noise = torch.randn(len(labels), self.config.noise, device=labels.device)
        return getattr(self, f"{player}_losses")(pictures, labels, noise)

    def discriminator_losses(self, pictures: Tensor, labels: Tensor, noise: Tensor) -> Tensor:
        """(B,) hinge losses: real pictures should reach 1, generated ones -1."""
        with torch.no_grad():
            generated = self.synthesize(noise, labels).to(pictures.dtype)
        both = self.judge(torch.cat([pictures, generated]), torch.cat([labels, labels]))
        real, fake = both.chunk(2)
        return torch.relu(1 - real) + torch.relu(1 + fake)

    def generator_losses(self, pictures: Tensor, labels: Tensor, noise: Tensor) -> Tensor:
        """(B,) losses: generated pictures should look real; `pictures` is unused."""
        return -self.judge(self.synthesize(noise, labels), labels)

    def synthesize(self, noise: Tensor, labels: Tensor) -> Tensor:
        """G, the generator in training."""
        return self.generator(noise, labels)

    def judge(self, pictures: Tensor, labels: Tensor) -> Tensor:
        """D."""
        return self.discriminator(pictures, labels)

    def sample(self, noise: Tensor, labels: Tensor) -> Tensor:
        """(B, noise), (B,) -> (B, 3, side, side) from the averaged generator."""
        return self.average(noise, labels)

    @torch.no_grad()
    def after_step(self, step: int) -> None:
        """Update the average: weights and statistics by `decay`, less at first; copies power iterations."""
        decay = min(self.config.decay, step / (step + 10))
        moved, copied = self._followed
        torch._foreach_lerp_(*_tensors(moved), 1 - decay)
        torch._foreach_copy_(*_tensors(copied))

    def gammas(self) -> dict[str, float]:
        """The weight γ of each attention layer, by module path."""
        return {
            path: float(module.opening.detach())
            for path, module in self.named_modules()
            if isinstance(module, SelfAttention2d)
        }


_Registry = dict[str, Any]  # a module's dict of parameters or buffers
_Pair = tuple[_Registry, _Registry, str]  # where a tensor is registered in both networks, and its name


def _pairs(average: nn.Module, generator: nn.Module) -> tuple[list[_Pair], list[_Pair]]:
    """All floating-point tensors of two equal networks in pairs: weights and statistics; power iterations.

    They are named by registry, because the tensors change when a network moves to another device. Finding
    them in every update would take longer than updating them.
    """
    moved: list[_Pair] = []
    copied: list[_Pair] = []
    for mine, theirs in zip(average.modules(), generator.modules(), strict=True):
        for pair in ((mine._parameters, theirs._parameters), (mine._buffers, theirs._buffers)):
            for name, tensor in pair[0].items():
                if tensor is not None and tensor.is_floating_point():
                    (copied if name in ("_u", "_v") else moved).append((*pair, name))
    return moved, copied


def _tensors(pairs: list[_Pair]) -> tuple[list[Tensor], list[Tensor]]:
    """The tensors of the first network, and of the second."""
    return [mine[name].data for mine, _, name in pairs], [theirs[name].data for _, theirs, name in pairs]
