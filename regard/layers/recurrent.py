"""The gated recurrent unit as Bahdanau writes it, and the bidirectional encoder made of it.

    h_i = (1 - z_i) ∘ h_{i-1} + z_i ∘ h̃_i                  (appendix A.2.1)
    h̃_i = tanh(W x_i + U [r_i ∘ h_{i-1}])
    z_i = σ(W_z x_i + U_z h_{i-1}),  r_i = σ(W_r x_i + U_r h_{i-1})

    paper        here
    W W_z W_r    W, the three side by side; they do not depend on the past and are applied to a whole sequence
    U            U
    U_z U_r      U_gates, the two side by side

Here z weighs the NEW candidate and r acts BEFORE the matrix; PyTorch's GRU does both the other way round.

Bahdanau, Cho, Bengio. Neural machine translation by jointly learning to align and translate. 2014.
https://arxiv.org/abs/1409.0473
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.kernels.decoder.few_rows import product, reads_panels

WIDE = 256  # states: with fewer, two more calls at each position cost more than they save


class GatedCell(nn.Module):
    """One step of the gated recurrence, on inputs projected beforehand."""

    def __init__(self, *, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.W = nn.Linear(inputs, 3 * hidden)
        self.U = nn.Linear(hidden, hidden, bias=False)
        self.U_gates = nn.Linear(hidden, 2 * hidden, bias=False)

    def project(self, inputs: Tensor) -> Tensor:
        """(..., D) -> (..., 3 n): the inputs' part of candidate, update and reset."""
        return product(self.W, inputs)

    def forward(self, projected: Tensor, h: Tensor) -> Tensor:
        """(..., 3 n), (..., n) -> (..., n)."""
        candidate, gates = torch.split(projected, [self.hidden, 2 * self.hidden], -1)
        z, r = torch.sigmoid(gates + product(self.U_gates, h)).chunk(2, -1)
        return torch.lerp(h, torch.tanh(candidate + product(self.U, r * h)), z)


class BidirectionalEncoder(nn.Module):
    """Annotations h_j = [→h_j; ←h_j]: each word with its context on both sides."""

    def __init__(self, *, inputs: int, hidden: int) -> None:
        super().__init__()
        self.rightward = GatedCell(inputs=inputs, hidden=hidden)
        self.leftward = GatedCell(inputs=inputs, hidden=hidden)

    def forward(self, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, S, D), (B,) -> annotations (B, S, 2 n); ←h_1 (B, n), the leftward state at the first word."""
        back = reversal(lengths, inputs.shape[1])
        projected = torch.stack(  # both directions run as one batch; padding comes last in both
            [self.rightward.project(inputs), take(self.leftward.project(inputs), back)]
        )
        states = self._run(projected)  # (2, B, S, n)
        leftward = take(states[1], back)
        return torch.cat([states[0], leftward], -1), leftward[:, 0]

    def _run(self, projected: Tensor) -> Tensor:
        """(2, B, S, 3 n) -> (2, B, S, n)."""
        n = self.rightward.hidden
        panels = n >= WIDE and reads_panels(projected[0, :, 0])
        U = _summed(self.rightward.U, self.leftward.U, panels)
        U_gates = _summed(self.rightward.U_gates, self.leftward.U_gates, panels)
        candidates, gates = torch.split(projected, [n, 2 * n], -1)
        h = projected.new_zeros(*projected.shape[:2], n)
        states = []
        for candidate, gate in zip(candidates.unbind(2), gates.unbind(2), strict=True):
            z, r = torch.sigmoid(U_gates(gate, h)).chunk(2, -1)
            h = torch.lerp(h, torch.tanh(U(candidate, r * h)), z)
            states.append(h)
        return torch.stack(states, 2)


def _summed(rightward: nn.Linear, leftward: nn.Linear, panels: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """(2, B, m), (2, B, n) -> (2, B, m): the first and what each direction's matrix makes of the second."""
    if panels:
        return lambda sums, h: sums + torch.stack([product(rightward, h[0]), product(leftward, h[1])])
    both = torch.stack([rightward.weight, leftward.weight]).mT
    return lambda sums, h: torch.baddbmm(sums, h, both)


def reversal(lengths: Tensor, S: int) -> Tensor:
    """(B,) -> (B, S) positions that reverse the words of each row and leave its padding at the end."""
    s = torch.arange(S, device=lengths.device)
    last = lengths[:, None] - 1
    return torch.where(s <= last, last - s, s)


def take(x: Tensor, positions: Tensor) -> Tensor:
    """(B, S, D), (B, T) -> (B, T, D): the vectors of each row at these positions."""
    return x.gather(1, positions[..., None].expand(-1, -1, x.shape[-1]))
