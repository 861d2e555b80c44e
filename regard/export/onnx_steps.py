"""Adapters that give each model a decoding state of plain tensors, as a traced graph needs.

transformer      visible (B, S), source_keys and source_values (B, N, H, S, D),
                 position (B,), keys and values (B, N, H, T, D)
luong            visible (B, S), source_keys and source_values (B, S, n), hidden (B, N, 2, n), fed (B, n)
rnnsearch        visible (B, S), source_keys and source_values (B, S, n), hidden (B, n); with several heads
                 source_keys and source_values (B, H, S, D)
"""

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.compose import Attention
from regard.attention.mask import Mask
from regard.attention.multihead import MultiHead
from regard.attention.scores.base import HistoryScore
from regard.attention.source import Source
from regard.data.batches import PairBatch
from regard.errors import ConfigError
from regard.export.ctranslate2 import longest as most_positions
from regard.export.ctranslate2 import table
from regard.layers.positions import Positions
from regard.layers.recurrent import BidirectionalEncoder, GatedCell
from regard.layers.transformer import Looked
from regard.models.base import Translating
from regard.models.luong import Luong, LuongState
from regard.models.rnnsearch import RNNsearch, SearchState
from regard.models.transformer import Transformer

NO_END = 1_000_000  # recurrent models have no length limit

State = dict[str, Tensor]
Axes = dict[int, str]


def source_axes(keys: int) -> Mapping[str, Axes]:
    """The dynamic axes of a source; `keys` is the position axis of keys and values."""
    sides = {name: {0: "rows", keys: "source"} for name in ("source_keys", "source_values")}
    return {"visible": {0: "rows", 1: "source"}, **sides}


class Steps(nn.Module):
    """A model with a state of named tensors; `constant` and `changing` name their dynamic axes."""

    constant: Mapping[str, Axes]
    changing: Mapping[str, Axes]
    longest: int

    def begin(self, source: Tensor, lengths: Tensor) -> State:
        """(B, S), (B,) -> the state before the first word."""
        raise NotImplementedError(f"{type(self).__name__} defines no begin(source, lengths).")

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """(B,), the state -> (B, V) log-probabilities, and the changed part of the state."""
        raise NotImplementedError(f"{type(self).__name__} defines no advance(tokens, state).")


@dataclass(frozen=True)
class _Grown:
    """The positions so far; replaces the model's Cache, which writes in place."""

    source: Source

    def append(self, new: Source) -> "_Grown":
        return _Grown(self.source.append(new))


class _Table(Positions):
    """Positions by table lookup, so that a traced graph is not limited to the traced length."""

    table: Tensor

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.register_buffer("table", rows)

    def forward(self, words: Tensor, offset: int = 0) -> Tensor:
        return words + self.table[torch.arange(words.shape[-2], device=words.device) + offset]


class TransformerSteps(Steps):
    """The Transformer's step, with keys and values of all layers in one tensor each."""

    constant = source_axes(3)
    changing: Mapping[str, Axes] = {
        "position": {0: "rows"},
        "keys": {0: "rows", 3: "written"},
        "values": {0: "rows", 3: "written"},
    }
    positions: Tensor

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        if model.config.restricted:
            raise ConfigError(
                f"export to onnx: `restricted` has {model.config.restricted}; expected 0, because the "
                "exported step attends to all earlier words."
            )
        self.model = model
        self.longest = most_positions(model)
        self.register_buffer("positions", table(model.positions, model.shape.d_model))
        model.positions_source = _Table(table(model.positions_source, model.shape.d_model))

    def begin(self, source: Tensor, lengths: Tensor) -> State:
        model = self.model
        annotations, mask = model._encode(PairBatch(source, lengths, source, lengths))
        assert mask.dense is not None
        prepared = model.decoder.prepare(annotations, mask)
        keys = torch.stack([each.keys for each in prepared], 1)  # (B, N, H, S, D)
        values = torch.stack([each.values for each in prepared], 1)
        return {
            "visible": mask.dense[:, 0],
            "source_keys": keys,
            "source_values": values,
            "position": torch.zeros_like(lengths),
            "keys": keys[:, :, :, :0],
            "values": values[:, :, :, :0],
        }

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        model = self.model
        visible = Mask(dense=state["visible"][:, None, None])
        sources = layer_sources(state["source_keys"], state["source_values"], visible)
        written = [_Grown(source) for source in layer_sources(state["keys"], state["values"], Mask())]
        words = model.E(tokens) * math.sqrt(model.shape.d_model) + self.positions[state["position"]]
        looked = [Looked(None, None)] * len(sources)  # scores that look back are refused
        decoded, grown, _ = model.decoder.step(words[:, None], sources, written, looked)  # type: ignore[arg-type]
        return model.W(decoded[:, 0]).log_softmax(-1), {
            "position": state["position"] + 1,
            "keys": torch.stack([each.source.keys for each in grown], 1),
            "values": torch.stack([each.source.values for each in grown], 1),
        }


def layer_sources(keys: Tensor, values: Tensor, mask: Mask) -> list[Source]:
    """(B, N, H, S, D) keys and values -> the source of each of N layers."""
    return [Source(k, v, mask) for k, v in zip(keys.unbind(1), values.unbind(1), strict=True)]


