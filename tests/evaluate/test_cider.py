"""CIDEr-D against dense vectors, and by hand."""

import itertools
import math
import random

import numpy as np
import pytest

from regard.errors import DataError
from regard.evaluate.cider import cider


def by_matrices(captions, references):
    """The same with one long vector a sentence and order."""
    found, texts_of_all = [], [*captions, *itertools.chain.from_iterable(references)]
    for n in (1, 2, 3, 4):

        def grams(text, n=n):
            words = text.split()
            return [tuple(words[k : k + n]) for k in range(len(words) - n + 1)]

        everything = sorted({g for text in texts_of_all for g in grams(text)})
        counts = {
            text: np.array([grams(text).count(g) for g in everything], dtype=float) for text in texts_of_all
        }
        frequency = sum(np.any([counts[t] > 0 for t in texts], axis=0) for texts in references)
        rarity = np.log(len(references) / np.maximum(frequency, 1)) if everything else np.zeros(0)
        for caption, texts in zip(captions, references, strict=True):
            c = counts[caption] * rarity
            for text in texts:
                r = counts[text] * rarity
                norm = np.sqrt((c @ c) * (r @ r))
                cosine = np.minimum(c, r) @ r / norm if norm else 0.0
                near = np.exp(-((len(caption.split()) - len(text.split())) ** 2) / 72)
                found.append(10 * near * cosine / 4 / len(texts) / len(captions))
    return sum(found)


def test_it_is_that_of_dense_vectors():
    draw = random.Random(3)

    def sentence():
        return " ".join(draw.choices("abcdefgh", k=draw.randrange(9)))

    references = [[sentence() for _ in range(draw.randrange(1, 6))] for _ in range(30)]
    captions = [draw.choice([draw.choice(texts), sentence()]) for texts in references]
    assert cider(captions, references) == pytest.approx(by_matrices(captions, references), rel=1e-9)
    assert cider(captions, references) > 1


def test_a_copy_of_words_that_no_other_picture_has_gets_ten():
    references = [["a b c d e"], ["f g h i"]]
    assert cider(["a b c d e", "f g h i"], references) == pytest.approx(10)
    assert cider(["x", "f g h i"], references) == pytest.approx(5)


def test_words_of_every_picture_count_nothing():
    assert cider(["a", "a"], [["a"], ["a"]]) == 0


def test_repeating_a_word_gains_nothing():
    references = [["a b"], ["c d"]]
    once, twice = cider(["a b", "c d"], references), cider(["a a", "c d"], references)
    # of single words: 1 · 1 of the two that the reference has, over the root of 4 times the root of 2
    expected = 5 * math.exp(0) * (1 / math.sqrt(8)) / 4 + 10 * (2 / 4) / 2
    assert twice == pytest.approx(expected)
    assert once == pytest.approx(5)  # sentences of two words have nothing to agree in of three and four


def test_other_numbers_of_lines_are_an_error():
    with pytest.raises(DataError, match=r"^cider: `references` has 0 lines; expected 1, as `captions`\.$"):
        cider(["a"], [])
