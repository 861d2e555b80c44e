"""The blocks of SNAIL: dilated causal convolutions that aggregate, causal attention that selects.

    dense(x)_t = [x_t; tanh(W_f [x_{t-r}; x_t] + b_f) ∘ σ(W_g [x_{t-r}; x_t] + b_g)]         dilation r
    TC(x) = dense_{r_m}( … dense_{r_1}(x)),   m = ⌈log₂ T⌉
    attention(x)_t = [x_t; Σ_{s ≤ t} p_ts W_v x_s],   p_t = softmax_s(W_q x_t · W_k x_s / √K)

    paper    here                  shape
    inputs   x                     (B, T, C)
    R        dilation
    D        filters               of each of the two convolutions
    xf xg    the halves of gates   (B, T, D)
    K V      keys, values          sizes of what attention compares and of what it reads
    probs    the weights of `attention`

Every block concatenates its output to its input: a TC block adds m·D channels, an attention block V. A
convolution with two taps is two matrix products, one of them shifted by r steps; the sequence is padded with
zeros in front, and nothing depends on later steps. So a sequence can also be read step by step without
repeating work: `start` returns the state before the first step, `step` runs one.

For the same reason a sequence may have several last steps: the last `ends` steps are alternatives, each of
which follows the steps before all of them and does not see the others. The common part is read once.

The paper prints the dilations 2, 4, 8, … (2^i for i from 1), with which a stack reads even lags only: never
the step just before. With 1, 2, 4, … (2^(i-1), as in WaveNet) it reads every lag from 0 to 2^m - 1.
`dilations` chooses: "doubling" starts at 1, "printed" at 2.

Mishra, Rohaninejad, Chen, Abbeel. A simple neural attentive meta-learner. 2018.
https://arxiv.org/abs/1707.03141
van den Oord et al. WaveNet: a generative model for raw audio. 2016. https://arxiv.org/abs/1609.03499
"""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.cache import Cache
from regard.attention.compose import Attention
from regard.attention.mask import Mask
from regard.attention.scores.dot import DotScore
from regard.attention.source import Source
from regard.errors import ConfigError, check_shapes, check_whole

Dilations = Literal["doubling", "printed"]
FIRST: dict[str, int] = {"doubling": 1, "printed": 2}
Past = tuple[Tensor, ...]  # (B, 2 D) for each of the last r steps, the oldest first


def later(x: Tensor, steps: int, ends: int = 1) -> Tensor:
    """(B, T, C) shifted `steps` steps later, zeros in front; the last `ends` steps share one position."""
    first = x.shape[1] - ends  # the position of all ends
    kept = max(first + 1 - steps, 0)
    moved = F.pad(x[:, :kept], (0, 0, first + 1 - kept, 0))  # (B, first + 1, C)
    if ends == 1:
        return moved
    return torch.cat([moved[:, :-1], moved[:, -1:].expand(-1, ends, -1)], 1)


def seen_with_ends(T: int, ends: int, device: torch.device) -> Mask:
    """The causal mask, except that no end sees another."""
    if ends == 1:
        return Mask(causal=True)
    s = torch.arange(T, device=device)
    t = s[:, None]
    return Mask(dense=(s <= t) & ((s < T - ends) | (s == t)))


def blocks_for(T: int) -> int:
    """⌈log₂ T⌉: the number of dense blocks for a sequence of T steps, at least one."""
    return max((T - 1).bit_length(), 1)


def dilations_for(T: int, dilations: Dilations) -> tuple[int, ...]:
    """The dilations of a TC block for T steps."""
    if dilations not in FIRST:
        raise ConfigError(f"TCBlock: `dilations` has {dilations!r}; expected one of {', '.join(FIRST)}.")
    return tuple(FIRST[dilations] * 2**i for i in range(blocks_for(T)))


class DenseBlock(nn.Module):
    """Two gated causal convolutions with two taps; their output is concatenated to the input."""

    def __init__(self, *, inputs: int, dilation: int, filters: int) -> None:
        super().__init__()
        check_whole("DenseBlock", dilation=dilation)
        self.dilation = dilation
        self.outputs = inputs + filters
        self.now = nn.Linear(inputs, 2 * filters)
        self.before = nn.Linear(inputs, 2 * filters, bias=False)
        for part in (self.now, self.before):  # initialised as one convolution with fan-in 2 · inputs
            nn.init.uniform_(part.weight, -((2 * inputs) ** -0.5), (2 * inputs) ** -0.5)

    def forward(self, x: Tensor, ends: int = 1) -> Tensor:
        """(B, T, C) -> (B, T, C + D)."""
        gates = self.now(x) + later(self.before(x), self.dilation, ends)  # (B, T, 2 D)
        return self._beside(x, gates)

    def start(self, B: int) -> Past:
        """The state before the first step: zeros."""
        return (self.before.weight.new_zeros(B, self.before.out_features),) * self.dilation

    def step(self, x: Tensor, past: Past) -> tuple[Tensor, Past]:
        """(B, C) -> (B, C + D), and the state for the next step."""
        return self._beside(x, self.now(x) + past[0]), (*past[1:], self.before(x))

    def _beside(self, x: Tensor, gates: Tensor) -> Tensor:
        f, g = gates.chunk(2, -1)
        return torch.cat([x, f.tanh() * g.sigmoid()], -1)


