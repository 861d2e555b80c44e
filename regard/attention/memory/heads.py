"""The heads of a Neural Turing Machine: the controller's output decides where to look and what to change.

    k = tanh(k̂)   β = softplus(β̂)   g = σ(ĝ)   s = softmax(ŝ)   γ = 1 + softplus(γ̂)     (section 3.3)
    e = σ(ê)      a = tanh(â)                                                        (section 3.2)
    w_t = address(M_{t-1}, w_{t-1}; k, β, g, s, γ)                                   (equations 5 to 9)
    M_t = write(M_{t-1}, w_t, e, a)   r_t = read(M_t, w_t)                           (equations 2 to 4)

    paper          here               shape
    R, W, H        reads, writes      numbers of heads, H = R + W; the read heads come first
    N, M           cells              (B, N, M)
    k̂ β̂ … â        spoken             (B, H (M + 2r + 4) + 2 W M), all numbers of all heads side by side
    k β g s γ      controls.key …     (B, H, M), (B, H, 1), (B, H, 1), (B, H, 2r + 1), (B, H, 1)
    e a            controls.erase …   (B, W, M)
    w_t            state.read/.write  (B, R, N), (B, W, N)
    r_t                               (B, R, M)

The paper leaves the squashing of k, β, γ and a open; these are the usual choices. All heads address M_{t-1};
then the write heads change it and the read heads read M_t, as in equation 2.

Graves, Wayne, Danihelka. Neural Turing machines. 2014. https://arxiv.org/abs/1410.5401
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.memory.addressing import content_weights, interpolate, sharpen, shift
from regard.attention.memory.cells import MemoryState, read, write
from regard.catalog import card
from regard.errors import check_whole


class Controls(NamedTuple):
    """What every head does at one step."""

    key: Tensor  # (B, H, M)
    strength: Tensor  # (B, H, 1) > 0
    gate: Tensor  # (B, H, 1) in (0, 1)
    shifts: Tensor  # (B, H, 2r + 1) a distribution over -r … r
    gamma: Tensor  # (B, H, 1) ≥ 1
    erase: Tensor  # (B, W, M) in (0, 1)
    add: Tensor  # (B, W, M)


@card(
    "memory",
    "ntm-heads",
    title="Neural Turing Machine heads",
    authors="Graves, Wayne, Danihelka",
    year=2014,
    link="https://arxiv.org/abs/1410.5401",
    sentence="A controller's output becomes where its heads look and what they change, all heads at once.",
)
class Heads(nn.Module):
    """R read heads and W write heads on rows of `width` numbers; a head shifts by at most `reach` rows."""

    def __init__(
        self,
        *,
        inputs: int,
        width: int,
        reads: int = 1,
        writes: int = 1,
        reach: int = 1,
        gate_bias: float = 0.0,
    ) -> None:
        super().__init__()
        check_whole("Heads", width=width, reads=reads, writes=writes)
        check_whole("Heads", least=0, reach=reach)
        self.width, self.reads, self.writes, self.reach = width, reads, writes, reach
        H = reads + writes
        self.speak = nn.Linear(inputs, H * (width + 2 * reach + 4) + 2 * writes * width)
        with torch.no_grad():  # a gate bias below 0 makes heads start from their last place
            self.speak.bias[(H + writes) * width :][:H] += gate_bias

    def forward(self, h: Tensor) -> Controls:
        """(B, n) the controller's output -> the controls of all heads."""
        return squash(self.speak(h), width=self.width, reads=self.reads, writes=self.writes, reach=self.reach)

    def extra_repr(self) -> str:
        return f"reads={self.reads}, writes={self.writes}, reach={self.reach}"


def squash(spoken: Tensor, *, width: int, reads: int, writes: int, reach: int) -> Controls:
    """(B, H (M + 2r + 4) + 2 W M) -> controls; numbers of one range are adjacent and squashed together."""
    M, W, H, shifts = width, writes, reads + writes, 2 * reach + 1
    signed, unit, positive, moves = torch.split(spoken, [(H + W) * M, H + W * M, 2 * H, H * shifts], -1)
    key, add = torch.split(torch.unflatten(torch.tanh(signed), -1, (H + W, M)), [H, W], 1)
    gate, erase = torch.split(torch.sigmoid(unit), [H, W * M], -1)
    strength, beyond_one = F.softplus(positive).chunk(2, -1)
    return Controls(
        key=key,
        strength=strength[..., None],
        gate=gate[..., None],
        shifts=torch.unflatten(moves, -1, (H, shifts)).softmax(-1),
        gamma=1 + beyond_one[..., None],
        erase=torch.unflatten(erase, -1, (W, M)),
        add=add,
    )


def address(cells: Tensor, previous: Tensor, controls: Controls) -> Tensor:
    """(B, N, M), (B, H, N), controls -> (B, H, N): where every head stands next."""
    content = content_weights(cells[:, None], controls.key, controls.strength)
    gated = interpolate(content, previous, controls.gate)
    return sharpen(shift(gated, controls.shifts), controls.gamma)


def advance(state: MemoryState, controls: Controls) -> tuple[Tensor, MemoryState]:
    """One step of the memory -> what was read (B, R, M), and the new state."""
    R, W = state.read.shape[1], state.write.shape[1]
    weights = address(state.cells, torch.cat([state.read, state.write], 1), controls)
    at_read, at_write = torch.split(weights, [R, W], 1)
    cells = write(state.cells, at_write, controls.erase, controls.add)
    return read(cells, at_read), MemoryState(cells, at_read, at_write)
