"""The baseline of the Neural Turing Machine: stacked LSTM layers without an external memory.

    h^l_t, c^l_t = LSTM(h^{l-1}_t, h^l_{t-1}, c^l_{t-1}),  h^0_t = x_t            layers l = 1 … 3
    y_t = σ(W_y h^3_t + b_y)

    paper    here            shape
    x_t      batch.inputs    (B, T, I)
    h c      first           (2, layers, 1, n)    learnt values before the first step
    y_t                      (B, T, O)            here as logits

Three layers of 256 (copy, recall), 512 (repeat copy) or 128 (n-grams, sorting) in the paper.

Graves, Wayne, Danihelka. Neural Turing machines. 2014. https://arxiv.org/abs/1410.5401
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.catalog import card
from regard.data.bits import BitBatch
from regard.errors import ShapeError, check_shapes
from regard.models.base import Model, Settings, Size


@dataclass(frozen=True, kw_only=True)
class LSTMSequenceConfig(Settings, key="lstm-sequence"):
    """Sizes of the stack."""

    inputs: Size
    outputs: Size
    hidden: Size = 256
    layers: Size = 3


@card(
    "model",
    "lstm-sequence",
    title="Stacked LSTM, the baseline of the Neural Turing Machine",
    authors="Graves, Wayne, Danihelka",
    year=2014,
    link="https://arxiv.org/abs/1410.5401",
    sentence="Three LSTM layers that must keep everything in their own state.",
)
class LSTMSequence(Model):
    """Stacked LSTM layers with an output at every step."""

    Config = LSTMSequenceConfig
    reads = ("sequences of bits",)

    def __init__(self, config: LSTMSequenceConfig) -> None:
        super().__init__(config)
        self.lstm = nn.LSTM(config.inputs, config.hidden, config.layers, batch_first=True)
        self.first = nn.Parameter(torch.zeros(2, config.layers, 1, config.hidden))
        self.output = nn.Linear(config.hidden, config.outputs)

    def forward(self, batch: BitBatch) -> Tensor:
        """(B, T, O) logits of the outputs; only some of them count."""
        inputs = batch.inputs
        check_shapes("LSTMSequence", ("inputs", inputs, "B T I"), I=self.config.inputs)
        if not inputs.shape[1]:
            raise ShapeError(
                f"LSTMSequence: `inputs` has shape {tuple(inputs.shape)}; expected at least one step."
            )
        h, c = self.first.expand(-1, -1, inputs.shape[0], -1).contiguous()
        states, _ = self.lstm(inputs, (h, c))
        return self.output(states)
