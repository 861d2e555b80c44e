"""Raw text to ids and back: words, characters or byte-pairs.

A tokenizer is one JSON file and is saved with the model, so every model can read raw text.

    tokenizer = Tokenizer.train(texts, kind="words", language="fr")
    tokenizer.decode(tokenizer.encode("L'homme dort."))               # "L'homme dort."

Words and characters are cut here; byte-pairs are learnt by the `tokenizers` library, which is imported
lazily. Text is cut into byte-pairs without it if it is not installed.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

from regard import storage
from regard.data.borrowed import Borrowed, description_of
from regard.data.bytepairs import BYTES, BytePairs, DroppedMerges, learn_bytepairs
from regard.data.spacing import Cutter
from regard.errors import ConfigError, DataError

Kind = Literal["words", "characters", "bpe"]
BORROWED = "borrowed"  # the kind of a tokenizer of another library

PAD, BOS, EOS, UNK = 0, 1, 2, 3
PAD_PIECE, BOS_PIECE, EOS_PIECE, UNK_PIECE = SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")

FORMAT = 1  # of the JSON file


class Tokenizer:
    """Text to ids and back. Ids 0..3 are pad, bos, eos, unk."""

    def __init__(
        self,
        cutter: Cutter,
        vocabulary: Sequence[str],
        *,
        kind: Kind | Literal["borrowed"],
        language: str,
        lowercase: bool,
    ) -> None:
        self.kind = kind
        self.language = language
        self.lowercase = lowercase
        self.vocabulary = tuple(vocabulary)
        self._cutter = cutter
        self._numbers = {piece: number for number, piece in enumerate(self.vocabulary)}

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        kind: Kind,
        language: str = "en",
        size: int | None = None,
        minimum: int = 1,
        lowercase: bool = False,
    ) -> Self:
        """Learn a vocabulary of at most `size` pieces, specials included, each seen `minimum` times or more.

        Words and characters are sorted by descending frequency, then by text. Byte-pairs need `size`; every
        byte is in their vocabulary, so no text is unknown.
        """
        _check_settings(kind, size, minimum)
        prepared = (_prepare(text, lowercase) for text in texts)
        if kind == "bpe":
            assert size is not None
            vocabulary, merges = learn_bytepairs(prepared, size, minimum, specials=SPECIAL)
            extra: dict[str, Any] = {"merges": merges}
        elif kind == "characters":
            vocabulary, extra = _ranked(Counter(c for text in prepared for c in text), size, minimum), {}
        else:
            counts, casing = _count_words(prepared, truecase=not lowercase)
            vocabulary, extra = _ranked(counts, size, minimum), {"casing": casing}
        return cls._build(
            {"kind": kind, "language": language, "lowercase": lowercase, "pieces": vocabulary} | extra
        )

    @classmethod
    def of(cls, tokenizer: Any, *, language: str = "und") -> "Tokenizer":
        """Wrap a tokenizer of `tokenizers` or a fast one of transformers; return one of ours unchanged."""
        if isinstance(tokenizer, Tokenizer):
            return tokenizer
        cutter = Borrowed(description_of(tokenizer), language)
        return cls(cutter, (*SPECIAL, *cutter.pieces), kind="borrowed", language=language, lowercase=False)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what `save` wrote."""
        path = Path(path)
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(
                f"Tokenizer: `path` has no file {path}; expected what Tokenizer.save wrote."
            ) from None
        except ValueError as error:
            raise DataError(
                f"Tokenizer: {path} is not valid JSON; expected what Tokenizer.save wrote."
            ) from error
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise DataError(f"Tokenizer: {path} has another format; expected `format` {FORMAT}.")
        try:
            return cls._build(record)
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(f"Tokenizer: {path} has missing or wrong fields; expected {FIELDS}.") from error

    @classmethod
    def _build(cls, record: Mapping[str, Any]) -> Self:
        kind, language, pieces = record["kind"], record["language"], tuple(record["pieces"])
        if kind not in (*get_args(Kind), BORROWED) or pieces[: len(SPECIAL)] != SPECIAL:
            raise KeyError("kind or pieces")
        cutter: Cutter
        if kind == "bpe":
            cutter = BytePairs(pieces, record["merges"], language)
        elif kind == BORROWED:
            cutter = Borrowed(record["tokenizer"], language)
        elif kind == "characters":
            cutter = _Characters(language)
        else:
            cutter = _Words(language, record["casing"], pieces, truecase=not record["lowercase"])
        return cls(cutter, pieces, kind=kind, language=language, lowercase=bool(record["lowercase"]))

    def save(self, path: Path | str) -> None:
        """Write one JSON file, atomically."""
        with storage.whole(Path(path)) as file:
            file.write(self.to_json().encode())

    def to_json(self) -> str:
        """What `save` writes: all that decides how text is cut."""
        record = {
            "format": FORMAT,
            "kind": self.kind,
            "language": self.language,
            "lowercase": self.lowercase,
            "pieces": self.vocabulary,
        }
        return json.dumps(record | self._cutter.settings(), ensure_ascii=False, indent=0) + "\n"

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        """The ids of the text's pieces, without bos and eos; unknown pieces become unk."""
        return [self._numbers.get(piece, UNK) for piece in self._cut(text)]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text; byte-pairs are cut as one batch, which is several times faster."""
        return self._cutter.numbers([_prepare(text, self.lowercase) for text in texts], self._numbers)

    def recut(self, *, share: float, seed: int) -> Callable[[Sequence[str]], list[list[int]]]:
        """An `encode_all` that drops each byte-pair merge with probability `share` (BPE dropout).

        Re-encoding the training text from time to time shows a model its words in other pieces too.
        """
        if not isinstance(self._cutter, BytePairs):
            raise ConfigError(f"Tokenizer: `kind` has {self.kind!r}, which merges nothing; expected 'bpe'.")
        dropped = DroppedMerges(self._cutter, self._numbers, share=share, seed=seed)
        return lambda texts: dropped.numbers(_prepare(text, self.lowercase) for text in texts)

    def encode_words(self, words: Sequence[str]) -> tuple[list[int], list[tuple[int, ...]]]:
        """The ids of words that are already split, and for each piece the words it is part of.

        Links between such words stay valid whatever the pieces are. A piece that two words share (a full stop
        and a quotation mark, say) belongs to both, and one that is only a space belongs to none.
        """
        pieces, owners = self._cutter.cut_words([_prepare(word, self.lowercase) for word in words])
        return [self._numbers.get(piece, UNK) for piece in pieces], owners

    def pieces(self, text: str) -> list[str]:
        """The text's pieces in readable form, one for each id of `encode`, unknown words as written."""
        return [self._cutter.show(piece) for piece in self._cut(text)]

    def pieces_of(self, ids: Iterable[int]) -> list[str]:
        """The pieces of these ids in readable form, specials included."""
        return [self._cutter.show(self.vocabulary[number]) for number in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """Raw text of ids; pad, bos and eos are left out, unk is written `<unk>`."""
        return self._cutter.join([self.vocabulary[i] for i in ids if i not in (PAD, BOS, EOS)])

    def decode_pieces(self, pieces: Iterable[str]) -> str:
        """Raw text of pieces as `pieces` and `pieces_of` return them."""
        skipped = (PAD_PIECE, BOS_PIECE, EOS_PIECE)
        return self._cutter.join([self._cutter.hide(piece) for piece in pieces if piece not in skipped])

    def unknown(self, text: str) -> list[str]:
        """The distinct pieces that the vocabulary lacks, in the order of the text."""
        return list(dict.fromkeys(piece for piece in self._cut(text) if piece not in self._numbers))

    def _cut(self, text: str) -> list[str]:
        return self._cutter.cut(_prepare(text, self.lowercase))


FIELDS = "kind, language, lowercase, pieces, and casing (words), merges (bpe) or tokenizer (borrowed)"


def _prepare(text: str, lowercase: bool) -> str:
    return text.lower() if lowercase else text


def _check_settings(kind: str, size: int | None, minimum: int) -> None:
    if kind not in get_args(Kind):
        raise ConfigError(f"Tokenizer: `kind` has {kind!r}; expected one of {', '.join(get_args(Kind))}.")
    if minimum < 1:
        raise ConfigError(f"Tokenizer: `minimum` has {minimum}; expected 1 or more.")
    least = len(SPECIAL) + (BYTES if kind == "bpe" else 0)
    if (size is None and kind == "bpe") or (size is not None and size < least):
        raise ConfigError(f"Tokenizer: `size` has {size}; expected {least} or more for kind {kind!r}.")


def _ranked(counts: Counter[str], size: int | None, minimum: int) -> list[str]:
    kept = [piece for piece, count in counts.items() if count >= minimum]
    kept.sort(key=lambda piece: (-counts[piece], piece))
    return [*SPECIAL, *kept][:size]


# Characters ----------------------------------------------------------------------------------------


class _Characters(Cutter):
    """One piece for each character, spaces included."""

    def located(self, text: str) -> tuple[list[str], list[tuple[int, int]]]:
        return list(text), [(i, i + 1) for i in range(len(text))]


# Words ---------------------------------------------------------------------------------------------

_WORD = re.compile(
    r"""'s\b                                    # the English genitive
    | [^\W\d_]+(?:-[^\W\d_]+)*'(?!s\b)          # an elided word: l', qu', don'
    | [^\W\d_]+(?:-[^\W\d_]+)*
    | \d+
    | [^\w\s]
    | _+                                        # all that is left: nothing vanishes""",
    re.VERBOSE,
)


class _Words(Cutter):
    """Words by pattern; the first word of a sentence is written in its usual case."""

    def __init__(
        self, language: str, casing: Mapping[str, str], vocabulary: Iterable[str], *, truecase: bool
    ) -> None:
        super().__init__(language)
        self._casing = dict(casing)
        self._vocabulary = frozenset(vocabulary)
        self._truecase = truecase

    def cut(self, text: str) -> list[str]:
        pieces = split_words(text)
        first = _first_word(pieces)
        if self._truecase and first is not None:
            pieces[first] = self._usual_case(pieces[first])
        return pieces

    def cut_words(self, words: Sequence[str]) -> tuple[list[str], list[tuple[int, ...]]]:
        pieces: list[str] = []
        owners: list[tuple[int, ...]] = []
        first = _first_word(words) if self._truecase else None
        for number, word in enumerate(words):
            known = self._usual_case(word) if number == first else word
            own = [known] if known in self._vocabulary else split_words(known)
            pieces += own
            owners += [(number,)] * len(own)
        return pieces, owners

    def join(self, pieces: Sequence[str]) -> str:
        pieces = list(pieces)
        first = _first_word(pieces)
        if self._truecase and first is not None:
            pieces[first] = pieces[first][0].upper() + pieces[first][1:]
        return self._spacing.join(pieces)

    def settings(self) -> dict[str, Any]:
        return {"casing": self._casing}

    def _usual_case(self, word: str) -> str:
        lower = word.lower()
        if not _is_capitalized(word):
            return word
        if lower in self._casing:
            return self._casing[lower]
        # an unseen word is more often a name than not: leave it as it is
        return lower if lower in self._vocabulary else word


def split_words(text: str) -> list[str]:
    """The words and punctuation marks of a text, as written."""
    return _WORD.findall(unicodedata.normalize("NFC", text).replace("\u2019", "'"))


def count_words(text: str, language: str) -> int:
    """The words and punctuation marks of a sentence, whatever pieces a model uses.

    Chinese, Japanese and Thai put no spaces between words: there characters are counted.
    """
    if language.lower().replace("_", "-").partition("-")[0] in ("zh", "ja", "th"):
        return len("".join(text.split()))
    return len(split_words(text))


def _first_word(pieces: Sequence[str]) -> int | None:
    """The index of the sentence's first word, after quotes and brackets; None if a number comes first."""
    for position, piece in enumerate(pieces):
        if any(character.isalnum() for character in piece):
            return position if piece[0].isalpha() else None
    return None


def _is_capitalized(word: str) -> bool:
    """Whether only the first letter is a capital, as at the start of a sentence."""
    return word[0].isupper() and word[1:] == word[1:].lower()


def _count_words(texts: Iterable[str], *, truecase: bool) -> tuple[Counter[str], dict[str, str]]:
    """Counts of the words in their usual case, and that case if it is not lower case."""
    first_words: Counter[str] = Counter()
    others: Counter[str] = Counter()
    evidence: Counter[str] = Counter()
    for text in texts:
        pieces = split_words(text)
        first = _first_word(pieces) if truecase else None
        for position, piece in enumerate(pieces):
            (first_words if position == first else others)[piece] += 1
            # a word after a full stop may start a second sentence, so its case is no evidence
            if position != first and position > 0 and pieces[position - 1] not in (".", "!", "?"):
                evidence[piece] += 1
    casing = _usual_casing(evidence) if truecase else {}
    for word, count in first_words.items():
        others[casing.get(word.lower(), word.lower()) if _is_capitalized(word) else word] += count
    return others, {lower: usual for lower, usual in sorted(casing.items()) if usual != lower}


def _usual_casing(evidence: Counter[str]) -> dict[str, str]:
    usual: dict[str, str] = {}
    for word in sorted(evidence, key=lambda word: (-evidence[word], word)):
        usual.setdefault(word.lower(), word)
    return usual
