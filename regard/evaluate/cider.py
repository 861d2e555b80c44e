"""CIDEr-D: how well a caption agrees with what several people wrote; rare words count more.

    g(s)[w]    = count of w in s × log(pictures / pictures whose references have w)     (equation 1)
    score_n    = 10/m Σ_j exp(-(l(c) - l(s_j))² / 2σ²) min(g(c), g(s_j)) · g(s_j) / (‖g(c)‖ ‖g(s_j)‖)
    CIDEr-D    = the mean of score_1 to score_4, over all pictures                      (section 6)

    paper    here
    w        n-grams of n words; g has one vector for each n
    l, σ     words of a sentence, 6
    m        references of the picture

Words are compared unstemmed: the paper stems them, the programs in use do not.

Vedantam, Zitnick, Parikh. CIDEr: consensus-based image description evaluation. 2015.
https://arxiv.org/abs/1411.5726
"""

import math
from collections import Counter
from collections.abc import Sequence

from regard.evaluate.text import check_lines

ORDERS, SIGMA = (1, 2, 3, 4), 6.0

Grams = list[Counter[tuple[str, ...]]]
Vectors = list[dict[tuple[str, ...], float]]


def cider(captions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """CIDEr-D, from 0 to 10; captions are words separated by single spaces."""
    check_lines("cider", captions=captions, references=references)
    spoken = [[_grams(text) for text in texts] for texts in references]
    pictures = Counter(gram for texts in spoken for gram in {g for grams in texts for n in grams for g in n})

    def vectors(grams: Grams) -> Vectors:
        return [
            {gram: count * math.log(len(captions) / max(1, pictures[gram])) for gram, count in n.items()}
            for n in grams
        ]

    total = 0.0
    for caption, texts in zip(map(_grams, captions), spoken, strict=True):
        said, length = vectors(caption), caption[0].total()
        for text in texts:
            near = math.exp(-((length - text[0].total()) ** 2) / (2 * SIGMA**2))
            total += near * sum(map(_similarity, said, vectors(text))) / len(ORDERS) / len(texts)
    return 10 * total / len(captions)


def _grams(text: str) -> Grams:
    words = text.split()
    return [Counter(zip(*(words[k:] for k in range(n)), strict=False)) for n in ORDERS]


def _similarity(caption: dict[tuple[str, ...], float], reference: dict[tuple[str, ...], float]) -> float:
    """Their cosine, clipped so that repeating a word more often than the reference gains nothing."""
    norms = math.hypot(*caption.values()) * math.hypot(*reference.values())
    shared = caption.keys() & reference.keys()
    return sum(min(caption[w], reference[w]) * reference[w] for w in shared) / norms if norms else 0.0
