"""Long short-term memory-network: an LSTM whose cell is replaced by two tapes, read by attention.

    a_i^t = vᵀ tanh(W_h h_i + W_x x_t + W_h̃ h̃_{t-1}),  s^t = softmax(a^t)      (equations 4 and 5)
    [h̃_t; c̃_t] = Σ_i s_i^t [h_i; c_i]                    i < t                (equation 6)
    [i f o ĉ] = [σ σ σ tanh] W [h̃_t; x_t]                                     (equation 7)
    c_t = f ∘ c̃_t + i ∘ ĉ,  h_t = o ∘ tanh(c_t)                              (equations 8 and 9)

    paper        here                 shape
    x_t          inputs               (B, T, m)
    H C          tape.values          (B, S, 2 n)   hidden and memory tape side by side: one reading for both
    W_h H        tape.keys            (B, S, n)     each slot is projected once, when it is written
    h̃_t c̃_t      summary, memory      (B, 1, n)
    W_h̃ h̃_{t-1}  asked                (B, 1, n)
    s^t          the weights of `attention`
    W_h v        attention.score.U, .v
    W (x), W_x   W                    the five side by side; they do not depend on the past
    W (h̃), W_h̃   U                    likewise: one product gives this step's gates and the next step's query

Slot 0 of both tapes is zero, so that the first word has something to read. With all the weight on the last
slot this is an LSTM. With `span` only the last `span` slots are kept. Without `summary` the score does not
see h̃_{t-1}, as in the authors' program. `recency` is added to the score of the slot written last, and then
learnt: the network starts near the LSTM that it contains.

A whole sequence runs as one operation (`regard.kernels.lstmn.lstmn_tape`) unless its attention is recorded.

Above the first layer a cell reads the word next to the layer below, [h_t^{k-1}; x_t]: a skip connection.

Cheng, Dong, Lapata. Long short-term memory-networks for machine reading. 2016.
https://arxiv.org/abs/1601.06733
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention import paths
from regard.attention.compose import Attention
from regard.attention.mask import Mask
from regard.attention.scores.additive import AdditiveScore, NewestScore
from regard.attention.source import Source
from regard.errors import ConfigError, ShapeError, check_shapes, check_whole
from regard.kernels.lstmn.lstmn_tape import Recurrence

KERNELS = ("auto", "reference", "lstmn")


class Tape(NamedTuple):
    """What a cell has written, and the last summary's part of the next query."""

    source: Source  # keys W_h h_i, values [h_i; c_i]
    asked: Tensor  # (B, 1, n) W_h̃ h̃_{t-1}

    def select(self, rows: Tensor) -> "Tape":
        """Keep these rows of the batch, in this order."""
        return Tape(self.source.select(rows), self.asked[rows])


