"""The modules of a model by path, and what kinds of them there are: one walk for all who ask."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from torch import nn

from regard.attention.compose import Attention


class Tree(NamedTuple):
    """What a walk through a model finds."""

    modules: dict[str, nn.Module]  # as dict(model.named_modules()), in a quarter of the time
    paths: dict[int, str]  # of each module by id: the model keeps its modules alive
    kinds: set[type[nn.Module]]

    def of(self, kinds: Iterable[type[nn.Module]]) -> dict[str, nn.Module]:
        """The modules of these kinds, which are looked for only if there are any."""
        wanted = self.kinds.intersection(kinds)
        return {path: m for path, m in self.modules.items() if type(m) in wanted} if wanted else {}

    def own(self) -> dict[int, str]:
        """Paths of regard's own attention by id."""
        found = self.of(kind for kind in self.kinds if issubclass(kind, Attention))
        return {id(module): path for path, module in found.items()}

    def suspects(self) -> set[type[nn.Module]]:
        """Kinds that attend by their name, and are neither ours nor PyTorch's, which are seen."""
        return {kind for kind in self.kinds if _is_suspect(kind.__module__, kind.__name__)}


def tree_of(model: nn.Module) -> Tree:
    """Every module once, a parent before its children."""
    modules, paths = {"": model}, {id(model): ""}

    def walk(prefix: str, module: nn.Module) -> None:
        for name, child in module._modules.items():
            if child is not None and id(child) not in paths:
                path = prefix + name
                modules[path] = child
                paths[id(child)] = path
                if child._modules:
                    walk(f"{path}.", child)

    walk("", model)
    return Tree(modules, paths, set(map(type, modules.values())))


@lru_cache(maxsize=4096)
def _is_suspect(package: str, name: str) -> bool:
    attends = "attention" in name.lower() or "attn" in name.lower()
    return attends and package.partition(".")[0] not in ("torch", "regard")
