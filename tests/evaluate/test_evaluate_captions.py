"""BLEU against several references, and where attention looked."""

import math

import numpy as np
import pytest

from regard.errors import DataError
from regard.evaluate.captions import CaptionEvaluation, Hits, corpus_bleu, on_grid


def test_bleu_is_that_of_the_formula():
    found = corpus_bleu(["a b c d e"], [["a b c x y", "z a b c d e f"]])
    # all sequences of words stand in the second reference; the length is that of the first
    assert found.scores == pytest.approx((100.0,) * 4)
    found = corpus_bleu(["a b c d"], [["a b x d e f", "a b y d e f"]])
    precisions = [3 / 4, 1 / 3]
    brevity = math.exp(1 - 6 / 4)
    assert found.brevity == pytest.approx(brevity)
    assert found.scores[0] == pytest.approx(100 * brevity * precisions[0])
    assert found.scores[1] == pytest.approx(100 * brevity * math.sqrt(math.prod(precisions)))
    assert found.unpenalized[1] == pytest.approx(100 * math.sqrt(math.prod(precisions)))
    assert found.scores[2] == found.unpenalized[3] == 0.0


def test_pictures_may_have_different_numbers_of_references():
    assert corpus_bleu(["a b c d", "e f g h"], [["x", "a b c d"], ["e f g h"]]).scores[3] == pytest.approx(
        100
    )
    with pytest.raises(DataError, match=r"^corpus_bleu: `captions` has 1 lines and `references` 0; expected"):
        corpus_bleu(["a"], [])


def test_a_place_is_touched_if_one_of_its_pixels_is():
    mask = np.zeros((8, 8), dtype=bool)
    mask[3:5, 7] = True
    assert on_grid(mask, 4).tolist() == [False, True, False, True]
    with pytest.raises(
        DataError, match="a grid of 9 places over 8 pixels; expected a square grid that divides"
    ):
        on_grid(mask, 9)


def evaluation(hits):
    bleu = corpus_bleu(["a b c d"], [["a b c d"]])
    return CaptionEvaluation("test", 5, 1, bleu, 1.0, hits, ["a b c d"], 0.1)


def test_an_evaluation_says_all_its_numbers():
    photographs, scenes = evaluation(None), evaluation(Hits(10, 0.8, 1.0, 0.1, 0.7))
    assert photographs.headline() == ("BLEU-4", pytest.approx(100.0))
    assert scenes.headline() == ("exact", 1.0)
    assert ("attention hits", "90.0 %") in scenes.measures()
    assert scenes.summary()["hits"]["rate"] == pytest.approx(0.9)
    assert "hits" not in photographs.summary()
    assert ("paper, soft, without", "67.0", "44.8", "29.9", "19.5") in photographs.tables()[0].rows
    assert len(scenes.tables()) == 2
