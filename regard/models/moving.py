"""Weights moved in from PyTorch's own modules: the same numbers in, the same numbers out.

    multi_head_from(torch.nn.MultiheadAttention)     -> MultiHead
    encoder_from(torch.nn.TransformerEncoder)        -> Encoder
    decoder_from(torch.nn.TransformerDecoder)        -> Decoder
    both_from(torch.nn.Transformer)                  -> Encoder, Decoder

    torch.nn                    here
    in_proj_weight, _bias       W_Q, W_K, W_V       stacked there, three matrices here
    out_proj                    W_O
    linear1, linear2            feed_forward.W_1, .W_2
    norm1 …, norm_first         around_….norm, PostNorm or PreNorm

PyTorch's boolean masks say what may not be attended; a Mask here says what may. Batches come first here,
whatever `batch_first` was there.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.compose import Attention
from regard.attention.multihead import MultiHead
from regard.attention.scores.dot import DotScore
from regard.errors import ConfigError
from regard.layers.transformer import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    LayerNorm,
    PostNorm,
    PreNorm,
)


def multi_head_from(module: nn.MultiheadAttention) -> MultiHead:
    """Multi-head attention with the weights of PyTorch's."""
    if module.bias_k is not None or module.add_zero_attn:
        raise ConfigError(
            "multi_head_from: `module` has add_bias_kv or add_zero_attn; expected neither. "
            "They add a key that stands at no position."
        )
    attention = Attention(DotScore(), dropout=module.dropout)
    moved = MultiHead(
        module.embed_dim,
        module.num_heads,
        attention=attention,
        dim_keys=module.kdim,
        dim_values=module.vdim,
        bias=module.in_proj_bias is not None,
    )
    stacked = module.in_proj_weight
    separate = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    weights = separate if stacked is None else stacked.chunk(3)
    biases = [None] * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    for mine, weight, bias in zip((moved.W_Q, moved.W_K, moved.W_V), weights, biases, strict=True):
        _fill(mine, weight, bias)
    _fill(moved.W_O, module.out_proj.weight, module.out_proj.bias)
    return moved.to(module.out_proj.weight).train(module.training)


def encoder_from(module: nn.TransformerEncoder) -> Encoder:
    """The encoder's layers and its last norm, if it has one."""
    layers = [_encoder_layer(layer) for layer in module.layers]
    return Encoder(layers, _norm_or_none(module.norm)).train(module.training)


def decoder_from(module: nn.TransformerDecoder) -> Decoder:
    """The decoder's layers and its last norm, if it has one."""
    layers = [_decoder_layer(layer) for layer in module.layers]
    return Decoder(layers, _norm_or_none(module.norm)).train(module.training)


def both_from(module: nn.Transformer) -> tuple[Encoder, Decoder]:
    """Encoder and decoder of PyTorch's whole Transformer, which has no embeddings and no output matrix."""
    return encoder_from(module.encoder), decoder_from(module.decoder)


def _encoder_layer(layer: Any) -> EncoderLayer:
    moved = EncoderLayer(multi_head_from(layer.self_attn), _feed_forward(layer), _residual(layer))
    moved.around_attention.norm = _norm(layer.norm1)
    moved.around_feed_forward.norm = _norm(layer.norm2)
    return moved


def _decoder_layer(layer: Any) -> DecoderLayer:
    moved = DecoderLayer(
        multi_head_from(layer.self_attn),
        multi_head_from(layer.multihead_attn),
        _feed_forward(layer),
        _residual(layer),
    )
    moved.around_self_attention.norm = _norm(layer.norm1)
    moved.around_source_attention.norm = _norm(layer.norm2)
    moved.around_feed_forward.norm = _norm(layer.norm3)
    return moved


def _feed_forward(layer: Any) -> FeedForward:
    relu = layer.activation is F.relu or isinstance(layer.activation, nn.ReLU)
    if not relu:
        name = getattr(layer.activation, "__name__", type(layer.activation).__name__)
        raise ConfigError(f"encoder_from: `activation` has {name}; expected relu, as in the paper.")
    moved = FeedForward(layer.linear1.in_features, layer.linear1.out_features, dropout=layer.dropout.p)
    _fill(moved.W_1, layer.linear1.weight, layer.linear1.bias)
    _fill(moved.W_2, layer.linear2.weight, layer.linear2.bias)
    return moved.to(layer.linear1.weight)


def _residual(layer: Any) -> Callable[[], PostNorm | PreNorm]:
    kind = PreNorm if layer.norm_first else PostNorm
    return lambda: kind(nn.Identity(), layer.dropout1.p)  # the norm is put in by the caller


def _norm(norm: nn.LayerNorm) -> LayerNorm:
    moved = LayerNorm(norm.normalized_shape[0], eps=norm.eps)
    moved.load_state_dict(norm.state_dict())
    return moved.to(norm.weight)


def _norm_or_none(norm: Any) -> LayerNorm | None:
    return None if norm is None else _norm(norm)


def _fill(linear: nn.Linear, weight: Tensor, bias: Tensor | None) -> None:
    """Copy a matrix; PyTorch leaves out all biases of a layer or none, and so does the module here."""
    with torch.no_grad():
        linear.weight.copy_(weight)
        if linear.bias is not None:
            linear.bias.zero_() if bias is None else linear.bias.copy_(bias)
