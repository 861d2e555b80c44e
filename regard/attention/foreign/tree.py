"""The modules of a model by path, and what kinds of them there are: one walk for all who ask.

Every recording begins with this walk, and a model has hundreds of modules. What follows from their names and
kinds alone is therefore kept from one recording to the next; it holds no module.
"""

from typing import NamedTuple

import torch
from torch import nn

from regard.attention.compose import Attention

LEAVES: frozenset[type] = frozenset(  # nothing attends in them, so they need no visit: most modules are these
    (nn.Linear, nn.Embedding, nn.LayerNorm, nn.RMSNorm, nn.Dropout, nn.Identity, nn.GELU, nn.ReLU, nn.Conv2d)
)
MODELS = 64  # whose facts are kept
KNOWN = ("torch", "regard")  # packages whose attention is seen
GRAPHS = (torch.jit.ScriptModule, torch.fx.GraphModule)
COMPILER = "OptimizedModule"  # the class that torch.compile(model) makes, which is imported when it does


class Facts(NamedTuple):
    """What follows from the names and kinds of all modules."""

    paths: dict[int, str]  # of modules by id: the model keeps them alive
    own: dict[int, str]  # those of regard's own attention
    others: dict[int, str]  # and all the others
    prefixes: dict[int, str]  # of those that attend by their name: what the paths inside them begin with
    kinds: frozenset[type[nn.Module]]
    suspects: frozenset[type[nn.Module]]  # attend by their name, and are neither ours nor PyTorch's
    graphs: bool  # some kinds may run without Python
    attends: bool  # some kinds are neither PyTorch's nor ours, or attend


class Tree(NamedTuple):
    """What a walk through a model finds."""

    found: list[nn.Module]  # all but LEAVES
    changed: list[nn.Module]  # those with a `forward` of their own, or that were compiled in place
    facts: Facts

    @property
    def modules(self) -> dict[str, nn.Module]:
        """As dict(model.named_modules()), without LEAVES."""
        by_id = {id(module): module for module in self.found}
        return {path: by_id[key] for key, path in self.facts.paths.items()}


_known: dict[int, tuple[object, Facts]] = {}  # id of a model -> what was walked through, what followed


def tree_of(model: nn.Module) -> Tree:
    """Every module of the model as it is now."""
    found: list[nn.Module] = [model]
    changed: list[nn.Module] = []
    names: list[str | None] = []
    seen: set[int] = set()
    for module in found:  # which grows
        own = module.__dict__
        if "forward" in own or "_compiled_call_impl" in own:
            changed.append(module)
        if id(module) not in seen:
            seen.add(id(module))
            for name, child in module._modules.items():
                if type(child) not in LEAVES and child is not None:
                    names.append(name)
                    found.append(child)
            names.append(None)
    walk = names, list(map(id, found)), list(map(type, found))
    known = _known.get(id(model))
    if known is None or known[0] != walk:
        if len(_known) >= MODELS:
            _known.clear()
        known = _known[id(model)] = walk, _facts_of(model)
    return Tree(found, changed, known[1])


def _facts_of(model: nn.Module) -> Facts:
    modules = [(path, m) for path, m in model.named_modules() if m is model or type(m) not in LEAVES]
    kinds = frozenset(type(module) for _, module in modules)
    suspects = frozenset(filter(_is_suspect, kinds))
    return Facts(
        {id(module): path for path, module in modules},
        {id(module): path for path, module in modules if isinstance(module, Attention)},
        {id(module): path for path, module in modules if not isinstance(module, Attention)},
        {id(module): f"{path}." if path else "" for path, module in modules if type(module) in suspects},
        kinds,
        suspects,
        any(issubclass(kind, GRAPHS) or kind.__name__ == COMPILER for kind in kinds),
        any(map(_may_attend, kinds)),
    )


def _is_suspect(kind: type[nn.Module]) -> bool:
    name = kind.__name__.lower()
    return ("attention" in name or "attn" in name) and kind.__module__.partition(".")[0] not in KNOWN


def _may_attend(kind: type[nn.Module]) -> bool:
    """Neither PyTorch's own layer nor ours, or one that attends."""
    known = kind.__module__.startswith(("torch.nn.modules.", "regard."))
    return not known or issubclass(kind, Attention | nn.MultiheadAttention)
