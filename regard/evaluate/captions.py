"""Evaluate captions: BLEU-1 to 4 against all references of a picture, and where attention was.

    BLEU-n    brevity penalty × geometric mean of the precisions of 1 … n words, against all references of a
              picture at once; also without the penalty, as in the paper
    CIDEr-D   agreement with all references, rare words weighted more (cider.py)
    exact     the share of captions that equal one of their references
    hit       the share of named things for which the largest weight at their words is on the thing itself; a
              named thing that is not there is a miss. Chance is the share of places that would hit.

Papineni, Roukos, Ward, Zhu. BLEU. 2002. https://aclanthology.org/P02-1040
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from torch import Tensor

from regard.data.images import image_batch
from regard.decode.base import Decoding
from regard.decode.captions import Caption, describe
from regard.errors import DataError
from regard.evaluate.base import Advance, Evaluation, MeasureTable, evaluator
from regard.evaluate.cider import cider
from regard.evaluate.divided import divide
from regard.evaluate.text import check_lines
from regard.extras import needs
from regard.models.base import Translating
from regard.tasks.base import Split
from regard.tasks.captions import CaptionTask, Named

BATCH = 256  # pictures decoded together, divided by the beam
ORDERS = (1, 2, 3, 4)

# Flickr8k, table 1: soft and hard attention, BLEU-1 to 4 without brevity penalty
PAPER = {"soft": (67.0, 44.8, 29.9, 19.5), "hard": (67.0, 45.7, 31.4, 21.3)}


@dataclass(frozen=True)
class Bleus:
    """BLEU-1 to 4 in per cent."""

    scores: tuple[float, ...]
    unpenalized: tuple[float, ...]
    brevity: float
    ratio: float  # words written / words in the references closest in length


@dataclass(frozen=True)
class Hits:
    """How often the largest weight is on a named thing at its words."""

    things: int
    colour: float  # at the first word of a thing's name
    shape: float  # at its last
    chance: float
    weight: float  # the mean share of the weight on the thing, at its last word

    @property
    def rate(self) -> float:
        """The mean over both words."""
        return (self.colour + self.shape) / 2


@dataclass(frozen=True)
class CaptionEvaluation(Evaluation):
    """Measures of the captions of one split."""

    beam: int
    pictures: int
    bleu: Bleus
    cider: float
    exact: float
    hits: Hits | None  # None if the places of things are unknown
    captions: list[str]

    def headline(self) -> tuple[str, float]:
        return ("BLEU-4", self.bleu.scores[3]) if self.hits is None else ("exact", self.exact)

    def measures(self) -> list[tuple[str, str]]:
        """The headline, BLEU-4 and attention hits."""
        lines = [("BLEU-4", f"{self.bleu.scores[3]:.2f}"), ("exact", f"{100 * self.exact:.1f} %")]
        if self.hits is not None:
            lines = [lines[1], ("attention hits", f"{100 * self.hits.rate:.1f} %"), lines[0]]
            lines.append(("hits by chance", f"{100 * self.hits.chance:.1f} %"))
        return [*lines, ("CIDEr-D", f"{self.cider:.3f}"), ("pictures", str(self.pictures))]

    def tables(self) -> list[MeasureTable]:
        columns = ("", *(f"BLEU-{n}" for n in ORDERS))
        rows = [
            ("with brevity penalty", *(f"{score:.2f}" for score in self.bleu.scores)),
            ("without", *(f"{score:.2f}" for score in self.bleu.unpenalized)),
        ]
        if self.hits is None:
            rows += [(f"paper, {kind}, without", *map(str, scores)) for kind, scores in PAPER.items()]
            return [MeasureTable(columns, rows)]
        hits = MeasureTable(
            ("attention at", "on the thing"),
            [
                ("the colour", f"{100 * self.hits.colour:.1f} %"),
                ("the shape", f"{100 * self.hits.shape:.1f} %"),
            ],
        )
        return [MeasureTable(columns, rows), hits]

    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "split": self.split,
            "beam": self.beam,
            "pictures": self.pictures,
            **{f"bleu{n}": round(score, 3) for n, score in zip(ORDERS, self.bleu.scores, strict=True)},
            "unpenalized": [round(score, 3) for score in self.bleu.unpenalized],
            "brevity": round(self.bleu.brevity, 4),
            "ratio": round(self.bleu.ratio, 4),
            "cider": round(self.cider, 4),
            "exact": round(self.exact, 4),
            "seconds": round(self.seconds, 1),
        }
        if self.hits is not None:
            found["hits"] = {**asdict(self.hits), "rate": self.hits.rate}
        return found

    def note(self) -> str:
        return "BLEU of lower-cased words without punctuation; sacrebleu, all references, no smoothing"

    def lines(self) -> list[str]:
        return self.captions


@evaluator
def evaluate_captions(
    model: Translating, task: CaptionTask, split: Split, decoding: Decoding, progress: Advance
) -> CaptionEvaluation:
    """Caption every picture of a split, and compare with the references."""
    needs("train", "sacrebleu")
    count, size = task.count(split), max(1, BATCH // decoding.beam)
    if count == 0:
        raise DataError(f"evaluate: the {split} split has no pictures; expected one or more.")
    device = next(model.parameters()).device

    def described(start: int) -> list[tuple[str, list[_Hit]]]:
        said = []
        numbers = range(start, min(start + size, count))
        batch = image_batch(task.sources(split, numbers)).to(device)
        for number, caption in zip(numbers, describe(model, batch, decoding=decoding), strict=True):
            words = task.tokenizer.pieces_of(caption.tokens)
            hits = [_hit(caption, named) for named in task.named(split, number, words)]
            said.append((task.tokenizer.decode(caption.tokens), hits))
        progress(len(numbers))
        return said

    said = list(chain.from_iterable(divide(range(0, count, size), described)))
    captions = [caption for caption, _ in said]
    found = [hit for _, hits in said for hit in hits]
    references = task.references(split)
    exact = sum(said in texts for said, texts in zip(captions, references, strict=True)) / count
    hits = Hits(len(found), *(sum(each) / len(found) for each in zip(*found, strict=True))) if found else None
    return CaptionEvaluation(
        split=split,
        beam=decoding.beam,
        pictures=count,
        bleu=corpus_bleu(captions, references),
        cider=cider(captions, references),
        exact=exact,
        hits=hits,
        captions=captions,
    )


_Hit = tuple[bool, bool, float, float]


def _hit(caption: Caption, named: Named) -> _Hit:
    """Whether the largest weight is on the thing at its first and last word; chance; the weight on it."""
    if named.mask is None or caption.weights is None:
        return False, False, 0.0, 0.0
    touched = on_grid(named.mask, caption.weights.shape[1])
    first, last = (caption.weights[t] for t in (named.words[0], named.words[-1]))
    hit = bool(touched[first.argmax()]), bool(touched[last.argmax()])
    return *hit, float(touched.double().mean()), float(last[touched].sum())


def on_grid(mask: Tensor, places: int) -> Tensor:
    """(side, side) pixels -> (L,) the places of a square grid that the mask touches."""
    rows = math.isqrt(places)
    if rows * rows != places or len(mask) % rows:
        raise DataError(
            f"captions: a grid of {places} places over {len(mask)} pixels a side; expected a square grid "
            "that divides them evenly."
        )
    step = len(mask) // rows
    return mask.reshape(rows, step, rows, step).any(3).any(1).flatten()


def corpus_bleu(captions: Sequence[str], references: Sequence[Sequence[str]]) -> Bleus:
    """BLEU-1 to 4 of captions with words separated by single spaces; reference counts may differ."""
    needs("train", "sacrebleu")
    from sacrebleu.metrics.bleu import BLEU

    check_lines("corpus_bleu", captions=captions, references=references)
    most = max(map(len, references))
    # None marks a missing reference for sacrebleu
    streams: Any = [[texts[k] if k < len(texts) else None for texts in references] for k in range(most)]
    scored = [
        BLEU(tokenize="none", force=True, smooth_method="none", max_ngram_order=n).corpus_score(
            list(captions), streams
        )
        for n in ORDERS
    ]
    last = scored[-1]
    plain = tuple(_geometric(last.precisions[:n]) for n in ORDERS)
    ratio = last.sys_len / max(1, last.ref_len)
    return Bleus(tuple(float(each.score) for each in scored), plain, float(last.bp), ratio)


def _geometric(values: Sequence[float]) -> float:
    return 0.0 if min(values) <= 0 else math.exp(sum(map(math.log, values)) / len(values))
