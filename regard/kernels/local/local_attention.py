"""Attention inside a band: local-m, local-p and the mask's own window, at a cost of T · D_window.

    a query sees low_t <= s <= high_t, where

    mask       low = max(0, t - left),  high = min(S - 1, length - 1, t + right)     t starts at the offset
    local-m    the centre is min(t, end), end the last position seen;  |s - centre| <= D
    local-p    the centre p_t is predicted from the query;  |s - p_t| <= D,
               and exp(-(s - p_t)² / 2σ²), σ = D / 2, multiplies the weights after the softmax

A block of neighbouring queries shares one gathered slice of the keys, as wide as its band; with predicted
centres each query gathers its own. A bounded number of slices is in memory at a time, and the backward pass
gathers them again, so memory besides inputs and outputs is constant. Products on a CPU need no slices:
compiled loops read keys and values in place (local_cpu.py). On a GPU Triton kernels do the same, tile by tile
for products without predicted centres (local_cuda.py), otherwise row by row (local_rows_cuda.py).

The operator is regard::local, of a `Band`. The reference is Attention with the same score, Softmax, window
and mask.
"""

from collections.abc import Iterator
from ctypes import CDLL
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.dispatch import Call, Kernel
from regard.attention.forms import Additive, Product
from regard.attention.mask import Mask
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import no_autocast, upcast
from regard.attention.windows.local_monotonic import LocalMonotonic
from regard.attention.windows.local_predictive import Around, LocalPredictive
from regard.catalog import card
from regard.kernels.compiler import triton_missing
from regard.kernels.local import local_cpu, local_cuda, local_rows_cuda
from regard.kernels.ops import operator
from regard.kernels.product.blocks import cells
from regard.kernels.product.products import HALF_OR_SINGLE, refuses_weights
from regard.kernels.shapes import fits_launch, flat, leading, number, refuses_lengths

CELLS = 2**22  # elements of gathered slices, and of scores, in memory at a time; 16 times as many on a GPU
LEAST = 4  # a source shorter than so many bands is not worth gathering,
LARGE = 2**24  # unless it has so many pairs that a product's scores, or their mask, are too large
LAUNCHES = 2**25  # on a GPU, where launches dominate, the reference is faster up to so many scores


class Band(NamedTuple):
    """Queries, their sources, and the band that each query sees."""

    q: Tensor  # (N, T, D): leading axes flattened to N; W q for the additive score
    k: Tensor  # (N, S, D): prepared keys
    values: Tensor  # (N, S, Dv)
    v: Tensor | None  # (D,): for the additive score vᵀ tanh(q + k); None: the score is q · k
    low: Tensor  # (M, T), M divides N: item n has row n // (N / M), so heads share their row's bounds
    high: Tensor
    p: Tensor | None  # (N, T): predicted centres
    half: int  # D, the half width around p
    block: int  # queries that share a slice
    width: int  # positions in a slice
    scale: float  # multiplies the scores


RUNS = ("local.local_attention.forward", "local.local_attention.backward")
local_operator = operator(
    "local",
    Band,
    "Tensor",
    of="q k values v p",
    shapes=lambda band: band.values.new_empty(*band.q.shape[:2], band.values.shape[-1]),
    cpu=RUNS,
    cuda=RUNS,
)


