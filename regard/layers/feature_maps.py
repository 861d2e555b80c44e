"""Attention between the places of a feature map: SAGAN's layer and the non-local block.

Self-attention of SAGAN. Every place j attends to all places i, at any distance:

    f(x) = W_f x    g(x) = W_g x    h(x) = W_h x
    s_ij = f(x_i)ᵀ g(x_j)    β_ji = exp(s_ij) / Σ_i exp(s_ij)
    o_j = W_v Σ_i β_ji h(x_i)    y_j = γ o_j + x_j                     γ from 0: the identity at first

The non-local block (Wang et al., equations 1 and 6), with one of four f:

    y_i = 1/C(x) Σ_j f(x_i, x_j) g(x_j)    z_i = W_z y_i + x_i         batch norm behind W_z, its scale from 0

    gaussian         f = exp(x_iᵀ x_j)                     C = Σ_j f
    embedded         f = exp(θ(x_i)ᵀ φ(x_j))               C = Σ_j f
    dot              f = θ(x_i)ᵀ φ(x_j)                    C = N
    concatenation    f = ReLU(w_fᵀ [θ(x_i), φ(x_j)])       C = N

    SAGAN    non-local    here                 shape
    x        x            x                    (B, C, H, W), N = H W places
    g(x_j)   θ(x_i)       queries              (B, 1, N, C/8), (B, 1, N, C/2)
    f(x_i)   φ(x_j)       keys                 (B, 1, N/pool², …)
    h(x_i)   g(x_j)       values               (B, 1, N/pool², C/2)
    β        f / C        attention's weights  (B, 1, N, N/pool²)

`pool` makes keys and values coarser by max pooling over pool × pool places; queries keep their resolution.
SAGAN's code pools after the convolutions, that of non-local networks before. Neither scales the scores. The
axis of size 1 is a single head: fused kernels require it, and then no N × N weights are kept.

Zhang, Goodfellow, Metaxas, Odena. Self-attention generative adversarial networks. 2018.
https://arxiv.org/abs/1805.08318
Wang, Girshick, Gupta, He. Non-local neural networks. 2018. https://arxiv.org/abs/1711.07971
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.compose import Attention
from regard.attention.normalizers.base import Normalizer
from regard.attention.normalizers.divide_by_length import DivideByLength
from regard.attention.normalizers.softmax import Softmax
from regard.attention.scores.base import Score
from regard.attention.scores.dot import DotScore
from regard.attention.scores.rectified import RectifiedScore
from regard.catalog import card
from regard.errors import ConfigError, check_shapes

Module = TypeVar("Module", bound=nn.Module)
Form = Literal["gaussian", "embedded", "dot", "concatenation"]


def as_rows(x: Tensor) -> Tensor:
    """(B, C, H, W) -> (B, 1, H W, C): the places row by row, as one head."""
    return x.flatten(2).transpose(1, 2)[:, None]


def as_map(rows: Tensor, like: Tensor) -> Tensor:
    """(B, 1, H W, C) -> (B, C, H, W), with H and W as in `like`."""
    return rows.squeeze(1).transpose(1, 2).reshape(len(rows), -1, *like.shape[2:])


def unchanged(module: Module) -> Module:
    """The identity, for when there is no spectral normalisation."""
    return module


@card(
    "layer",
    "self-attention-2d",
    title="Self-attention over feature maps",
    authors="Zhang, Goodfellow, Metaxas, Odena",
    year=2018,
    link="https://arxiv.org/abs/1805.08318",
    sentence=(
        "Every place of a feature map attends to all others; a factor that starts at 0 scales the result."
    ),
)
class SelfAttention2d(nn.Module):
    """SAGAN's layer: (B, C, H, W) -> the same shape; initially the identity.

    Queries and keys have C / `narrow` channels, values C / `halve`. `wrap` is applied to every convolution. γ
    is `pace` times a parameter, so that an optimizer with equal steps for all parameters, such as Adam, moves
    it `pace` times faster. `score` compares queries and keys, by default s = f(x_i)ᵀ g(x_j).
    """

    def __init__(
        self,
        channels: int,
        *,
        narrow: int = 8,
        halve: int = 2,
        pool: int = 2,
        pace: float = 1.0,
        score: Score | None = None,
        wrap: Callable[[nn.Conv2d], nn.Module] = unchanged,
    ) -> None:
        super().__init__()
        if channels < max(narrow, halve):
            raise ConfigError(
                f"SelfAttention2d: `channels` has {channels}; expected {max(narrow, halve)} or more, "
                "so that queries, keys and values have a channel."
            )
        self.f = wrap(_convolution(channels, channels // narrow))
        self.g = wrap(_convolution(channels, channels // narrow))
        self.h = wrap(_convolution(channels, channels // halve))
        self.v = wrap(_convolution(channels // halve, channels))
        self.gamma = nn.Parameter(torch.zeros(()))
        self.pool, self.pace = pool, pace
        self.attention = Attention(DotScore(1.0) if score is None else score)

    @property
    def opening(self) -> Tensor:
        """γ: the factor on the attention's output."""
        return self.gamma * self.pace

    def forward(self, x: Tensor) -> Tensor:
        _check_map("SelfAttention2d", x, self.pool)
        keys, values = as_rows(_coarser(self.f(x), self.pool)), as_rows(_coarser(self.h(x), self.pool))
        o = self.attention(as_rows(self.g(x)), self.attention.prepare(keys, values)).context
        return x + self.opening * self.v(as_map(o, x))


