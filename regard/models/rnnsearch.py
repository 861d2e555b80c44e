"""RNNsearch: the decoder searches the source sentence anew for each word it writes.

    s_i = f(s_{i-1}, y_{i-1}, c_i),  c_i = Σ_j α_ij h_j                 (equations 4 and 5, appendix A)
    α_i = softmax_j(a(s_{i-1}, h_j))                                   (equation 6)
    s_0 = tanh(W_s ←h_1)

    paper    here                 shape
    x y      batch.source/.target (B, S), (B, T)
    h_j      annotations          (B, S, 2 n)
    s_i      state                (B, 1, n)
    c_i      context              (B, 1, 2 n)
    E        E, E_source          embeddings of m parts
    a        attention            additive in the paper; any score, window, normalizer here
    C C_z C_r  C                  the three side by side

Bahdanau, Cho, Bengio. Neural machine translation by jointly learning to align and translate. 2014.
https://arxiv.org/abs/1409.0473
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.compose import Attention
from regard.attention.config import AttentionConfig, attention_field
from regard.attention.history import History
from regard.attention.mask import Mask
from regard.attention.multihead import MultiHead
from regard.attention.result import AttentionResult
from regard.attention.scores.base import HistoryScore
from regard.attention.source import Source
from regard.catalog import card
from regard.data.batches import PairBatch
from regard.errors import ConfigError
from regard.kernels.decoder.few_rows import product_with_context
from regard.layers.readout import MaxoutReadout
from regard.layers.recurrent import BidirectionalEncoder, GatedCell
from regard.models.base import Settings, Share, Size, Translating, continued, teacher_inputs


@dataclass(frozen=True, kw_only=True)
class RNNsearchConfig(Settings, key="rnnsearch"):
    """Sizes and choices; the paper's are embedding 620, hidden 1000, attention.hidden 1000, readout 500."""

    source_vocab: int
    target_vocab: int
    embedding: Size = 620
    hidden: Size = 1000
    encoder_hidden: Size | None = None  # per direction; None: as `hidden`
    readout: Size = 500
    query: Literal["state", "state+word"] = "state"  # s_{i-1} alone as printed, or with the word just written
    # None: contexts are made of annotations, as printed. A number: of word embeddings, each with so many
    # features of its neighbours, so that attention has to be on the word that is translated
    neighbours: Size | None = None
    readout_state: Literal["previous", "new"] = "previous"  # s_{i-1} as printed, or s_i as the text has it
    dropout: Share = 0.0
    initialization: Literal["standard", "paper"] = "standard"
    # several heads: each has its own share of the state
    attention: AttentionConfig = attention_field("additive", heads=1, hidden=1000, positions=128)


class SearchState(NamedTuple):
    """Where the decoder stands."""

    state: Tensor  # (B, 1, n) s_{i-1}
    source: Source
    history: History | None  # only for scores that look back
    step: int


