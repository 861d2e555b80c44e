"""Decoding on a GPU without host overhead: every step of a search is a CUDA graph.

A decoder's step launches some two hundred small kernels, and launching takes longer than running them. Here
a step is captured once per batch shape and replayed afterwards, as training steps are
(regard/train/capture.py). Step t attends to t positions, so each step has its own graph: the model and the
search run unchanged, and no cache needs a fixed size. In exchange, sentences that are over stay in the batch,
and their further output is ignored.

Capturing a step takes as long as running it, so a shape is captured when it occurs the second time. Graphs
read parameters by address: training in place keeps them valid, and replaced tensors lead to new graphs.
"""

import gc
import itertools
from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor

from regard.attention import paths
from regard.attention.parts import unchanged
from regard.attention.trace import is_recorded
from regard.data.batches import PairBatch
from regard.decode.backpointers import Moves, Trellis
from regard.decode.beam import (
    Beam,
    Call,
    Continuations,
    Finished,
    Found,
    Options,
    ends_of,
    extend,
    step_by_step,
)
from regard.decode.cancel import check_cancelled
from regard.models.base import Translating

LONGEST = 256  # steps: each is a graph, and a graph takes memory
SHAPES = 8  # shapes per model whose graphs are kept; the least recently used goes first
SEEN = 256  # shapes per model that are remembered, most of which occurred once
ROUND = 8  # source lengths and batch sizes are padded to multiples of this; smaller batches to 1, 2 or 4
LOOK = 4  # steps between two checks whether all sentences are over, which wait for the device


class _Settled(NamedTuple):
    """The state of each sentence; of one that is over, at its last step."""

    over: Tensor  # (B,)
    finished: Finished
    total: Tensor  # (B, K) of the live hypotheses
    nodes: Tensor  # (B, K)
    lengths: Tensor  # (B,) steps

    def after(self, later: "_Settled") -> "_Settled":
        """The later state, except for sentences that are over already."""

        def choose(old: Tensor, new: Tensor) -> Tensor:
            return torch.where(self.over.view(-1, *[1] * (new.ndim - 1)), old, new)

        finished = Finished(*map(choose, self.finished, later.finished))
        over = self.over | later.over
        alive = (choose(old, new) for old, new in zip(self[2:], later[2:], strict=True))
        return _Settled(over, finished, *alive)


class _CapturedStep(NamedTuple):
    graph: torch.cuda.CUDAGraph
    best: Continuations
    log_probabilities: Tensor
    settled: _Settled


