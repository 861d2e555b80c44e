"""The recurrence of a long short-term memory-network as one operation, with an explicit gradient.

    tapes = lstmn(projected, U, W_h, b_h, v, newest, span)

    projected (B, T, 5 n)     W x_t: input, forget, output, candidate, query
    U         (5 n, n)        the same five from h̃; 4 n rows if the query does not see h̃_{t-1}
    W_h b_h   (n, n), (n,)    the keys
    v         (n,)
    newest    ()              added to the score of the slot written last; or None
    tapes     (B, T, 2 n)     [h_t; c_t]

The reference is LSTMNCell, step by step. The gains: tapes are written in place instead of grown by copying,
their gradients are accumulated in place, the gradients of U, W_h and v are one product over all steps instead
of a sum of T, and nothing of size T × T × n is saved. Inside, the step axis comes first, (T, B, ·), so that
the tape up to step t is one block of memory.

Backward, with r = ∂/∂a of the scores, q_t = W_x x_t + W_h̃ h̃_{t-1} and k_i = W_h h_i + b_h:

    ∂k_i += r_i v ∘ (1 - tanh²(q_t + k_i)),  ∂q_t = Σ_i of the same,  ∂v += Σ_i r_i tanh(q_t + k_i)

Since Σ_i r_i = 0, ∂q_t needs only Σ_i r_i v ∘ tanh²; v is multiplied in at the end.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.attention.dispatch import TRANSFORMED
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import is_transformed
from regard.attention.parts import foreign, is_own, named
from regard.attention.scores.additive import AdditiveScore, NewestScore, Projected
from regard.attention.trace import is_recorded
from regard.catalog import card

if TYPE_CHECKING:
    from regard.attention.compose import Attention

LARGEST = 43.0  # e^{2x} is a normal float32 up to here
SATURATED = 33.0  # for keys within this, a query beyond LARGEST saturates the sum and can be clamped


class Recurrence(NamedTuple):
    """A request to run an LSTMN cell over a whole sequence."""

    attention: "Attention"
    inputs: Tensor  # (B, T, 5 n), projected
    U: nn.Linear
    span: int | None
    foreign: str | None  # why the cell is not the paper's, as a clause


class LSTMNKernel:
    """All steps of an LSTMN as one operation."""

    name = "lstmn"

    def refuses(self, call: Recurrence) -> str | None:
        attention, inputs = call.attention, call.inputs
        if call.foreign is not None:
            return call.foreign
        if not is_own(attention.score, AdditiveScore, NewestScore):
            return f"score is {named(attention.score)}, this kernel computes AdditiveScore"
        if not is_own(attention.normalizer, Softmax) or attention.normalizer.temperature != 1.0:
            return f"normalizer is {attention.normalizer}, this kernel computes Softmax(temperature=1)"
        if is_transformed():
            return TRANSFORMED
        if is_recorded(attention):
            return "the attention is being recorded, which sees it step by step"
        if attention.training and attention.dropout:
            return f"dropout is {attention.dropout:g}, this kernel has none"
        if torch.is_autocast_enabled(inputs.device.type):
            return "autocast is on, this kernel has one precision"
        if inputs.dtype not in (torch.float32, torch.float64):
            return f"dtype is {inputs.dtype}, which goes to the reference"
        replaced = (type(attention), AdditiveScore, NewestScore, Projected, Softmax, nn.Linear)
        part = foreign((*attention.modules(), call.U), *replaced)
        return None if part is None else f"a part is {named(part)}, which goes step by step"

    def run(self, call: Recurrence) -> Tensor:
        score = call.attention.score
        assert isinstance(score, AdditiveScore)
        newest = score.newest if isinstance(score, NewestScore) else None
        keys, v = score.U, score.v.weight.squeeze(0)
        return lstmn(call.inputs, call.U.weight, keys.weight, keys.bias, v, newest, call.span)


LSTMN = LSTMNKernel()


@card(
    "kernel",
    "lstmn",
    title="The LSTMN's recurrence as one operation",
    authors="regard",
    year=2026,
    link="https://arxiv.org/abs/1601.06733",
    sentence="Tapes written in place, the gradient written out; equal to the step-by-step reference.",
)
def lstmn(
    projected: Tensor,
    U: Tensor,
    W_h: Tensor,
    b_h: Tensor,
    v: Tensor,
    newest: Tensor | None = None,
    span: int | None = None,
) -> Tensor:
    """(B, T, 5 n) -> (B, T, 2 n): both tapes, without slot 0."""
    ahead = v.new_zeros(()) if newest is None else newest
    return _Tapes.apply(projected, U, W_h, b_h, v, ahead, span)  # type: ignore[no-untyped-call]


def _fits_exponentials(W_h: Tensor, b_h: Tensor) -> bool:
    """Whether to use exponentials: on a CPU, where tanh costs ten multiplications, if no key can overflow.

    |h| < 1 bounds the keys. On a GPU tanh is cheap, and reading the bound would make the host wait.
    """
    return W_h.device.type == "cpu" and bool((W_h.abs().sum(1) + b_h.abs()).max() <= SATURATED)


def _prepared(x: Tensor, exponentials: bool) -> Tensor:
    """What `_compared` reads of queries and keys: e^{2x}, or x itself."""
    return x.clamp(-LARGEST, LARGEST).mul_(2.0).exp_() if exponentials else x


def _compared(keys: Tensor, query: Tensor, exponentials: bool, out: Tensor) -> Tensor:
    """tanh(q + k) = 1 - 2 / (1 + e^{2q} e^{2k}): one exponential per position instead of one per pair."""
    if exponentials:
        return torch.mul(keys, query, out=out).add_(1.0).reciprocal_().mul_(-2.0).add_(1.0)
    return torch.add(keys, query, out=out).tanh_()


class _Tapes(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        projected: Tensor,
        U: Tensor,
        W_h: Tensor,
        b_h: Tensor,
        v: Tensor,
        newest: Tensor,
        span: int | None,
    ) -> Tensor:
        (B, T, _), n = projected.shape, W_h.shape[0]
        exponentials = _fits_exponentials(W_h, b_h)
        given = _shift(projected.transpose(0, 1), n)  # (T, B, 5 n): gates of step t, query of step t + 1
        new = projected.new_empty
        keys, tapes, contexts, tanh_c = new(T + 1, B, n), new(T + 1, B, 2 * n), new(T, B, 2 * n), new(T, B, n)
        every_weight = new(T, T + 1, B)
        pairs, mixed = new(T, B, n), new(T, B, 2 * n)  # buffers for one step's products, reused
        tapes[0], keys[0] = 0.0, _prepared(b_h, exponentials)
        query = projected[:, 0, 4 * n :]
        for t in range(T):
            slots = _slots(t, span)
            S = slots.stop - slots.start
            hidden = _compared(keys[slots], _prepared(query, exponentials), exponentials, pairs[:S])
            scores = hidden @ v  # (S, B)
            scores[-1] += newest
            weights = torch.softmax(scores, 0)
            every_weight[t, slots] = weights
            context = torch.sum(
                torch.mul(weights[..., None], tapes[slots], out=mixed[:S]), 0, out=contexts[t]
            )
            given[t, :, : U.shape[0]].addmm_(context[:, :n], U.mT)
            query = given[t, :, 4 * n :]
            given[t, :, : 3 * n].sigmoid_()
            given[t, :, 3 * n : 4 * n].tanh_()
            i, f, o, candidate, _ = given[t].chunk(5, -1)
            h, c = tapes[t + 1].chunk(2, -1)
            torch.addcmul(f * context[:, n:], i, candidate, out=c)
            torch.mul(o, torch.tanh(c, out=tanh_c[t]), out=h)
            keys[t + 1] = _prepared(torch.addmm(b_h, h, W_h.mT), exponentials)
        ctx.span, ctx.exponentials = span, exponentials
        first = projected[:, 0, 4 * n :]
        ctx.save_for_backward(U, W_h, v, given, first, keys, tapes, contexts, tanh_c, every_weight)
        return tapes[1:].transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        U, W_h, v, given, first, keys, tapes, contexts, tanh_c, every_weight = ctx.saved_tensors
        T, B, n = tanh_c.shape
        rows, exponentials = U.shape[0], ctx.exponentials
        grad_tapes = torch.cat([tapes.new_zeros(1, B, 2 * n), grad.transpose(0, 1)])
        curved = tapes.new_zeros(T + 1, B, n)  # Σ r tanh², over all steps that read the slot
        slopes = tapes.new_zeros(T + 1, B)  # Σ r
        grad_given = tapes.new_zeros(T, B, 5 * n)
        grad_first = torch.zeros_like(first)
        grad_v, grad_newest = torch.zeros_like(v), v.new_zeros(())
        pairs, bent, mixed = (torch.empty_like(x) for x in (tanh_c, tanh_c, contexts))
        for t in reversed(range(T)):
            slots = _slots(t, ctx.span)
            S = slots.stop - slots.start
            i, f, o, candidate, _ = given[t].chunk(5, -1)
            grad_key = (slopes[t + 1][:, None] - curved[t + 1]) * v
            grad_h = torch.addmm(grad_tapes[t + 1, :, :n], grad_key, W_h)
            grad_c = torch.addcmul(grad_tapes[t + 1, :, n:], grad_h * o, 1 - tanh_c[t] * tanh_c[t])
            gates = grad_given[t, :, : 4 * n]
            torch.mul(grad_c, candidate, out=gates[:, :n])
            torch.mul(grad_c, contexts[t, :, n:], out=gates[:, n : 2 * n])
            torch.mul(grad_h, tanh_c[t], out=gates[:, 2 * n : 3 * n])
            torch.mul(grad_c * i, 1 - candidate * candidate, out=gates[:, 3 * n :])
            sigmoids = given[t, :, : 3 * n]
            gates[:, : 3 * n].mul_(sigmoids * (1 - sigmoids))
            grad_context = torch.cat([grad_given[t, :, :rows] @ U, grad_c * f], -1)  # (B, 2 n)
            weights = every_weight[t, slots]
            r = torch.mul(tapes[slots], grad_context, out=mixed[:S]).sum(-1)  # (S, B)
            r = weights * (r - (r * weights).sum(0))
            grad_tapes[slots].addcmul_(weights[..., None], grad_context)
            query = given[t - 1, :, 4 * n :] if t else first
            hidden = _compared(keys[slots], _prepared(query, exponentials), exponentials, pairs[:S])
            grad_newest += r[-1].sum()
            grad_v += r.flatten() @ hidden.flatten(0, 1)
            step = torch.mul(r[..., None], hidden, out=bent[:S]).mul_(hidden)
            curved[slots] += step
            slopes[slots] += r
            torch.mul(step.sum(0), -v, out=grad_given[t - 1, :, 4 * n :] if t else grad_first)
        grad_U = grad_given[..., :rows].flatten(0, 1).mT @ contexts[..., :n].flatten(0, 1)
        grad_keys = (slopes[..., None] - curved).mul_(v)
        grad_W_h = grad_keys.flatten(0, 1).mT @ tapes[..., :n].flatten(0, 1)
        grad_projected = grad_given.clone()
        grad_projected[1:, :, 4 * n :] = grad_given[:-1, :, 4 * n :]
        grad_projected[0, :, 4 * n :] = grad_first
        grad_b_h = grad_keys.sum((0, 1))
        return grad_projected.transpose(0, 1), grad_U, grad_W_h, grad_b_h, grad_v, grad_newest, None


def _shift(projected: Tensor, n: int) -> Tensor:
    """(T, B, 5 n): the gates' part of each step next to the query's part of the following step.

    h̃_t contributes to the gates of its own step and to the query of the next, so one product adds to both.
    """
    given = projected.new_zeros(projected.shape)
    given[..., : 4 * n] = projected[..., : 4 * n]
    given[:-1, :, 4 * n :] = projected[1:, :, 4 * n :]
    return given


def _slots(t: int, span: int | None) -> slice:
    """The slots that step t reads: those written before it, the last `span` of them."""
    return slice(0 if span is None else max(0, t + 1 - span), t + 1)
