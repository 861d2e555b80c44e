"""Self-attention in several heads without a mask or gradients, with little around the arithmetic.

    [q; k; v] = x [W_Q; W_K; W_V]ᵀ,   softmax(q kᵀ / √d) v W_Oᵀ

A short call takes longer for what stands around its arithmetic (modules, sources, the choice of a kernel)
than for the arithmetic itself; on a GPU most calls are short. The operator is the one that
nn.MultiheadAttention runs without gradients. On a CPU the weights come with it.
"""

from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.modules.module import _has_any_global_hook

from regard.attention.compose import Attention
from regard.attention.dispatch import Call
from regard.attention.looks import LazyScores, look
from regard.attention.mask import Mask
from regard.attention.multihead import MultiHead, SelfCall
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import HALF, is_lowered, is_transformed, no_autocast
from regard.attention.parts import is_own, unchanged
from regard.attention.reference import align
from regard.attention.result import AttentionResult
from regard.attention.scores.dot import DotScore
from regard.attention.source import Source
from regard.attention.top_k import largest
from regard.attention.trace import WATCHERS

NUMBERS = 2**15  # of weights, of a projection on a CPU: with more, the arithmetic takes the time
PLAIN = (Tensor, nn.Parameter, FakeTensor)  # not a subclass that does something else
PROJECTIONS = ("W_Q", "W_K", "W_V", "W_O")


class SelfAttentionCPU:
    """The reference is MultiHead(DotScore) over its own query."""

    name = "self-attention-cpu"

    def refuses(self, call: SelfCall) -> str | None:
        x, heads = call.query, call.heads
        if type(x) not in PLAIN or not x.is_cpu or x.dtype is not torch.float32:
            return "the query is no float32 tensor on a CPU"
        B, T, D = x.shape if x.ndim == 3 else (0, 0, 0)
        if not 0 < B * T * T * heads.heads <= NUMBERS or D * D > NUMBERS:
            return f"a tensor has more than {NUMBERS} numbers, or none"
        return _refuses(call)

    def run(self, call: SelfCall) -> AttentionResult:
        return _run(call, self.name, weighs=True)


class SelfAttentionCUDA:
    """The same on a GPU, of any length."""

    name = "self-attention-cuda"

    def refuses(self, call: SelfCall) -> str | None:
        x, heads = call.query, call.heads
        if type(x) not in PLAIN or not x.is_cuda or x.dtype not in (*HALF, torch.float32):
            return "the query is no half or single precision tensor on a GPU"
        if x.ndim != 3 or not x.numel() or (x.shape[1] == 1 and x.dtype is torch.float32):
            return "the query is not (B, T, D), is empty, or is one in single precision"
        if heads.dim % (8 * heads.heads):
            return "a head is no multiple of eight wide"
        return _refuses(call)

    def run(self, call: SelfCall) -> AttentionResult:
        return _run(call, self.name, weighs=False)


def _run(call: SelfCall, kernel: str, *, weighs: bool) -> AttentionResult:
    """By one operator; a copy of the query is projected again when somebody looks."""
    x, H, D = call.query, call.heads.heads, call.heads.dim
    weight, bias, O = _joined(call.heads)
    last = O["bias"]
    if bias is None:
        bias, last = x.new_zeros(4 * D).split((3 * D, D))  # type: ignore[no-untyped-call]
    given = x, x, x, D, H, weight, bias, O["weight"], last, None, weighs, False
    context, weights = torch._native_multi_head_attention(*given)
    later = cache(partial(_later, x.clone(), weight, bias, call.heads))
    alignment: Any = LazyScores(weights, lambda: align(later()).scores) if weighs else None
    return AttentionResult(
        context,
        kernel=kernel,
        rows=x.shape[1],
        align=lambda targets: look(later(), targets),
        alignment=alignment,
        top=lambda count: largest(later(), count),
        numbers=x.numel(),
    )


def _joined(heads: MultiHead) -> tuple[Tensor, Tensor | None, dict[str, Any]]:
    """Weights (3 D, D) and biases (3 D,) for query, keys and values, and the parameters of W_O."""
    Q, K, V, O = [heads._modules[name]._parameters for name in PROJECTIONS]  # type: ignore[union-attr]
    weight = torch.cat((Q["weight"], K["weight"], V["weight"]))  # type: ignore[arg-type]
    if Q["bias"] is None:
        return weight, None, O
    return weight, torch.cat((Q["bias"], K["bias"], V["bias"])), O  # type: ignore[arg-type]


def _later(x: Tensor, weight: Tensor, bias: Tensor, heads: MultiHead) -> Call:
    """What a later look starts from: query, keys and values (B, H, T, D / H)."""
    with no_autocast(x):
        joint = F.linear(x, weight, bias).unflatten(-1, (3, heads.heads, -1))  # type: ignore[no-untyped-call]
    query, keys, values = joint.permute(2, 0, 3, 1, 4)
    inner: dict[str, Any] = heads.attention._modules
    return Call(query, Source(keys, values, Mask()), inner["score"], inner["normalizer"], None, None, 0.0)


def _refuses(call: SelfCall) -> str | None:
    """Why this is no plain self-attention without gradients, as a clause."""
    x, heads = call.query, call.heads
    if call.mask is not None or call.history is not None:
        return "there is a mask or a history"
    if is_lowered(x) or _is_watched():
        return "autocast is on, or the call is compiled, traced, transformed or recorded"
    if type(heads) is not MultiHead or "prepare" in heads.__dict__:
        return "MultiHead has methods of its own"
    gradients = torch.is_grad_enabled()
    return _of_parts(heads._modules, x, gradients) or (
        "gradients are wanted" if gradients and x.requires_grad else None
    )


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


def _of_parts(parts: dict[str, Any], x: Tensor, gradients: bool) -> str | None:
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
        weight: Any = W._parameters["weight"]
        bias = W._parameters["bias"]
        if type(weight) not in PLAIN or weight.dtype is not x.dtype or weight.device != x.device:
            return f"{name} is no parameter in the precision of the query, on its device"
        if W.in_features != size or W.out_features != size or (bias is not None) is not biased:
            return "the projections are not alike"
        if gradients and (weight.requires_grad or (bias is not None and bias.requires_grad)):
            return "gradients are wanted"
    return None


SELF_ATTENTION_CPU, SELF_ATTENTION_CUDA = SelfAttentionCPU(), SelfAttentionCUDA()
