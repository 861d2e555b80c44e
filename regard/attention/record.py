"""Record what every attention of a model did, by module path, without passing a flag down."""

import difflib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from regard.attention.foreign import unseen
from regard.attention.foreign.tree import tree_of
from regard.attention.foreign.watch import watched_functions
from regard.attention.keep import Keep, whole_numbers
from regard.attention.trace import Recording, Trace, watching
from regard.errors import ConfigError, check_part


class UnseenWarning(UserWarning):
    """Some attention ran that could not be recorded; `trace.unseen` has the paths."""


@contextmanager
def record(
    model: nn.Module,
    *,
    layers: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    queries: Sequence[int] | None = None,
    to: str | torch.device | None = None,
    gradients: bool = False,
) -> Iterator[Trace]:
    """Record every attention inside `model`, regard's or not, while the block runs.

        model = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True).eval()
        with record(model) as trace:
            model(torch.randn(1, 10, 64))
        trace["self_attn"][0].weights          # (1, 4, 10, 10), computed on first access
        print(trace.summary())

    The model runs the same kernels as without the recording. Results hold queries and keys by reference;
    `to="cpu"` copies them, and `layers` (module paths), `heads` and `queries` (indices) select what is kept.
    With `gradients`, a result has `weight_gradients` after a backward pass.

    Other threads and tasks that use the same model have their own traces. `trace.unseen` lists what ran
    but could not be recorded, and a warning says so. A compiled model is refused, because its code was
    generated without recording. So is a model of PyTorch's own layers that has no attention.
    """
    check_part("record", "model", model, (nn.Module,), "Give the model that will run in the block.")
    tree = tree_of(model)
    if not tree.facts.attends:
        raise ConfigError(
            f"record: `model` has no attention inside its {type(model).__name__}; expected one or more. "
            "Of PyTorch's own layers, only nn.MultiheadAttention and those that contain it have attention."
        )
    keep = Keep(
        to=None if to is None else torch.device(to),
        layers=_layers(model, layers),
        heads=whole_numbers("record", "heads", heads),
        queries=whole_numbers("record", "queries", queries),
        gradients=gradients,
    )
    check_not_compiled("record", [model], "whose attention cannot be recorded")
    recording = Recording(tree.facts.own, tree.facts.others, keep=keep)
    recording.trace.unseen.update(unseen.graphs(tree, keep))
    with watched_functions(tree), watching(recording):
        yield recording.trace
    recording.trace.unseen |= unseen.silent(recording, tree)
    if recording.trace.unseen:
        warnings.warn(_warning(recording.trace), UnseenWarning, stacklevel=3)


@contextmanager
def record_any(model: nn.Module) -> Iterator[Trace]:
    """`record` for regard's own models: only Attention; a model without it leaves the trace empty."""
    tree = tree_of(model)
    check_not_compiled("record", tree.modules.values(), "whose attention cannot be recorded")
    with watching(Recording(tree.facts.own)) as recording:
        yield recording.trace


def check_not_compiled(owner: str, modules: Iterable[nn.Module], why: str) -> None:
    """Raise ConfigError if one of the modules runs a compiled graph."""
    for module in modules:
        if unseen.is_compiled(module):
            raise ConfigError(
                f"{owner}: `model` has a compiled {type(module).__name__}, {why}; expected what "
                "torch.compile was given, which has the same parameters."
            )


def _layers(model: nn.Module, layers: Sequence[str] | None) -> tuple[str, ...] | None:
    if layers is None:
        return None
    paths = [path for path, _ in model.named_modules()]
    if isinstance(layers, str):
        raise ConfigError(f"record: `layers` has {layers!r}; expected a list of module paths.")
    for layer in layers:
        if layer not in paths:
            near = difflib.get_close_matches(str(layer), paths, 3) or sorted(paths)[1:4]
            raise ConfigError(
                f"record: `layers` has {layer!r}; expected module paths, such as {', '.join(near)}."
            )
    return tuple(layers)


def _warning(trace: Trace) -> str:
    path, reason = next(iter(trace.unseen.items()))
    more = f" and {len(trace.unseen) - 1} more" if len(trace.unseen) > 1 else ""
    return f"record: `model` has unrecorded attention, at {path!r}{more}: {reason}. See trace.unseen."
