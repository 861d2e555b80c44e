"""Luong's translators: a stacked LSTM attends with its new state, everywhere or in a window.

    h_t = LSTM(y_{t-1}, h̃_{t-1}, h_{t-1})                              (section 3.3, input feeding)
    a_t(s) = align(h_t, h̄_s),  c_t = Σ_s a_t(s) h̄_s                     (equations 7 to 10)
    h̃_t = tanh(W_c [c_t; h_t])                                         (equation 5)
    p(y_t | y_<t, x) = softmax(W_s h̃_t)                                (equation 6)

    paper    here                 shape
    x y      batch.source/.target (B, S), (B, T)
    h̄_s      annotations          (B, S, n), top layer only
    h_t      top                  (B, n), top layer only
    h̃_t      attentional          (B, n)
    align    attention            any score, normalizer and window

A source that is read in reverse gives annotations in its own order all the same: windows and alignments count
source positions as they are written. Without input feeding all of h_1 … h_T come from one call, and so does
the attention.

The paper does not say where its dropout stands beside input feeding. Here h̃_{t-1} is fed as W_s reads it,
after dropout: it is an input of the first layer, like the word beside it.

Whose is the alignment a_t? h_t has read y_{t-1} and is asked for y_t. Here a_t belongs to y_t, the word whose
prediction it serves; the paper credits content-based scores to y_{t-1} and location-based ones to y_t
(section 5.4). `regard.evaluate.translation.measure_alignment` counts either way.

Luong, Pham, Manning. Effective approaches to attention-based neural machine translation. 2015.
https://arxiv.org/abs/1508.04025
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.config import AttentionConfig, attention_field
from regard.attention.history import History
from regard.attention.mask import Mask
from regard.attention.scores.base import HistoryScore
from regard.attention.source import Source
from regard.catalog import card
from regard.data.batches import PairBatch
from regard.errors import ConfigError
from regard.kernels.decoder.few_rows import product
from regard.layers.lstm import Direction, Hidden, LSTMDecoder, LSTMEncoder, Matrices, hold_on_padding
from regard.models.base import Settings, Share, Size, Translating, continued, teacher_inputs


@dataclass(frozen=True, kw_only=True)
class LuongConfig(Settings, key="luong"):
    """Sizes and choices; the defaults are the paper's."""

    source_vocab: int
    target_vocab: int
    embedding: Size = 1000
    hidden: Size = 1000
    layers: Size = 4
    encoder: Direction = "reversed"  # the paper's; "bidirectional" has half of the cells in each direction
    feed: bool = True  # h̃_{t-1} is read with the word y_{t-1}
    attends: bool = True  # false: the stacked LSTM alone, the first rows of table 1
    attention: AttentionConfig = attention_field("general", hidden=1000, positions=128, fixed=("heads",))
    tied: Literal["all", "target", "none"] = "none"  # W_s is the target's embedding, or that of both sides
    dropout: Share = 0.2  # of every connection that goes up: words, between layers, annotations, h̃
    initialization: Literal["uniform", "standard"] = "uniform"  # in [-0.1, 0.1] as in the paper, or PyTorch's


class LuongState(NamedTuple):
    """Where the decoder stands."""

    hidden: Hidden
    fed: Tensor | None  # (B, n) h̃_{t-1}; None without input feeding
    source: Source | None  # None without attention
    history: History | None  # only for scores that look back
    matrices: Matrices  # of the decoder
    step: int


