"""One step of a Transformer's decoder on a CPU in one call: decoder_cpu.cpp.

    post-norm   x ← LayerNorm(x + Sublayer(x))         pre-norm   x ← x + Sublayer(LayerNorm(x))
    log p = log_softmax(W x)

Two thirds of a step in PyTorch are products of a few rows with large matrices, which every call repacks. Here
that is done once per model: `packed` caches the weights in panels while a digest of the model's parameters
stays the same. The rest is loops over rows that are in the cache anyway.

A beam search reorders rows at each step. `Written` copies nothing then: for each row and position it records
where the keys and values were written.
"""

import ctypes
from collections.abc import Callable, Hashable, Iterable, Sequence
from ctypes import addressof
from functools import cache
from threading import Lock
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.cache import Cache
from regard.attention.mask import Mask
from regard.attention.source import Source
from regard.kernels.compiler import in_threads, library
from regard.kernels.shapes import side_by_side

SHARED = 2**22  # fewer multiplications than this are not worth a second thread
Affine = tuple[Tensor, Tensor | None]  # a matrix and its bias
Norm = tuple[Tensor, Tensor, float]  # gain, bias, ε
T = TypeVar("T")

_Pointer, _Long, _Float = ctypes.c_void_p, ctypes.c_long, ctypes.c_float
_lock = Lock()


class LayerWeights(NamedTuple):
    """The weights of one decoder layer."""

    W_QKV: Affine  # concatenated
    W_O: Affine
    source_W_Q: Affine
    source_W_O: Affine
    W_1: Affine
    W_2: Affine
    norms: tuple[Norm, Norm, Norm]
    scale: float
    source_scale: float


class DecoderWeights(NamedTuple):
    """The weights of a decoder and its readout."""

    layers: tuple[LayerWeights, ...]
    heads: int
    pre: bool
    last: Norm | None
    readout: Affine


class _Affine(ctypes.Structure):
    _fields_ = [("panels", _Pointer), ("bias", _Pointer), ("inputs", _Long), ("outputs", _Long)]


class _Norm(ctypes.Structure):
    _fields_ = [("weight", _Pointer), ("bias", _Pointer), ("eps", _Float)]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, _Affine) for name in ("qkv", "out", "source_query", "source_out", "first", "second")),
        *(("norms", _Norm * 3), ("scale", _Float), ("source_scale", _Float)),
    ]


class _Decoder(ctypes.Structure):
    _fields_ = [
        ("layers", _Pointer),
        *((name, _Long) for name in ("number", "dim", "heads", "features", "wide", "pre", "has_last")),
        *(("last", _Norm), ("readout", _Affine)),
    ]


class _Source(ctypes.Structure):
    _fields_ = [*((name, _Pointer) for name in ("keys", "values", "shown")), ("strides", _Long * 6)]


class _Step(ctypes.Structure):
    _fields_ = [
        *((name, _Pointer) for name in ("decoder", "sources", "written", "rows", "from", "words", "out")),
        *((name, _Long) for name in ("t", "R", "copies", "S")),
    ]


class Panels:
    """x Wᵀ + b, with W in the order in which few rows read it."""

    def __init__(self, given: Affine, loops: ctypes.CDLL) -> None:
        weight, bias = given
        N, K = weight.shape
        columns = loops.decoder_columns()
        spare = -N % columns
        self.matrix = F.pad(weight, (0, 0, 0, spare)).reshape(-1, columns, K).mT.contiguous()
        self.bias = weight.new_zeros(N + spare) if bias is None else F.pad(bias, (0, spare))
        self.affine = _Affine(self.matrix.data_ptr(), self.bias.data_ptr(), K, N)
        self.inputs, self.outputs, self._run, self._at = K, N, loops.decoder_product, addressof(self.affine)

    def __call__(self, x: Tensor) -> Tensor:
        """(..., K) -> (..., N), both in float32 on a CPU."""
        K, N = self.inputs, self.outputs
        assert x.shape[-1] == K
        x, rows, out = x.contiguous(), x.numel() // K, x.new_empty(*x.shape[:-1], N)
        run, at, panels = self._run, (self._at, x.data_ptr(), out.data_ptr(), rows), len(self.matrix)
        if rows * K * N < SHARED:
            run(*at, 0, panels)
        else:
            in_threads(lambda first, last: run(*at, first, last), panels, worth=True)
        return out