@card(
    "kernel",
    "local",
    title="Attention inside a band",
    authors="regard",
    year=2026,
    link="https://arxiv.org/abs/1508.04025",
    sentence="Local-m, local-p and the mask's window: time grows with T times the window, memory with T.",
)
class LocalKernel(Kernel):
    """Softmax inside a band, on gathered slices of the source."""

    name = "local"
    forms = (Product, Additive)
    normalizers = (Softmax,)
    windows = (LocalMonotonic, LocalPredictive)

    def refuses(self, call: Call) -> str | None:
        if call.source.mask.window is None and not isinstance(call.window, LocalMonotonic | LocalPredictive):
            return "there is no window"
        mask, tensors = call.source.mask, (call.query, call.source.keys, call.source.values)
        others = sorted({str(x.dtype) for x in tensors if x.dtype not in HALF_OR_SINGLE})
        if others:
            return f"dtype is {', '.join(others)}, which goes to the reference"
        if (reason := refuses_weights(call)) is not None:
            return reason
        own = call.window.W.weight.dtype if isinstance(call.window, LocalPredictive) else torch.float32
        if own not in HALF_OR_SINGLE:
            return f"dtype of the window's weights is {own}, which goes to the reference"
        if mask.dense is not None:
            return "the mask has a dense part"
        if (reason := refuses_lengths(mask.lengths, leading(*tensors))) is not None:
            return reason
        if local_cuda.takes(call):
            return None
        T, S = call.query.shape[-2], call.source.S
        if 0 in (T, S, call.source.keys.shape[-1], call.source.values.shape[-1]):
            return "there is nothing to attend to"
        if _by_rows(call):
            return None
        least = LEAST * _band(call)
        if least > S and (T * S < LARGE or call.form_type is Additive):
            return f"the source has {number(S)} positions, this kernel gains from {least} on"
        if call.query.is_cuda and cells(call) < LAUNCHES:
            found = number(cells(call))
            return f"the reference's largest tensor has {found} numbers, on a GPU this gains from {LAUNCHES}"
        return None

    def run(self, call: Call) -> Tensor:
        assert isinstance(call.normalizer, Softmax)
        if local_cuda.takes(call):
            return local_cuda.run(call, call.normalizer.temperature)
        query, keys, v, scale = _form(call)
        scale = scale / call.normalizer.temperature
        values, mask = call.source.values, call.source.mask
        lead = leading(query, keys, values)
        T, S, band = query.shape[-2], keys.shape[-2], _band(call)
        given = (flat(query, lead), flat(keys, lead), flat(values, lead), v)
        predicted = isinstance(call.window, LocalPredictive)
        if _by_rows(call):
            facts = local_cuda.facts_of(call, scale)
            length = S if mask.is_trivial else _ends(*bounds(mask, T, S, query.device))
            p = _centres(call, lead, length) if predicted else None
            context = local_rows_cuda.Rows.apply(*given, p, facts, min(S, band))  # type: ignore[no-untyped-call]
            return context.reshape(*lead, *context.shape[-2:])
        low, high = bounds(mask, T, S, query.device)
        length, p, half = _ends(low, high), None, 0
        if isinstance(call.window, LocalMonotonic):
            centre = torch.minimum(mask.positions(T, query.device), length - 1)
            low = torch.maximum(low, centre - call.window.half_width)
            high = torch.minimum(high, centre + call.window.half_width)
        if predicted:
            half = call.window.half_width
            p = _centres(call, lead, length)
        block = 1 if predicted else _block(band, T, additive=v is not None)
        with no_autocast(query):
            context = local_operator(*given, low, high, p, half, block, min(S, block - 1 + band), scale)
        return context.reshape(*lead, *context.shape[-2:])


LOCAL = LocalKernel()


def _form(call: Call) -> tuple[Tensor, Tensor, Tensor | None, float]:
    """The query, the keys, v of an additive score, and the scale."""
    form = call.form()
    if isinstance(form, Product):
        return form.query, form.keys, None, form.scale
    a = form.a
    call.seen_form = form._replace(query=a, W=None)
    return a, form.keys, form.v.squeeze(0), 1.0


def _band(call: Call) -> int:
    """The most positions that one query sees."""
    if isinstance(call.window, LocalMonotonic):
        return 2 * call.window.half_width + 1
    if isinstance(call.window, LocalPredictive):
        return 2 * call.window.half_width + 2  # around a real centre, whose first position is rounded
    window = call.source.mask.window
    assert window is not None
    return window[0] + (0 if call.source.mask.causal else window[1]) + 1


def _by_rows(call: Call) -> bool:
    """Whether the kernels with a separate band per row run this call."""
    return (
        call.query.is_cuda
        and isinstance(call.window, LocalMonotonic | LocalPredictive)
        and _band(call) <= local_rows_cuda.WIDEST
        and not torch.compiler.is_compiling()
        and fits_launch(call.query, call.source.keys, call.source.values)
        and triton_missing() is None
    )


def _ends(low: Tensor, high: Tensor) -> Tensor:
    """(M, T) one past the last position that each query sees; 0 where it sees nothing."""
    return torch.where(high >= low, high + 1, 0)


def _centres(call: Call, lead: tuple[int, ...], length: Tensor | int) -> Tensor:
    """(N, T) predicted centres, from the ends (M, T); also stored in the call for later looks."""
    assert isinstance(call.window, LocalPredictive)
    if isinstance(length, Tensor):
        T = length.shape[-1]
        length = length.reshape(-1, *[1] * (len(lead) - 1), T, 1) if lead else length.reshape(T, 1)
    centre = call.window.centre(call.query, length)
    call.window = Around(centre, call.window.half_width)
    return flat(centre, lead).squeeze(-1)


