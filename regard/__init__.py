"""regard: every attention mechanism from Bahdanau 2014 to SAGAN 2018.

from regard import Attention, AdditiveScore, Mask

attention = Attention(AdditiveScore(query=256, keys=512, hidden=128))
source = attention.prepare(annotations, mask=Mask(lengths=lengths))     # projects the keys once
result = attention(state[:, None], source)                              # result.context, result.weights

french = regard.load("demo-rnnsearch")                                  # a trained model
french.translate("The cat sleeps.").show()
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import regard.kernels  # noqa: F401  (registers the fused kernels)
from regard.analysis.ablation import ablate
from regard.attention.attend import attend
from regard.attention.compose import Attention
from regard.attention.display import RENDERERS
from regard.attention.history import History
from regard.attention.in_order import InOrder, in_order
from regard.attention.mask import Mask
from regard.attention.multihead import MultiHead
from regard.attention.normalizers.divide_by_length import DivideByLength
from regard.attention.normalizers.gumbel import GumbelSoftmax
from regard.attention.normalizers.hard import Hard, StraightThrough
from regard.attention.normalizers.mean import Mean
from regard.attention.normalizers.softmax import Softmax
from regard.attention.normalizers.sparsemax import Sparsemax
from regard.attention.record import record
from regard.attention.result import Alignment, AttentionResult
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.cosine import CosineScore
from regard.attention.scores.coverage import CoverageScore
from regard.attention.scores.dot import DotScore
from regard.attention.scores.feedforward import FeedForwardScore
from regard.attention.scores.general import GeneralScore
from regard.attention.scores.location import LocationScore
from regard.attention.scores.location_aware import LocationAwareScore
from regard.attention.scores.rectified import RectifiedScore
from regard.attention.source import Source
from regard.attention.trace import Trace
from regard.attention.windows.everywhere import Everywhere
from regard.attention.windows.local_monotonic import LocalMonotonic
from regard.attention.windows.local_predictive import LocalPredictive
from regard.errors import ConfigError, DataError, KernelRefused, MaskError, RegardError, ShapeError

__version__ = "0.1.0"


def load(
    name: str | Path, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
) -> Any:
    """A trained system: a model that ships (`regard models`), a run folder, or an id of the Hub.

    What comes back depends on what it was trained for: a translator has `translate`, a pointer network
    `point`; see docs/reference/python.md. It is on the accelerator if there is one, unless `device` says otherwise.
    """
    from regard.systems.loading import load

    return load(name, device=device, dtype=dtype)


def show(weights: Any, *, rows: Sequence[str] | None = None, columns: Sequence[str] | None = None) -> Any:
    """Any weights (T, S), or (H, T, S) of several heads, to look at: as the last line of a notebook's cell,
    by `.show()`, or by `.save("x.png" | "x.svg" | "x.html")`. `rows` and `columns` name them."""
    from regard.systems.matrix import matrix

    return matrix(weights, rows, columns)


def view(
    trace: Any,
    tokens: Sequence[str] | None = None,
    target_tokens: Sequence[str] | None = None,
    *,
    batch: int = 0,
    call: int | None = None,
    limit: int = 2_000_000,
) -> Any:
    """What every head of a model looked at: of a trace, of what `trace_text` returns, or of one result.

    As the last line of a notebook's cell it shows itself; `.save("x.html" | "x.png" | "x.svg")`, `.open()` in
    the browser, `.widget()` with exact weights from this process. `tokens` name the source positions,
    `target_tokens` those of an encoder-decoder's target; `batch` is the example. The steps of a generation
    are joined; of other calls `call` is the one shown. Heads are pooled where the page would have more than
    `limit` bytes.
    """
    from regard.notebook.view import view

    return view(trace, tokens, target_tokens, batch=batch, call=call, limit=limit)


def _render(shown: Any) -> str | None:
    from regard.notebook.view import render

    return render(shown)


RENDERERS.append(_render)  # a trace or a result as the last line of a notebook's cell

__all__ = [
    "AdditiveScore",
    "Alignment",
    "Attention",
    "AttentionResult",
    "ConfigError",
    "CosineScore",
    "CoverageScore",
    "DataError",
    "DivideByLength",
    "DotScore",
    "Everywhere",
    "FeedForwardScore",
    "GeneralScore",
    "GumbelSoftmax",
    "Hard",
    "History",
    "InOrder",
    "KernelRefused",
    "LocalMonotonic",
    "LocalPredictive",
    "LocationAwareScore",
    "LocationScore",
    "Mask",
    "MaskError",
    "Mean",
    "MultiHead",
    "RectifiedScore",
    "RegardError",
    "ShapeError",
    "Softmax",
    "Source",
    "Sparsemax",
    "StraightThrough",
    "Trace",
    "ablate",
    "attend",
    "in_order",
    "load",
    "record",
    "show",
    "view",
]
