"""The Neural Turing Machine: a network with a memory that it reads and writes by attention.

    h_t = controller(x_t, r_{t-1})                      feed-forward, or an LSTM             (section 3)
    w_t, M_t, r_t = heads(h_t, w_{t-1}, M_{t-1})        equations 2 to 9
    y_t = σ(W_y [h_t; r_t] + b_y)

    paper    here                 shape
    x_t      batch.inputs         (B, T, I)
    h_t      h                    (B, n)
    r_t      reads                (B, R, M)     what the R read heads found
    M_t      state.memory.cells   (B, N, M)
    w_t      state.memory.read    (B, R, N), .write (B, W, N)
    y_t                           (B, T, O)     here as logits

Every sequence starts from the same state: controller, reads, memory and weightings start at bias values
(section 4). Here the memory starts as a small constant and the heads on row 0, which trains faster than
learnt values; `learnt` names the parts whose initial values are learnt.

The tape is a ring: after the last row comes the first. A sequence that needs more rows than there are
silently overwrites the earliest ones.

Graves, Wayne, Danihelka. Neural Turing machines. 2014. https://arxiv.org/abs/1410.5401
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import paths
from regard.attention.memory.cells import MemoryState
from regard.attention.memory.heads import Controls, Heads, advance
from regard.attention.parts import foreign, named
from regard.attention.paths import Explanation
from regard.catalog import card
from regard.data.bits import BitBatch
from regard.errors import ConfigError, ShapeError, check_shapes
from regard.kernels.ntm.ntm_sequence import First, Layout, Sequence
from regard.models.base import Model, Settings, Size

Part = Literal["memory", "reads", "weights"]


@dataclass(frozen=True, kw_only=True)
class NTMConfig(Settings, key="ntm"):
    """The paper's memory is 128 rows of 20, its controllers have 100 units (more for recall and sorting)."""

    inputs: Size
    outputs: Size
    controller: Literal["feedforward", "lstm"] = "lstm"
    hidden: Size = 100
    layers: Size = 1
    rows: Size = 128  # N
    width: Size = 20  # M
    read_heads: Size = 1
    write_heads: Size = 1
    reach: int = 1  # a head shifts by -reach … reach rows
    learnt: tuple[Part, ...] = ("reads",)  # parts whose initial values are learnt; the others are constant
    blank: float = 1e-6  # initial value of every memory cell
    memory_std: float = 0.0  # initial spread of a learnt memory around `blank`: above 0, keys tell rows apart
    input_gain: float = 1.0  # factor on the controller's initial weights for the inputs
    gate_bias: float = 0.0  # added to the initial bias of the heads' gates: below 0, heads start by location
    forget_bias: float = 0.0  # added to the initial bias of an LSTM's forget gates: above 0, it forgets less
    kernel: Literal["auto", "reference", "ntm"] = "auto"  # how whole sequences run


class NTMState(NamedTuple):
    """The machine's state between two steps."""

    controller: tuple[Tensor, ...]  # (B, n) each: h and c of every LSTM layer; empty if feed-forward
    reads: Tensor  # (B, R, M) r_{t-1}
    memory: MemoryState


class Tape(NamedTuple):
    """A run of the machine, step by step."""

    logits: Tensor  # (B, T, O)
    reads: Tensor  # (B, T, R, M) vectors read
    adds: Tensor  # (B, T, W, M) vectors added
    read_weights: Tensor  # (B, T, R, N)
    write_weights: Tensor  # (B, T, W, N)
    controls: Controls  # each (B, T, …)


