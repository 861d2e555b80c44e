"""Byte-pairs: pieces learnt by repeatedly merging the most frequent pair of pieces.

    l o w e r  ->  lo w e r  ->  low e r  ->  low er  ->  lower

The `tokenizers` library learns the merges, and applies them where it is installed; `Merges` cuts text in the
same way without it, more slowly, so that a trained model needs only Python. `DroppedMerges` is BPE dropout
for training text: each possible merge is skipped with some probability, so that a model mostly sees a word
whole and sometimes in smaller pieces. The library has that too, but takes no seed.

Sennrich, Haddow, Birch. Neural machine translation of rare words with subword units. 2016.
https://arxiv.org/abs/1508.07909
Provilkov, Emelianenko, Voita. BPE-dropout: simple and effective subword regularization. 2020.
https://arxiv.org/abs/1910.13267
"""

import json
import random
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

from regard.data.spacing import Cutter
from regard.extras import installed, needs

BYTES = 256
NEXT_LINE = 0x85  # a control character that counts as a space
KEPT_WORDS = 100_000  # size of the cache of words
DRAWS = 64  # most ways in which BPE dropout cuts one word
UNASSIGNED = "\x01"  # stands for a character that this Python's Unicode lacks


class BytePairs(Cutter):
    """Byte-level byte-pairs: lossless for any text.

    The vocabulary is in the library's alphabet, one printable letter per byte; the readable form is the text
    itself, with `<0xC3>` for a byte that is only part of a character.
    """

    def __init__(self, vocabulary: Sequence[str], merges: Sequence[Sequence[str]], language: str) -> None:
        super().__init__(language)
        self._merges = [(str(left), str(right)) for left, right in merges]
        made = _Library if installed("tokenizers") else Merges
        self._cutter: _Library | Merges = made(list(vocabulary), self._merges)
        self._known: dict[str, list[int]] = {}  # cache: word -> ids

    def located(self, text: str) -> tuple[list[str], list[tuple[int, int]]]:
        return self._cutter.cut(text)

    def numbers(self, texts: list[str], known: Mapping[str, int]) -> list[list[int]]:
        # words repeat: looking them up is three times as fast as calling the library
        words = [[text] if _is_unassigned(text) else _words(text) for text in texts]
        self._learn({word for text in words for word in text})
        return [[number for word in text for number in self._known[word]] for text in words]

    def _learn(self, words: set[str]) -> None:
        """Cut the words that are not cached; no merge crosses a word boundary."""
        if len(self._known) > KEPT_WORDS:
            self._known.clear()
        new = [word for word in words if word not in self._known]
        self._known.update(zip(new, self._cutter.numbers(new), strict=True))

    def words(self, text: str) -> list[str]:
        """The words, each with the space before it, in the vocabulary's letters; no merge crosses them."""
        return self._cutter.words(text)

    @cached_property
    def ranks(self) -> dict[tuple[str, str], int]:
        """The rank of each merge, in the order in which they were learnt."""
        return {pair: rank for rank, pair in enumerate(self._merges)}

    def join(self, pieces: Sequence[str]) -> str:
        # a model may produce half a character; it becomes U+FFFD instead of an error
        return _to_bytes("".join(pieces)).decode("utf-8", errors="replace")

    def show(self, piece: str) -> str:
        raw = _to_bytes(piece)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return "".join(f"<0x{byte:02X}>" for byte in raw)

    def hide(self, shown: str) -> str:
        partial = re.fullmatch(r"(?:<0x[0-9A-F]{2}>)+", shown)
        raw = bytes.fromhex(re.sub("<0x|>", "", shown)) if partial else shown.encode("utf-8")
        return "".join(_byte_letters()[byte] for byte in raw)

    def settings(self) -> dict[str, Any]:
        return {"merges": self._merges}


class DroppedMerges:
    """Text cut into byte-pairs, each possible merge skipped with probability `share`.

    The first DRAWS occurrences of a word are sampled; later ones reuse one of those samples, since frequent
    words would take most of the time and show nothing new. The result depends only on the seed and on the
    texts in their order.
    """

    def __init__(self, bytepairs: BytePairs, known: Mapping[str, int], *, share: float, seed: int) -> None:
        self._bytepairs, self._known, self._share = bytepairs, known, share
        self._random = random.Random(seed)
        self._drawn: dict[str, list[list[int]]] = {}

    def numbers(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each text's pieces."""
        return [
            [number for word in self._bytepairs.words(text) for number in self._draw(word)] for text in texts
        ]

    def _draw(self, word: str) -> list[int]:
        drawn = self._drawn.setdefault(word, [])
        if len(drawn) == DRAWS:
            return drawn[int(self._random.random() * DRAWS)]
        pieces = _merge(list(word), self._bytepairs.ranks, lambda: self._random.random() >= self._share)
        drawn.append([self._known[piece] for piece in pieces])
        return drawn[-1]


def _merge(
    pieces: list[str], ranks: Mapping[tuple[str, str], int], may: Callable[[], bool] = lambda: True
) -> list[str]:
    """Apply the earliest-learnt merge, the leftmost first, until `may` allows none."""
    while True:
        possible = [
            (rank, i)
            for i, pair in enumerate(pairwise(pieces))
            if (rank := ranks.get(pair)) is not None and may()
        ]
        if not possible:
            return pieces
        _, i = min(possible)
        pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]