class _Pairwise(NamedTuple):
    """The parts of one f: whether θ and φ embed x, the score, and the normalizer in place of 1 / C."""

    embeds: bool
    score: Callable[[int], Score]
    normalizer: Callable[[], Normalizer]


PAIRWISE: dict[Form, _Pairwise] = {
    "gaussian": _Pairwise(False, lambda hidden: DotScore(1.0), Softmax),
    "embedded": _Pairwise(True, lambda hidden: DotScore(1.0), Softmax),
    "dot": _Pairwise(True, lambda hidden: DotScore(1.0), DivideByLength),
    "concatenation": _Pairwise(
        True, lambda hidden: RectifiedScore(query=hidden, keys=hidden), DivideByLength
    ),
}


@card(
    "layer",
    "non-local",
    title="Non-local block",
    authors="Wang, Girshick, Gupta, He",
    year=2018,
    link="https://arxiv.org/abs/1711.07971",
    sentence="A residual block in which every place sees all others, in four forms; at first the identity.",
)
class NonLocalBlock(nn.Module):
    """(B, C, H, W) -> the same shape; initially the identity.

    With `norm` a batch norm follows W_z and its scale starts at 0; without, W_z itself starts at 0.
    """

    def __init__(
        self,
        channels: int,
        *,
        form: Form = "embedded",
        hidden: int | None = None,
        pool: int = 1,
        norm: bool = True,
    ) -> None:
        super().__init__()
        if form not in PAIRWISE:
            raise ConfigError(f"NonLocalBlock: `form` has {form!r}; expected one of {', '.join(PAIRWISE)}.")
        hidden = max(channels // 2, 1) if hidden is None else hidden
        pairwise = PAIRWISE[form]
        self.theta = nn.Conv2d(channels, hidden, 1) if pairwise.embeds else nn.Identity()
        self.phi = nn.Conv2d(channels, hidden, 1) if pairwise.embeds else nn.Identity()
        self.g = nn.Conv2d(channels, hidden, 1)
        self.W_z = nn.Conv2d(hidden, channels, 1)
        self.norm = nn.BatchNorm2d(channels) if norm else nn.Identity()
        self.pool = pool
        self.attention = Attention(pairwise.score(hidden), normalizer=pairwise.normalizer())
        for layer in (self.theta, self.phi, self.g, self.W_z):
            if isinstance(layer, nn.Conv2d):
                nn.init.normal_(layer.weight, std=0.01)  # as in the authors' code
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        nn.init.zeros_(self.norm.weight if isinstance(self.norm, nn.BatchNorm2d) else self.W_z.weight)

    def forward(self, x: Tensor) -> Tensor:
        _check_map("NonLocalBlock", x, self.pool)
        coarse = _coarser(x, self.pool)
        source = self.attention.prepare(as_rows(self.phi(coarse)), as_rows(self.g(coarse)))
        y = self.attention(as_rows(self.theta(x)), source).context
        return x + self.norm(self.W_z(as_map(y, x)))


def _convolution(inputs: int, outputs: int) -> nn.Conv2d:
    """1 × 1 without bias, Glorot initialisation, as in SAGAN's code."""
    layer = nn.Conv2d(inputs, outputs, 1, bias=False)
    nn.init.xavier_uniform_(layer.weight)
    return layer


def _coarser(x: Tensor, pool: int) -> Tensor:
    return F.max_pool2d(x, pool) if pool > 1 else x


def _check_map(owner: str, x: Tensor, pool: int) -> None:
    sizes = check_shapes(owner, ("x", x, "B C H W"))
    if sizes and (sizes["H"] < pool or sizes["W"] < pool):
        raise ConfigError(
            f"{owner}: `pool` has {pool}; expected at most {min(sizes['H'], sizes['W'])}, "
            f"a feature map of {sizes['H']} × {sizes['W']}."
        )
