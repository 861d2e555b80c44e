"""What a view shows: the modules of a trace, their heads, and the words of their rows and columns."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from regard.attention.result import AttentionResult
from regard.attention.summary import joined
from regard.errors import ConfigError, ShapeError

NUMBERS = 2**24  # weights computed at a time
_CROSS = re.compile(r"cross|enc_?dec|encoder_attn|multihead_attn", re.IGNORECASE)
_SIGNS = str.maketrans({"\n": "↵", "\t": "⇥", "Ċ": "↵", "Ġ": " ", "▁": " "})


@dataclass(frozen=True, eq=False)
class Layer:
    """The weights (H, T, S) of one module for one example, a few rows at a time."""

    path: str
    heads: int
    T: int
    S: int
    batch: int
    source: AttentionResult | Tensor  # a Tensor: all steps of a generation as one alignment

    def rows(self, first: int, stop: int) -> Tensor:
        """(H, R, S) the weights of some queries."""
        with torch.no_grad():
            if isinstance(self.source, Tensor):
                found = self.source[..., first:stop, :]
            else:
                found = self.source.rows(torch.arange(first, stop))
            return _by_head(found)[self.batch].float().cpu()

    @property
    def block(self) -> int:
        """How many rows are computed at a time."""
        return max(1, NUMBERS // max(1, self.heads * self.S))


def _by_head(weights: Tensor) -> Tensor:
    """(..., T, S) -> (B, H, T, S); three axes are a batch without heads."""
    if weights.ndim == 2:
        return weights[None, None]
    if weights.ndim == 3:
        return weights[:, None]
    return weights.flatten(0, -4)


def layers_of(results: Mapping[str, Sequence[AttentionResult]], batch: int, call: int | None) -> list[Layer]:
    """One layer for each path that attended to something."""
    found = [_layer(path, calls, batch, call) for path, calls in results.items() if calls]
    found = [layer for layer in found if layer.T and layer.S]
    if not found:
        raise ConfigError(
            "view: `trace` has no results; expected one or more. Run the model inside `with record(model)`."
        )
    return found


def _layer(path: str, calls: Sequence[AttentionResult], batch: int, call: int | None) -> Layer:
    source: AttentionResult | Tensor
    if call is None and is_generation(calls):
        with torch.no_grad():
            source = joined(path, calls)
        T, one = source.shape[-2], source[..., :1, :]
    else:
        number = 0 if call is None else call
        if not -len(calls) <= number < len(calls):
            raise ConfigError(
                f"view: `call` has {number}; expected below {len(calls)}, the number of calls of {path!r}."
            )
        source = calls[number]
        T = source.T
        with torch.no_grad():
            one = source.rows(torch.arange(min(1, T)))
    examples, heads, _, S = _by_head(one).shape
    if not -examples <= batch < examples:
        raise ConfigError(
            f"view: `batch` has {batch}; expected below {examples}, the number of examples of {path!r}."
        )
    return Layer(path, heads, T, S, batch % examples, source)


def is_generation(calls: Sequence[AttentionResult]) -> bool:
    """True for several calls, all but the first with one query: a model that generates step by step."""
    return len(calls) > 1 and all(later.T == 1 for _, later in pairwise(calls))


@dataclass(frozen=True)
class Group:
    """Modules whose paths differ only in numbers, such as the layers of an encoder."""

    name: str
    layers: tuple[Layer, ...]
    names: tuple[str, ...]  # the numbers of the layers


def groups_of(layers: Sequence[Layer]) -> list[Group]:
    """Group the layers whose paths differ only in numbers."""
    alike: dict[str, list[Layer]] = defaultdict(list)
    for layer in layers:
        alike[re.sub(r"\d+", "*", layer.path)].append(layer)
    groups = []
    for pattern, members in alike.items():
        numbers = [re.findall(r"\d+", layer.path) for layer in members]
        varying = [i for i in range(len(numbers[0])) if len({each[i] for each in numbers}) > 1]
        names = tuple(".".join(each[i] for i in varying) for each in numbers)
        name = members[0].path if len(members) == 1 else re.sub(r"\.?\*", "", pattern).strip(".")
        groups.append(Group(name or "(the model)", tuple(members), names))
    return groups


@dataclass(frozen=True)
class Texts:
    """The words of the source and, of an encoder-decoder, of the target."""

    tokens: Sequence[str] | None
    target: Sequence[str] | None

    def of(self, layer: Layer) -> tuple[list[str] | None, list[str] | None]:
        """The words of a layer's rows and columns; None where they are unknown."""
        rows: Sequence[str] | None
        columns: Sequence[str] | None
        if self.target is None:
            rows = columns = self.tokens
        elif _CROSS.search(layer.path.rpartition(".")[2]) or _CROSS.search(layer.path):
            rows, columns = self.target, self.tokens
        elif "decoder" in layer.path:
            rows = columns = self.target
        elif "encoder" in layer.path:
            rows = columns = self.tokens
        else:  # decide by the number of words
            rows = self.target if _fits(self.target, layer.T) else self.tokens
            columns = self.tokens if _fits(self.tokens, layer.S) else self.target
        return _words(rows, layer.T), _words(columns, layer.S)

    def check(self, layers: Sequence[Layer]) -> None:
        """ShapeError for words that fit no axis of any layer."""
        sizes = sorted({size for layer in layers for size in (layer.T, layer.S)})
        for name, words in (("tokens", self.tokens), ("target_tokens", self.target)):
            if words is not None and not any(_fits(words, size) for size in sizes):
                known = ", ".join(map(str, sizes))
                raise ShapeError(
                    f"view: `{name}` has {len(words)} tokens; expected one per position of an axis: {known}."
                )


def _fits(words: Sequence[str] | None, size: int) -> bool:
    """True for one word per position, or one more: the last generated word is never an input."""
    return words is not None and len(words) in (size, size + 1)


def _words(words: Sequence[str] | None, size: int) -> list[str] | None:
    if words is None or not _fits(words, size):
        return None
    return [str(word).translate(_SIGNS).strip() or "␣" for word in words[:size]]


def texts_of(tokens: Any, target: Any) -> Texts:
    """The given words; ConfigError for a plain string."""
    for name, words in (("tokens", tokens), ("target_tokens", target)):
        if isinstance(words, str):
            raise ConfigError(
                f"view: `{name}` has the text {words!r}; expected a list of tokens, such as text.split()."
            )
    return Texts(*(None if words is None else list(map(str, words)) for words in (tokens, target)))
