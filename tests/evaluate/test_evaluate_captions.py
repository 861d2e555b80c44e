"""BLEU against several references, and where attention looked."""

import math

import pytest
import torch

from regard.data.shapes import COLOURS
from regard.decode.captions import Caption
from regard.errors import DataError
from regard.evaluate import captions
from regard.evaluate.captions import CaptionEvaluation, Hits, corpus_bleu, evaluate_captions, on_grid
from regard.tasks.captions import ShapesSettings, ShapesTask


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
    with pytest.raises(
        DataError, match=r"^corpus_bleu: `references` has 0 lines; expected 1, as `captions`\.$"
    ):
        corpus_bleu(["a"], [])


def test_a_place_is_touched_if_one_of_its_pixels_is():
    mask = torch.zeros(8, 8, dtype=torch.bool)
    mask[3:5, 7] = True
    assert on_grid(mask, 4).tolist() == [False, True, False, True]
    with pytest.raises(
        DataError, match="a grid of 9 places over 8 pixels a side; expected a square grid that divides"
    ):
        on_grid(mask, 9)


def evaluation(hits):
    bleu = corpus_bleu(["a b c d"], [["a b c d"]])
    return CaptionEvaluation("test", 5, 1, bleu, 2.5, 1.0, hits, ["a b c d"])


def test_an_evaluation_says_all_its_numbers():
    photographs, scenes = evaluation(None), evaluation(Hits(10, 0.8, 1.0, 0.1, 0.7))
    assert photographs.headline() == ("BLEU-4", pytest.approx(100.0))
    assert scenes.headline() == ("exact", 1.0)
    assert ("attention hits", "90.0 %") in scenes.measures()
    assert ("CIDEr-D", "2.500") in photographs.measures()
    assert photographs.summary()["cider"] == 2.5
    assert scenes.summary()["hits"]["rate"] == pytest.approx(0.9)
    assert "hits" not in photographs.summary()
    assert ("paper, soft, without", "67.0", "44.8", "29.9", "19.5") in photographs.tables()[0].rows
    assert len(scenes.tables()) == 2


@pytest.fixture(scope="module")
def shapes():
    return ShapesTask.create(ShapesSettings(train=4, valid=4, test=12))


def measured(shapes, monkeypatch, *, say=lambda words: words, look):
    """Every scene is described by its own sentence, changed by `say`; `look` gives the weights of a name."""
    told = iter([text for texts in shapes.references("test") for text in texts])

    def describe(model, batch, *, decoding):
        found = []
        for row in range(batch.size):
            words = say(next(told).split())
            weights = torch.full((len(words) + 1, 36), 1 / 36)
            for named in shapes.named("test", row, words):
                if named.mask is not None:
                    on = on_grid(named.mask, 36)
                    weights[named.words[0]], weights[named.words[1]] = look(on.float())
            found.append(Caption(tuple(shapes.tokenizer.encode(" ".join(words))), 0.0, True, weights))
        return found

    monkeypatch.setattr(captions, "describe", describe)
    return evaluate_captions(torch.nn.Linear(1, 1), shapes)


def test_a_hit_is_the_largest_weight_on_the_named_thing(shapes, monkeypatch):
    found = measured(shapes, monkeypatch, look=lambda on: (on / on.sum(), on / on.sum()))
    assert (found.exact, found.hits.colour, found.hits.shape, found.hits.rate) == (1, 1, 1, 1)
    assert found.hits.weight == pytest.approx(1)
    assert found.hits.things == sum(text.count(" a ") + 1 for [text] in shapes.references("test"))
    away = measured(shapes, monkeypatch, look=lambda on: (on, 1 - on))
    assert (away.exact, away.hits.colour, away.hits.shape, away.hits.rate) == (1, 1, 0, 0.5)
    assert away.hits.weight == 0
    assert 0.05 < found.hits.chance == away.hits.chance < 0.2


def test_a_thing_that_is_named_and_not_there_is_a_miss(shapes, monkeypatch):
    def other(words):
        names = list(COLOURS)
        swapped = dict(zip(names, names[1:] + names[:1], strict=True))
        return [swapped.get(word, word) for word in words]

    found = measured(shapes, monkeypatch, say=other, look=lambda on: (on, on))
    assert found.exact == 0
    assert found.hits.rate < 0.2, "but for a thing that happens to be there too"
    assert found.hits.things > 20
