"""Analysis: a word aligner that learns from sentence pairs alone.

    p(y_1 … y_T | x) = Π_j Σ_i a_j(i) p(y_j | x_i)      attention whose values are distributions over words
    γ_j(i) ∝ a_j(i) p(y_j | x_i)                        where y_j came from, now that it is known
    a_1(i) = 1 / S,   a_{j+1}(i) = Σ_k γ_j(k) jump(i - k)       the next weights: the last ones, moved
    p(y | x) = softmax_y(u_y · W v_x + b_y)

    x_i, y_j    words of the source (S of them) and of the target (T)
    v, u        a word's vector: its own plus those of its character n-grams
    jump        a learnt distribution over distances

With probability `EMPTY` a target word comes from no source word: p(y) takes the place of p(y | x_i), and the
weights move on all the same. The sum over all alignments is exact, so nothing is sampled, and the gradient of
log p with respect to log p(y_j | x_i) is the probability that y_j is aligned with x_i. A word is linked where
this exceeds a half. Two such models, one for each direction, are joined as in `alignments`.

The hidden Markov model is Vogel's; Wang et al. made its distributions networks. Ours are small enough for a
CPU. N-grams let words that training never saw align with others that are spelt alike.

Vogel, Ney, Tillmann. HMM-based word alignment in statistical translation. 1996. https://aclanthology.org/C96-2141
Bojanowski, Grave, Joulin, Mikolov. Enriching word vectors with subword information. 2017.
https://arxiv.org/abs/1607.04606
Wang, Alkhouli, Zhu, Ney. Neural hidden Markov model for machine translation. 2018.
https://aclanthology.org/P18-2060
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple
from zlib import crc32

import torch
from torch import Tensor, nn

from regard.analysis.alignments import symmetrize, turned
from regard.data.batches import pad, plan_by_tokens, plan_in_order
from regard.errors import DataError
from regard.evaluate.alignment import Link, Links

Pair = tuple[Sequence[str], Sequence[str]]  # a sentence and its translation, in words
Advance = Callable[[int, int], None]  # told the updates done, and all of them

EMPTY = 0.2  # as Och and Ney (2003) fix it
FARTHEST = 15  # longer jumps count as this long
GRAMS = 30_000  # n-grams are hashed to so many vectors, or 100 for each word of a small text
FREQUENT = 5000  # p(y | x) is normalised over the most frequent words and those of the batch
BUDGET = 9000  # padded words of both languages in a batch
UPDATES = 300  # at least so many, also from few pairs
LR = 0.005
NO_WORD = ""  # the source of words that come from nowhere


class Words(nn.Module):
    """Vectors of the words of one language."""

    def __init__(self, text: Iterable[Sequence[str]], width: int) -> None:
        super().__init__()
        counts = Counter(chain.from_iterable(text))
        self.frequent = [word for word, _ in counts.most_common(FREQUENT)]
        self.numbers = {word: number for number, word in enumerate((NO_WORD, *counts), 1)}
        self.own = nn.Embedding(len(self.numbers) + 1, width, padding_idx=0)  # 0: an unseen word
        self.grams = nn.EmbeddingBag(min(GRAMS, 100 * len(self.numbers)), width, mode="sum")
        nn.init.normal_(self.own.weight, std=0.1)
        nn.init.normal_(self.grams.weight, std=0.03)
        with torch.no_grad():
            self.own.weight[0] = 0.0

    def known(self, words: Iterable[str]) -> Tensor:
        """(N,) the words' numbers."""
        return torch.tensor([self.numbers.get(word, 0) for word in words])

    def forward(self, words: Sequence[str]) -> Tensor:
        """(N, width) vectors."""
        grams = [_grams(word, self.grams.num_embeddings) for word in words]
        sizes = torch.tensor([len(each) for each in grams])
        summed = self.grams(torch.tensor([*chain.from_iterable(grams)]), sizes.cumsum(0) - sizes)
        return self.own(self.known(words)) + summed / sizes.clamp_min(1).sqrt()[:, None]


