"""The Transformer: translation by attention alone, all positions of a sentence at once.

    encoder   x = E x √d + PE;  N ×: self-attention, feed-forward       (section 3.1)
    decoder   y = E y √d + PE;  N ×: masked self-attention, attention over the encoder, feed-forward
    p(y_t)    = softmax(Eᵀ y)                                          (section 3.4)

    paper        here                       shape
    x y          batch.source/.target       (B, S), (B, T)
    N            layers, decoder_layers
    d_model d_ff d_model, d_ff
    h d_k        heads, d_k
    P_drop       dropout                    after each sub-layer, and on words + positions
    PE           positions
    E            E_source, E, W             one matrix where the vocabulary is one

Training computes all target positions in one pass under a causal mask. Decoding caches the keys and values of
what it has written (`Cache`) and projects those of the source once, so a step costs one position.

A score that looks back at earlier alignments (coverage, location-aware) runs in order: in each layer and head
a query sees where earlier ones attended (`InOrder`), in training as in decoding (`Looked`).

The paper does not specify the initialization. Here matrices are Glorot uniform, biases zero, embeddings
normal with variance 1/d: times √d they have variance 1 and, if tied, the first scores about that variance
too.

Vaswani, Shazeer, Parmar, Uszkoreit, Jones, Gomez, Kaiser, Polosukhin. Attention is all you need. 2017.
https://arxiv.org/abs/1706.03762
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.config import AttentionConfig, attention_field
from regard.attention.in_order import InOrder, in_order
from regard.attention.mask import Mask
from regard.attention.multihead import MultiHead
from regard.attention.source import Source
from regard.catalog import card
from regard.data.batches import PairBatch
from regard.errors import ConfigError
from regard.layers.fast_decoder import Caches, Stepper, as_caches, gather, select
from regard.layers.positions import LearnedPositions, NoPositions, Positions, SinusoidalPositions
from regard.layers.transformer import (
    BatchNorm,
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    LayerNorm,
    Looked,
    PostNorm,
    PreNorm,
)
from regard.models.base import Settings, Share, Size, Translating, teacher_inputs


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Settings, key="transformer"):
    """A preset size and deviations from it; "base" and "big" are the paper's."""

    source_vocab: int
    target_vocab: int
    shared_vocab: int = 0  # 1: one vocabulary for both languages; set by the task
    size: Literal["tiny", "base", "big"] = "base"
    layers: Size | None = None  # None, here and below: the preset's
    decoder_layers: Size | None = None  # None: as `layers`
    d_model: Size | None = None
    d_ff: Size | None = None
    d_k: Size | None = None  # None: d_model / attention.heads
    dropout: Share | None = None
    norm: Literal["post", "pre"] = "post"  # after each sum as printed, or before each sub-layer
    norm_kind: Literal["layer", "batch"] = "layer"
    positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    longest: Size = 256  # learned positions and the location score: the longest sequence
    tied: Literal["auto", "all", "target", "none"] = "auto"  # "auto": all if the vocabulary is shared
    attention: AttentionConfig = attention_field("scaled-dot", fixed=("window",))
    restricted: int = 0  # self-attention sees this many positions on either side (section 4); 0: all
    aligning_layer: int = -1  # the decoder layer whose attention is the alignment

    @property
    def tying(self) -> Literal["all", "target", "none"]:
        """Which matrices are shared: both embeddings and the output, the decoder's two, or none."""
        if self.tied == "auto":
            return "all" if self.shared_vocab else "target"
        return self.tied

    def resolved(self) -> "Shape":
        """All sizes as numbers; ConfigError if settings contradict each other."""
        preset = PRESETS[self.size]
        given = {name: getattr(self, name) for name in ("layers", "d_model", "d_ff", "dropout")}
        given["heads"] = self.attention.heads
        shape = replace(preset, **{name: size for name, size in given.items() if size is not None})
        shape = replace(shape, decoder_layers=self.decoder_layers or shape.layers)
        if self.d_k is None and shape.d_model % shape.heads:
            raise ConfigError(
                f"transformer: `attention.heads` has {shape.heads}; expected a divisor of "
                f"d_model={shape.d_model}. Or give d_k."
            )
        if self.tying == "all" and self.source_vocab != self.target_vocab:
            raise ConfigError(
                f"transformer: `tied` has 'all' with {self.source_vocab} source and {self.target_vocab} "
                "target words; expected one vocabulary for both. 'target' ties the decoder's two matrices."
            )
        if not -shape.decoder_layers <= self.aligning_layer < shape.decoder_layers:
            raise ConfigError(
                f"transformer: `aligning_layer` has {self.aligning_layer}; expected the number of one of "
                f"{shape.decoder_layers} decoder layers."
            )
        return replace(shape, d_k=self.d_k or shape.d_model // shape.heads)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The sizes of a Transformer."""

    layers: int
    decoder_layers: int = 0
    d_model: int
    d_ff: int
    heads: int
    d_k: int = 0
    dropout: float


PRESETS = {
    "tiny": Shape(layers=2, d_model=64, d_ff=256, heads=4, dropout=0.0),
    "base": Shape(layers=6, d_model=512, d_ff=2048, heads=8, dropout=0.1),
    "big": Shape(layers=6, d_model=1024, d_ff=4096, heads=16, dropout=0.3),
}


class TransformerState(NamedTuple):
    """The decoder's state."""

    sources: tuple[Source, ...]  # per layer the source's keys and values, projected once
    caches: Caches  # per layer the keys and values written so far
    looked: tuple[Looked, ...]  # per layer where its queries attended, if its score looks back
    stepper: Stepper | None  # the decoder's weights in a row, gathered once per batch; None: its modules
    step: int


@card(
    "model",
    "transformer",
    title="Transformer",
    authors="Vaswani et al.",
    year=2017,
    link="https://arxiv.org/abs/1706.03762",
    sentence="Translation by attention alone: all positions of a sentence at once, in several heads.",
)
class Transformer(Translating):
    """Encoder, decoder, and embeddings that they may share."""

    Config = TransformerConfig
    reads = ("sentence pairs",)
    varied = True
    uses_all_parameters = True
    sharded_layers = ("EncoderLayer", "DecoderLayer")

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.shape = shape = config.resolved()
        d = shape.d_model
        self.E_source = nn.Embedding(config.source_vocab, d)
        self.E = self.E_source if config.tying == "all" else nn.Embedding(config.target_vocab, d)
        self.W = nn.Linear(d, config.target_vocab, bias=False)
        self.positions_source = _positions(config, d)
        self.positions = _positions(config, d)
        self.encoder, self.decoder = build_stacks(config, shape)
        self.dropout = nn.Dropout(shape.dropout)
        initialize(self)
        if config.tying != "none":
            self.W.weight = self.E.weight
        layer = config.aligning_layer % shape.decoder_layers
        self.aligner = f"decoder.layers.{layer}.source_attention.attention"
        self.uses_all_parameters = config.attention.score != "location"  # which reads no keys

    def forward(self, batch: PairBatch) -> Tensor:
        """Teacher forcing: (B, T, V) scores of each target word given those before it."""
        annotations, seen = self._encode(batch)
        inputs = teacher_inputs(batch)
        words = self.dropout(self.positions(self.E(inputs) * math.sqrt(self.shape.d_model)))
        valid = _valid(batch.target_lengths, inputs.shape[1])
        # no lengths needed: padding is at the end, and causality hides it from every word
        decoded = self.decoder(words, annotations, seen, self._before(), valid)
        return self.W(decoded)

    def compilable(self) -> list[tuple[nn.Module, str]]:
        """The layers: one compilation per class, for batches of every shape.

        Queries in order are a loop, which would be compiled for each length: then only the networks are.
        """
        loops = any(isinstance(module, InOrder) for module in self.modules())
        whole = FeedForward if loops else EncoderLayer | DecoderLayer
        return [(module, "forward") for module in self.modules() if isinstance(module, whole)]

    def start(self, batch: PairBatch) -> TransformerState:
        annotations, mask = self._encode(batch)
        caches = self.decoder.empty(annotations, self._before())
        sources = self.decoder.prepare(annotations, mask)
        looked = self.decoder.nowhere(sources, caches)
        stepper = gather(self.decoder, self.W, sources, caches)
        return TransformerState(sources, caches, looked, stepper, 0)

    def step(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        words = self.E(tokens[:, None]) * math.sqrt(self.shape.d_model)
        words = self.dropout(self.positions(words, state.step))
        stepper, caches, looked = state.stepper, state.caches, state.looked
        if stepper is None or stepper.listening():
            caches = as_caches(caches, self.shape.heads)
            decoded, caches, looked = self.decoder.step(words, state.sources, caches, looked)
            log_probabilities = self.W(decoded[:, 0]).log_softmax(-1)
        else:
            log_probabilities, caches = stepper.step(words[:, 0], state.sources, caches)
        return log_probabilities, state._replace(caches=caches, looked=looked, step=state.step + 1)

    def select(self, state: TransformerState, rows: Tensor) -> TransformerState:
        return self._written(state._replace(sources=share(state.sources, rows)), rows)

    def reorder(self, state: TransformerState, rows: Tensor, copies: int) -> TransformerState:
        sources = tuple(source.serving(copies) for source in state.sources)
        return self._written(state._replace(sources=sources), rows)

    def _written(self, state: TransformerState, rows: Tensor) -> TransformerState:
        """Select rows of caches and alignments."""
        looked = tuple(each.select(rows) for each in state.looked)
        return state._replace(caches=select(state.caches, rows), looked=looked)

    def _encode(self, batch: PairBatch) -> tuple[Tensor, Mask]:
        """(B, S, d) annotations, and the mask of padding."""
        words = self.E_source(batch.source) * math.sqrt(self.shape.d_model)
        words = self.dropout(self.positions_source(words))
        valid = _valid(batch.source_lengths, words.shape[1])
        visible = Mask(dense=valid[:, None])  # (B, 1, S): made once for all layers, unlike lengths
        r = self.config.restricted
        within = visible & Mask(window=(r, r)) if r else visible
        return self.encoder(words, within, valid), visible

    def _before(self) -> Mask:
        """A word sees itself and earlier ones."""
        r = self.config.restricted
        return Mask(causal=True, window=(r, 0) if r else None)


def share(sources: tuple[Source, ...], rows: Tensor) -> tuple[Source, ...]:
    """Select rows of each source; computed once, because the rows are the same in all layers."""
    first = sources[0].share(rows)
    if first.keys is sources[0].keys:
        return tuple(source.serving(first.copies) for source in sources)
    return (first, *(source.share(rows) for source in sources[1:]))


def build_stacks(config: TransformerConfig, shape: Shape) -> tuple[Encoder, Decoder]:
    """Layers of self-attention and feed-forward; those of the decoder also attend to the source."""
    d, d_ff = shape.d_model, shape.d_ff

    def heads() -> MultiHead:
        attention = config.attention.build(query=shape.d_k, keys=shape.d_k, positions=config.longest)
        return MultiHead(d, shape.heads, dim_head=shape.d_k, attention=in_order(attention))

    def norm() -> nn.Module:
        return LayerNorm(d) if config.norm_kind == "layer" else BatchNorm(d)

    def residual() -> PostNorm | PreNorm:
        return PostNorm(norm(), shape.dropout) if config.norm == "post" else PreNorm(norm(), shape.dropout)

    def last_norm() -> nn.Module | None:
        return norm() if config.norm == "pre" else None

    encoder = [EncoderLayer(heads(), FeedForward(d, d_ff), residual) for _ in range(shape.layers)]
    decoder = [
        DecoderLayer(heads(), heads(), FeedForward(d, d_ff), residual) for _ in range(shape.decoder_layers)
    ]
    return Encoder(encoder, last_norm()), Decoder(decoder, last_norm())


def initialize(model: nn.Module) -> None:
    """Glorot matrices, zero biases, embeddings of variance 1/d."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)


def _positions(config: TransformerConfig, d: int) -> Positions:
    match config.positions:
        case "sinusoidal":
            return SinusoidalPositions(d)
        case "learned":
            return LearnedPositions(d, longest=config.longest)
        case "none":
            return NoPositions()


def _valid(lengths: Tensor, longest: int) -> Tensor:
    """(B,) -> (B, L): True on words, False on padding."""
    return torch.arange(longest, device=lengths.device) < lengths[:, None]