class PackedDecoder:
    """A decoder's weights in panels."""

    def __init__(self, weights: DecoderWeights, loops: ctypes.CDLL) -> None:
        self._loops, self._kept = loops, list[Tensor]()
        self._layers = (_Layer * len(weights.layers))(*map(self._layer, weights.layers))
        first = weights.layers[0]
        width, dim = first.W_O[0].shape[1], first.W_O[0].shape[0]
        self.width, self.outputs, self.number = width, weights.readout[0].shape[0], len(weights.layers)
        wide = max(3 * width, *(layer.W_1[0].shape[0] for layer in weights.layers))
        last = _Norm() if weights.last is None else self._norm(weights.last)
        sizes = (self.number, dim, weights.heads, width // weights.heads, wide, weights.pre)
        layers = addressof(self._layers)
        self._decoder = _Decoder(
            layers, *sizes, weights.last is not None, last, self._affine(weights.readout)
        )
        self._products = sum(x.numel() for x in self._kept)  # per row

    def step(self, words: Tensor, sources: Sequence[Source], written: "Written") -> tuple[Tensor, "Written"]:
        """(R, dim) embedded words with positions -> (R, V) log-probabilities, and the new state."""
        words, R, t = words.contiguous(), len(words), len(written.positions)
        positions = (*written.positions, words.new_empty(self.number, R, 2 * self.width))
        out = words.new_empty(R, self.outputs)
        alive: list[Tensor] = []
        given = (_Source * self.number)(*(_source(source, alive) for source in sources))
        addresses = (_Pointer * (t + 1))(*(each.data_ptr() for each in positions))
        rows = (_Long * (t + 1))(*(each.shape[1] for each in positions))
        at = map(addressof, (self._decoder, given, addresses, rows))
        tensors = (x.data_ptr() for x in (written.rows, words, out))
        step = _Step(*at, *tensors, t, R, sources[0].copies, sources[0].S)
        worth = R * self._products >= SHARED
        in_threads(
            lambda first, last: self._loops.decoder_step(ctypes.byref(step), first, last), R, worth=worth
        )
        own = torch.arange(R)[None]
        return out, Written(positions, torch.cat([written.rows, own]), written.mask)

    def _layer(self, layer: LayerWeights) -> _Layer:
        norms = (_Norm * 3)(*map(self._norm, layer.norms))
        return _Layer(*map(self._affine, layer[:6]), norms, layer.scale, layer.source_scale)

    def _affine(self, given: Affine) -> _Affine:
        panels = Panels(given, self._loops)
        self._kept += panels.matrix, panels.bias
        return panels.affine

    def _norm(self, given: Norm) -> _Norm:
        weight, bias, eps = given
        return _Norm(self._keep(weight.clone()), self._keep(bias.clone()), eps)

    def _keep(self, x: Tensor) -> int:
        self._kept.append(x)
        return x.data_ptr()


def _source(source: Source, alive: list[Tensor]) -> _Source:
    keys, values = map(side_by_side, (source.keys, source.values))
    dense, B = source.mask.dense, len(keys)
    alive += [keys, values]
    if dense is not None:
        dense = dense.expand(B, 1, 1, source.S).contiguous()
        alive.append(dense)
    strides = (_Long * 6)(*keys.stride()[:3], *values.stride()[:3])
    return _Source(keys.data_ptr(), values.data_ptr(), None if dense is None else dense.data_ptr(), strides)


class Written(NamedTuple):
    """The keys and values that a `PackedDecoder` has written."""

    positions: tuple[Tensor, ...]  # each (layers, rows, 2 · width): keys and values of all heads
    rows: Tensor  # (T, R): the row of each position that each row continues
    mask: Mask

    @staticmethod
    def of(caches: Sequence[Cache]) -> "Written":
        """The state in the caches of the layers."""
        sources = [cache.source for cache in caches]
        both = [torch.cat([source.keys, source.values], 1) for source in sources]  # (R, 2 H, T, D)
        positions = torch.stack(both).permute(3, 0, 1, 2, 4).flatten(3).contiguous()
        T, _, R, _ = positions.shape
        return Written(tuple(positions), torch.arange(R).repeat(T, 1), caches[0].mask)

    def caches(self, heads: int) -> tuple[Cache, ...]:
        """The same as caches of the layers."""
        chosen = [each[:, row] for each, row in zip(self.positions, self.rows, strict=True)]
        both = torch.stack(chosen)
        both = both.view(*both.shape[:3], 2, heads, -1).permute(3, 1, 2, 4, 0, 5)
        sources = (Source(keys, values, Mask()) for keys, values in zip(*both, strict=True))
        return tuple(Cache.of(source, self.mask) for source in sources)

    def select(self, rows: Tensor) -> "Written":
        """These rows, in this order; rows may repeat."""
        return self._replace(rows=self.rows.index_select(1, rows))


_packed: WeakKeyDictionary[nn.Module, tuple[Hashable, Any]] = WeakKeyDictionary()


def packed(owner: nn.Module, weights: Iterable[Tensor], pack: Callable[[ctypes.CDLL], T]) -> T:
    """What `pack` makes of the owner's weights; packed again if they have changed."""
    loops = compiled()
    assert loops is not None
    # the list keeps copies alive: a weight that is stored transposed is copied before it is read
    own = [x.detach().contiguous() for x in weights]
    key = tuple(loops.decoder_digest(x.data_ptr(), x.numel()) for x in own)
    with _lock:
        known = _packed.get(owner)
    if known is None or known[0] != key:
        known = (key, pack(loops))
        with _lock:
            _packed[owner] = known
    made: T = known[1]
    return made


class TokenChoice(NamedTuple):
    """A request for the most probable tokens."""

    log_probabilities: Tensor  # (R, V)
    width: int  # how many
    barred: tuple[int, ...]  # excluded tokens


class BestTokens:
    """The best tokens of each row in one pass; ties go to the first."""

    name = "best-tokens-cpu"

    def refuses(self, call: TokenChoice) -> str | None:
        x = call.log_probabilities
        if not x.is_cpu or x.dtype != torch.float32:
            return f"it is {x.dtype} on {x.device.type}, these loops are for float32 on cpu"
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return "gradients are needed, or the graph is being compiled"
        if not 0 < call.width <= WIDEST:
            return f"{call.width} tokens of each row are wanted, these loops sort up to {WIDEST}"
        return None if compiled() is not None else NO_COMPILER

    def run(self, call: TokenChoice) -> tuple[Tensor, Tensor]:
        """(R, m) log-probabilities, (R, m) tokens, where m is the smaller of `width` and V."""
        loops = compiled()
        assert loops is not None
        x = call.log_probabilities.contiguous()
        R, V = x.shape
        m = min(call.width, V)
        values, tokens = x.new_empty(R, m), torch.empty(R, m, dtype=torch.long)
        barred = (_Long * len(call.barred))(*call.barred)
        at = (x.data_ptr(), V, barred, len(barred), m, values.data_ptr(), tokens.data_ptr())
        loops.decoder_best(*at, 0, R)
        return values, tokens


WIDEST = 64  # tokens of a row
NO_COMPILER = "there is no C++ compiler, or it failed"
BEST_TOKENS = BestTokens()


@cache
def compiled() -> ctypes.CDLL | None:
    """The compiled loops; None without a compiler."""
    loops = library(
        "decoder/decoder_cpu.cpp",
        "translators decode with PyTorch's operations, slower than compiled",
        decoder_step="p 2l",
        decoder_product="3p 3l",
        decoder_best="p l p 2l 2p 2l",
    )
    if loops is not None:
        loops.decoder_digest.argtypes, loops.decoder_digest.restype = [_Pointer, _Long], ctypes.c_uint64
        loops.decoder_columns.restype = _Long
    return loops
