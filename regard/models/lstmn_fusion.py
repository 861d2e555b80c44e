"""LSTMN encoder and decoder, joined by shallow or deep attention fusion.

    b_j^t = uᵀ tanh(W_γ γ_j + W_x x_t + W_γ̃ γ̃_{t-1}),  p^t = softmax(b^t)        (equations 11 and 12)
    [γ̃_t; α̃_t] = Σ_j p_j^t [γ_j; α_j]                                          (equation 13)
    r_t = σ(W_r [γ̃_t; x_t])                                                   (equation 14)
    c_t = r_t ∘ α̃_t + f_t ∘ c̃_t + i_t ∘ ĉ_t,  h_t = o_t ∘ tanh(c_t)             (equations 15 and 16)

The equations are those of deep fusion: the source's memory enters the target's memory through a gate of its
own. Shallow fusion searches the source as RNNsearch does, with h_{t-1} in place of γ̃_{t-1}, and concatenates
γ̃_t with x_t; the decoder's cell is unchanged.

    paper    here                shape
    Y A      tapes of `encoder`  (B, S, 2 n)   hidden and memory tape of the source
    p^t      the weights of `fusion.attention`; those of `fusion.cell.attention` look back at the target
    γ̃_t α̃_t  hidden, memory      (B, 1, n)
    W_x W_r  fusion.W            (2 n, m)      side by side: of the word
    W_γ̃ W_r  fusion.U            (2 n, n)      side by side: of what was found
    W_γ u    fusion.attention.score.U, .v

Cheng, Dong, Lapata. Long short-term memory-networks for machine reading. 2016.
https://arxiv.org/abs/1601.06733
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.compose import Attention
from regard.attention.mask import Mask
from regard.attention.scores.additive import AdditiveScore
from regard.attention.source import Source
from regard.catalog import card
from regard.data.batches import PairBatch
from regard.layers.lstmn import LSTMN, LSTMNCell, Tape
from regard.models.base import Settings, Share, Size, Translating, teacher_inputs


@dataclass(frozen=True, kw_only=True)
class LSTMNFusionConfig(Settings, key="lstmn-fusion"):
    """Sizes and choices; the paper's are hidden 100, 300 or 450, embedding 300."""

    source_vocab: int
    target_vocab: int
    embedding: Size = 300
    hidden: Size = 300
    layers: Size = 1  # of the encoder
    fusion: Literal["shallow", "deep"] = "deep"
    span: Size | None = None  # slots kept of the decoder's tapes; None: all
    dropout: Share = 0.0
    kernel: str = "auto"  # of the encoder


class FusionState(NamedTuple):
    """The decoder's state."""

    tape: Tape  # the decoder's own
    source: Source
    asked: Tensor  # (B, 1, n) what the last step adds to the next query into the source