class LSTMNCell(nn.Module):
    """One layer, which at each step reads its tapes and writes one more slot."""

    def __init__(
        self,
        *,
        inputs: int,
        hidden: int,
        span: int | None = None,
        summary: bool = True,
        recency: float | None = None,
        kernel: str = "auto",
    ) -> None:
        super().__init__()
        if span is not None and span < 1:
            raise ConfigError(f"LSTMN: `span` has {span}; expected 1 or more slots, or None for all.")
        if kernel not in KERNELS:
            raise ConfigError(f"LSTMN: `kernel` has {kernel!r}; expected one of {', '.join(KERNELS)}.")
        self.inputs, self.hidden, self.span, self.summary, self.kernel = inputs, hidden, span, summary, kernel
        score = (
            AdditiveScore(query=None, keys=hidden, hidden=hidden)
            if recency is None
            else NewestScore(query=None, keys=hidden, hidden=hidden, ahead=recency)
        )
        self.attention = Attention(score)
        self.W = nn.Linear(inputs, 5 * hidden)
        self.U = nn.Linear(hidden, (5 if summary else 4) * hidden, bias=False)
        with torch.no_grad():
            self.W.bias[hidden : 2 * hidden] = 1.0  # the forget gate starts open, which keeps what was read

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, T, m) -> (B, T, 2 n): both tapes [h_t; c_t] of a whole sequence, without slot 0."""
        projected = self.project(inputs)
        if inputs.shape[1] == 0:
            raise ShapeError(f"LSTMN: `inputs` has shape {tuple(inputs.shape)}; expected one step or more.")
        call = self._recurrence(projected)
        path = paths.choose("lstmn", call, self.kernel)
        if path is not None:
            tapes: Tensor = path.run(call)
            return tapes
        tape = self.start(inputs.shape[0])
        slots = []
        for t in range(inputs.shape[1]):
            h, c, tape = self.step(projected[:, t : t + 1], tape)
            slots.append(torch.cat([h, c], -1))
        return torch.cat(slots, 1)

    def _recurrence(self, projected: Tensor) -> Recurrence:
        own = f"{type(self).__name__} has a step of its own, this kernel computes LSTMNCell's"
        foreign = own if type(self).step is not LSTMNCell.step else None
        return Recurrence(self.attention, projected, self.U, self.span, foreign)

    def start(self, rows: int) -> Tape:
        """The tapes before the first word: one slot of zeros."""
        zero = self.U.weight.new_zeros(rows, 1, self.hidden)
        return Tape(self.attention.prepare(zero, torch.cat([zero, zero], -1)), zero)

    def project(self, inputs: Tensor) -> Tensor:
        """(B, T, m) -> (B, T, 5 n): the inputs' part of the four gates and of the query."""
        check_shapes("LSTMN", ("inputs", inputs, "B T m"), m=self.inputs)
        return self.W(inputs)

    def step(self, projected: Tensor, tape: Tape, added: Tensor | None = None) -> tuple[Tensor, Tensor, Tape]:
        """(B, 1, 5 n), the tapes up to t - 1 -> h_t and c_t (B, 1, n), the tapes up to t.

        `added` (B, 1, n) is another memory's contribution to c_t: deep attention fusion.
        """
        n = self.hidden
        gates, query = projected[..., : 4 * n], projected[..., 4 * n :]
        summary, memory = self.attention(query + tape.asked, tape.source).context.chunk(2, -1)
        found = self.U(summary)  # (B, 1, 5 n)
        gates = gates + found[..., : 4 * n]
        i, f, o = gates[..., : 3 * n].sigmoid().chunk(3, -1)
        c = torch.addcmul(f * memory, i, gates[..., 3 * n :].tanh())
        c = c if added is None else c + added
        h = o * c.tanh()
        return h, c, self._write(h, c, tape, found[..., 4 * n :] if self.summary else tape.asked)

    def _write(self, h: Tensor, c: Tensor, tape: Tape, asked: Tensor) -> Tape:
        """Write one more slot; drop the oldest if the span is full."""
        source = tape.source.append(self.attention.prepare(h, torch.cat([h, c], -1)))
        if self.span is not None:
            source = Source(source.keys[:, -self.span :], source.values[:, -self.span :], Mask())
        return Tape(source, asked)


class LSTMN(nn.Module):
    """Layers of cells, each reading the word and the output of the layer below."""

    def __init__(
        self,
        *,
        inputs: int,
        hidden: int,
        layers: int = 1,
        span: int | None = None,
        summary: bool = True,
        recency: float | None = None,
        dropout: float = 0.0,
        kernel: str = "auto",
    ) -> None:
        super().__init__()
        check_whole("LSTMN", layers=layers)
        self.hidden = hidden
        self.dropout = nn.Dropout(dropout)  # between layers
        self.cells = nn.ModuleList(
            LSTMNCell(
                inputs=inputs + (hidden if k else 0),
                hidden=hidden,
                span=span,
                summary=summary,
                recency=recency,
                kernel=kernel,
            )
            for k in range(layers)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, T, m) -> (B, T, 2 n): both tapes of the last layer."""
        below: Tensor | None = None
        for cell in self.cells:
            below = cell(self._reads(inputs, below))
        assert below is not None
        return below

    def start(self, rows: int) -> tuple[Tape, ...]:
        """The tapes of all layers before the first word."""
        return tuple(cell.start(rows) for cell in self._all())

    def step(self, word: Tensor, state: tuple[Tape, ...]) -> tuple[Tensor, tuple[Tape, ...]]:
        """(B, 1, m), tapes -> [h_t; c_t] of the last layer (B, 1, 2 n), tapes."""
        below: Tensor | None = None
        after = []
        for cell, tape in zip(self._all(), state, strict=True):
            h, c, tape = cell.step(cell.project(self._reads(word, below)), tape)
            below = torch.cat([h, c], -1)
            after.append(tape)
        assert below is not None
        return below, tuple(after)

    def _all(self) -> list[LSTMNCell]:
        return [cell for cell in self.cells if isinstance(cell, LSTMNCell)]

    def _reads(self, inputs: Tensor, below: Tensor | None) -> Tensor:
        """x_t for the first layer, [h_t; x_t] above it."""
        return inputs if below is None else torch.cat([self.dropout(below[..., : self.hidden]), inputs], -1)