@lru_cache(maxsize=1_000_000)
def _grams(word: str, count: int) -> tuple[int, ...]:
    """Numbers below `count` of a word's n-grams of three to five characters, its ends marked."""
    marked = f"<{word}>" if word else ""
    return tuple(
        crc32(marked[start : start + n].encode()) % count
        for n in (3, 4, 5)
        for start in range(len(marked) - n + 1)
    )


class Emissions(NamedTuple):
    """log p(y_j | x_i) for a batch of sentence pairs."""

    aligned: Tensor  # (B, T, S), -inf in the source's padding
    empty: Tensor  # (B, T) from no source word
    written: Tensor  # (B, T) bool, False in the target's padding


class NeuralHMM(nn.Module):
    """One direction: how the words of the target come from those of the source."""

    def __init__(self, pairs: Sequence[Pair], width: int = 64) -> None:
        super().__init__()
        self.source = Words((source for source, _ in pairs), width)
        self.target = Words((target for _, target in pairs), width)
        self.between = nn.Linear(width, width)
        nn.init.eye_(self.between.weight)
        self.bias = nn.Embedding(self.target.own.num_embeddings, 1, padding_idx=0)
        nn.init.zeros_(self.bias.weight)
        self.jumps = nn.Parameter(-0.3 * (torch.arange(-FARTHEST, FARTHEST + 1) - 1.0).abs())

    def forward(self, pairs: Sequence[Pair]) -> Tensor:
        """(B,) log p(target | source)."""
        return self.log_probability(self.emissions(pairs))

    def emissions(self, pairs: Sequence[Pair]) -> Emissions:
        """log p(y_j | x_i) of each pair, from one table of its batch's words."""
        sources = _numbered([NO_WORD, *chain.from_iterable(source for source, _ in pairs)])
        targets = _numbered([*self.target.frequent, *chain.from_iterable(target for _, target in pairs)])
        logits = self.between(self.source([*sources])) @ self.target([*targets]).mT
        logits = logits + self.bias(self.target.known(targets))[:, 0]
        table = logits - logits.logsumexp(1, keepdim=True)
        x, lengths = pad([[sources[word] for word in source] for source, _ in pairs])
        y, written = pad([[targets[word] for word in target] for _, target in pairs])
        # index_select on the flat table: its gradient is faster than that of table[x, y]
        places = x[:, None, :] * len(targets) + y[:, :, None]
        aligned = table.flatten().index_select(0, places.flatten()).view(places.shape)
        hidden = torch.arange(x.shape[1]) >= lengths[:, None]
        return Emissions(
            aligned.masked_fill(hidden[:, None], -math.inf),
            table[sources[NO_WORD]][y],
            torch.arange(y.shape[1]) < written[:, None],
        )

    def log_probability(self, emissions: Emissions) -> Tensor:
        """(B,) the sum over all alignments, step by step."""
        aligned, empty, written = emissions
        hidden = aligned[:, 0].isneginf()
        weights = torch.where(hidden, -math.inf, 0.0).to(aligned.dtype).softmax(1)  # (B, S) a_1
        jump = self._jump(hidden)
        largest = torch.maximum(aligned.amax(2), empty).detach()  # (B, T)
        some = (1 - EMPTY) * (aligned - largest[..., None]).exp()
        none = EMPTY * (empty - largest).exp()
        total = largest.masked_fill(~written, 0.0).sum(1)
        for j in range(written.shape[1]):
            joint = weights * (some[:, j] + none[:, j, None])
            probability = joint.sum(1, keepdim=True)
            moved = torch.bmm((joint / probability)[:, None], jump)[:, 0]
            weights = torch.where(written[:, j, None], moved, weights)
            total = total + probability[:, 0].log().masked_fill(~written[:, j], 0.0)
        return total

    def _jump(self, hidden: Tensor) -> Tensor:
        """(B, S) -> (B, S, S) the probability of moving from k to i."""
        places = torch.arange(hidden.shape[1])
        far = (places - places[:, None]).clamp(-FARTHEST, FARTHEST) + FARTHEST
        return self.jumps[far].masked_fill(hidden[:, None], -math.inf).softmax(-1)

    def alignments(self, pairs: Sequence[Pair]) -> list[Tensor]:
        """The probability (T, S) that a target word is aligned with a source word, for each pair."""
        _check_words(pairs)
        found: list[Tensor] = []
        for rows in plan_in_order([(len(x), len(y)) for x, y in pairs], budget=BUDGET):
            batch = [pairs[row] for row in rows]
            with torch.no_grad():
                emissions = self.emissions(batch)
            with torch.enable_grad():
                aligned = emissions.aligned.requires_grad_()
                [gradient] = torch.autograd.grad(self.log_probability(emissions).sum(), aligned)
            found += [own[: len(y), : len(x)] for own, (x, y) in zip(gradient, batch, strict=True)]
        return found