class LuongSteps(Steps):
    """Luong's step: the states of the stack, the previous h̃, and the source."""

    longest = NO_END

    def __init__(self, model: Luong) -> None:
        super().__init__()
        self.model = model
        self.constant = source_axes(1) if model.config.attends else {}
        self.changing = {"hidden": {0: "rows"}} | ({"fed": {0: "rows"}} if model.config.feed else {})

    def begin(self, source: Tensor, lengths: Tensor) -> State:
        state = self.model.start(PairBatch(source, lengths, source, lengths))
        found = self._changed(state)
        if state.source is not None:
            found |= {"visible": torch.arange(source.shape[1], device=source.device) < lengths[:, None]}
            found |= {"source_keys": state.source.keys, "source_values": state.source.values}
        return found

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        source = None
        if "visible" in state:
            visible = Mask(dense=state["visible"][:, None])
            source = Source(state["source_keys"], state["source_values"], visible)
        hidden = tuple((layer[:, 0], layer[:, 1]) for layer in state["hidden"].unbind(1))
        matrices = self.model.decoder.matrices()
        before = LuongState(hidden, state.get("fed"), source, None, matrices, 0)
        log_probabilities, after = self.model.step(tokens, before)
        return log_probabilities, self._changed(after)

    def _changed(self, state: LuongState) -> State:
        hidden = torch.stack([torch.stack(layer, 1) for layer in state.hidden], 1)  # (B, N, 2, n)
        return {"hidden": hidden} | ({} if state.fed is None else {"fed": state.fed})


class GatedEncoder(nn.Module):
    """RNNsearch's encoder as ONNX's GRU operator, for sentences of any length.

    Bahdanau's z weights the new candidate, ONNX's the old state: 1 - σ(x) = σ(-x), so the weights of z are
    negated. His r acts before the matrix, as ONNX's does unless `linear_before_reset` is set.
    """

    W: Tensor  # (2, 3 n, inputs)
    R: Tensor  # (2, 3 n, n)
    B: Tensor  # (2, 6 n)

    def __init__(self, encoder: BidirectionalEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.n = encoder.rightward.hidden
        parts = [self._parts(cell) for cell in (encoder.rightward, encoder.leftward)]
        for name, both in zip(("W", "R", "B"), zip(*parts, strict=True), strict=True):
            self.register_buffer(name, torch.stack(both).detach())

    def _parts(self, cell: GatedCell) -> tuple[Tensor, Tensor, Tensor]:
        """ONNX's W, R and B, each ordered as z, r, candidate."""
        new, z, r = torch.split(cell.W.weight, self.n)
        b_new, b_z, b_r = torch.split(cell.W.bias, self.n)
        u_z, u_r = torch.split(cell.U_gates.weight, self.n)
        biases = torch.cat([-b_z, b_r, b_new, b_new.new_zeros(3 * self.n)])
        return torch.cat([-z, r, new]), torch.cat([-u_z, u_r, cell.U.weight]), biases

    def forward(self, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Like BidirectionalEncoder; annotations of padding are zero."""
        if not torch.onnx.is_in_onnx_export():
            return self.encoder(inputs, lengths)
        states = torch.onnx.ops.symbolic(
            "GRU",
            [inputs.transpose(0, 1), self.W, self.R, self.B, lengths.int()],
            {"hidden_size": self.n, "direction": "bidirectional", "linear_before_reset": 0},
            dtype=inputs.dtype,
            shape=(inputs.shape[1], 2, inputs.shape[0], self.n),
        )
        return states.permute(2, 0, 1, 3).flatten(2), states[0, 1]


class RNNsearchSteps(Steps):
    """RNNsearch's step: decoder state and source."""

    longest = NO_END

    def __init__(self, model: RNNsearch) -> None:
        super().__init__()
        self.model = model
        self.heads = isinstance(model.attention, MultiHead)
        self.constant = source_axes(2 if self.heads else 1)
        self.changing: Mapping[str, Axes] = {"hidden": {0: "rows"}}
        model.encoder = GatedEncoder(model.encoder)  # type: ignore[assignment]

    def begin(self, source: Tensor, lengths: Tensor) -> State:
        state = self.model.start(PairBatch(source, lengths, source, lengths))
        return {
            "visible": torch.arange(source.shape[1], device=source.device) < lengths[:, None],
            "source_keys": state.source.keys,
            "source_values": state.source.values,
            "hidden": state.state[:, 0],
        }

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        visible = state["visible"][:, None]
        mask = Mask(dense=visible[:, None] if self.heads else visible)
        source = Source(state["source_keys"], state["source_values"], mask)
        before = SearchState(state["hidden"][:, None], source, None, 0)
        log_probabilities, after = self.model.step(tokens, before)
        return log_probabilities, {"hidden": after.state[:, 0]}


def _check_attention(model: Translating) -> None:
    window = model.config.attention.window
    if window == "local-monotonic":
        raise ConfigError(
            f"export to onnx: `attention.window` has {window!r}; expected 'global' or 'local-predictive', "
            "because the exported step does not know its number."
        )
    if any(isinstance(part, HistoryScore) for part in model.modules()):
        raise ConfigError(
            f"export to onnx: `attention.score` has {model.config.attention.score!r}, which looks back at "
            "earlier alignments; expected one that does not."
        )


STEPS: dict[type[Translating], type[Any]] = {
    Transformer: TransformerSteps,
    Luong: LuongSteps,
    RNNsearch: RNNsearchSteps,
}


def steps_of(model: Translating) -> Steps:
    """Wrap a copy of the model, on the reference kernel, so that its state is plain tensors."""
    for known, adapter in STEPS.items():
        if isinstance(model, known):
            _check_attention(model)
            made: Steps = adapter(deepcopy(model).float().cpu().eval())
            for module in made.modules():
                if isinstance(module, Attention):
                    module.kernel = "reference"  # ONNX has no fused kernels of ours
            return made
    *names, last = (known.__name__ for known in STEPS)
    raise ConfigError(
        f"export to onnx: the model is {type(model).__name__}; expected {', '.join(names)} or {last}."
    )