@card(
    "model",
    "luong",
    title="Global and local attention",
    authors="Luong, Pham, Manning",
    year=2015,
    link="https://arxiv.org/abs/1508.04025",
    sentence="Stacked LSTMs; attention with the new state, everywhere or in a window, fed to the next step.",
)
class Luong(Translating):
    """Encoder, decoder, attention with the new state, the attentional vector and its softmax."""

    Config = LuongConfig
    reads = ("sentence pairs",)
    uses_all_parameters = True

    def __init__(self, config: LuongConfig) -> None:
        super().__init__(config)
        _check(config)
        n, m = config.hidden, config.embedding
        self.E_source = nn.Embedding(config.source_vocab, m)
        self.E = self.E_source if config.tied == "all" else nn.Embedding(config.target_vocab, m)
        self.encoder = LSTMEncoder(
            inputs=m, hidden=n, layers=config.layers, direction=config.encoder, dropout=config.dropout
        )
        self.decoder = LSTMDecoder(
            inputs=m, hidden=n, layers=config.layers, fed=n if config.feed else 0, dropout=config.dropout
        )
        self.attention = config.attention.build(query=n, keys=n) if config.attends else None
        self.W_c = nn.Linear(2 * n, n, bias=False) if config.attends else None
        self.W_s = nn.Linear(n, config.target_vocab, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.aligner = "attention" if config.attends else None
        initialize(self)
        if config.tied != "none":
            self.W_s.weight = self.E.weight

    def forward(self, batch: PairBatch) -> Tensor:
        """Teacher forcing: (B, T, V) scores of each target word given those before it."""
        state = self.start(batch)
        words = self.dropout(self.E(teacher_inputs(batch)))
        attentional = self._fed(words, state) if self.config.feed else self._at_once(words, state)
        return self.W_s(attentional)

    def start(self, batch: PairBatch) -> LuongState:
        words = self.E_source(batch.source)
        annotations, hidden = self.encoder(words, batch.source_lengths)
        source = history = None
        if self.attention is not None:
            source = self.attention.prepare(
                self.dropout(annotations), mask=Mask(lengths=batch.source_lengths)
            )
            history = History.start(source) if isinstance(self.attention.score, HistoryScore) else None
        fed = torch.zeros_like(hidden[0][0]) if self.config.feed else None
        return LuongState(hidden, fed, source, history, self.decoder.matrices(), 0)

    def step(self, tokens: Tensor, state: LuongState) -> tuple[Tensor, LuongState]:
        words = self.dropout(self.E(tokens))
        attentional, state = self._advance(state.matrices[0](words), state)
        return product(self.W_s, attentional).log_softmax(-1), state

    def select(self, state: LuongState, rows: Tensor) -> LuongState:
        attention, source = self.attention, state.source
        if attention is not None and source is not None:
            source = continued(attention, source, state.history, rows)
        return state._replace(
            hidden=tuple((h[rows], c[rows]) for h, c in state.hidden),
            fed=None if state.fed is None else state.fed[rows],
            source=source,
            history=None if state.history is None else state.history.select(rows),
        )

    def _fed(self, words: Tensor, state: LuongState) -> Tensor:
        """(B, T, m) -> (B, T, n): every step reads what the one before has found."""
        found = []
        for projected in state.matrices[0](words).unbind(1):
            attentional, state = self._advance(projected, state)
            found.append(attentional)
        return torch.stack(found, 1)

    def _at_once(self, words: Tensor, state: LuongState) -> Tensor:
        """(B, T, m) -> (B, T, n): the recurrence does not need the attention, so it runs first."""
        tops, _ = self.decoder(words, state.hidden)
        if state.history is None:
            return self._attend(tops, state)[0]
        found = []
        for top in tops.split(1, 1):  # a score that looks back still asks step by step
            attentional, history = self._attend(top, state)
            state = state._replace(history=history, step=state.step + 1)
            found.append(attentional)
        return torch.cat(found, 1)

    def _advance(self, projected: Tensor, state: LuongState) -> tuple[Tensor, LuongState]:
        """One step: (B, 4 n) projected words -> (B, n) h̃_t, the state after it."""
        top, hidden = self.decoder.step(projected, state.fed, state.hidden, state.matrices)
        attentional, history = self._attend(top[:, None], state)
        attentional = attentional[:, 0]
        fed = attentional if self.config.feed else None
        return attentional, state._replace(hidden=hidden, fed=fed, history=history, step=state.step + 1)

    def _attend(self, top: Tensor, state: LuongState) -> tuple[Tensor, History | None]:
        """(B, T, n) h_t -> (B, T, n) h̃_t, and where attention has been; without attention h̃_t is h_t."""
        if self.attention is None or self.W_c is None or state.source is None:
            return self.dropout(top), None
        history = state.history
        result = self.attention(top, state.source.at(state.step), history=history)
        attentional = torch.tanh(product(self.W_c, torch.cat([result.context, top], -1)))
        return self.dropout(attentional), None if history is None else history.advance(result.weights)


def initialize(model: Luong) -> None:
    """Section 4.1: all parameters uniform in [-0.1, 0.1]; or PyTorch's way, with embeddings of length 1."""
    if model.config.initialization == "uniform":
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)
    else:
        for embedding in (model.E_source, model.E):
            nn.init.normal_(embedding.weight, std=embedding.embedding_dim**-0.5)
    hold_on_padding(model.encoder)


def _check(config: LuongConfig) -> None:
    if config.feed and not config.attends:
        raise ConfigError(
            "luong: `feed` is true without attention; expected false: there is nothing to feed."
        )
    if config.tied != "none" and config.embedding != config.hidden:
        raise ConfigError(
            f"luong: `embedding` has {config.embedding} and `hidden` {config.hidden}; expected equal sizes, "
            f"since `tied` has {config.tied!r}."
        )
    if config.tied == "all" and config.source_vocab != config.target_vocab:
        raise ConfigError(
            f"luong: `tied` has 'all' with {config.source_vocab} source and {config.target_vocab} target "
            "pieces; expected one vocabulary for both sides."
        )
