"""Lines of any length: a line too long to be read at once is cut into its sentences, or refused.

Decoding takes steps in proportion to the length of the source, and a recurrent or self-attending model was
never trained on a line of thousands of pieces. One such line must not hold up all others.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import torch

from regard.decode.base import Decoding
from regard.decode.translator import TextTranslator, Translation, as_learnt

LONGEST = 400  # pieces of a line that is read at once, and of a sentence of a longer line
LARGEST = 1_000_000  # characters of a line

# after the end of a sentence and its closing quotes or brackets; Chinese puts no space there
_ENDS = re.compile(r"""(?<=[.!?…])(["'”’»)\]]*)\s+|([。！？；…]+[”’」』）》]*)\s*""")


@dataclass(frozen=True)
class Refused:
    """Why a line is not translated: completes a sentence that begins with the line's number."""

    reason: str


def translate_lines(
    translator: TextTranslator,
    lines: Sequence[str],
    decoding: Decoding,
    *,
    attention: bool = True,
    progress: Callable[[int], None] | None = None,
) -> list[list[Translation] | Refused]:
    """For each line its translations, as `TextTranslator.translate` gives them, or why there are none.

    A line of more than LONGEST pieces is cut into sentences. Its translation of rank n joins those of rank n
    of its sentences; its weights are theirs, zero between sentences.
    """
    counts = map(len, translator.source.encode_all([as_learnt(line[:LARGEST]) for line in lines]))
    parts = [_parts(translator, *counted) for counted in zip(lines, counts, strict=True)]
    sentences = [part for own in parts if not isinstance(own, Refused) for part in own]
    found = iter(translator.translate(sentences, decoding, attention=attention, progress=progress))
    results: list[list[Translation] | Refused] = []
    for line, own in zip(lines, parts, strict=True):
        if isinstance(own, Refused):
            results.append(own)
        elif len(own) == 1:
            results.append(next(found))
        else:
            several = list(islice(found, len(own)))
            ranks = range(max(map(len, several)))
            ranked = ([each[min(rank, len(each) - 1)] for each in several] for rank in ranks)
            results.append([_join(translator, line, each, decoding) for each in ranked])
    return results


def sentences_of(text: str) -> list[str]:
    """Split a text after each end of a sentence."""
    cuts = [match.end() for match in _ENDS.finditer(text)]
    pieces = (text[start:end].strip() for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True))
    return [piece for piece in pieces if piece]


def _parts(translator: TextTranslator, line: str, count: int) -> list[str] | Refused:
    """The parts of a line of `count` pieces that are translated separately."""
    if len(line) > LARGEST:
        return Refused(f"has {len(line):,} characters; expected {LARGEST:,} at most.")
    if count <= LONGEST:
        return [line]
    sentences = sentences_of(line) or [""]  # only blanks, which may be pieces
    longest = max(map(len, translator.source.encode_all(sentences)))
    if longest > LONGEST:
        return Refused(
            f"has {count:,} pieces, {longest:,} of them in one sentence; expected {LONGEST} at most."
        )
    return sentences


def _join(
    translator: TextTranslator, line: str, parts: Sequence[Translation], decoding: Decoding
) -> Translation:
    gap = "" if translator.target.language.lower().startswith("zh") else " "
    pieces = tuple(piece for part in parts for piece in part.pieces)
    weights = [part.weights for part in parts if part.weights is not None]
    log_probability = sum(part.log_probability for part in parts)
    steps = torch.tensor(len(pieces) + len(parts))  # with each sentence's eos
    return Translation(
        source=line,
        text=gap.join(part.text for part in parts if part.text),
        source_pieces=tuple(piece for part in parts for piece in part.source_pieces),
        pieces=pieces,
        score=log_probability / float(decoding.rule.divisor(steps)),
        log_probability=log_probability,
        finished=all(part.finished for part in parts),
        weights=torch.block_diag(*weights) if len(weights) == len(parts) else None,  # type: ignore[no-untyped-call]
        unknown=tuple(dict.fromkeys(word for part in parts for word in part.unknown)),
        written=gap.join(part.written for part in parts if part.written),
    )
