"""The parts of a model that torch.compile fuses, for as long as it trains.

What is compiled the model says (`Model.compilable`): a step of a recurrence, a layer. Layers of one kind are
one compilation, since their weights are arguments. Shapes that change from batch to batch (`Model.varied`)
are symbols in it, so that it serves them all; a captured step then records the compiled kernels.
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
    """Inside, the model trains with compiled methods; it evaluates with the plain ones, as ever."""
    with ExitStack() as stack:
        if model.varied:
            # two axes that happen to be of one length in the first batch are still two
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
    """The one method while the module trains, the other while it does not."""

    def run(*arguments: Any, **named: Any) -> Any:
        return (fused if owner.training else plain)(*arguments, **named)

    return run