@card(
    "model",
    "ntm",
    title="Neural Turing Machine",
    authors="Graves, Wayne, Danihelka",
    year=2014,
    link="https://arxiv.org/abs/1410.5401",
    sentence="A network with a tape: it learns to write, to find and to read back, and so learns algorithms.",
)
class NTM(Model):
    """Controller, heads, memory."""

    Config = NTMConfig
    reads = ("sequences of bits",)
    steps = ("step",)

    def __init__(self, config: NTMConfig) -> None:
        super().__init__(config)
        R, M, N, H = config.read_heads, config.width, config.rows, config.read_heads + config.write_heads
        kind: type[FeedForward | StackedLSTM] = StackedLSTM if config.controller == "lstm" else FeedForward
        self.controller = kind(inputs=config.inputs + R * M, hidden=config.hidden, layers=config.layers)
        sizes = {"width": M, "reads": R, "writes": config.write_heads, "reach": config.reach}
        self.heads = Heads(inputs=config.hidden, **sizes, gate_bias=config.gate_bias)
        with torch.no_grad():  # the columns for the reads stand behind them
            next(self.controller.layers[0].parameters())[:, : config.inputs] *= config.input_gain
        if isinstance(self.controller, StackedLSTM):
            self.controller.open_forget_gates(config.forget_bias)
        self.output = nn.Linear(config.hidden + R * M, config.outputs)
        self.first_reads = _first("reads" in config.learnt, torch.randn(R, M) * 0.01)
        cells = torch.full((N, M), config.blank)
        if config.memory_std:
            if "memory" not in config.learnt:
                raise ConfigError(
                    f"ntm: `memory_std` has {config.memory_std} with a constant memory; expected 'memory' in "
                    "`learnt`, so that the random values are saved with the weights."
                )
            cells += config.memory_std * torch.randn(N, M)
        self.first_cells = _first("memory" in config.learnt, cells)
        on_row_0 = torch.full((H, N), -1.0).index_fill(1, torch.tensor([0]), 5.0)  # logits; half on row 0
        one_hot = F.one_hot(torch.zeros(H, dtype=torch.long), N).float()
        self.learns_weights = "weights" in config.learnt
        self.first_weights = _first(self.learns_weights, on_row_0 if self.learns_weights else one_hot)

    def forward(self, batch: BitBatch) -> Tensor:
        """(B, T, O) logits of the outputs; only some of them count."""
        call = self._sequence(batch.inputs)
        path = paths.choose("ntm", call, self.config.kernel)
        if path is not None:
            return self._answer(*self._split(path.run(call)))
        steps = [(h, state.reads) for h, _, state in self._walk(batch.inputs)]
        return self._answer(*(torch.stack(parts, 1) for parts in zip(*steps, strict=True)))

    def explain(self, inputs: Tensor) -> Explanation:
        """(B, T, I) -> whether such a sequence runs as one fused operation, and if not, why."""
        return paths.explain("ntm", self._sequence(inputs), self.config.kernel)

    def _sequence(self, inputs: Tensor) -> Sequence:
        config = self.config
        heads = config.read_heads + config.write_heads
        return Sequence(
            *(inputs, config.layers, config.rows, config.width, heads),
            self._foreign(),
            lambda: self._operands(inputs),
        )

    def _foreign(self) -> str | None:
        """Why the fused operation cannot replace the parts, as a clause; None if it can."""
        if type(self).step is not NTM.step:
            return f"{type(self).__name__} has a step of its own, this kernel computes NTM's"
        replaced = (FeedForward, StackedLSTM, Heads, nn.Linear, nn.LSTMCell, nn.ModuleList)
        part = foreign((*self.controller.modules(), *self.heads.modules()), *replaced)
        return None if part is None else f"a part is {named(part)}, which goes step by step"

    def _operands(self, inputs: Tensor) -> tuple[Any, ...]:
        self._check_inputs(inputs)
        state, heads = self.start(inputs.shape[0]), self.heads
        projected, V = self.controller.project(inputs)
        unused = state.reads.new_zeros(inputs.shape[0], self.config.hidden)
        h, c = state.controller or (unused, unused)
        weights = torch.cat([state.memory.read, state.memory.write], 1)
        first = First(torch.cat([state.reads.flatten(1), h], -1), c, state.memory.cells, weights)
        layout = Layout(heads.reads, heads.writes, heads.reach)
        return projected, V, heads.speak.weight, heads.speak.bias, first, layout

    def _split(self, heard: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, R M + n) -> (B, T, n), (B, T, R, M): the controller's outputs and the reads."""
        heads = self.heads
        reads, hidden = torch.split(heard, [heads.reads * heads.width, self.config.hidden], -1)
        return hidden, torch.unflatten(reads, -1, (heads.reads, heads.width))

    def trace(self, inputs: Tensor) -> Tape:
        """(B, T, I) -> a record of everything the machine does."""
        hidden, controls, states = zip(*self._walk(inputs), strict=True)
        reads = torch.stack([state.reads for state in states], 1)
        every = Controls(*(torch.stack(parts, 1) for parts in zip(*controls, strict=True)))
        return Tape(
            logits=self._answer(torch.stack(hidden, 1), reads),
            reads=reads,
            adds=every.add,
            read_weights=torch.stack([state.memory.read for state in states], 1),
            write_weights=torch.stack([state.memory.write for state in states], 1),
            controls=every,
        )

    def start(self, B: int) -> NTMState:
        """The initial state for B sequences."""
        R, W = self.config.read_heads, self.config.write_heads
        weights = self.first_weights.softmax(-1) if self.learns_weights else self.first_weights
        at_read, at_write = torch.split(weights.expand(B, -1, -1), [R, W], 1)
        memory = MemoryState(self.first_cells.expand(B, -1, -1), at_read, at_write)
        return NTMState(self.controller.start(B), self.first_reads.expand(B, -1, -1), memory)

    def step(self, x: Tensor, state: NTMState) -> tuple[Tensor, Controls, NTMState]:
        """(B, I) -> (B, n) the controller's output, the heads' controls, the next state."""
        h, controller = self.controller(torch.cat([x, state.reads.flatten(1)], -1), state.controller)
        controls = self.heads(h)
        reads, memory = advance(state.memory, controls)
        return h, controls, NTMState(controller, reads, memory)

    def _walk(self, inputs: Tensor) -> Iterator[tuple[Tensor, Controls, NTMState]]:
        self._check_inputs(inputs)
        state = self.start(inputs.shape[0])
        for x in inputs.unbind(1):
            h, controls, state = self.step(x, state)
            yield h, controls, state

    def _check_inputs(self, inputs: Tensor) -> None:
        check_shapes("NTM", ("inputs", inputs, "B T I"), I=self.config.inputs)
        if not inputs.shape[1]:
            raise ShapeError(f"NTM: `inputs` has shape {tuple(inputs.shape)}; expected at least one step.")

    def _answer(self, h: Tensor, reads: Tensor) -> Tensor:
        """(B, T, n), (B, T, R, M) -> (B, T, O)."""
        return self.output(torch.cat([h, reads.flatten(-2)], -1))


