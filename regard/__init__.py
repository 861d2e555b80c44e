"""regard: every attention mechanism from Bahdanau 2014 to SAGAN 2018.

from regard import Attention, AdditiveScore, Mask

attention = Attention(AdditiveScore(query=256, keys=512, hidden=128))
source = attention.prepare(annotations, mask=Mask(lengths=lengths))     # projects the keys once
result = attention(state[:, None], source)                              # result.context, result.weights

french = regard.load("demo-rnnsearch")                                  # a trained model
french.translate("The cat sleeps.").show()
"""

import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard import catalog
from regard.errors import ConfigError as ConfigError
from regard.errors import DataError as DataError
from regard.errors import KernelRefused as KernelRefused
from regard.errors import MaskError as MaskError
from regard.errors import RegardError as RegardError
from regard.errors import ShapeError as ShapeError

if TYPE_CHECKING:  # at runtime `__getattr__` below imports these, and torch with them
    import torch

    from regard.analysis.ablation import ablate as ablate
    from regard.attention import Alignment as Alignment
    from regard.attention import Attention as Attention
    from regard.attention import AttentionResult as AttentionResult
    from regard.attention import History as History
    from regard.attention import InOrder as InOrder
    from regard.attention import Mask as Mask
    from regard.attention import MultiHead as MultiHead
    from regard.attention import Source as Source
    from regard.attention import Trace as Trace
    from regard.attention.attend import attend as attend
    from regard.attention.in_order import in_order as in_order
    from regard.attention.normalizers import *  # noqa: F403
    from regard.attention.record import record as record
    from regard.attention.scores import *  # noqa: F403
    from regard.attention.windows import *  # noqa: F403

__version__ = "0.1.0"

if find_spec("numpy") is None:  # torch wants it for `from_numpy` and `numpy()`, which nothing here calls
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

catalog.contents("regard.attention.memory", "addressing cells heads")
catalog.contents("regard.layers", "positions pooling feature_maps")
catalog.contents(
    "regard.kernels",
    "local.local_attention product.sdpa additive.additive_step_cpu additive.additive_cpu "
    "additive.additive_cuda additive.additive_scores sparsemax.sparsemax_attention product.linear "
    "product.blocks lstmn.lstmn_tape ntm.ntm_sequence",
)
catalog.contents(
    "regard.models",
    "seq2seq rnnsearch transformer luong memn2n memn2n_lm pointer index_decoders lstmn lstmn_pairs "
    "lstmn_fusion lstm_lm ntm lstm_sequence decomposable pooled snail sagan snail_policy show_attend_tell",
)
catalog.contents(
    "regard.tasks",
    "grammar files corpus babi stories language pointing captions sentences recall entailment ntm fewshot "
    "bandit mdp picture_classes pictures reverse",
)


def load(
    name: str | Path,
    *,
    device: "torch.device | str | None" = None,
    dtype: "torch.dtype | str | None" = None,
) -> Any:
    """Load a trained system: a shipped model (`regard models`), a run folder, or a Hub id.

        french = load("demo-rnnsearch", device="cpu")
        french.translate("The cat sleeps.").text

    What it returns depends on what was trained: a translator has `translate`, a pointer network `point`, and
    so on for the systems below. `device` defaults to an accelerator if there is one.
    """
    from regard.systems.loading import load

    return load(name, device=device, dtype=dtype)


def show(weights: Any, *, rows: Sequence[str] | None = None, columns: Sequence[str] | None = None) -> Any:
    """Draw weights (T, S), or (H, T, S) of several heads. `rows` and `columns` name them.

        regard.show(torch.eye(2), rows=["le", "chat"], columns=["the", "cat"]).save("eye.png")

    The result displays itself as the last line of a notebook cell; `.show()` opens it, and `.save` writes a
    .png, .svg or .html file.
    """
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
    """Show what every head of a model looked at, from a trace, from `trace_text`, or from one result.

        model = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True).eval()
        with record(model) as trace:
            model(torch.randn(1, 3, 64))
        view(trace, tokens=["the", "cat", "sleeps"]).save("heads.html")

    The result displays itself as the last line of a notebook cell. `.save` writes a .html, .png or .svg file,
    `.open()` opens the page in the browser, and `.widget()` computes exact weights in this process. `tokens`
    name the source positions, `target_tokens` the target of an encoder-decoder, and `batch` chooses the
    example. The steps of a generation are joined; otherwise `call` chooses one of several calls. Heads are
    pooled if the page would be larger than `limit` bytes.
    """
    from regard.notebook.view import view

    return view(trace, tokens, target_tokens, batch=batch, call=call, limit=limit)


def _render(shown: Any) -> str | None:
    from regard.notebook.view import render

    return render(shown)


def _complete() -> None:
    """What belongs to the algebra and is above it: the kernels, and the drawings of results in a notebook."""
    import regard.kernels  # noqa: F401  (registers them)
    from regard.attention.display import RENDERERS

    RENDERERS.append(_render)


catalog.COMPANIONS.append(_complete)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import what depends on the algebra: the kernels, and the notebook display of results."""
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module 'regard' has no attribute {name!r}")
        if find_spec(f"regard.{name}") is not None:
            return import_module(f"regard.{name}")
        found = _public_names()
        if name not in found:
            raise AttributeError(f"module 'regard' has no attribute {name!r}")
        globals().update(found)
        return found[name]

    def __dir__() -> list[str]:
        globals().update(_public_names())
        return sorted(globals())

    def _public_names() -> dict[str, Any]:
        packages = ("attention", "attention.normalizers", "attention.scores", "attention.windows")
        names = dict(globals())
        for package in packages:
            names |= vars(import_module(f"regard.{package}"))
        names["ablate"] = import_module("regard.analysis.ablation").ablate
        ours = {
            name: found
            for name, found in names.items()
            if getattr(found, "__module__", "").startswith("regard") and not name.startswith("_")
        }
        return ours | {"__all__": sorted(ours)}
