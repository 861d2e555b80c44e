"""Pointer network: the attention weights over the input are the output.

    u^i_j = vᵀ tanh(W_1 e_j + W_2 d_i)                                 (equation 3)
    p(C_i | C_1 … C_{i-1}, P) = softmax_j(u^i)

    paper     here                 shape
    P         batch.source         (B, 1 + N, D) points; position 0 is the end symbol's place
    C         batch.target         (B, T) as numbers, see data/points.py
    e_j       states               (B, N, n) of the encoder
    ⇐         end                  (n,) a learnt e_0: pointing at it ends the output
    ⇒         go                   (D,) a learnt point: what the decoder reads first
    d_i       query                (B, T, n) of the decoder
    u         result.scores        (B, T, 1 + N)
    W_1 W_2 v attention.score.U .W .v

Nothing is blended: the decoder's next input is the point that was pointed at. So the dictionary is as
large as the input, whatever its size, and in training the decoder reads the whole target in one call.

Vinyals, Fortunato, Jaitly. Pointer networks. 2015.
https://arxiv.org/abs/1506.03134
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.config import AttentionConfig, attention_field
from regard.attention.mask import Mask
from regard.attention.source import Source
from regard.catalog import card
from regard.data.batches import PairBatch
from regard.data.points import SHIFT, positions
from regard.data.tokens import EOS
from regard.errors import check_setting, check_shapes
from regard.layers.lstm import LSTMEncoder, hold_on_padding
from regard.layers.recurrent import take
from regard.models.base import Settings, Size, Translating

Hidden = tuple[Tensor, Tensor]  # h, c, each (1, B, n)


@dataclass(frozen=True, kw_only=True)
class PointerConfig(Settings, key="pointer"):
    """Sizes; the paper's are hidden 256 or 512, and weights uniform in ±0.08."""

    dimension: int  # coordinates of a point
    hidden: Size = 256
    # its `hidden`: rows of W_1 and W_2
    attention: AttentionConfig = attention_field("additive", fixed=("score", "normalizer", "window", "heads"))
    bound: float | None = None  # weights start uniform in ±bound (paper: 0.08); None: scaled by fan-in


class PointerState(NamedTuple):
    """The decoder's state."""

    hidden: Hidden
    source: Source
    inputs: Tensor  # (B, 1 + N, D) the decoder's input after pointing at each position


@card(
    "model",
    "pointer",
    title="Pointer network",
    authors="Vinyals, Fortunato, Jaitly",
    year=2015,
    link="https://arxiv.org/abs/1506.03134",
    sentence="The attention weights over the input are the output: the dictionary is as large as the input.",
)
class PointerNetwork(Translating):
    """Encoder, decoder, pointer."""

    Config = PointerConfig
    reads = ("sets of points",)
    aligner = "attention"

    def __init__(self, config: PointerConfig) -> None:
        super().__init__(config)
        n, D = config.hidden, config.dimension
        self.encoder = LSTMEncoder(inputs=D, hidden=n, flags=1)
        self.decoder = nn.LSTM(D, n, batch_first=True)
        # the scores are the output
        self.attention = config.attention.build(query=n, keys=n, keep_weights=True)
        self.end = nn.Parameter(torch.empty(n))
        self.go = nn.Parameter(torch.empty(D))
        initialize(self, self.encoder, self.decoder, bound=config.bound)

    def forward(self, batch: PairBatch) -> Tensor:
        """Teacher forcing: (B, T, 1 + N) scores of the positions at each step, -inf beyond each set."""
        start = self.start(batch)
        query, _ = self.decoder(take(start.inputs, read_before(batch)), start.hidden)
        return self.attention(query, start.source).scores

    def start(self, batch: PairBatch) -> PointerState:
        states, hidden = read(self.encoder, batch)
        end = self.end.to(states.dtype).expand(batch.size, 1, -1)
        keys = torch.cat([end, states], 1)
        source = self.attention.prepare(keys, mask=Mask(lengths=batch.source_lengths))
        go = self.go.to(batch.source.dtype).expand(batch.size, 1, -1)
        return PointerState(hidden, source, torch.cat([go, batch.source[:, 1:]], 1))

    def step(self, tokens: Tensor, state: PointerState) -> tuple[Tensor, PointerState]:
        """(B,) last token ids -> (B, V) log-probabilities of the next, and the new state; V is 4 + N."""
        inputs = take(state.inputs, positions(tokens)[:, None])
        query, hidden = self.decoder(inputs, state.hidden)
        scores = self.attention(query, state.source).scores[:, 0]
        return numbered(scores.log_softmax(-1)), state._replace(hidden=hidden)

    def select(self, state: PointerState, rows: Tensor) -> PointerState:
        return PointerState(select_hidden(state.hidden, rows), state.source.select(rows), state.inputs[rows])


def read(encoder: LSTMEncoder, batch: PairBatch) -> tuple[Tensor, Hidden]:
    """(B, N, n) the states e_j of the points, and the state after each set's last point."""
    layer = encoder.layers[0]
    assert isinstance(layer, nn.LSTM)
    check_shapes("pointer", ("source", batch.source, "B S D"), D=layer.input_size - encoder.flags)
    states, [(h, c)] = encoder(batch.source[:, 1:], batch.source_lengths - 1)
    return states, (h[None], c[None])


def initialize(model: nn.Module, encoder: LSTMEncoder, decoder: nn.LSTM, *, bound: float | None) -> None:
    """Weights uniform in ±bound as in the paper; or scaled by fan-in, with open forget gates.

    Two coordinates under weights of 0.08 hardly move a state: a small network on five-point hulls was still
    on its first plateau after 1000 steps of Adam; with variance 1 / fan-in (LeCun et al. 1998) it took 200.
    """
    if bound is not None:
        check_setting("model.bound", bound)
    for parameter in model.parameters():
        if bound is not None:
            nn.init.uniform_(parameter, -bound, bound)
        elif parameter.ndim == 2:
            limit = (3 / parameter.shape[1]) ** 0.5
            nn.init.uniform_(parameter, -limit, limit)
        else:
            nn.init.zeros_(parameter)
    if bound is None:
        for lstm in (encoder.layers[0], decoder):
            bias = dict(lstm.named_parameters())["bias_ih_l0"]
            nn.init.ones_(bias.chunk(4)[1])  # the second of torch's four gates
    hold_on_padding(encoder)


def read_before(batch: PairBatch) -> Tensor:
    """(B, T) positions that the decoder reads in training: the target shifted right, after go."""
    return F.pad(positions(batch.target[:, :-1]), (1, 0))


def numbered(log_probabilities: Tensor) -> Tensor:
    """(B, 1 + N) over positions -> (B, 4 + N) over token ids; pad, bos and unk are impossible."""
    never = log_probabilities.new_full((), -torch.inf).expand(len(log_probabilities), 1)
    end, points = log_probabilities[:, :1], log_probabilities[:, 1:]
    before, between = never.expand(-1, EOS), never.expand(-1, SHIFT - EOS)
    return torch.cat([before, end, between, points], 1)


def select_hidden(hidden: Hidden, rows: Tensor) -> Hidden:
    """Select rows of an LSTM's state."""
    h, c = hidden
    return h[:, rows], c[:, rows]
