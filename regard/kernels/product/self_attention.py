"""Self-attention of few positions in several heads on a CPU, as one operator of PyTorch.

    [q; k; v] = x [W_Q; W_K; W_V]ᵀ,   softmax(q kᵀ / √d) v W_Oᵀ

The operator is the one that nn.MultiheadAttention runs without gradients. A short call takes longer for what
stands around its arithmetic (modules, sources, the choice of a kernel) than for the arithmetic itself. The
weights come with it; the scores are computed when somebody looks at them.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from regard.attention.compose import Attention
from regard.attention.multihead import MultiHead, SelfCall
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import is_lowered, is_transformed
from regard.attention.parts import is_own, unchanged
from regard.attention.result import Alignment, AttentionResult
from regard.attention.scores.dot import DotScore
from regard.attention.trace import WATCHERS

NUMBERS = 2**15  # of weights, of a projection: with more, the arithmetic takes the time
PROJECTIONS = ("W_Q", "W_K", "W_V", "W_O")


class SelfAttentionCPU:
    """The reference is MultiHead(DotScore) over its own query."""

    name = "self-attention-cpu"

    def refuses(self, call: SelfCall) -> str | None:
        x, heads = call.query, call.heads
        if type(x) is not Tensor or not x.is_cpu or x.dtype is not torch.float32 or is_lowered(x):
            return "the query is no float32 tensor on a CPU, or autocast is on"
        B, T, D = x.shape if x.ndim == 3 else (0, 0, 0)
        if not 0 < B * T * T * heads.heads <= NUMBERS or D * D > NUMBERS:
            return f"a tensor has more than {NUMBERS} numbers, or none"
        if call.mask is not None or call.history is not None:
            return "there is a mask or a history"
        if _is_watched():
            return "the call is compiled, traced, transformed or recorded"
        if type(heads) is not MultiHead or "prepare" in heads.__dict__:
            return "MultiHead has methods of its own"
        gradients = torch.is_grad_enabled()
        return _of_parts(heads._modules, gradients) or (
            "gradients are wanted" if gradients and x.requires_grad else None
        )

    def run(self, call: SelfCall) -> AttentionResult:
        x, H = call.query, call.heads.heads
        parts: dict[str, Any] = call.heads._modules
        Q, K, V, O = [parts[name]._parameters for name in PROJECTIONS]
        weight, D = torch.cat((Q["weight"], K["weight"], V["weight"])), x.shape[-1]
        if Q["bias"] is None:
            bias, last = x.new_zeros(3 * D), x.new_zeros(D)
        else:
            bias, last = torch.cat((Q["bias"], K["bias"], V["bias"])), O["bias"]
        given = x, x, x, D, H, weight, bias, O["weight"], last, None, True, False
        context, weights = torch._native_multi_head_attention(*given)
        alignment: Any = Kept(weights, x, weight, bias)
        return AttentionResult(context, kernel=self.name, rows=x.shape[1], align=_never, alignment=alignment)


class Kept:
    """The weights of a call, and its scores when they are looked at: an Alignment."""

    def __init__(self, weights: Tensor, x: Tensor, weight: Tensor, bias: Tensor) -> None:
        self.weights, self._made_of = weights, (x, weight, bias)

    @property
    def scores(self) -> Tensor:
        """(B, H, T, T)."""
        x, weight, bias = self._made_of
        B, H, T, _ = self.weights.shape
        D = x.shape[-1]
        both = F.linear(x, weight[: 2 * D], bias[: 2 * D]).view(B, T, 2 * H, -1).transpose(1, 2)
        return (both[:, :H] / math.sqrt(D // H)) @ both[:, H:].mT


def _never(targets: Tensor | None) -> Alignment:
    raise AssertionError("a result that has its alignment was asked to make it.")


def _is_watched() -> bool:
    """Somebody follows the modules or operators of this call, and must see them."""
    return (
        torch.compiler.is_compiling()
        or is_transformed()
        or torch._C._get_tracing_state() is not None
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._len_torch_function_stack() > 0
        or _has_any_global_hook()  # type: ignore[no-untyped-call]
        or bool(WATCHERS.get())
    )


def _of_parts(parts: dict[str, Any], gradients: bool) -> str | None:
    """Why the parts of a MultiHead compute something else, or need gradients."""
    attention = parts["attention"]
    if type(attention) is not Attention or not unchanged(attention):
        return "the attention is of another class, or has hooks"
    inner: dict[str, Any] = attention._modules
    fits = is_own(inner["score"], DotScore) and is_own(inner["normalizer"], Softmax)
    plain = fits and inner["score"].scale is None and inner["normalizer"].temperature == 1.0
    if not plain or attention.window is not None:
        return "the attention is no scaled dot product with a softmax"
    if attention.kernel != "auto" or (attention.dropout and attention.training):
        return "a kernel was asked for, or weights are dropped"
    size, biased = parts["W_Q"].in_features, parts["W_Q"].bias is not None
    for name in PROJECTIONS:
        W = parts[name]
        if type(W) is not nn.Linear or not unchanged(W):
            return f"{name} is no nn.Linear, or has hooks"
        weight, bias = W._parameters["weight"], W._parameters["bias"]
        if type(weight) is not nn.Parameter or weight.dtype is not torch.float32 or not weight.is_cpu:
            return f"{name} is no float32 parameter on a CPU"
        if W.in_features != size or W.out_features != size or (bias is not None) is not biased:
            return "the projections are not alike"
        if gradients and (weight.requires_grad or (bias is not None and bias.requires_grad)):
            return "gradients are wanted"
    return None


SELF_ATTENTION_CPU = SelfAttentionCPU()
