"""How much of each result a recording keeps: chosen layers, heads and queries, on a chosen device."""

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from regard.attention.result import AttentionResult, looked_at
from regard.errors import ConfigError


@dataclass(frozen=True)
class Rows:
    """Rows of scores: positions of queries and indices of heads; None is all."""

    queries: Tensor | None = None  # (R,)
    heads: Tensor | None = None  # (R,)

    @property
    def is_all(self) -> bool:
        """True for all rows."""
        return self.queries is None and self.heads is None

    def cut(self, x: Tensor) -> Tensor:
        """These rows of (..., H, T, S); an axis of size 1 broadcasts and stays."""
        if self.heads is not None and x.ndim > 2 and x.shape[-3] > 1:
            x = x.index_select(-3, self.heads.to(x.device))
        if self.queries is not None and x.ndim > 1 and x.shape[-2] > 1:
            x = x.index_select(-2, self.queries.to(x.device))
        return x


@dataclass(frozen=True, eq=False)
class Keep:
    """What to keep of each result: by default all of it, by reference."""

    to: torch.device | None = None  # copy there
    layers: tuple[str, ...] | None = None  # these module paths and what is inside them
    heads: tuple[int, ...] | None = None
    queries: tuple[int, ...] | None = None  # those that a call has; -1 is its last
    gradients: bool = False  # keep the values too, and the gradient of each context

    @cached_property
    def copies(self) -> MutableMapping[Tensor, tuple[int, Tensor]]:
        """Copies of the masks that layers share."""
        return WeakIdKeyDictionary()

    def wants(self, path: str) -> bool:
        """True if the layer is one of the chosen, or inside one."""
        if self.layers is None:
            return True
        return any(not layer or path == layer or path.startswith(f"{layer}.") for layer in self.layers)

    def concerns(self, path: str) -> bool:
        """True if the layer is one of the chosen, inside one, or around one."""
        inside = f"{path}." if path else ""
        return self.wants(path) or any(layer.startswith(inside) for layer in self.layers or ())

    @property
    def is_all(self) -> bool:
        """True if results are kept whole and where they are."""
        return self.to is None and self.heads is None and self.queries is None

    def chosen(self, result: AttentionResult) -> AttentionResult:
        """The result, or the part of it to keep.

        A recorded call of another library is cut before anything is computed. The scores of regard's own
        mechanisms may need more than query and keys, so their kept weights are computed now.
        """
        if self.is_all:
            return result
        choose: Callable[[Keep], AttentionResult] | None = getattr(result, "choose", None)
        if choose is not None:
            return choose(self)
        weights, context = result.weights, result.context
        rows = self.rows(result.T, weights.shape[-3] if weights.ndim > 3 else 1)
        of_context = rows if context.ndim == weights.ndim else Rows(rows.queries)
        with torch.no_grad():
            scores, weights = (self.moved(rows.cut(x)) for x in (result.scores, weights))
            return looked_at(self.moved(of_context.cut(context)), result.kernel, scores, weights)

    def rows(self, T: int, H: int) -> Rows:
        """The rows to keep, of T queries in H heads; a single head is kept."""
        queries = heads = None
        if self.queries is not None:
            queries = torch.tensor([t % T for t in self.queries if -T <= t < T], dtype=torch.long)
        if self.heads is not None and H > 1:
            for head in self.heads:
                if not 0 <= head < H:
                    raise ConfigError(f"record: `heads` has {head}; expected 0 to {H - 1}.")
            heads = torch.tensor(self.heads)
        return Rows(queries, heads)

    def moved(self, x: Tensor) -> Tensor:
        """A detached copy on the device to keep it on; the tensor itself if none is given."""
        return x if self.to is None else x.detach().to(self.to, copy=True)

    def moved_mask(self, x: Tensor) -> Tensor:
        """The same for a mask, copied once for all layers that share it."""
        if self.to is None:
            return x
        version = version_of(x)
        found = self.copies.get(x)
        if found is None or found[0] != version:
            found = self.copies[x] = (version, self.moved(x))
        return found[1]


def version_of(x: Tensor) -> int:
    """The number of in-place changes so far; 0 for inference tensors, which do not count them."""
    return 0 if x.is_inference() else x._version


def whole_numbers(owner: str, name: str, found: Sequence[int] | None) -> tuple[int, ...] | None:
    """The numbers as a tuple; ConfigError unless they are whole."""
    if found is None:
        return None
    try:
        numbers = tuple(found)
    except TypeError:
        numbers = ()
    if not numbers or not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
        raise ConfigError(f"{owner}: `{name}` has {found!r}; expected a list of whole numbers, or None.")
    return numbers