@card(
    "model",
    "rnnsearch",
    title="RNNsearch",
    authors="Bahdanau, Cho, Bengio",
    year=2014,
    link="https://arxiv.org/abs/1409.0473",
    sentence="The decoder searches the source sentence anew for each word it writes.",
)
class RNNsearch(Translating):
    """Encoder, attention, decoder, read-out, as in the paper's appendix A."""

    Config = RNNsearchConfig
    reads = ("sentence pairs",)
    uses_all_parameters = True

    def __init__(self, config: RNNsearchConfig) -> None:
        super().__init__(config)
        n, m = config.hidden, config.embedding
        n_encoder = config.encoder_hidden or n
        self.E_source = nn.Embedding(config.source_vocab, m)
        self.E = nn.Embedding(config.target_vocab, m)
        self.encoder = BidirectionalEncoder(inputs=m, hidden=n_encoder)
        self.W_s = nn.Linear(n_encoder, n)
        self.attention = build_search(config, keys=2 * n_encoder)
        many = isinstance(self.attention, MultiHead)
        self.narrow = None
        n_context = n if many else 2 * n_encoder
        if config.neighbours is not None:
            if many:
                raise ConfigError(
                    f"rnnsearch: `neighbours` has {config.neighbours} with several heads; expected one head."
                )
            self.narrow = nn.Linear(2 * n_encoder, config.neighbours, bias=False)
            n_context = m + config.neighbours
        self.cell = GatedCell(inputs=m, hidden=n)
        self.C = nn.Linear(n_context, 3 * n, bias=False)
        self.readout = MaxoutReadout(
            state=n, word=m, context=n_context, hidden=config.readout, vocab=config.target_vocab
        )
        self.dropout = nn.Dropout(config.dropout)
        self.aligner = "attention.attention" if many else "attention"
        if config.initialization == "paper":
            initialize_as_printed(self)

    @property
    def _core(self) -> Attention:
        return self.attention.attention if isinstance(self.attention, MultiHead) else self.attention

    def forward(self, batch: PairBatch) -> Tensor:
        """Teacher forcing: (B, T, V) scores of each target word given those before it."""
        start = self.start(batch)
        words = self.dropout(self.E(teacher_inputs(batch)))
        projected = self.cell.project(words)
        state, history = start.state, start.history
        states, contexts = [], []
        steps = zip(torch.split(words, 1, 1), torch.split(projected, 1, 1), strict=True)
        for t, (word, own) in enumerate(steps):
            new, history, result = self._advance(word, own, state, start.source.at(t), history)
            states.append(state if self.config.readout_state == "previous" else new)
            contexts.append(result.context)
            state = new
        joined = self.dropout(torch.cat(states, 1))
        return self.readout(joined, words, self.dropout(torch.cat(contexts, 1)))

    def start(self, batch: PairBatch) -> SearchState:
        words = self.dropout(self.E_source(batch.source))
        annotations, first = self.encoder(words, batch.source_lengths)
        values = None
        if self.narrow is not None:
            values = torch.cat([words, self.narrow(annotations)], -1)
        source = self.attention.prepare(annotations, values, mask=Mask(lengths=batch.source_lengths))
        looks_back = isinstance(self._core.score, HistoryScore)
        return SearchState(
            torch.tanh(self.W_s(first))[:, None], source, History.start(source) if looks_back else None, 0
        )

    def step(self, tokens: Tensor, state: SearchState) -> tuple[Tensor, SearchState]:
        word = self.dropout(self.E(tokens[:, None]))
        source = state.source.at(state.step)
        new, history, result = self._advance(
            word, self.cell.project(word), state.state, source, state.history
        )
        seen = state.state if self.config.readout_state == "previous" else new
        scores = self.readout(self.dropout(seen), word, self.dropout(result.context))
        return scores[:, 0].log_softmax(-1), SearchState(new, state.source, history, state.step + 1)

    def select(self, state: SearchState, rows: Tensor) -> SearchState:
        history = None if state.history is None else state.history.select(rows)
        source = continued(self._core, state.source, state.history, rows)
        return SearchState(state.state[rows], source, history, state.step)

    def _advance(
        self, word: Tensor, projected: Tensor, state: Tensor, source: Source, history: History | None
    ) -> tuple[Tensor, History | None, AttentionResult]:
        """One step: search with s_{i-1}, then s_i from the word before and what was found."""
        query = state if self.config.query == "state" else torch.cat([state, word], -1)
        result = self.attention(query, source, history=history)
        new = self.cell(projected + product_with_context(self.C, self.attention, source, result), state)
        return new, None if history is None else history.advance(result.weights), result


def build_search(config: RNNsearchConfig, *, keys: int) -> Attention | MultiHead:
    """The attention of the decoder: the parts that the config names, in one head or several."""
    n, heads = config.hidden, config.attention.heads or 1
    if heads == 1:
        word = config.embedding if config.query == "state+word" else 0
        return config.attention.build(query=n + word, keys=keys)
    if config.query != "state":
        raise ConfigError("rnnsearch: `query` has 'state+word' with several heads; expected 'state'.")
    attention = config.attention.build(query=n // heads, keys=n // heads)
    return MultiHead(n, heads, attention=attention, dim_keys=keys, dim_values=keys)


def initialize_as_printed(model: RNNsearch) -> None:
    """Appendix B.1: recurrent matrices orthogonal, the alignment nearly zero, so that it starts uniform.

    Meant for days of Adadelta; a short run hardly moves from here.
    """
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or name == "attention.score.v.weight":
            nn.init.zeros_(parameter)
        elif ".U.weight" in name and "attention" not in name and "readout" not in name:
            nn.init.orthogonal_(parameter)
        elif ".U_gates.weight" in name:
            for gate in parameter.data.chunk(2):
                nn.init.orthogonal_(gate)
        else:
            nn.init.normal_(parameter, std=0.001 if name.startswith("attention") else 0.01)