class _Library:
    """Text cut by `tokenizers`, without its notion of special tokens: "<eos>" in a text is just text."""

    def __init__(self, vocabulary: list[str], merges: list[tuple[str, str]]) -> None:
        from tokenizers import Tokenizer, models, pre_tokenizers

        numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._tokenizer = Tokenizer(models.BPE(vocab=numbers, merges=merges))
        self._tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)

    def cut(self, text: str) -> tuple[list[str], list[tuple[int, int]]]:
        found = self._tokenizer.encode(text, add_special_tokens=False)
        return list(found.tokens), list(found.offsets)

    def numbers(self, texts: list[str]) -> list[list[int]]:
        # numbered as our vocabulary; its bytes leave nothing unknown
        return [found.ids for found in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def words(self, text: str) -> list[str]:
        return [word for word, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(text)]


class Merges:
    """Text cut by the merges in plain Python, exactly as the library cuts it."""

    def __init__(self, vocabulary: list[str], merges: list[tuple[str, str]]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._known: dict[str, list[str]] = {}  # cache: word -> pieces

    def cut(self, text: str) -> tuple[list[str], list[tuple[int, int]]]:
        """The pieces, and for each the span of characters of which it has a byte."""
        pieces: list[str] = []
        offsets: list[tuple[int, int]] = []
        place = 0
        for word in _words(text):
            owner = [place + i for i, letter in enumerate(word) for _ in letter.encode("utf-8")]
            start = 0
            for piece in self._cut(_to_letters(word)):
                pieces.append(piece)
                offsets.append((owner[start], owner[start + len(piece) - 1] + 1))
                start += len(piece)
            place += len(word)
        return pieces, offsets

    def numbers(self, texts: list[str]) -> list[list[int]]:
        return [[self._numbers[piece] for piece in self.cut(text)[0]] for text in texts]

    def words(self, text: str) -> list[str]:
        return [_to_letters(word) for word in _words(text)]

    def _cut(self, word: str) -> list[str]:
        if word not in self._known:
            if len(self._known) == KEPT_WORDS:
                self._known.clear()
            self._known[word] = _merge(list(word), self._ranks)
        return self._known[word]


def _words(text: str) -> list[str]:
    """The words of a text, each with the space before it, as byte-level vocabularies cut them."""
    if text.isascii():
        return _WORD.findall(text)
    # non-ASCII letters, numbers, spaces and other characters are cut as "a", "0", tab and "!" are
    return [text[slice(*found.span())] for found in _WORD.finditer(text.translate(_KINDS))]


def _is_unassigned(text: str) -> bool:
    """Whether a character is not in this Python's Unicode; the library's may have it as a letter."""
    return not text.isascii() and UNASSIGNED in text.translate(_KINDS)


class _Kinds(dict[int, str]):
    """For each character an ASCII one that is cut in the same way, computed on first use."""

    def __missing__(self, code: int) -> str:
        category = "Zs" if code == NEXT_LINE else unicodedata.category(chr(code))
        kinds = {"L": "a", "N": "0", "Z": "\t"} | ({"C": UNASSIGNED} if category == "Cn" else {})
        self[code] = chr(code) if code < 128 else kinds.get(category[0], "!")
        return self[code]


_KINDS = _Kinds()
_WORD = re.compile(
    r" ?[A-Za-z]+|'(?:[stmd]|re|ve|ll)| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", re.ASCII
)  # the pattern of GPT-2, the most frequent kind first


def learn_bytepairs(
    texts: Iterable[str], size: int, minimum: int, *, specials: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """A vocabulary of `size` pieces, specials first, then every byte; and the merges in order."""
    needs("train", "tokenizers")
    from tokenizers import Tokenizer as Library
    from tokenizers import models, pre_tokenizers, trainers

    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=minimum,
        special_tokens=list(specials),
        initial_alphabet=sorted(_byte_letters()),
        show_progress=False,
    )
    library.train_from_iterator(texts, trainer)
    learnt = json.loads(library.to_str())["model"]
    return sorted(learnt["vocab"], key=learnt["vocab"].__getitem__), learnt["merges"]


@cache
def _byte_letters() -> tuple[str, ...]:
    """The printable letter of each byte in byte-level vocabularies (the convention of GPT-2)."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(BYTES) if byte not in printable]
    return tuple(chr(b if b in printable else BYTES + others.index(b)) for b in range(BYTES))


@cache
def _letter_bytes() -> dict[str, int]:
    return {letter: byte for byte, letter in enumerate(_byte_letters())}


def _to_letters(text: str) -> str:
    return "".join(_byte_letters()[byte] for byte in text.encode("utf-8"))


def _to_bytes(letters: str) -> bytes:
    return bytes(_letter_bytes()[letter] for letter in letters)
