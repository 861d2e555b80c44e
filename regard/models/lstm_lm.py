"""An LSTM language model: the baseline of the LSTMN, with one cell instead of two tapes.

    [i f o ĉ] = [σ σ σ tanh] W [h_{t-1}; x_t],  c_t = f ∘ c_{t-1} + i ∘ ĉ,  h_t = o ∘ tanh(c_t)
    p(w_{t+1} | w_1 … w_t) = softmax(W h_t + b)

    here     shape
    words    (B, T, m)    embeddings
    states   (B, T, n)    h_t

Hochreiter, Schmidhuber. Long short-term memory. 1997. https://doi.org/10.1162/neco.1997.9.8.1735
"""

from dataclasses import dataclass

from torch import Tensor, nn

from regard.catalog import card
from regard.data.text_windows import StreamBatch
from regard.models.base import Model, Settings, Share, Size
from regard.models.lstmn import open_forget_gates


@dataclass(frozen=True, kw_only=True)
class LSTMLanguageConfig(Settings, key="lstm-lm"):
    """Sizes; the defaults are those of the LSTMN."""

    vocab: int
    embedding: Size = 150
    hidden: Size = 300
    layers: Size = 1
    dropout: Share = 0.0


@card(
    "model",
    "lstm-lm",
    title="LSTM language model",
    authors="Hochreiter, Schmidhuber",
    year=1997,
    link="https://doi.org/10.1162/neco.1997.9.8.1735",
    sentence="One state carries the whole past: the baseline of the LSTMN.",
)
class LSTMLanguageModel(Model):
    """Predicts the next word from an LSTM's state."""

    Config = LSTMLanguageConfig
    reads = ("running text", "single sentences")

    def __init__(self, config: LSTMLanguageConfig) -> None:
        super().__init__(config)
        between = config.dropout if config.layers > 1 else 0.0
        self.E = nn.Embedding(config.vocab, config.embedding)
        self.lstm = nn.LSTM(config.embedding, config.hidden, config.layers, batch_first=True, dropout=between)
        self.W = nn.Linear(config.hidden, config.vocab)
        self.dropout = nn.Dropout(config.dropout)
        nn.init.uniform_(self.E.weight, -0.1, 0.1)
        open_forget_gates(self.lstm)

    def forward(self, batch: StreamBatch) -> Tensor:
        """(B, T, V) scores of the batch's targets."""
        states, _ = self.lstm(self.dropout(self.E(batch.inputs)))
        return self.W(self.dropout(states[:, -batch.targets.shape[1] :]))
