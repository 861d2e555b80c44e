"""What benchmarks/hansards.py makes of its text."""

import pytest
from documentation import benchmark


@pytest.fixture(scope="module")
def hansards():
    return benchmark("hansards")


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("en", "I don't know; he's Tom's friend.", "i do not know ; he is tom 's friend ."),
        ("en", "Can't we pay $1,500?", "cannot we pay $ 1,500 ?"),
        ("fr", "L'eau du lac, s'il te plaît !", "le eau de le lac , si il te plaît !"),
        ("fr", "Va-t-il aux îles aujourd’hui ?", "va - t - il à les îles aujourd' hui ?"),
        ("fr", "Jusqu'à ce qu'il s'en aille.", "jusque à ce que il se en aille ."),
    ],
)
def test_text_is_written_in_the_words_of_the_hansards(hansards, language, text, words):
    assert hansards.words_of(text, language) == words.split()
