"""Multi-head self-attention without a mask or gradients, with minimal host overhead.

    [q; k; v] = x [W_Q; W_K; W_V]ᵀ,   softmax(q kᵀ / √d) v W_Oᵀ

In a short call the overhead (modules, sources, the choice of a kernel) exceeds the arithmetic; on a GPU most
calls are short. On a CPU, the operator behind nn.MultiheadAttention without gradients does everything, and
returns the weights as well. On a GPU there are three calls: one product for query, keys and values, without a
copy if their matrices are stored together (attention/together.py); PyTorch's fused attention; and the product
with W_O.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.modules.module import _has_any_global_hook

from regard.attention.compose import Attention
from regard.attention.dispatch import Call
from regard.attention.looks import look, unprepared
from regard.attention.mask import Mask
from regard.attention.multihead import MultiHead, SelfCall
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import HALF, is_lowered, is_transformed, no_autocast
from regard.attention.reference import align
from regard.attention.result import AttentionResult, on_demand
from regard.attention.scores.dot import DotScore
from regard.attention.together import joined
from regard.attention.top_k import largest
from regard.attention.trace import WATCHERS

NUMBERS = 2**15  # elements of the weights or of a projection on a CPU: above, the arithmetic dominates
PLAIN = (Tensor, nn.Parameter, FakeTensor)  # no other subclass, which may behave differently
SINGLE = (*HALF, torch.float32)
PROJECTIONS = ("W_Q", "W_K", "W_V", "W_O")


class SelfAttentionCPU:
    """The reference is self-attention by MultiHead(DotScore)."""

    name = "self-attention-cpu"

    def refuses(self, call: SelfCall) -> str | None:
        x, heads = call.query, call.heads
        if type(x) not in PLAIN or not x.is_cpu or x.dtype is not torch.float32:
            return "the query is not a float32 tensor on a CPU"
        B, T, D = x.shape if x.ndim == 3 else (0, 0, 0)
        if not 0 < B * T * T * heads.heads <= NUMBERS or D * D > NUMBERS:
            return f"a tensor has more than {NUMBERS} numbers, or none"
        return _refuses(call)

    def run(self, call: SelfCall) -> AttentionResult:
        """One operator, which returns the weights; scores on demand project a copy of the query again."""
        x, heads = call.query, call.heads
        H, D = heads.heads, heads.dim
        score: Any = heads.attention._modules["score"]
        weights, biases, O = _projections(heads)
        weight, last = torch.cat(weights), O["bias"]
        if biases is None:
            bias, last = x.new_zeros(4 * D).split((3 * D, D))  # type: ignore[no-untyped-call]
        else:
            bias = torch.cat(biases)
        given = x, x, x, D, H, weight, bias, O["weight"], last, None, True, False
        context, shares = torch._native_multi_head_attention(*given)
        copy = x.clone()

        def scores() -> Tensor:
            with no_autocast(copy):
                query, keys, _ = _split(F.linear(copy, weight, bias), H)
            return align(unprepared(query, keys, Mask(), score)).scores

        seen = on_demand(scores, lambda: shares)
        return AttentionResult(context, kernel=self.name, align=lambda _: seen, alignment=seen)


class SelfAttentionCUDA:
    """The same on a GPU, for any length."""

    name = "self-attention-cuda"

    def refuses(self, call: SelfCall) -> str | None:
        x, heads = call.query, call.heads
        if type(x) not in PLAIN or not x.is_cuda or x.dtype not in SINGLE:
            return "the query is not a half- or single-precision tensor on a GPU"
        if x.ndim != 3 or not x.numel() or (x.shape[1] == 1 and x.dtype is torch.float32):
            return "the query is not (B, T, D), is empty, or has one position in single precision"
        if heads.dim % (8 * heads.heads):
            return "the width of a head is not a multiple of eight"
        return _refuses(call)

    def run(self, call: SelfCall) -> AttentionResult:
        """One product and PyTorch's fused attention; later looks start from the product's query and keys."""
        x, heads = call.query, call.heads
        weights, biases, O = _projections(heads)
        joint = F.linear(x, joined(*weights), None if biases is None else joined(*biases)).contiguous()
        query, keys, values = _split(joint, heads.heads)
        mixed = F.scaled_dot_product_attention(query, keys, values).transpose(1, 2).flatten(2)
        score: Any = heads.attention._modules["score"]

        def later() -> Call:
            return unprepared(query, keys, Mask(), score)

        return AttentionResult(
            F.linear(mixed, O["weight"], O["bias"]),
            kernel=self.name,
            align=lambda targets: look(later(), targets),
            top=lambda count: largest(later(), count),
            numbers=x.numel(),
        )


def _projections(heads: MultiHead) -> tuple[list[Tensor], list[Tensor] | None, dict[str, Any]]:
    """Weights and biases for query, keys and values, and the parameters of W_O."""
    Q, K, V, O = [heads._modules[name]._parameters for name in PROJECTIONS]  # type: ignore[union-attr]
    weights: Any = [Q["weight"], K["weight"], V["weight"]]
    biases: Any = None if Q["bias"] is None else [Q["bias"], K["bias"], V["bias"]]
    return weights, biases, O


def _split(joint: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """(B, T, 3 D), contiguous -> query, keys and values (B, H, T, D / H)."""
    B, T, width = joint.shape
    D, wide = width // 3, width // (3 * heads)
    sizes, strides = (B, heads, T, wide), (T * width, wide, width, 1)  # a single view each saves host time
    return (
        joint.as_strided(sizes, strides),
        joint.as_strided(sizes, strides, D),
        joint.as_strided(sizes, strides, 2 * D),
    )


def _refuses(call: SelfCall) -> str | None:
    """Why this is not plain self-attention without gradients, as a clause."""
    x, heads = call.query, call.heads
    if call.mask is not None or call.history is not None:
        return "there is a mask or a history"
    if is_lowered(x) or _is_observed():
        return "autocast is on, or the call is compiled, traced, transformed or recorded"
    if type(heads) is not MultiHead or "prepare" in heads.__dict__:
        return "MultiHead has methods of its own"
    gradients = torch.is_grad_enabled()
    return _refuses_parts(heads._modules, x, gradients) or (
        "gradients are needed" if gradients and x.requires_grad else None
    )


def _is_observed() -> bool:
    """Whether something observes the modules or operators of this call, which must then run as usual."""
    return (
        torch.compiler.is_compiling()
        or is_transformed()
        or torch._C._get_tracing_state() is not None
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._len_torch_function_stack() > 0
        or _has_any_global_hook()  # type: ignore[no-untyped-call]
        or bool(WATCHERS.get())
    )


def _refuses_parts(parts: dict[str, Any], x: Tensor, gradients: bool) -> str | None:
    """Why the parts of a MultiHead compute something else, or need gradients."""
    attention = parts["attention"]
    if type(attention) is not Attention:
        return "the attention is of another class"
    inner: dict[str, Any] = attention._modules
    score, normalizer = inner["score"], inner["normalizer"]
    projections = (parts["W_Q"], parts["W_K"], parts["W_V"], parts["W_O"])
    for part in (attention, score, normalizer, *projections):
        own = part.__dict__  # like `unchanged`, but backward hooks do not matter without gradients
        if own["_forward_hooks"] or own["_forward_pre_hooks"] or "forward" in own or "normalize" in own:
            return "a part has hooks or methods of its own"
    plain = type(score) is DotScore and type(normalizer) is Softmax and "form" not in score.__dict__
    if not plain or score.scale is not None or normalizer.temperature != 1.0 or attention.window is not None:
        return "the attention is not a scaled dot product with a softmax"
    if attention.kernel != "auto" or (attention.dropout and attention.training):
        return "a kernel was requested, or dropout is on"
    size, dtype, device = projections[0].in_features, x.dtype, x.get_device()
    biased = projections[0]._parameters["bias"] is not None
    for W in projections:
        if type(W) is not nn.Linear or not W.in_features == W.out_features == size:
            return "the projections are not nn.Linear, or differ in size or bias"
        weight: Any = W._parameters["weight"]
        bias: Any = W._parameters["bias"]
        if type(weight) not in PLAIN or weight.dtype is not dtype or weight.get_device() != device:
            return "the weights of a projection differ from the query in dtype or device"
        if (bias is not None) is not biased:
            return "the projections are not nn.Linear, or differ in size or bias"
        if gradients and (weight.requires_grad or (biased and bias.requires_grad)):
            return "gradients are needed"
    return None


SELF_ATTENTION_CPU, SELF_ATTENTION_CUDA = SelfAttentionCPU(), SelfAttentionCUDA()
