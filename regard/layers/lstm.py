"""Stacks of LSTM layers: an encoder of padded sentences, and a decoder that runs at once or step by step.

    i, f, o = σ(W x_t + U h_{t-1} + b),  g = tanh(W x_t + U h_{t-1} + b)
    c_t = f ∘ c_{t-1} + i ∘ g,  h_t = o ∘ tanh(c_t)

    paper    here
    W U b    the weights of one torch.nn.LSTM a layer, gates in the order i f g o
    x_t      the layer below, through dropout: only what goes up is dropped, never h and c from step to step;
             what is fed comes as the model gives it

Whole sequences run in one call per layer (cuDNN on a GPU). No call needs a length on the host, so a training
step can be captured as a graph: while the encoder reads padding, its input gate is shut and its forget gate
open, so that the cell keeps its value exactly.

Hochreiter, Schmidhuber. Long short-term memory. 1997. https://doi.org/10.1162/neco.1997.9.8.1735
Zaremba, Sutskever, Vinyals. Recurrent neural network regularization. 2014. https://arxiv.org/abs/1409.2329
"""

from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.numerics import lowered, upcast
from regard.errors import ConfigError
from regard.kernels.decoder.decoder_cpu import Affine
from regard.kernels.decoder.few_rows import Product, products

Hidden = tuple[tuple[Tensor, Tensor], ...]  # (h, c) of each layer, each (B, n)
Matrices = tuple[Product, ...]  # with the words, then with what each layer reads
Direction = Literal["reversed", "forward", "bidirectional"]

FLAGS = 8  # features that mark padding: one would do, but tensor cores need widths that are multiples of 8
SHUT = 1e4  # σ(±1e4) is exactly 0 or 1 in every precision, and its derivative exactly 0


class LSTMEncoder(nn.Module):
    """Annotations of padded sentences in their own order, and the state after the last word read.

    If reversed, it reads the last word first. If bidirectional, each direction has half of the n cells.
    `flags` inputs are added to those of each layer, to mark padding.
    """

    def __init__(
        self,
        *,
        inputs: int,
        hidden: int,
        layers: int = 1,
        direction: Direction = "forward",
        dropout: float = 0.0,
        flags: int = FLAGS,
    ) -> None:
        super().__init__()
        both = direction == "bidirectional"
        if both and hidden % 2:
            raise ConfigError(
                f"LSTMEncoder: `hidden` has {hidden}; expected an even number, half for each direction."
            )
        self.reversed, self.n = direction == "reversed", hidden // 2 if both else hidden
        self.flags = flags
        self.layers = nn.ModuleList(
            nn.LSTM(below + flags, self.n, batch_first=True, bidirectional=both)
            for below in [inputs] + [hidden] * (layers - 1)
        )
        self.dropout = nn.Dropout(dropout)
        hold_on_padding(self)

    def forward(self, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, Hidden]:
        """(B, S, D), (B,) -> (B, S, n) and the state of every layer; padding comes last in each row."""
        B, S = inputs.shape[:2]
        padding = torch.arange(S, device=inputs.device) >= lengths[:, None]
        flags = padding[..., None].expand(B, S, self.flags).to(inputs.dtype)
        last = (lengths - 1).clamp_min(0)[:, None, None].expand(B, 1, self.n)
        x, states = inputs, []
        if self.reversed:
            x, flags = x.flip(1), flags.flip(1)
        for layer in self.layers:
            x, (h, c) = _run(layer, torch.cat([self.dropout(x), flags.to(x.dtype)], -1))
            if not self.reversed:
                # the cell was kept, but padding has its own output gate, so take h from the last word
                h = torch.stack([x[..., : self.n].gather(1, last).squeeze(1), *h[1:]])
            states.append((torch.cat(h.unbind(), -1), torch.cat(c.unbind(), -1)))
        return x.flip(1) if self.reversed else x, tuple(states)


def hold_on_padding(encoder: LSTMEncoder) -> None:
    """Set the weights of the padding flags: i shut, f open. Their gradient is zero, so they stay that way."""
    with torch.no_grad():
        for layer in encoder.layers:
            for name, weight in layer.named_parameters():
                if name.startswith("weight_ih"):
                    i, f, g, o = weight[:, -encoder.flags :].chunk(4)
                    shut = SHUT / encoder.flags
                    i.fill_(-shut), f.fill_(shut), g.zero_(), o.zero_()


class LSTMDecoder(nn.Module):
    """The layers of a decoder whose first one also reads `fed` features that each step passes to the next."""

    def __init__(self, *, inputs: int, hidden: int, layers: int, fed: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        self.inputs = inputs
        self.layers = nn.ModuleList(
            nn.LSTM(below, hidden, batch_first=True) for below in [inputs + fed] + [hidden] * (layers - 1)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        """(B, T, D), the state before -> (B, T, n), the state after; for a decoder without input feeding."""
        x, states = inputs, []
        for level, (layer, (h, c)) in enumerate(zip(self.layers, hidden, strict=True)):
            x, (h, c) = _run(layer, self.dropout(x) if level else x, (h[None], c[None]))
            states.append((h[0], c[0]))
        return x, tuple(states)

    def matrices(self) -> Matrices:
        """Products with each layer's concatenated [W U], once per batch: one product per step and layer.

        The first product is the words' part of the first layer's gates, for a whole sequence.
        """

        def make() -> list[Affine]:
            [(W, U, b), *others] = map(_weights, self.layers)
            each = [(W[:, self.inputs :], U, None), *others]
            joined = [(lowered(torch.cat([W, U], 1)), b) for W, U, b in each]
            return [(W[:, : self.inputs], b), *joined]

        return products(self, make)

    def step(
        self,
        projected: Tensor,
        fed: Tensor | None,
        hidden: Hidden,
        matrices: Matrices,
    ) -> tuple[Tensor, Hidden]:
        """(B, 4 n), (B, fed), the state before -> (B, n) of the top layer, the state after."""
        below, states = fed, []
        for level, (matrix, (h, c)) in enumerate(zip(matrices[1:], hidden, strict=True)):
            read = h if below is None else torch.cat([below, h], -1)
            gates = matrix(read) if level else projected + matrix(read)
            h, c = cell(gates, c)
            states.append((h, c))
            below = self.dropout(h)
        return states[-1][0], tuple(states)


def cell(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """(B, 4 n) pre-activations of the gates, (B, n) -> h, c; the cell stays in full precision."""
    i, f, g, o = gates.chunk(4, -1)
    c = torch.sigmoid(f) * upcast(c) + torch.sigmoid(i) * torch.tanh(g)
    return (torch.sigmoid(o) * torch.tanh(c)).to(gates.dtype), c


def _run(
    layer: nn.Module, x: Tensor, start: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """One layer over (B, T, D); without autocast on a CPU, since not every CPU has a half-precision LSTM."""
    device = x.device.type
    lowered = device != "cpu" and torch.is_autocast_enabled(device)
    if device == "cpu":
        x = upcast(x)
    if start is not None:
        start = (start[0].to(x.dtype), start[1].to(x.dtype))
    with torch.autocast(device, enabled=lowered):
        outputs: tuple[Tensor, tuple[Tensor, Tensor]] = layer(x, start)
    return outputs


def _weights(layer: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
    """W, U and b of a layer; PyTorch stores b as a sum of two."""
    assert isinstance(layer, nn.LSTM)
    [[W, U, b, more]] = layer.all_weights
    return W, U, b + more
