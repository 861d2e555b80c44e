"""Runs the graphs of an ONNX export in onnxruntime, as a model for greedy and beam search."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.batches import PairBatch
from regard.decode.base import Decoding, Hypothesis
from regard.decode.translator import Translator
from regard.errors import DataError
from regard.export.base import Export, check_length
from regard.export.onnx import ENCODER, STEP
from regard.export.onnx_steps import State
from regard.extras import needs
from regard.models.base import Translating


class OnnxModel(Translating):
    """The two graphs as a model for decoding; it has no parameters and no attention."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        needs("export", "onnxruntime")
        self._begin, self._advance = (_session(folder / name) for name in (ENCODER, STEP))
        self._names = [each.name for each in self._begin.get_outputs()]
        self._changing = [each.name for each in self._advance.get_outputs()[1:]]

    def start(self, batch: PairBatch) -> State:
        given = {"source": batch.source.numpy(), "lengths": batch.source_lengths.numpy()}
        found = self._begin.run(None, given)
        return {name: torch.from_numpy(each) for name, each in zip(self._names, found, strict=True)}

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """(B,) previous words -> (B, V) log-probabilities of the next, and the state after it."""
        given = {name: each.numpy() for name, each in state.items()}
        log_probabilities, *changed = self._advance.run(None, given | {"tokens": tokens.numpy()})
        news = {
            name.removeprefix("new_"): torch.from_numpy(each)
            for name, each in zip(self._changing, changed, strict=True)
        }
        return torch.from_numpy(log_probabilities), state | news

    def select(self, state: State, rows: Tensor) -> State:
        return {name: each.index_select(0, rows) for name, each in state.items()}


class OnnxTranslator(Translator):
    """An exported model with its tokenizers."""

    def __init__(self, exported: Export) -> None:
        super().__init__(OnnxModel(exported.folder), exported.source, exported.target)
        self.longest = exported.longest

    def decode(self, encoded: list[list[int]], decoding: Decoding, attention: bool) -> list[list[Hypothesis]]:
        check_length(encoded, self.longest)
        return super().decode(encoded, decoding, attention)


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common base class
        raise DataError(f"{path}: onnxruntime cannot read it: {error}") from error
