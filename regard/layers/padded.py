"""An LSTM over sequences of different lengths, in one call and without asking how long they are.

    i = σ(W_i x + U_i h + b_i),  f = σ(W_f x + U_f h + b_f),  o = σ(W_o x + U_o h + b_o)
    c' = f ∘ c + i ∘ tanh(W_c x + U_c h + b_c),  h' = o ∘ tanh(c')

The cell has one more input, which is 1 on padding and 0 elsewhere. Its column of W closes the input gate and
opens the forget gate, i = 0 and f = 1 exactly, so that padding leaves the cell as it was. The gradient of the
column is zero by itself: nothing needs to hold it fixed. Packed sequences would do the same, but their
lengths must be known on the host, which a recorded training step cannot ask for.

Hochreiter, Schmidhuber. Long short-term memory. 1997. Forget gates: Gers, Schmidhuber, Cummins 2000.
https://doi.org/10.1162/neco.1997.9.8.1735
"""

import torch
from torch import Tensor, nn

SHUT = 1e4  # σ(±SHUT) is 0 and 1 exactly


class PaddedLSTM(nn.Module):
    """States of every position, and the state behind each sequence's own last position."""

    def __init__(self, *, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.lstm = nn.LSTM(inputs + 1, hidden, batch_first=True)
        self.shut_on_padding()

    def shut_on_padding(self) -> None:
        """Set the fixed column; call again after another initialization."""
        n, weight = self.hidden, dict(self.lstm.named_parameters())["weight_ih_l0"]
        with torch.no_grad():
            column = weight[:, -1]
            column.zero_()
            column[:n] = -SHUT  # torch's order of the gates: i f c o
            column[n : 2 * n] = SHUT

    def forward(self, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """(B, S, D), (B,) of 1 or more -> (B, S, n), (h, c) each (1, B, n)."""
        s = torch.arange(inputs.shape[1], device=inputs.device)
        padding = (s >= lengths[:, None]).to(inputs.dtype)[..., None]
        states, (_, c) = self.lstm(torch.cat([inputs, padding], -1))
        last = (lengths - 1)[:, None, None].expand(-1, 1, self.hidden)
        return states, (states.gather(1, last).transpose(0, 1), c)
