"""Analysis: word alignments of two directions joined into one (Koehn et al. 2005), words from pieces.

    intersection         links of both directions
    union                links of either
    grow-diag            the intersection, and links of the union next to a link that is there, diagonals
                         included, whose source or target word has none yet; until nothing changes
    grow-diag-final      and then links of either direction whose source or target word has none yet
    grow-diag-final-and  and then those whose source and target word have none, both

Links are those of `regard.evaluate.alignment`, whose `argmax_links` and others read them from weights. The
second direction is read from a model that translates back: its source is the first one's target.

Koehn, Axelrod, Mayne, Callison-Burch, Osborne, Talbot. Edinburgh system description for the 2005 IWSLT speech
translation evaluation. 2005. https://aclanthology.org/2005.iwslt-1.8
"""

from collections.abc import Callable, Sequence

from torch import Tensor

from regard.errors import ConfigError, check_shapes
from regard.evaluate.alignment import Link, Links

AROUND = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrize(forward: Links, backward: Links, method: str = "grow-diag-final-and") -> Links:
    """Links of two directions, both as (source, target) of the first, joined into one alignment."""
    if method not in METHODS:
        raise ConfigError(f"symmetrize: `method` has {method!r}; expected one of {', '.join(METHODS)}.")
    return METHODS[method](forward, backward)


def turned(links: Links) -> Links:
    """The links of a model that translates back, as (source, target) of the other direction."""
    return frozenset(Link(target, source) for source, target in links)


def merge_subwords(weights: Tensor, target_words: Sequence[int], source_words: Sequence[int]) -> Tensor:
    """(T, S) weights of pieces -> (words, words): summed over a source word, averaged over a target word.

    Each list has the number of the word that a piece belongs to; -1 for pieces that belong to none.
    """
    check_shapes("merge_subwords", ("weights", weights, "T S"), T=len(target_words), S=len(source_words))
    to_target, to_source = _belongs(target_words, weights), _belongs(source_words, weights)
    pieces = to_target.sum(0).clamp_min(1.0)
    return (to_target.mT @ weights @ to_source) / pieces[:, None]


def _grown(forward: Links, backward: Links) -> Links:
    """The intersection with its neighbours in the union, in the order of the sentence."""
    found, union = set(forward & backward), forward | backward
    before = -1
    while len(found) != before:
        before = len(found)
        for link in sorted(found):
            for i, j in AROUND:
                near = Link(link.source + i, link.target + j)
                if near in union and near not in found and _has_free_word(near, found):
                    found.add(near)
    return frozenset(found)


def _finished(forward: Links, backward: Links, fits: Callable[[Link, set[Link]], bool]) -> Links:
    """Grown, and then the links of each direction that fit."""
    found = set(_grown(forward, backward))
    for links in (forward, backward):
        for link in sorted(links):
            if fits(link, found):
                found.add(link)
    return frozenset(found)


def _has_free_word(link: Link, links: set[Link]) -> bool:
    """Its source word or its target word has no link."""
    return all(x.source != link.source for x in links) or all(x.target != link.target for x in links)


def _has_free_words(link: Link, links: set[Link]) -> bool:
    """Its source word and its target word have no link."""
    return all(x.source != link.source and x.target != link.target for x in links)


METHODS: dict[str, Callable[[Links, Links], Links]] = {
    "intersection": lambda forward, backward: forward & backward,
    "union": lambda forward, backward: forward | backward,
    "grow-diag": _grown,
    "grow-diag-final": lambda forward, backward: _finished(forward, backward, _has_free_word),
    "grow-diag-final-and": lambda forward, backward: _finished(forward, backward, _has_free_words),
}


def _belongs(words: Sequence[int], like: Tensor) -> Tensor:
    """(pieces, words) with 1 where a piece belongs to a word."""
    belongs = like.new_zeros(len(words), max(words, default=-1) + 1)
    for piece, word in enumerate(words):
        if word >= 0:
            belongs[piece, word] = 1.0
    return belongs
