"""Generated examples are the same in every version, bit for bit: models were trained and measured on them."""

from hashlib import sha256
from itertools import islice

import pytest

from regard.data.grammar import generate
from regard.data.pictures import draw_pairs
from regard.tasks.stories import make_question


def digest(examples):
    return sha256("\n".join(map(repr, examples)).encode()).hexdigest()[:16]


@pytest.mark.parametrize(("facts", "expected"), [(1, "7cf4d8bb5c4326da"), (2, "011e0c2c0f54c004")])
def test_a_story_never_changes(facts, expected):
    splits = ("train", "valid", "test")
    stories = [make_question(split, n, facts=facts, sentences=8) for split in splits for n in range(50)]
    assert digest((q.story, q.question, q.answer, q.supports) for q in stories) == expected


@pytest.mark.parametrize(("language", "expected"), [("fr", "a3af9981e4975f3e"), ("zh", "9b0133f0ea25d56c")])
def test_a_sentence_of_the_grammar_never_changes(language, expected):
    pairs = islice(generate(language, "valid", seed=3), 1000)
    assert digest((pair.source, pair.target, pair.links) for pair in pairs) == expected


@pytest.mark.parametrize(
    ("side", "expected"), [(8, "57514e338e66ab42"), (16, "a4fec19d4ba7ae7a"), (32, "122ae7bb0cdcdb36")]
)
def test_a_pair_of_shapes_never_changes(side, expected):
    pictures, shapes = draw_pairs("digest", range(20), side=side)
    assert digest([pictures.tolist(), shapes.tolist()]) == expected
