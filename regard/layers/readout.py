"""Deep output with maxout: from decoder state, previous word and context to the next word.

    t̃_i = U_o s + V_o E y_{i-1} + C_o c_i,  t_i[j] = max(t̃_i[2j-1], t̃_i[2j])      (appendix A.2.2)
    p(y_i) ∝ exp(y_iᵀ W_o t_i)

    paper            here
    U_o V_o C_o W_o  U, V, C, W
    l                hidden   maxout units

Goodfellow, Warde-Farley, Mirza, Courville, Bengio. Maxout networks. 2013. https://arxiv.org/abs/1302.4389
"""

import torch
from torch import Tensor, nn

from regard.kernels.decoder.few_rows import product


class MaxoutReadout(nn.Module):
    """Scores of the next word, for all positions of a sentence at once."""

    def __init__(self, *, state: int, word: int, context: int, hidden: int, vocab: int) -> None:
        super().__init__()
        self.U = nn.Linear(state, 2 * hidden)
        self.V = nn.Linear(word, 2 * hidden, bias=False)
        self.C = nn.Linear(context, 2 * hidden, bias=False)
        self.W = nn.Linear(hidden, vocab)

    def forward(self, state: Tensor, word: Tensor, context: Tensor) -> Tensor:
        """(..., n), (..., m), (..., Dv) -> (..., V)."""
        sums = product(self.U, state) + product(self.V, word) + product(self.C, context)
        return product(self.W, torch.unflatten(sums, -1, (-1, 2)).amax(-1))
