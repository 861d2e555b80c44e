"""What benchmarks/hansards.py makes of its text, and how it chooses."""

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


def test_pairs_stand_alone_and_in_rows_with_the_same_link_on_both_sides(hansards):
    pairs = [([f"a{n}", "."], [f"b{n}", "!"]) for n in range(12)]
    found = list(hansards.joined(pairs, 1))
    assert found[:12] == pairs
    assert len(found) == 12 + 6 + 4 + 3
    assert found == list(hansards.joined(pairs, 1))
    between = {first: second.split() for first, second in hansards.LINKS}
    for source, target in found[12:]:
        numbers = [word[1:] for word in source if word[0] == "a" and word[1:].isdigit()]
        assert numbers == [word[1:] for word in target if word[0] == "b" and word[1:].isdigit()]
        expected = []
        for word in source[:-1]:
            expected += between.get(word, [f"b{word[1:]}"])
        assert target == [*expected, "!"]


def test_the_reading_is_chosen_on_the_embedded_corpus_as_a_mean_over_seeds(hansards):
    def row(way, reading, seed, embedded, rate):
        return {
            "way": way,
            "reading": reading,
            "seed": seed,
            "embedded": {hansards.METHOD: embedded},
            "hansards": {hansards.METHOD: rate},
        }

    rows = [
        row("one model", "1 read", 1, 0.1, 0.4),
        row("one model", "1 read", 2, 0.5, 0.2),
        row("two models", "0 read", 1, 0.25, 0.5),
        row("two models", "0 read", 2, 0.25, 0.6),
    ]
    chosen = hansards.choose(rows)
    assert (chosen["way"], chosen["reading"], chosen["seeds"]) == ("two models", "0 read", [1, 2])
    assert chosen["hansards"] == {hansards.METHOD: pytest.approx(0.55)}
    assert hansards.choose([]) == {}
