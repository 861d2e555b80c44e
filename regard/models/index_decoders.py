"""The baselines of pointer networks: decoders that write indices from a dictionary of fixed size.

    plain      p(C_i | …) = softmax(W d_i)                             section 2.1
    attention  a^i = softmax_j(vᵀ tanh(W_1 e_j + W_2 d_i)),  d'_i = Σ_j a^i_j e_j       (equation 2)
               p(C_i | …) = softmax(W [d_i; d'_i]),  and d'_i is an input of step i + 1

    paper     here                 shape
    P         batch.source         (B, 1 + N, D) points behind the end symbol's place
    C         batch.target         (B, T) as numbers, see data/points.py
    e_j d_i   states, query        (B, N, n), (B, T, n)
    d'_i      result.context       (B, 1, n)
    ⇒         row 0 of E           the first thing that the decoder reads

An index is a word here: the decoder reads its embedding and does not see the coordinates. A dictionary for n
points cannot express larger sets.

Vinyals, Fortunato, Jaitly. Pointer networks. 2015.
https://arxiv.org/abs/1506.03134
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.config import AttentionConfig, attention_field
from regard.attention.mask import Mask
from regard.attention.source import Source
from regard.catalog import card
from regard.data.batches import PairBatch
from regard.data.points import positions
from regard.errors import DataError
from regard.layers.lstm import LSTMEncoder
from regard.models.base import Settings, Size, Translating
from regard.models.pointer import Hidden, initialize, numbered, read, read_before, select_hidden


@dataclass(frozen=True, kw_only=True)
class PlainIndexConfig(Settings, key="point-seq2seq"):
    """Sizes; the paper's are hidden 256 or 512, and weights uniform in ±0.08."""

    dimension: int  # coordinates of a point
    places: int  # points in the dictionary: the largest set of the training data
    hidden: Size = 256
    bound: float | None = None  # weights start uniform in ±bound (paper: 0.08); None: scaled by fan-in


@dataclass(frozen=True, kw_only=True)
class AttentionIndexConfig(PlainIndexConfig, key="point-attention"):
    """The same, with attention."""

    # its `hidden`: rows of W_1 and W_2
    attention: AttentionConfig = attention_field("additive", fixed=("score", "normalizer", "window", "heads"))


class AttentionState(NamedTuple):
    """The state of the decoder with attention."""

    hidden: Hidden
    context: Tensor  # (B, 1, n) d' of the previous step
    source: Source


@card(
    "model",
    "point-attention",
    title="Content attention over points",
    authors="Vinyals, Fortunato, Jaitly",
    year=2015,
    link="https://arxiv.org/abs/1506.03134",
    sentence=(
        "Attention blends the encoder's states; the decoder writes an index: a baseline of pointer networks."
    ),
)
class AttentionIndex(Translating):
    """Attention blends the encoder's states, as an input of the prediction and of the next step."""

    Config = AttentionIndexConfig
    reads = ("sets of points",)
    aligner = "attention"

    def __init__(self, config: AttentionIndexConfig) -> None:
        super().__init__(config)
        n = config.hidden
        self.encoder = LSTMEncoder(inputs=config.dimension, hidden=n, flags=1)
        self.E = nn.Embedding(1 + config.places, n)
        self.decoder = nn.LSTM(2 * n, n, batch_first=True)
        self.attention = config.attention.build(query=n, keys=n)
        self.W = nn.Linear(2 * n, 1 + config.places)
        initialize(self, self.encoder, self.decoder, bound=config.bound)

    def forward(self, batch: PairBatch) -> Tensor:
        """Teacher forcing: (B, T, 1 + places) scores at each step; column 0 is the end."""
        state = self.start(batch)
        joined = []
        for word in self.E(read_before(batch)).split(1, dim=1):
            found, state = self._advance(word, state)
            joined.append(found)
        return self.W(torch.cat(joined, 1))

    def start(self, batch: PairBatch) -> AttentionState:
        check_places("point-attention", batch, self.config.places)
        states, hidden = read(self.encoder, batch)
        source = self.attention.prepare(states, mask=Mask(lengths=batch.source_lengths - 1))
        return AttentionState(hidden, torch.zeros_like(states[:, :1]), source)

    def step(self, tokens: Tensor, state: AttentionState) -> tuple[Tensor, AttentionState]:
        """(B,) last token ids -> (B, 4 + places) log-probabilities of the next, and the new state."""
        found, state = self._advance(self.E(positions(tokens))[:, None], state)
        return numbered(self.W(found[:, 0]).log_softmax(-1)), state

    def select(self, state: AttentionState, rows: Tensor) -> AttentionState:
        return AttentionState(
            select_hidden(state.hidden, rows), state.context[rows], state.source.select(rows)
        )

    def _advance(self, word: Tensor, state: AttentionState) -> tuple[Tensor, AttentionState]:
        """One step: (B, 1, n) -> [d_i; d'_i] (B, 1, 2 n), and the new state."""
        query, hidden = self.decoder(torch.cat([word, state.context], -1), state.hidden)
        result = self.attention(query, state.source)
        return torch.cat([query, result.context], -1), AttentionState(hidden, result.context, state.source)


@card(
    "model",
    "point-seq2seq",
    title="Sequence to sequence over points",
    authors="Vinyals, Fortunato, Jaitly",
    year=2015,
    link="https://arxiv.org/abs/1506.03134",
    sentence="An LSTM reads the points and another writes indices from a dictionary of fixed size.",
)
class PlainIndex(Translating):
    """Sequence to sequence: the decoder knows the points only through the encoder's last state."""

    Config = PlainIndexConfig
    reads = ("sets of points",)

    def __init__(self, config: PlainIndexConfig) -> None:
        super().__init__(config)
        n = config.hidden
        self.encoder = LSTMEncoder(inputs=config.dimension, hidden=n, flags=1)
        self.E = nn.Embedding(1 + config.places, n)
        self.decoder = nn.LSTM(n, n, batch_first=True)
        self.W = nn.Linear(n, 1 + config.places)
        initialize(self, self.encoder, self.decoder, bound=config.bound)

    def forward(self, batch: PairBatch) -> Tensor:
        """Teacher forcing: (B, T, 1 + places) scores at each step; column 0 is the end."""
        hidden = self.start(batch)
        query, _ = self.decoder(self.E(read_before(batch)), hidden)
        return self.W(query)

    def start(self, batch: PairBatch) -> Hidden:
        check_places("point-seq2seq", batch, self.config.places)
        return read(self.encoder, batch)[1]

    def step(self, tokens: Tensor, state: Hidden) -> tuple[Tensor, Hidden]:
        """(B,) last token ids -> (B, 4 + places) log-probabilities of the next, and the new state."""
        query, hidden = self.decoder(self.E(positions(tokens))[:, None], state)
        return numbered(self.W(query[:, 0]).log_softmax(-1)), hidden

    def select(self, state: Hidden, rows: Tensor) -> Hidden:
        return select_hidden(state, rows)


def check_places(owner: str, batch: PairBatch, places: int) -> None:
    """Raise DataError for sets larger than the dictionary; the batch's width tells without a device sync."""
    width = batch.source.shape[1] - 1
    if width > places:
        raise DataError(
            f"{owner}: `source` has sets of {width} points; expected at most {places}, the size of the "
            "dictionary. A pointer network has no such limit."
        )
