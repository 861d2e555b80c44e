"""BLEU and chrF by sacrebleu on raw text, with the signatures that make numbers comparable.

Three forms of BLEU are in use, and they differ by points:

    cased          raw text, sacrebleu's 13a tokens (characters for Chinese): the one to compare by
    lower-cased    the same without case
    Moses          lower-cased, punctuation normalised, tokenised by Moses, then BLEU on those tokens: the
                   form of the literature on Multi30k
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

from regard.errors import ConfigError, DataError
from regard.extras import installed, needs

UNSPACED = ("zh", "ja", "ko", "th")  # written without spaces, so Moses cannot tokenize them


class Bleu(NamedTuple):
    """A form of BLEU, from 0 to 100, with its signature."""

    score: float
    signature: str

    def summary(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"bleu": round(self.score, 2), "signature": self.signature}


@dataclass(frozen=True)
class Scores:
    """Corpus scores from 0 to 100."""

    bleu: float
    chrf: float
    signature: str  # of BLEU
    chrf_signature: str
    sentences: int
    lowercased: Bleu
    moses: Bleu | None  # lower-cased, Moses tokens; None for unspaced languages, or without sacremoses


class LengthScore(NamedTuple):
    """BLEU of the sentences with a length from low to high, inclusive."""

    low: int
    high: int | None  # None: no limit
    sentences: int
    bleu: float

    @property
    def words(self) -> str:
        """The lengths in words: `up to 10`, `11 to 20`, `51 and more`."""
        if self.high is None:
            return f"{self.low} and more"
        return f"{self.low} to {self.high}" if self.low else f"up to {self.high}"


def score_text(hypotheses: Sequence[str], references: Sequence[str], *, language: str = "fr") -> Scores:
    """Score raw, detokenized text against one reference per sentence; `language` is the target's."""
    check_lines("score_text", hypotheses=hypotheses, references=references)
    needs("train", "sacrebleu")
    from sacrebleu.metrics.chrf import CHRF

    main, chrf = bleu(hypotheses, references, language=language), CHRF()
    return Scores(
        bleu=main.score,
        chrf=chrf.corpus_score(list(hypotheses), [list(references)]).score,
        signature=main.signature,
        chrf_signature=str(chrf.get_signature()),
        sentences=len(hypotheses),
        lowercased=bleu(hypotheses, references, language=language, lowercase=True),
        moses=moses_bleu(hypotheses, references, language=language),
    )


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, language: str, lowercase: bool = False
) -> Bleu:
    """BLEU of raw text with sacrebleu's tokenizer."""
    metric = _metric(language, lowercase=lowercase)
    score = metric.corpus_score(list(hypotheses), [list(references)]).score
    return Bleu(score, str(metric.get_signature()))


def moses_bleu(hypotheses: Sequence[str], references: Sequence[str], *, language: str) -> Bleu | None:
    """Lower-cased BLEU of raw texts on Moses tokens.

    Each line is lower-cased, its punctuation normalized and tokenized, as in Multi30k's own script; BLEU then
    counts these tokens. None if the language is unspaced, or sacremoses is not installed.
    """
    code = _code(language)
    if code in UNSPACED or not installed("sacremoses"):
        return None
    needs("train", "sacrebleu")
    from sacrebleu.metrics.bleu import BLEU

    tokens = [_moses_tokens(lines, code) for lines in (hypotheses, references)]
    metric = BLEU(tokenize="none", lowercase=True, force=True)
    score = metric.corpus_score(tokens[0], [tokens[1]]).score
    return Bleu(score, f"{metric.get_signature()}|moses:{code}, sacremoses {version('sacremoses')}")


def _moses_tokens(lines: Sequence[str], code: str) -> list[str]:
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(code), MosesTokenizer(code)
    normal = (normalizer.normalize(line.lower()) for line in lines)
    return [tokenizer.tokenize(line, return_str=True, escape=False) for line in normal]


def score_by_length(
    hypotheses: Sequence[str],
    references: Sequence[str],
    lengths: Sequence[int],
    edges: Sequence[int] = (10, 20, 30, 40, 50),
    *,
    language: str = "fr",
) -> list[LengthScore]:
    """BLEU of sentences with up to edges[0] words, then up to edges[1], …, and longer; without empty groups.

    The lengths are usually those of the source, as in Bahdanau et al. 2014, figure 2.
    """
    check_lines("score_by_length", hypotheses=hypotheses, references=references, lengths=lengths)
    if list(edges) != sorted(set(edges)):
        raise ConfigError(f"score_by_length: `edges` has {tuple(edges)}; expected rising numbers.")
    metric = _metric(language)
    scores = []
    for below, high in zip([0, *edges], [*edges, None], strict=True):
        most = math.inf if high is None else high
        # an empty sentence belongs to the shortest group
        rows = [i for i, length in enumerate(lengths) if below < max(length, 1) <= most]
        if rows:
            score = metric.corpus_score([hypotheses[i] for i in rows], [[references[i] for i in rows]]).score
            scores.append(LengthScore(below + 1 if below else 0, high, len(rows), score))
    return scores


def _metric(language: str, *, lowercase: bool = False) -> Any:
    needs("train", "sacrebleu")
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize="zh" if _code(language) == "zh" else "13a", lowercase=lowercase)


def _code(language: str) -> str:
    return language.lower().replace("_", "-").split("-")[0]


def check_lines(owner: str, **columns: Sequence[object]) -> None:
    """Raise DataError unless all have as many lines as the first, which has one or more."""
    (first, found), *others = columns.items()
    if not found:
        raise DataError(f"{owner}: `{first}` has no lines; expected 1 or more.")
    for name, lines in others:
        if len(lines) != len(found):
            raise DataError(f"{owner}: `{name}` has {len(lines)} lines; expected {len(found)}, as `{first}`.")
