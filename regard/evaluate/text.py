"""BLEU and chrF by sacrebleu, on raw text, with the signature that makes a number comparable."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from regard.errors import ConfigError, DataError


@dataclass(frozen=True)
class Scores:
    """Corpus scores from 0 to 100."""

    bleu: float
    chrf: float
    signature: str  # of BLEU
    chrf_signature: str
    sentences: int


class LengthScore(NamedTuple):
    """BLEU of the sentences whose length is low..high, both included."""

    low: int
    high: int | None  # None: and longer
    sentences: int
    bleu: float

    @property
    def words(self) -> str:
        """The lengths in words: `up to 10`, `11 to 20`, `51 and more`."""
        if self.high is None:
            return f"{self.low} and more"
        return f"{self.low} to {self.high}" if self.low else f"up to {self.high}"


def score_text(
    hypotheses: Sequence[str], references: Sequence[str], *, language: str = "fr", lowercase: bool = False
) -> Scores:
    """Score raw, detokenised text against one reference a sentence; `language` is the target's."""
    _check_lines("score_text", hypotheses, references=references)
    from sacrebleu.metrics.chrf import CHRF

    bleu, chrf = _bleu(language, lowercase), CHRF(lowercase=lowercase)
    return Scores(
        bleu=bleu.corpus_score(list(hypotheses), [list(references)]).score,
        chrf=chrf.corpus_score(list(hypotheses), [list(references)]).score,
        signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        sentences=len(hypotheses),
    )


def score_by_length(
    hypotheses: Sequence[str],
    references: Sequence[str],
    lengths: Sequence[int],
    edges: Sequence[int] = (10, 20, 30, 40, 50),
    *,
    language: str = "fr",
    lowercase: bool = False,
) -> list[LengthScore]:
    """BLEU for sentences of up to edges[0] words, then up to edges[1], …, and longer; empty groups left out.

    The lengths are usually those of the source: Bahdanau et al. 2014, figure 2.
    """
    _check_lines("score_by_length", hypotheses, references=references, lengths=lengths)
    if list(edges) != sorted(set(edges)):
        raise ConfigError(f"score_by_length: `edges` has {tuple(edges)}; expected rising numbers.")
    bleu = _bleu(language, lowercase)
    scores = []
    for below, high in zip([0, *edges], [*edges, None], strict=True):
        rows = [i for i, length in enumerate(lengths) if _within(length, below, high)]
        if rows:
            score = bleu.corpus_score([hypotheses[i] for i in rows], [[references[i] for i in rows]]).score
            scores.append(LengthScore(below + 1 if below else 0, high, len(rows), score))
    return scores


def _within(length: int, below: int, high: int | None) -> bool:
    # an empty sentence belongs to the shortest group
    return (below == 0 or length > below) and (high is None or length <= high)


def _bleu(language: str, lowercase: bool) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    chinese = language.lower().replace("_", "-").split("-")[0] == "zh"
    return BLEU(tokenize="zh" if chinese else "13a", lowercase=lowercase)


def _check_lines(owner: str, hypotheses: Sequence[str], **others: Sequence[object]) -> None:
    if len(hypotheses) == 0:
        raise DataError(f"{owner}: `hypotheses` has no lines; expected 1 or more.")
    for name, lines in others.items():
        if len(lines) != len(hypotheses):
            raise DataError(
                f"{owner}: `{name}` has {len(lines)} lines; expected {len(hypotheses)}, as `hypotheses`."
            )
