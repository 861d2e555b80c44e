"""A closed list of words and their ids, for text that is already split into words."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from regard.errors import DataError

UNKNOWN = "<unk>"


class WordList:
    """Words by id and ids by word; a word that is not listed has the id of `unknown`."""

    def __init__(self, words: Sequence[str], *, unknown: str = UNKNOWN) -> None:
        self.words = tuple(words)
        self._numbers = {word: number for number, word in enumerate(self.words)}
        if unknown not in self._numbers:
            raise DataError(
                f"WordList: `words` has no {unknown!r}; expected it, for words that are not listed."
            )
        self.unknown = self._numbers[unknown]

    @classmethod
    def learn(
        cls, words: Iterable[str], *, first: Sequence[str], unknown: str = UNKNOWN, size: int | None = None
    ) -> Self:
        """The words of a text by descending frequency, then by spelling, after those in `first`."""
        counts = Counter(words)
        others = sorted(set(counts) - set(first), key=lambda word: (-counts[word], word))
        return cls([*first, *others][:size], unknown=unknown)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._numbers

    def number(self, word: str) -> int:
        """The word's id."""
        return self._numbers.get(word, self.unknown)

    def numbers(self, words: Iterable[str]) -> list[int]:
        """The ids of words."""
        return [self.number(word) for word in words]

    def save(self, path: Path) -> None:
        """Write the list as JSON."""
        path.write_text(json.dumps(self.words, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path, *, unknown: str = UNKNOWN) -> Self:
        """Read what `save` wrote."""
        try:
            words = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(
                f"WordList: there is no file {path}; expected what WordList.save wrote."
            ) from None
        except ValueError as error:
            raise DataError(f"WordList: {path} is not valid JSON; expected a list of words.") from error
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise DataError(f"WordList: {path} has no list of words; expected what WordList.save wrote.")
        return cls(words, unknown=unknown)
