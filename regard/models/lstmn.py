"""LSTMN as a language model and as a classifier: reads word by word and attends to the whole past.

    p(w_{t+1} | w_1 … w_t) = softmax(W h_t + b)
    p(y | w_1 … w_T) = softmax(W_2 relu(W_1 h̄ + b_1) + b_2),  h̄ = 1/T Σ_t h_t

    paper    here         shape
    x_t      words        (B, T, m)     embeddings of the words
    h_t c_t  tapes        (B, T, 2 n)   see regard.layers.lstmn
    W b      W            (V, n)

Each sequence starts with empty tapes, so padding at its end affects nothing before it.

Cheng, Dong, Lapata. Long short-term memory-networks for machine reading. 2016.
https://arxiv.org/abs/1601.06733
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.catalog import card
from regard.data.tensor_batch import LabelledBatch
from regard.data.text_windows import StreamBatch
from regard.layers.lstmn import LSTMN, Tape
from regard.models.base import Model, Settings, Share, Size
from regard.models.decomposable import add_up


@dataclass(frozen=True, kw_only=True)
class LSTMNConfig(Settings, key="lstmn"):
    """Sizes and choices; the paper's are embedding 150, hidden 300, one to three layers."""

    vocab: int
    embedding: Size = 150
    hidden: Size = 300
    layers: Size = 1
    span: Size | None = None  # slots kept of each tape; None: the whole sentence
    summary: bool = True  # the score sees h̃_{t-1}
    recency: float | None = None  # head start of the newest slot's score; None: none, as printed
    dropout: Share = 0.0
    kernel: str = "auto"


@card(
    "model",
    "lstmn",
    title="LSTMN language model",
    authors="Cheng, Dong, Lapata",
    year=2016,
    link="https://arxiv.org/abs/1601.06733",
    sentence=(
        "An LSTM whose cell has become a tape: each word looks back at all earlier ones of its sentence."
    ),
)
class LSTMNLanguageModel(Model):
    """Predicts the next word from the words before it."""

    Config = LSTMNConfig
    reads = ("running text", "single sentences")

    def __init__(self, config: LSTMNConfig) -> None:
        super().__init__(config)
        self.E = nn.Embedding(config.vocab, config.embedding)
        self.lstmn = build_lstmn(config, recency=config.recency)
        self.W = nn.Linear(config.hidden, config.vocab)
        self.dropout = nn.Dropout(config.dropout)
        self.aligner = f"lstmn.cells.{config.layers - 1}.attention"
        nn.init.uniform_(self.E.weight, -0.1, 0.1)

    def forward(self, batch: StreamBatch) -> Tensor:
        """(B, T, V) scores of the batch's targets."""
        tapes = self.lstmn(self.dropout(self.E(batch.inputs)))
        hidden = tapes[:, -batch.targets.shape[1] :, : self.config.hidden]
        return self.W(self.dropout(hidden))

    def start(self, rows: int) -> tuple[Tape, ...]:
        """The initial tapes."""
        return self.lstmn.start(rows)

    def step(self, tokens: Tensor, state: tuple[Tape, ...]) -> tuple[Tensor, tuple[Tape, ...]]:
        """(B,) words -> (B, V) log-probabilities of the next, and the new tapes."""
        tapes, state = self.lstmn.step(self.dropout(self.E(tokens[:, None])), state)
        return self.W(self.dropout(tapes[:, 0, : self.config.hidden])).log_softmax(-1), state


@dataclass(frozen=True, kw_only=True)
class LSTMNClassifierConfig(Settings, key="lstmn-classifier"):
    """Sizes and choices; the paper's for sentiment are embedding 300, hidden 168, mean pooling."""

    vocab: int
    classes: int
    embedding: Size = 300
    hidden: Size = 168
    layers: Size = 1
    cell: Literal["lstmn", "lstm"] = "lstmn"  # lstm: the baseline without tapes
    span: Size | None = None
    summary: bool = True
    pool: Literal["mean", "last"] = "mean"  # of the hidden states
    dropout: Share = 0.0
    kernel: str = "auto"


