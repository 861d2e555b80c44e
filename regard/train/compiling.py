"""Compiles parts of a model with torch.compile while it trains.

The model names the parts (`Model.compilable`): a recurrent step, a layer. Layers of one class share one
compilation, because their weights are arguments. Shapes that vary between batches (`Model.varied`) are
compiled as dynamic, so one compilation serves all; a captured step then records the compiled kernels.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.fx.experimental import _config as shapes

from regard.models.base import Model


@contextmanager
def compiled(model: Model) -> Iterator[None]:
    """Inside the block the model trains with compiled methods; it evaluates with the plain ones."""
    with ExitStack() as stack:
        if model.varied:
            # two axes that happen to have equal length in the first batch must stay two symbols
            stack.enter_context(shapes.patch(use_duck_shape=False))  # type: ignore[attr-defined]
        for owner, name in model.compilable():
            plain = getattr(owner, name)
            fused = torch.compile(plain, dynamic=model.varied)
            setattr(owner, name, _in_training(owner, fused, plain))
            stack.callback(vars(owner).pop, name, None)
        yield


def _in_training(
    owner: nn.Module, fused: Callable[..., Any], plain: Callable[..., Any]
) -> Callable[..., Any]:
    """A method that runs `fused` in training mode and `plain` in evaluation mode."""

    def run(*arguments: Any, **named: Any) -> Any:
        return (fused if owner.training else plain)(*arguments, **named)

    return run