def _numbered(words: Iterable[str]) -> dict[str, int]:
    """Different words, in order, with their places."""
    return {word: place for place, word in enumerate(dict.fromkeys(words))}


def _check_words(pairs: Sequence[Pair]) -> None:
    for number, (source, target) in enumerate(pairs):
        if not source or not target:
            raise DataError(
                f"word aligner: `pairs` has an empty sentence at number {number}, counted from 0; expected "
                "words on both sides. Leave such pairs out."
            )


def learn(
    pairs: Sequence[Pair], *, epochs: int | None = None, seed: int = 1, progress: Advance | None = None
) -> NeuralHMM:
    """A model of one direction, after so many passes over the pairs: 4, or more where pairs are few."""
    if not pairs:
        raise DataError("word aligner: `pairs` has no pair; expected one or more.")
    _check_words(pairs)
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they are
        torch.manual_seed(seed)
        model = NeuralHMM(pairs)
    lengths = [(len(source), len(target)) for source, target in pairs]
    first = plan_by_tokens(lengths, budget=BUDGET, epoch=0, seed=seed)
    epochs = max(4, math.ceil(UPDATES / len(first))) if epochs is None else epochs
    later = (plan_by_tokens(lengths, budget=BUDGET, epoch=epoch, seed=seed) for epoch in range(1, epochs))
    plans = [first, *later]
    steps = sum(map(len, plans))
    optimizer = torch.optim.Adam(model.parameters(), lr=LR, betas=(0.9, 0.99))
    warmup = min(100, steps // 10 + 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, 1 - step / steps)
    )
    for step, rows in enumerate(chain.from_iterable(plans), 1):
        batch = [pairs[row] for row in rows]
        loss = -model(batch).sum() / sum(len(target) for _, target in batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if progress is not None:
            progress(step, steps)
    return model.eval()


class WordAligner:
    """Both directions, joined.

    aligner = WordAligner.learn(pairs)                     # ([words], [words]), a hundred thousand or so
    [links] = aligner.links([("the green house".split(), "la maison verte".split())])
    """

    def __init__(self, forward: NeuralHMM, backward: NeuralHMM) -> None:
        self.forward, self.backward = forward, backward

    @classmethod
    def learn(
        cls,
        pairs: Sequence[Pair],
        *,
        epochs: int | None = None,
        seed: int = 1,
        progress: Advance | None = None,
    ) -> "WordAligner":
        """Learn both directions, one after the other; minutes for a hundred thousand pairs."""
        forward = learn(pairs, epochs=epochs, seed=seed, progress=progress)
        return cls(forward, learn(_swapped(pairs), epochs=epochs, seed=seed, progress=progress))

    def directions(self, pairs: Sequence[Pair]) -> tuple[list[Links], list[Links]]:
        """The links that each direction finds, both as (source, target)."""
        found = [probable(own) for own in self.forward.alignments(pairs)]
        return found, [turned(probable(own)) for own in self.backward.alignments(_swapped(pairs))]

    def links(self, pairs: Sequence[Pair], method: str = "grow-diag") -> list[Links]:
        """The links of both directions, joined by a method of `symmetrize`."""
        return [symmetrize(a, b, method) for a, b in zip(*self.directions(pairs), strict=True)]


def probable(alignment: Tensor) -> Links:
    """(T, S) -> the links that are more probable than not."""
    return frozenset(Link(s, t) for t, s in (alignment > 0.5).nonzero().tolist())


def _swapped(pairs: Sequence[Pair]) -> list[Pair]:
    return [(target, source) for source, target in pairs]