class _Recording:
    """The captured steps of a search over batches of one shape, as many as were needed."""

    def __init__(self, model: Translating, batch: PairBatch, limits: Tensor, options: Options) -> None:
        self.lock = Lock()  # graphs write to the same memory at every replay
        self._model, self._options = ref(model), options  # a recording does not keep its model alive
        self._batch = PairBatch(**{name: tensor.clone() for name, tensor in vars(batch).items()})
        self._limits = limits.clone()
        self._steps: list[_CapturedStep] = []
        self._beam: Beam | None = None  # after the last captured step
        self._memory: tuple[Any, torch.cuda.Stream] | None = None  # the pool of all graphs; their stream

    def run(self, batch: PairBatch, limits: Tensor, longest: int) -> tuple[Trellis, _Settled]:
        """Search until all sentences are over. The tensors are overwritten by the next run."""
        for name, tensor in vars(batch).items():
            getattr(self._batch, name).copy_(tensor)
        self._limits.copy_(limits)
        trellis = Trellis()
        # casts in autocast's cache lie in a graph's memory, or would be missing from it: keep none
        torch.clear_autocast_cache()
        try:
            for length in range(1, longest + 1):
                check_cancelled()
                if length > len(self._steps):
                    self._steps.append(self._capture(length))
                step = self._steps[length - 1]
                step.graph.replay()
                rows, tokens = step.best.rows.flatten(), step.best.tokens.flatten()
                count = len(step.best.rows) if length == 1 else len(rows)
                origin = torch.arange(count, device=rows.device)
                trellis.add(Moves(origin, rows, tokens, step.log_probabilities, {}))
                if length == longest or (length % LOOK == 0 and bool(step.settled.over.all())):
                    break
        finally:
            torch.clear_autocast_cache()
        return trellis, step.settled

    def _capture(self, length: int) -> _CapturedStep:
        """Capture the next step; nothing runs before its graph is replayed."""
        if self._memory is None:
            self._memory = torch.cuda.graph_pool_handle(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        graph, (pool, stream) = torch.cuda.CUDAGraph(), self._memory
        collecting = gc.isenabled()
        gc.disable()  # it might free another graph, which is not possible during a capture
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                graph.capture_begin(pool=pool, capture_error_mode="relaxed")
                try:
                    captured = self._step(graph, length)
                finally:
                    graph.capture_end()
        finally:
            if collecting:
                gc.enable()
        torch.cuda.current_stream().wait_stream(stream)
        return captured

    def _step(self, graph: torch.cuda.CUDAGraph, length: int) -> _CapturedStep:
        model, options = self._model(), self._options
        assert model is not None
        beam = self._beam or Beam.start(model, self._batch, options.nbest)
        step = extend(model, beam, self._limits, length, options)
        best, after = step.best, step.beam
        lengths = torch.full_like(self._limits, length)
        settled = _Settled(step.over, after.finished, after.total, best.nodes, lengths)
        if self._steps:
            settled = self._steps[-1].settled.after(settled)
        K = best.rows.shape[1]
        if beam.total.shape[1] > 1 or K > 1:  # else each row continues itself
            after = after._replace(state=model.reorder(after.state, best.rows.flatten(), K))
        self._beam = after._replace(finished=settled.finished)
        return _CapturedStep(graph, best, step.log_probabilities, settled)


_Shapes = OrderedDict[Hashable, _Recording | None]  # None: seen once


class CapturedSearch:
    """Beam search and greedy decoding on a GPU by replaying graphs."""

    name = "captured"

    def __init__(self) -> None:
        self._lock = Lock()
        self._shapes: WeakKeyDictionary[Translating, _Shapes] = WeakKeyDictionary()

    def refuses(self, call: Call) -> str | None:
        model = call.model
        if not call.limits.is_cuda:
            return "the batch is not on an NVIDIA GPU"
        if call.options.attention:
            return "the caller needs the weights, which a graph does not keep"
        if not isinstance(model, Translating) or type(call.batch) is not PairBatch:
            return f"{type(model).__name__} does not translate pairs of sentences"
        if not model.capturable:
            return f"{type(model).__name__} waits for the device"
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return "another graph is being captured"
        if call.longest > LONGEST:
            return f"outputs may have more than {LONGEST} pieces"
        if any(is_recorded(module) or not unchanged(module) for module in model.modules()):
            return "the model is recorded, or has hooks"
        if call.options.width > model.config.target_vocab:
            return "the beam is wider than the vocabulary"
        return None

    def run(self, call: Call) -> Found:
        """The results of `step_by_step`, which runs itself for the first batch of a shape."""
        model, batch, options, limits, longest = call
        assert isinstance(model, Translating)
        B = batch.size
        rounded = batch.padded(ROUND, min(ROUND, 1 << (B - 1).bit_length()))
        padded = limits.new_ones(rounded.size)
        padded[:B] = limits
        recording = self._recording(model, rounded, padded, options)
        if recording is None:
            return step_by_step(call)
        with recording.lock:  # until the paths have been read
            trellis, settled = recording.run(rounded, padded, longest)
            finished = Finished(*(x[:B] for x in settled.finished))
            sentences = torch.arange(B, device=limits.device)
            ends = ends_of(finished, settled.total[:B], settled.nodes[:B], sentences, settled.lengths[:B])
            return trellis.tracks(ends, batch), ends.sentences.tolist()

    def _recording(
        self, model: Translating, batch: PairBatch, limits: Tensor, options: Options
    ) -> _Recording | None:
        """The recording for this shape; None when the shape is new."""
        cast = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
        key = (options, batch.source.shape, cast, _addresses(model))
        with self._lock:
            shapes = self._shapes.setdefault(model, OrderedDict())
            new = key not in shapes
            if not new and shapes[key] is None:
                shapes[key] = _Recording(model, batch, limits, options)
            recording = shapes.setdefault(key, None)
            shapes.move_to_end(key)
            while sum(each is not None for each in shapes.values()) > SHAPES:
                oldest = next(key for key, each in shapes.items() if each is not None)
                del shapes[oldest]
            while len(shapes) > SEEN:
                shapes.popitem(last=False)
            return recording


def _addresses(model: Translating) -> int:
    """A hash of the parameters' addresses, from which graphs read."""
    tensors = itertools.chain(model.parameters(), model.buffers())
    return hash(tuple(tensor.data_ptr() for tensor in tensors))


paths.register("decoding", CapturedSearch())