class Blocks(nn.Sequential):
    """Blocks in sequence, over a whole sequence or one step at a time."""

    def forward(self, x: Tensor, ends: int = 1) -> Tensor:
        """(B, T, C) -> (B, T, C'); the last `ends` steps are alternatives."""
        for block in self:
            x = block(x, ends)
        return x

    def start(self, B: int) -> tuple[Any, ...]:
        """The states of the blocks before the first step of B sequences."""
        return tuple(block.start(B) for block in self)  # type: ignore[operator]

    def step(self, x: Tensor, states: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
        """(B, C) -> (B, C'), and the states for the next step."""
        later = []
        for block, state in zip(self, states, strict=True):
            x, state = block.step(x, state)  # type: ignore[operator]
            later.append(state)
        return x, tuple(later)


class TCBlock(nn.Module):
    """Dense blocks with growing dilations, as many as a sequence of `steps` steps needs."""

    def __init__(self, *, inputs: int, steps: int, filters: int, dilations: Dilations = "doubling") -> None:
        super().__init__()
        self.dilations = dilations_for(steps, dilations)
        self.outputs = inputs + len(self.dilations) * filters
        self.blocks = Blocks(
            *(
                DenseBlock(inputs=inputs + i * filters, dilation=dilation, filters=filters)
                for i, dilation in enumerate(self.dilations)
            )
        )

    def forward(self, x: Tensor, ends: int = 1) -> Tensor:
        """(B, T, C) -> (B, T, C + m D)."""
        check_shapes("TCBlock", ("x", x, "B T C"))
        return self.blocks(x, ends)

    def start(self, B: int) -> tuple[Past, ...]:
        return self.blocks.start(B)

    def step(self, x: Tensor, pasts: tuple[Past, ...]) -> tuple[Tensor, tuple[Past, ...]]:
        """(B, C) -> (B, C + m D), and the states for the next step."""
        return self.blocks.step(x, pasts)


class AttentionBlock(nn.Module):
    """Every step attends to all steps up to itself; the context is concatenated to the input.

    With `alike`, steps start by attending to similar ones: W_q and W_k are initialised as the same orthogonal
    matrix, scaled so that the first scores are x_t · P x_s for a projection P. Both then learn freely.
    """

    def __init__(self, *, inputs: int, keys: int, values: int, alike: bool = False) -> None:
        super().__init__()
        self.outputs = inputs + values
        self.query = nn.Linear(inputs, keys)
        self.keys = nn.Linear(inputs, keys)
        self.values = nn.Linear(inputs, values)
        self.attention = Attention(DotScore())
        if alike:
            nn.init.orthogonal_(self.query.weight, gain=keys**0.25)  # its square cancels 1/√K
            nn.init.zeros_(self.query.bias)
            self.keys.load_state_dict(self.query.state_dict())

    def forward(self, x: Tensor, ends: int = 1) -> Tensor:
        """(B, T, C) -> (B, T, C + V)."""
        check_shapes("AttentionBlock", ("x", x, "B T C"))
        mask = seen_with_ends(x.shape[1], ends, x.device)
        source = self.attention.prepare(self.keys(x), self.values(x), mask)
        return torch.cat([x, self.attention(self.query(x), source).context], -1)

    def start(self, B: int) -> Cache:
        """An empty cache."""
        nothing = self.query.weight.new_zeros(B, 0, self.query.in_features)
        return Cache.of(self._source(nothing), Mask(causal=True))

    def step(self, x: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """(B, C) -> (B, C + V), and the cache including this step."""
        cache = cache.append(self._source(x[:, None]))
        read = self.attention(self.query(x[:, None]), cache.source).context
        return torch.cat([x, read[:, 0]], -1), cache

    def _source(self, x: Tensor) -> Source:
        return self.attention.prepare(self.keys(x), self.values(x))
