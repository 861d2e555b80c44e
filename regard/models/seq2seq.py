"""Sequence to sequence: the sentence is squeezed into one vector of fixed size and decoded from it.

    p(y_1 … y_T' | x_1 … x_T) = Π_t p(y_t | v, y_1 … y_{t-1})           (equation 1)

    paper    here         shape
    x y      batch.source/.target, (B, S), (B, T)
    v        the encoder's last state, which the decoder starts from
             context      (B, n) the last state, or the mean or sum of all; an input of every step with `feed`

The source can be read in reverse, which brings its first words close to the first words of the target. There
is no attention: this is the bottleneck that attention was invented to remove.

The paper draws all parameters uniformly from [-0.08, 0.08], for 1000 cells and SGD. Here they have PyTorch's
initialization (±1/√n; embeddings normal), since the recipes train smaller networks with Adam.

Sutskever, Vinyals, Le. Sequence to sequence learning with neural networks. 2014.
https://arxiv.org/abs/1409.3215
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.catalog import card
from regard.data.batches import PairBatch
from regard.layers.recurrent import reversal
from regard.models.base import Settings, Share, Size, Translating, teacher_inputs

Hidden = tuple[Tensor, ...]  # (h,) for GRU, (h, c) for LSTM, each (layers, B, n)


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(Settings, key="seq2seq"):
    """Sizes and choices; the paper's are embedding 1000, hidden 1000, 4 layers, reversed source."""

    source_vocab: int
    target_vocab: int
    embedding: Size = 1000
    hidden: Size = 1000
    layers: Size = 4
    cell: Literal["lstm", "gru"] = "lstm"
    reverse: bool = True
    context: Literal["last", "mean", "sum"] = "last"
    feed: bool = False  # the context is an input of every decoder step (Cho et al. 2014)
    dropout: Share = 0.0


class Seq2SeqState(NamedTuple):
    """The decoder's state."""

    hidden: Hidden
    context: Tensor  # (B, n)


@card(
    "model",
    "seq2seq",
    title="Sequence to sequence",
    authors="Sutskever, Vinyals, Le",
    year=2014,
    link="https://arxiv.org/abs/1409.3215",
    sentence=(
        "An encoder squeezes the sentence into one fixed vector; a decoder writes the translation from it."
    ),
)
class Seq2Seq(Translating):
    """Encoder, one vector, decoder."""

    Config = Seq2SeqConfig
    capturable = False  # packed sequences need their lengths on the host
    reads = ("sentence pairs",)
    uses_all_parameters = True

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__(config)
        n, m = config.hidden, config.embedding
        recurrent = nn.LSTM if config.cell == "lstm" else nn.GRU
        between = config.dropout if config.layers > 1 else 0.0
        self.E_source = nn.Embedding(config.source_vocab, m)
        self.E = nn.Embedding(config.target_vocab, m)
        self.encoder = recurrent(m, n, config.layers, batch_first=True, dropout=between)
        inputs = m + n if config.feed else m
        self.decoder = recurrent(inputs, n, config.layers, batch_first=True, dropout=between)
        self.W_s = nn.Linear(n, config.layers * n) if config.context != "last" else None
        self.W = nn.Linear(n, config.target_vocab)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, batch: PairBatch) -> Tensor:
        """Teacher forcing: (B, T, V) scores of each target word given those before it."""
        start = self.start(batch)
        outputs, _ = self._decode(teacher_inputs(batch), start)
        return self.W(self.dropout(outputs))

    def start(self, batch: PairBatch) -> Seq2SeqState:
        source, lengths = batch.source, batch.source_lengths
        if self.config.reverse:
            source = source.gather(1, reversal(lengths, source.shape[1]))
        words = self.dropout(self.E_source(source))
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, hidden = self.encoder(packed)
        hidden = hidden if isinstance(hidden, tuple) else (hidden,)
        if self.W_s is None:
            return Seq2SeqState(hidden, hidden[0][-1])
        annotations, _ = pad_packed_sequence(states, batch_first=True)
        return self._from_all(annotations, lengths, self.W_s)

    def step(self, tokens: Tensor, state: Seq2SeqState) -> tuple[Tensor, Seq2SeqState]:
        outputs, hidden = self._decode(tokens[:, None], state)
        return self.W(self.dropout(outputs))[:, 0].log_softmax(-1), Seq2SeqState(hidden, state.context)

    def select(self, state: Seq2SeqState, rows: Tensor) -> Seq2SeqState:
        return Seq2SeqState(tuple(h[:, rows] for h in state.hidden), state.context[rows])

    def _decode(self, tokens: Tensor, state: Seq2SeqState) -> tuple[Tensor, Hidden]:
        inputs = self.dropout(self.E(tokens))
        if self.config.feed:
            context = state.context[:, None].expand(-1, tokens.shape[1], -1)
            inputs = torch.cat([inputs, context], -1)
        hidden = state.hidden if len(state.hidden) > 1 else state.hidden[0]
        outputs, hidden = self.decoder(inputs, hidden)
        return outputs, hidden if isinstance(hidden, tuple) else (hidden,)

    def _from_all(self, annotations: Tensor, lengths: Tensor, W_s: nn.Linear) -> Seq2SeqState:
        """The state from the mean or sum of all annotations; the encoder leaves padding zero."""
        context = annotations.sum(1)
        if self.config.context == "mean":
            context = context / lengths[:, None]
        first = torch.unflatten(torch.tanh(W_s(context)), -1, (self.config.layers, -1))
        first = first.transpose(0, 1).contiguous()  # (layers, B, n)
        cells = (torch.zeros_like(first),) if self.config.cell == "lstm" else ()
        return Seq2SeqState((first, *cells), context)
