"""Tokenizers of other libraries: transformers' fast ones, and those of `tokenizers` underneath.

Their pieces keep their order after our four specials; their own specials are dropped. The JSON file of such a
tokenizer contains the library's own description, so it is saved with the model.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from regard.data.spacing import Cutter
from regard.errors import DataError
from regard.extras import needs


class Borrowed(Cutter):
    """Text cut by a tokenizer of the `tokenizers` library."""

    def __init__(self, description: Mapping[str, Any] | str, language: str) -> None:
        super().__init__(language)
        needs("train", "tokenizers")
        from tokenizers import Tokenizer

        text = description if isinstance(description, str) else json.dumps(description)
        self._tokenizer = Tokenizer.from_str(text)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    @cached_property
    def pieces(self) -> list[str]:
        """The vocabulary in the order of its ids, without special tokens."""
        special = {
            token.content for token in self._tokenizer.get_added_tokens_decoder().values() if token.special
        }
        vocabulary = self._tokenizer.get_vocab()
        return [piece for piece in sorted(vocabulary, key=vocabulary.__getitem__) if piece not in special]

    def located(self, text: str) -> tuple[list[str], list[tuple[int, int]]]:
        found = self._tokenizer.encode(text, add_special_tokens=False)
        return list(found.tokens), list(found.offsets)

    def numbers(self, texts: list[str], known: Mapping[str, int]) -> list[list[int]]:
        unknown = known["<unk>"]
        cut = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        return [[known.get(piece, unknown) for piece in found.tokens] for found in cut]

    def join(self, pieces: Sequence[str]) -> str:
        decoder = self._tokenizer.decoder
        return decoder.decode(list(pieces)) if decoder else " ".join(pieces)

    def settings(self) -> dict[str, Any]:
        return {"tokenizer": json.loads(self._tokenizer.to_str())}


def description_of(tokenizer: object) -> str:
    """The library's description of a tokenizer of transformers or `tokenizers`."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "to_str") or not hasattr(backend, "encode_batch"):
        raise DataError(
            f"Tokenizer: {type(tokenizer).__name__} was given; expected a Tokenizer of regard, a fast one of "
            "transformers, or one of `tokenizers`."
        )
    return str(backend.to_str())
