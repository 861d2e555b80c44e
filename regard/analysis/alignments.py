"""Analysis: word alignments from the layers of a Transformer; symmetrization; subwords merged into words.

    intersection         links of both directions
    union                links of either
    grow-diag            the intersection, and links of the union next to a link that is there, diagonals
                         included, whose source or target word has none yet; until nothing changes
    grow-diag-final      and then links of either direction whose source or target word has none yet
    grow-diag-final-and  and then those whose source and target word have none, both

Links are those of `regard.evaluate.alignment`, which extracts them from weights (`argmax_links` and others).
The second direction comes from a model that translates back: its source is the first one's target.

`layer_links` reads each layer in two ways: the attention of decoder step t belongs to the word it writes, or
to the word it has read (Chen et al. 2020). A middle layer, credited to the word read, usually aligns best;
without gold links, take the layer whose two directions agree most (`agreement`).

Koehn, Axelrod, Mayne, Callison-Burch, Osborne, Talbot. Edinburgh system description for the 2005 IWSLT speech
translation evaluation. 2005. https://aclanthology.org/2005.iwslt-1.8
Chen, Liu, Chen, Jiang, Liu. Accurate word alignment induction from neural machine translation. 2020.
https://arxiv.org/abs/2004.14837
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, get_args

from torch import Tensor

from regard.attention.record import record
from regard.data.batches import pair_batch, plan_in_order
from regard.decode.base import Credit, evaluating
from regard.decode.unknown import credited
from regard.errors import ConfigError, DataError, check_shapes
from regard.evaluate.alignment import Link, Links, argmax_links
from regard.models.transformer import Transformer
from regard.tasks.translation import Owners

BUDGET = 8192  # padded tokens of a forced batch

AROUND = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


class Cut(NamedTuple):
    """A sentence in subwords, as `Tokenizer.encode_words` returns it."""

    numbers: list[int]
    owners: Owners  # the words that each subword is part of


class Reading(NamedTuple):
    """A way to read alignments from a model."""

    layer: int  # of the decoder
    credit: Credit  # the word to which a step's attention belongs


def layer_links(
    model: Transformer, sources: Sequence[Cut], targets: Sequence[Cut]
) -> dict[Reading, list[Links]]:
    """Force the targets; the links of each sentence pair, for every layer and both ways of crediting.

    Weights are averaged over heads and merged into words; each target word is linked to the source word with
    the largest weight. For the other direction, swap the two sides and turn the links (`turned`).
    """
    if len(sources) != len(targets):
        raise DataError(
            f"layer_links: `targets` has {len(targets)} sentences; expected {len(sources)}, as `sources`."
        )
    device = next(model.parameters()).device
    layers = range(model.shape.decoder_layers)
    found: dict[Reading, list[Links]] = {
        Reading(layer, credit): [frozenset()] * len(sources)
        for layer in layers
        for credit in get_args(Credit)
    }
    lengths = [(len(a.numbers) + 1, len(b.numbers) + 1) for a, b in zip(sources, targets, strict=True)]
    for rows in plan_in_order(lengths, budget=BUDGET):
        batch = pair_batch([sources[n].numbers for n in rows], [targets[n].numbers for n in rows])
        with evaluating(model), record(model) as trace:
            model(batch.to(device))
        for layer in layers:
            weights = trace[f"decoder.layers.{layer}.source_attention.attention"][0].weights
            heads = weights.float().mean(1).cpu()  # (B, T, S)
            for n, own in zip(rows, heads, strict=True):
                S, T = lengths[n]
                for credit in get_args(Credit):
                    # eos is not a word, neither in columns nor in rows
                    pieces = credited(own[:T, :S], T - 1, credit)[:, :-1]
                    links = word_argmax(pieces, targets[n].owners, sources[n].owners)
                    found[Reading(layer, credit)][n] = links
    return found


def word_argmax(weights: Tensor, target: Owners, source: Owners) -> Links:
    """(T, S) subword weights -> a link from each target word with subwords to its most attended word."""
    merged = _merged(weights, target, source)
    seen = {word for words in target for word in words}
    return frozenset(link for link in argmax_links(merged) if link.target in seen)


def agreement(forward: Sequence[Links], backward: Sequence[Links]) -> float:
    """2 |A ∩ B| / (|A| + |B|) over a corpus: how well two directions agree."""
    if len(forward) != len(backward):
        raise DataError(
            f"agreement: `backward` has {len(backward)} sentences; expected {len(forward)}, as `forward`."
        )
    both = sum(len(a & b) for a, b in zip(forward, backward, strict=True))
    each = sum(len(a) + len(b) for a, b in zip(forward, backward, strict=True))
    return 2 * both / each if each else 1.0


def symmetrize(forward: Links, backward: Links, method: str = "grow-diag-final-and") -> Links:
    """Join the links of two directions, both as (source, target) of the first, into one alignment."""
    if method not in METHODS:
        raise ConfigError(f"symmetrize: `method` has {method!r}; expected one of {', '.join(METHODS)}.")
    return METHODS[method](forward, backward)


def turned(links: Links) -> Links:
    """Swap source and target, for links of a model that translates back."""
    return frozenset(Link(target, source) for source, target in links)


def merge_subwords(weights: Tensor, target_words: Sequence[int], source_words: Sequence[int]) -> Tensor:
    """(T, S) subword weights -> (words, words): summed over source words, averaged over target words.

    Each list holds the word index of every subword; -1 for subwords outside all words.
    """
    check_shapes("merge_subwords", ("weights", weights, "T S"), T=len(target_words), S=len(source_words))
    return _merged(weights, _owners(target_words), _owners(source_words))


def _owners(words: Sequence[int]) -> Owners:
    return [(word,) if word >= 0 else () for word in words]


def _merged(weights: Tensor, target: Owners, source: Owners) -> Tensor:
    to_target, to_source = _belongs(target, weights), _belongs(source, weights)
    pieces = to_target.sum(0).clamp_min(1.0)
    return (to_target.mT @ weights @ to_source) / pieces[:, None]


class _Growing:
    """A growing set of links, and the words that have one."""

    def __init__(self, links: Links) -> None:
        self.links = set(links)
        self.sources, self.targets = {link.source for link in links}, {link.target for link in links}

    def free(self, link: Link) -> tuple[bool, bool]:
        """Whether the source word and the target word are unlinked."""
        return link.source not in self.sources, link.target not in self.targets

    def add(self, link: Link) -> None:
        self.links.add(link)
        self.sources.add(link.source)
        self.targets.add(link.target)


def _grown(forward: Links, backward: Links) -> _Growing:
    """The intersection, grown by neighbours in the union, in sentence order."""
    found, union = _Growing(forward & backward), forward | backward
    before = -1
    while len(found.links) != before:
        before = len(found.links)
        for link in sorted(found.links):
            for i, j in AROUND:
                near = Link(link.source + i, link.target + j)
                if near in union and near not in found.links and any(found.free(near)):
                    found.add(near)
    return found


def _finished(forward: Links, backward: Links, fits: Callable[[tuple[bool, bool]], bool]) -> Links:
    """Grown, then the links of each direction for which `fits` (`any` or `all`) finds their words free."""
    found = _grown(forward, backward)
    for links in (forward, backward):
        for link in sorted(links):
            if fits(found.free(link)):
                found.add(link)
    return frozenset(found.links)


METHODS: dict[str, Callable[[Links, Links], Links]] = {
    "intersection": lambda forward, backward: forward & backward,
    "union": lambda forward, backward: forward | backward,
    "grow-diag": lambda forward, backward: frozenset(_grown(forward, backward).links),
    "grow-diag-final": lambda forward, backward: _finished(forward, backward, any),
    "grow-diag-final-and": lambda forward, backward: _finished(forward, backward, all),
}


def _belongs(owners: Owners, like: Tensor) -> Tensor:
    """(subwords, words), 1 where a subword belongs to a word."""
    last = max((word for words in owners for word in words), default=-1)
    belongs = like.new_zeros(len(owners), last + 1)
    for piece, words in enumerate(owners):
        belongs[piece, list(words)] = 1.0
    return belongs