class FeedForward(nn.Module):
    """A controller without state: h = tanh(W [x; r] + b) in each layer."""

    def __init__(self, *, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(hidden if i else inputs, hidden) for i in range(layers))

    def start(self, B: int) -> tuple[Tensor, ...]:
        return ()

    def forward(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x, state

    def project(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, I) -> (B, T, n) the inputs' terms in the first layer; (n, R M) the matrix for the reads."""
        layer = self.layers[0]
        assert isinstance(layer, nn.Linear)
        W, V = torch.tensor_split(layer.weight, [inputs.shape[-1]], 1)
        return F.linear(inputs, W, layer.bias), V


class StackedLSTM(nn.Module):
    """A controller with registers: stacked LSTM layers with a learnt initial state."""

    def __init__(self, *, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.LSTMCell(hidden if i else inputs, hidden) for i in range(layers))
        self.first = nn.Parameter(torch.zeros(2 * layers, hidden))

    @torch.no_grad()
    def open_forget_gates(self, bias: float) -> None:
        """Add to the forget gates' biases in every layer."""
        for layer in self.layers:
            assert isinstance(layer, nn.LSTMCell)
            layer.bias_ih[layer.hidden_size : 2 * layer.hidden_size] += bias

    def start(self, B: int) -> tuple[Tensor, ...]:
        return self.first[:, None].expand(-1, B, -1).unbind(0)

    def forward(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        new: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            x, c = layer(x, state[2 * i : 2 * i + 2])
            new += [x, c]
        return x, tuple(new)

    def project(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, I) -> (B, T, 4 n) the inputs' terms in the gates; (4 n, R M + n) weights for reads and h."""
        layer = self.layers[0]
        assert isinstance(layer, nn.LSTMCell)
        W, V = torch.tensor_split(layer.weight_ih, [inputs.shape[-1]], 1)
        return F.linear(inputs, W, layer.bias_ih + layer.bias_hh), torch.cat([V, layer.weight_hh], 1)


def _first(learnt: bool, value: Tensor) -> Tensor:
    """An initial value: a parameter, or a constant buffer that moves with the model."""
    return nn.Parameter(value) if learnt else nn.Buffer(value, persistent=False)