@card(
    "model",
    "lstmn-classifier",
    title="LSTMN classifier",
    authors="Cheng, Dong, Lapata",
    year=2016,
    link="https://arxiv.org/abs/1601.06733",
    sentence="A sequence is read onto tapes; the mean of its hidden states, or the last, gives the label.",
)
class LSTMNClassifier(Model):
    """Classifies a sequence. A step may have several symbols, whose embeddings are summed."""

    Config = LSTMNClassifierConfig
    reads = ("labelled sequences",)

    def __init__(self, config: LSTMNClassifierConfig) -> None:
        super().__init__(config)
        n, m = config.hidden, config.embedding
        self.E = nn.Embedding(config.vocab, m)
        self.reader: TapeReader | LSTMReader
        self.reader = TapeReader(config) if config.cell == "lstmn" else LSTMReader(config)
        self.W_1 = nn.Linear(n, n)
        self.W_2 = nn.Linear(n, config.classes)
        self.dropout = nn.Dropout(config.dropout)
        self.aligner = self.reader.aligner

    def forward(self, batch: LabelledBatch) -> Tensor:
        """(B, classes) scores."""
        words = self.dropout(self.E(batch.symbols).sum(2))  # (B, T, m)
        pool = mean if self.config.pool == "mean" else last
        pooled = pool(self.reader(words), batch.lengths)
        return self.W_2(self.dropout(torch.relu(self.W_1(self.dropout(pooled)))))


class TapeReader(nn.Module):
    """(B, T, m) -> (B, T, n): the hidden tape, one state per step."""

    def __init__(self, config: LSTMNClassifierConfig) -> None:
        super().__init__()
        self.lstmn = build_lstmn(config)
        self.aligner = f"reader.lstmn.cells.{config.layers - 1}.attention"

    def forward(self, words: Tensor) -> Tensor:
        return self.lstmn(words).chunk(2, -1)[0]


class LSTMReader(nn.Module):
    """(B, T, m) -> (B, T, n): the states of an LSTM."""

    aligner: str | None = None

    def __init__(self, config: LSTMNClassifierConfig) -> None:
        super().__init__()
        between = config.dropout if config.layers > 1 else 0.0
        self.lstm = nn.LSTM(config.embedding, config.hidden, config.layers, batch_first=True, dropout=between)
        open_forget_gates(self.lstm)

    def forward(self, words: Tensor) -> Tensor:
        return self.lstm(words)[0]


def build_lstmn(config: LSTMNConfig | LSTMNClassifierConfig, *, recency: float | None = None) -> LSTMN:
    """Build the LSTMN that a config describes."""
    names = ("hidden", "layers", "span", "summary", "dropout", "kernel")
    settings: dict[str, Any] = {name: getattr(config, name) for name in names}
    return LSTMN(inputs=config.embedding, recency=recency, **settings)


def mean(states: Tensor, lengths: Tensor) -> Tensor:
    """(B, T, n), (B,) -> (B, n): the mean over each row's real steps."""
    return add_up(states, lengths) / lengths.clamp(min=1)[:, None]


def last(states: Tensor, lengths: Tensor) -> Tensor:
    """(B, T, n), (B,) -> (B, n): the state at each row's last real step."""
    place = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, states.shape[-1])
    return states.gather(1, place)[:, 0]


def open_forget_gates(lstm: nn.LSTM) -> None:
    """Initialize the forget gates' biases to 1 in total, as in the LSTMN."""
    n = lstm.hidden_size
    with torch.no_grad():
        for name, bias in lstm.named_parameters():
            if name.startswith("bias"):
                bias[n : 2 * n] = 1.0 if name.startswith("bias_ih") else 0.0