class Fusion(nn.Module):
    """A decoder's cell and its attention over the source."""

    W: nn.Linear

    def __init__(self, *, inputs: int, hidden: int, span: int | None) -> None:
        super().__init__()
        self.cell = LSTMNCell(inputs=inputs, hidden=hidden, span=span)
        self.attention = Attention(AdditiveScore(query=None, keys=hidden, hidden=hidden))

    def project(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, m) -> the words' terms in the cell (B, T, 5 n) and in the attention over the source."""
        return self.cell.project(words), self.W(words)

    def prepare(self, tapes: Tensor, lengths: Tensor) -> Source:
        """(B, S, 2 n) tapes of the source, (B,) -> the Source to attend to."""
        raise NotImplementedError(f"{type(self).__name__} defines no prepare(tapes, lengths).")

    def forward(self, projected: tuple[Tensor, Tensor], state: FusionState) -> tuple[Tensor, FusionState]:
        """One step: h_t (B, 1, n) and the new state."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward(projected, state).")

    def start(self, tapes: Tensor, lengths: Tensor) -> FusionState:
        """(B, S, 2 n) tapes of the source, (B,) -> the initial state."""
        tape = self.cell.start(len(tapes))
        return FusionState(tape, self.prepare(tapes, lengths), tape.asked)

    def read(self, words: Tensor, state: FusionState) -> Tensor:
        """(B, T, m) -> (B, T, n): the hidden states of all steps."""
        hidden = []
        for projected in zip(*(torch.split(terms, 1, 1) for terms in self.project(words)), strict=True):
            h, state = self(projected, state)
            hidden.append(h)
        return torch.cat(hidden, 1)


class DeepFusion(Fusion):
    """The source's memory enters the target's through the gate r."""

    def __init__(self, *, inputs: int, hidden: int, span: int | None) -> None:
        super().__init__(inputs=inputs, hidden=hidden, span=span)
        self.W = nn.Linear(inputs, 2 * hidden)
        self.U = nn.Linear(hidden, 2 * hidden, bias=False)

    def prepare(self, tapes: Tensor, lengths: Tensor) -> Source:
        return self.attention.prepare(tapes.chunk(2, -1)[0], tapes, mask=Mask(lengths=lengths))

    def forward(self, projected: tuple[Tensor, Tensor], state: FusionState) -> tuple[Tensor, FusionState]:
        own, other = projected  # (B, 1, 5 n), (B, 1, 2 n)
        query, gate = other.chunk(2, -1)
        hidden, memory = self.attention(query + state.asked, state.source).context.chunk(2, -1)
        asked, found = self.U(hidden).chunk(2, -1)
        h, _, tape = self.cell.step(own, state.tape, added=(gate + found).sigmoid() * memory)
        return h, FusionState(tape, state.source, asked)


class ShallowFusion(Fusion):
    """The context from the source is an input beside the word."""

    def __init__(self, *, inputs: int, hidden: int, span: int | None) -> None:
        super().__init__(inputs=inputs, hidden=hidden, span=span)
        self.W = nn.Linear(inputs, hidden)
        self.U = nn.Linear(hidden, hidden, bias=False)
        self.C = nn.Linear(hidden, 5 * hidden, bias=False)

    def prepare(self, tapes: Tensor, lengths: Tensor) -> Source:
        return self.attention.prepare(tapes.chunk(2, -1)[0], mask=Mask(lengths=lengths))

    def forward(self, projected: tuple[Tensor, Tensor], state: FusionState) -> tuple[Tensor, FusionState]:
        own, query = projected  # (B, 1, 5 n), (B, 1, n)
        found = self.attention(query + state.asked, state.source).context
        h, _, tape = self.cell.step(own + self.C(found), state.tape)
        return h, FusionState(tape, state.source, self.U(h))


FUSIONS: dict[str, type[Fusion]] = {"shallow": ShallowFusion, "deep": DeepFusion}


@card(
    "model",
    "lstmn-fusion",
    title="LSTMN encoder-decoder",
    authors="Cheng, Dong, Lapata",
    year=2016,
    link="https://arxiv.org/abs/1601.06733",
    sentence="Two LSTMNs joined by attention: shallow fusion reads the source, deep fusion remembers it.",
)
class LSTMNFusion(Translating):
    """Reads the source onto tapes; writes the target with tapes while attending to the source's."""

    Config = LSTMNFusionConfig
    reads = ("sentence pairs",)
    aligner = "fusion.attention"

    def __init__(self, config: LSTMNFusionConfig) -> None:
        super().__init__(config)
        m, n = config.embedding, config.hidden
        self.E_source = nn.Embedding(config.source_vocab, m)
        self.E = nn.Embedding(config.target_vocab, m)
        self.encoder = LSTMN(
            inputs=m, hidden=n, layers=config.layers, dropout=config.dropout, kernel=config.kernel
        )
        self.fusion = FUSIONS[config.fusion](inputs=m, hidden=n, span=config.span)
        self.W = nn.Linear(n, config.target_vocab)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, batch: PairBatch) -> Tensor:
        """Teacher forcing: (B, T, V) scores of each target word given those before it."""
        words = self.dropout(self.E(teacher_inputs(batch)))
        return self.W(self.dropout(self.fusion.read(words, self.start(batch))))

    def start(self, batch: PairBatch) -> FusionState:
        tapes = self.encoder(self.dropout(self.E_source(batch.source)))
        return self.fusion.start(tapes, batch.source_lengths)

    def step(self, tokens: Tensor, state: FusionState) -> tuple[Tensor, FusionState]:
        h, state = self.fusion(self.fusion.project(self.dropout(self.E(tokens[:, None]))), state)
        return self.W(self.dropout(h[:, 0])).log_softmax(-1), state

    def select(self, state: FusionState, rows: Tensor) -> FusionState:
        return FusionState(state.tape.select(rows), state.source.select(rows), state.asked[rows])
