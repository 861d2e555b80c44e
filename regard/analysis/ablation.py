"""Analysis: how much a model loses without some heads tells how much they matter (Michel et al. 2019).

    context_h ξ_h,   ξ_h = 0 for the heads that are removed                    (section 2.2)
    importance_h = loss(without h) - loss                                      (section 3.2, of one head)

    paper   here
    ξ_h     heads      those with 0
    h       (path, head)

Michel, Levy, Neubig. Are sixteen heads really better than one? 2019. https://arxiv.org/abs/1905.10650
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.attention.foreign.tree import tree_of
from regard.attention.foreign.watch import watched_functions
from regard.attention.keep import whole_numbers
from regard.attention.record import check_not_compiled, record
from regard.attention.trace import Watcher, watching
from regard.errors import ConfigError, check_part


@dataclass(eq=False)
class Ablation(Watcher):
    """Zeroes the context of heads in the modules at these paths."""

    heads: dict[str, tuple[int, ...]] = field(default_factory=dict)
    ran: set[str] = field(default_factory=set)
    removes: ClassVar[bool] = True

    def removed(self, path: str) -> tuple[int, ...]:
        self.ran.add(path)
        return self.heads.get(path, ())


@contextmanager
def ablate(model: nn.Module, heads: Mapping[str, Sequence[int]]) -> Iterator[None]:
    """Set the context of these heads to zero inside the block; `heads` maps module paths to head numbers.

        model = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True).eval()
        with ablate(model, {"self_attn": [0, 3]}):
            without = model(torch.randn(1, 10, 64))

    Paths are those of `record(model)`. If one of the modules does not run in the block, or its attention
    cannot be seen, nothing was removed, and the block raises at its end.
    """
    check_part("ablate", "model", model, (nn.Module,), "Give the model that will run in the block.")
    tree = tree_of(model)
    paths, removed = {path for path, _ in model.named_modules()}, {}
    for path, numbers in heads.items():
        if path not in paths:
            raise ConfigError(f"ablate: `heads` has {path!r}; expected module paths, as in record(model).")
        removed[path] = whole_numbers("ablate", "heads", numbers) or ()
    check_not_compiled("ablate", tree.modules.values(), "whose heads cannot be removed")
    ablation = Ablation(tree.facts.own, tree.facts.others, heads=removed)
    with watched_functions(tree), watching(ablation):
        yield
    for path in removed:
        if path not in ablation.ran:
            raise ConfigError(
                f"ablate: `heads` has {path!r}, which called no attention in the block; expected the path of "
                "a module that does. record(model) finds them."
            )


def head_importance(model: nn.Module, loss: Callable[[], Tensor]) -> dict[str, Tensor]:
    """Module path -> (H,): how much the loss grows without each head.

    `loss` runs the model and returns a number; it is called once to find the heads, then once per head.
    """
    with torch.no_grad():
        with record(model, queries=[0]) as trace:
            whole = float(loss())
        found = {}
        for path, results in trace.items():
            weights = results[0].weights
            H = weights.shape[-3] if weights.ndim > 3 else 1
            without = torch.empty(H, dtype=torch.float64)
            for head in range(H):
                with ablate(model, {path: [head]}):
                    without[head] = float(loss())
            found[path] = without - whole
    return found
