"""Computes the weights of a call on demand, by a kernel for weights alone or by the reference.

It starts from the parameters and precision at the time of the call (`remembered`).
"""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention import paths, reference
from regard.attention.dispatch import Call
from regard.attention.forms import Form, Product
from regard.attention.mask import Mask
from regard.attention.normalizers.softmax import Softmax
from regard.attention.parts import is_own
from regard.attention.result import Alignment, on_demand
from regard.attention.scores.base import Score
from regard.attention.source import Source
from regard.attention.windows.everywhere import Everywhere


class Products(NamedTuple):
    """A request for weights that are a softmax of products: all of them, or the k largest of each row."""

    query: Tensor  # (..., T, D)
    keys: Tensor  # (..., S, D), with leading axes that broadcast to the query's
    scale: float
    mask: Mask
    k: int | None = None


def look(call: Call, targets: Tensor | None = None) -> Alignment:
    """Scores and weights (..., T, S) of the call, or only those of the queries `targets` (R,)."""
    products = None if targets is not None else products_of(call)
    kernel = None if products is None else paths.choose("weights", products)
    if kernel is None:
        form = looked_form(call, targets)
        path = None if form is None else paths.choose("scores", form)
        return reference.align(call, targets, scores=None if path is None else path.run(form))
    weights = kernel.run(products)
    return on_demand(lambda: reference.align(call).scores, lambda: weights)


def looked_form(call: Call, targets: Tensor | None = None) -> Form | None:
    """The form for all queries, or for `targets` (R,); None where kernels cannot be used."""
    if call.form_type is None or call.garbage:
        return None
    form = call.form()
    return form if targets is None else form._replace(query=form.query[..., targets, :])


def products_of(call: Call, k: int | None = None) -> Products | None:
    """The products, if the weights are their plain softmax: no window, no garbage."""
    plain = call.window is None or is_own(call.window, Everywhere)
    if not plain or call.garbage or not is_own(call.normalizer, Softmax) or call.form_type is not Product:
        return None
    form, normalizer = call.form(), call.normalizer
    assert isinstance(form, Product)
    assert isinstance(normalizer, Softmax)
    return Products(form.query, form.keys, form.scale / normalizer.temperature, call.source.mask, k)


def unprepared(query: Tensor, keys: Tensor, mask: Mask, score: Score) -> Call:
    """The call for a softmax of the scores of query and keys, without a prepared source."""
    return Call(query, Source(keys, keys, mask), score, Softmax(), None, None, 0.0)


def remembered(call: Call) -> Call:
    """The call, made independent of later changes of the parameters and of autocast.

    Most kernels have made the score's form, which is enough. For the others, which serve large calls, the
    parameters and buffers of the parts are copied.
    """
    if call.seen_form is not None:
        if not call.keep_weights:
            call.seen_form = call.seen_form.kept()
        if owns_nothing(call.window):
            return call
        return replace(call, window=_copied_under_autocast(call.window, call.query))
    if owns_nothing(call.score) and owns_nothing(call.normalizer) and owns_nothing(call.window):
        return call
    score, window = (_copied_under_autocast(part, call.query) for part in (call.score, call.window))
    return replace(call, score=score, normalizer=copied(call.normalizer), window=window)


def copied(part: nn.Module | None) -> Any:
    """The module with clones of its parameters and buffers; gradients still reach the originals."""
    if part is None:
        return None
    copy = type(part).__new__(type(part))
    copy.__dict__ = dict(part.__dict__)
    for owned in ("_parameters", "_buffers"):
        tensors = part.__dict__[owned]
        copy.__dict__[owned] = {name: None if x is None else x.clone() for name, x in tensors.items()}
    copy.__dict__["_modules"] = {name: copied(inner) for name, inner in part._modules.items()}
    return copy


def owns_nothing(part: object) -> bool:
    """Whether the part has no parameters, buffers or submodules."""
    return not isinstance(part, nn.Module) or not (part._parameters or part._buffers or part._modules)


def _copied_under_autocast(part: nn.Module | None, query: Tensor) -> Any:
    """A copy that always runs under the autocast state of this moment."""
    copy = copied(part)
    if copy is None:
        return None
    device = query.device.type
    lowered, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    run = copy.forward

    def later(*given: Any) -> Any:
        with torch.autocast(device, dtype, enabled=lowered):
            return run(*given)

    copy.forward = later
    return copy