def _block(band: int, T: int, *, additive: bool) -> int:
    """Queries that share a slice: more for products, which are cheap next to a gather, than for tanh."""
    return min(T, max(4, band // 4) if additive else max(16, min(band, CELLS // band)))


def bounds(mask: Mask, T: int, S: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """(M, T) first and last position that the mask shows to each query; first > last: none."""
    t = mask.positions(T, device)[None]
    low, high = torch.zeros_like(t), torch.full_like(t, S - 1)
    if mask.window is not None:
        low, high = torch.maximum(low, t - mask.window[0]), torch.minimum(high, t + mask.window[1])
    if mask.causal:
        high = torch.minimum(high, t)
    if mask.lengths is not None:
        high = torch.minimum(high, mask.lengths.to(device)[:, None] - 1)
    return low.expand_as(high), high


class Slices(NamedTuple):
    """Some blocks of queries of some items, with their slices of the source."""

    items: slice
    rows: slice
    q: Tensor  # (n, m, Q, D)
    k: Tensor  # (n, m, W, D)
    values: Tensor  # (n, m, W, Dv)
    places: Tensor  # (n, m, W) source positions
    visible: Tensor  # (n, m, Q, W)
    distance: Tensor | None  # (n, m, 1, W) from the predicted centre


class Weights(NamedTuple):
    """The softmax of the scores, and the factor on it."""

    soft: Tensor  # (n, m, Q, W)
    factor: Tensor | None
    hidden: Tensor | None  # tanh(q + k), (n, m, Q, W, D), of an additive score


def forward(band: Band) -> Tensor:
    """The context, (N, T, Dv)."""
    loops = _compiled(band)
    if loops is not None:
        return local_cpu.forward(loops, band)
    values = band.values
    context = values.new_empty(*band.q.shape[:2], values.shape[-1])
    for s in slices(band):
        weights = _weights(s, band)
        mixed = _joined(weights) @ s.values
        context[s.items, s.rows] = _unblocked(mixed, s).to(values.dtype)
    return context


def backward(grad: Tensor, band: Band) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, values, v and p; those of v and p are empty if there is no v or p."""
    q, k, values, v, p, half = band.q, band.k, band.values, band.v, band.p, band.half
    none = q.new_zeros(0, dtype=torch.float32)
    loops = _compiled(band)
    if loops is not None:
        *found, of_p = local_cpu.backward(loops, grad, band)
        return found[0], found[1], found[2], none, none if of_p is None else of_p
    grad_q = q.new_empty(q.shape)
    grad_k, grad_values = (torch.zeros(x.shape, dtype=torch.float32, device=x.device) for x in (k, values))
    grad_v = none if v is None else torch.zeros_like(v, dtype=torch.float32)
    grad_p = none if p is None else p.new_empty(p.shape)
    for s in slices(band):
        weights = _weights(s, band)
        outer = _blocked(upcast(grad[s.items, s.rows]), band.block)  # (n, m, Q, Dv)
        of_values = _joined(weights).mT @ outer
        slopes = outer @ s.values.mT  # d loss / d weight
        if weights.factor is not None:
            assert s.distance is not None
            of_factor = (slopes * weights.soft * weights.factor).sum(-2)  # (n, m, W): blocks have one query
            of_p = (of_factor * s.distance.squeeze(-2)).sum(-1) / (half / 2) ** 2
            grad_p[s.items, s.rows] = of_p
            slopes = slopes * weights.factor
        slopes = weights.soft * (slopes - (slopes * weights.soft).sum(-1, keepdim=True)) * band.scale
        if weights.hidden is None:
            of_q, of_k = slopes @ s.k, slopes.mT @ s.q
        else:
            assert v is not None
            grad_v += torch.einsum("nmqw,nmqwd->d", slopes, weights.hidden)
            inner = slopes.unsqueeze(-1) * (upcast(v) * (1 - weights.hidden.square()))
            of_q, of_k = inner.sum(-2), inner.sum(-3)
        grad_q[s.items, s.rows] = _unblocked(of_q, s).to(q.dtype)
        _scatter(grad_k[s.items], s.places, of_k)
        _scatter(grad_values[s.items], s.places, of_values)
    grad_v = grad_v if v is None else grad_v.to(v.dtype)
    return grad_q, grad_k.to(k.dtype), grad_values.to(values.dtype), grad_v, grad_p


def _compiled(band: Band) -> CDLL | None:
    """The compiled loops, if the call is a product on a CPU."""
    return local_cpu.compiled() if band.v is None and band.q.device.type == "cpu" else None


def slices(band: Band) -> Iterator[Slices]:
    """All blocks of queries, as many at a time as the memory budget allows."""
    q, k, values, v, low, high, p, half, block, width, _ = band
    (N, T, D), S = q.shape, k.shape[1]
    blocks = -(-T // block)
    cells = width * max(D, values.shape[-1], block * (D if v is not None else 1))  # per block
    most = max(1, (16 if q.is_cuda else 1) * CELLS // cells)
    items, some = max(1, most // blocks), min(blocks, most)
    owner = torch.arange(N, device=q.device) // (N // low.shape[0])
    inside = torch.arange(width, device=q.device)
    for n in range(0, N, items):
        rows_of = slice(n, min(n + items, N))
        first, last = low[owner[rows_of]], high[owner[rows_of]]  # (n, T)
        for b in range(0, blocks, some):
            rows = slice(b * block, min((b + some) * block, T))
            lows, highs = (_blocked(x[:, rows, None], block).squeeze(-1) for x in (first, last))  # (n, m, Q)
            centre = None if p is None else p[rows_of, rows, None]  # (n, m, 1), since a block is one query
            start = lows[..., 0] if centre is None else (centre.squeeze(-1) - half).floor().long()
            index = start.clamp(0, S - width).unsqueeze(-1) + inside  # (n, m, W)
            here = index.unsqueeze(-2)
            visible = (here >= lows.unsqueeze(-1)) & (here <= highs.unsqueeze(-1))
            distance = None
            if centre is not None:
                distance = (index - centre).unsqueeze(-2)  # (n, m, 1, W)
                visible = visible & (distance.abs() <= half)
            queries = _blocked(upcast(q[rows_of, rows]), block)
            own_keys, own_values = (_gathered(x[rows_of], index) for x in (k, values))
            yield Slices(rows_of, rows, queries, own_keys, own_values, index, visible, distance)


def _weights(s: Slices, band: Band) -> Weights:
    v, half = band.v, band.half
    hidden = None
    if v is None:
        scores = s.q @ s.k.mT
    else:
        hidden = torch.tanh(s.q.unsqueeze(-2) + s.k.unsqueeze(-3))  # (n, m, Q, W, D)
        scores = hidden @ upcast(v)
    empty = ~s.visible.any(-1, keepdim=True)
    scores = (scores * band.scale).masked_fill(~s.visible, -torch.inf).masked_fill(empty, 0.0)
    soft = scores.softmax(-1).masked_fill(empty, 0.0)
    factor = None
    if s.distance is not None:
        factor = torch.exp(-s.distance.square() / (2 * (half / 2) ** 2))
    return Weights(soft, factor, hidden)


def _joined(weights: Weights) -> Tensor:
    return weights.soft if weights.factor is None else weights.soft * weights.factor


def _blocked(x: Tensor, block: int) -> Tensor:
    """(n, R, D) -> (n, m, Q, D); the last block is zero-padded."""
    missing = -x.shape[1] % block
    x = F.pad(x, (0, 0, 0, missing)) if missing else x
    return torch.unflatten(x, 1, (-1, block))


def _unblocked(x: Tensor, s: Slices) -> Tensor:
    """(n, m, Q, D) -> (n, R, D)."""
    return x.flatten(1, 2)[:, : s.rows.stop - s.rows.start]


def _numbers(index: Tensor, S: int) -> Tensor:
    """(n, m, W) positions -> their rows in the n concatenated sources."""
    n = torch.arange(index.shape[0], device=index.device) * S
    return (index + n[:, None, None]).flatten()


def _gathered(x: Tensor, index: Tensor) -> Tensor:
    """(n, S, D), (n, m, W) -> (n, m, W, D) in full precision."""
    rows = x.reshape(-1, x.shape[-1]).index_select(0, _numbers(index, x.shape[1]))
    return upcast(rows).view(*index.shape, x.shape[-1])


def _scatter(into: Tensor, index: Tensor, x: Tensor) -> None:
    """into (n, S, D) += x (n, m, W, D) at the positions (n, m, W); sums in a fixed order on every device."""
    count = into.shape[0] * into.shape[1]
    summed = torch.ops.aten.embedding_dense_backward(
        x.reshape(-1, x.shape[-1]), _numbers(index, into.shape[1]), count, -1, False
    )
    into += summed.view_as(into)
