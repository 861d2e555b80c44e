"""Alignment error rate against gold links, and the Pharaoh format for links.

    AER(A; S, P) = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

    A    links found
    S    sure gold links
    P    possible gold links, S ⊆ P

Och, Ney. Improved statistical alignment models. 2000. https://aclanthology.org/P00-1056
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from regard.errors import DataError, check_shapes


class Link(NamedTuple):
    """A source position and a target position, 0-based."""

    source: int
    target: int


Links = frozenset[Link]


@dataclass(frozen=True)
class Gold:
    """A sentence's reference links; `possible` includes the sure ones."""

    sure: Links
    possible: Links

    def __post_init__(self) -> None:
        object.__setattr__(self, "possible", self.possible | self.sure)


@dataclass(frozen=True)
class AlignmentCounts:
    """Counts that add up over sentences; the rates are computed from the sums."""

    found: int = 0  # |A|
    sure: int = 0  # |S|
    found_sure: int = 0  # |A ∩ S|
    found_possible: int = 0  # |A ∩ P|

    def __add__(self, other: "AlignmentCounts") -> "AlignmentCounts":
        return AlignmentCounts(
            self.found + other.found,
            self.sure + other.sure,
            self.found_sure + other.found_sure,
            self.found_possible + other.found_possible,
        )

    @property
    def error_rate(self) -> float:
        return 1.0 - _ratio(self.found_sure + self.found_possible, self.found + self.sure)

    @property
    def precision(self) -> float:
        return _ratio(self.found_possible, self.found)

    @property
    def recall(self) -> float:
        return _ratio(self.found_sure, self.sure)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 1.0  # nothing to find, nothing wrong


def count_links(found: Links, gold: Gold) -> AlignmentCounts:
    """The counts of one sentence."""
    return AlignmentCounts(len(found), len(gold.sure), len(found & gold.sure), len(found & gold.possible))


def score_alignment(found: Sequence[Links], gold: Sequence[Gold]) -> AlignmentCounts:
    """The counts of a corpus: sums over sentences, not a mean of their rates."""
    if len(found) != len(gold):
        raise DataError(
            f"score_alignment: `gold` has {len(gold)} sentences; expected {len(found)}, as `found`."
        )
    return sum((count_links(one, its) for one, its in zip(found, gold, strict=True)), AlignmentCounts())


# From weights to links: (T, S) without the rows and columns of eos -------------------------------------


def argmax_links(weights: Tensor) -> Links:
    """Link each target position to its most attended source position."""
    check_shapes("argmax_links", ("weights", weights, "T S"))
    if weights.numel() == 0:
        return frozenset()
    return frozenset(Link(s, t) for t, s in enumerate(weights.argmax(1).tolist()))


def write_pharaoh(links: Links) -> str:
    """The links of a sentence in the Pharaoh format, such as `0-0 1-2`, sorted by source, then target."""
    return " ".join(f"{link.source}-{link.target}" for link in sorted(links))
