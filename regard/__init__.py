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
from typing import TYPE_CHECKING, Any

import torch

import regard.kernels  # noqa: F401  (registers the fused kernels)
from regard import catalog
from regard.analysis.ablation import ablate as ablate
from regard.attention.attend import attend as attend
from regard.attention.compose import Attention as Attention
from regard.attention.display import RENDERERS
from regard.attention.history import History as History
from regard.attention.in_order import InOrder as InOrder
from regard.attention.in_order import in_order as in_order
from regard.attention.mask import Mask as Mask
from regard.attention.multihead import MultiHead as MultiHead
from regard.attention.normalizers import *  # noqa: F403
from regard.attention.record import record as record
from regard.attention.result import Alignment as Alignment
from regard.attention.result import AttentionResult as AttentionResult
from regard.attention.scores import *  # noqa: F403
from regard.attention.source import Source as Source
from regard.attention.trace import Trace as Trace
from regard.attention.windows import *  # noqa: F403
from regard.errors import ConfigError as ConfigError
from regard.errors import DataError as DataError
from regard.errors import KernelRefused as KernelRefused
from regard.errors import MaskError as MaskError
from regard.errors import RegardError as RegardError
from regard.errors import ShapeError as ShapeError

__version__ = "0.1.0"

catalog.contents("regard.attention.memory", "addressing cells heads")
catalog.contents("regard.layers", "positions pooling feature_maps")
catalog.contents(
    "regard.kernels",
    "local.local_attention product.sdpa additive.additive_step_cpu additive.additive_cpu "
    "additive.additive_cuda additive.additive_scores sparsemax.sparsemax_attention product.blocks "
    "lstmn.lstmn_tape ntm.ntm_sequence",
)
catalog.contents(
    "regard.models",
    "seq2seq rnnsearch transformer luong memn2n memn2n_lm pointer index_decoders lstmn lstmn_fusion lstm_lm "
    "ntm lstm_sequence decomposable pooled snail sagan snail_policy show_attend_tell",
)
catalog.contents(
    "regard.tasks",
    "grammar files corpus babi stories language pointing captions sentences recall entailment ntm fewshot "
    "bandit mdp picture_classes pictures reverse",
)


def load(
    name: str | Path, *, device: torch.device | str | None = None, dtype: torch.dtype | str | None = None
) -> Any:
    """A trained system: a model that ships (`regard models`), a run folder, or an id of the Hub.

    What comes back depends on what it was trained for: a translator has `translate`, a pointer network
    `point`; see docs/reference/python.md. It is on the accelerator if there is one, unless `device` says
    otherwise.
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


if not TYPE_CHECKING:  # who checks types reads the imports
    __all__ = sorted(
        name
        for name, found in globals().items()
        if getattr(found, "__module__", "").startswith("regard") and not name.startswith("_")
    )
