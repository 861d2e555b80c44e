"""Byte-pairs whose merges are left out by chance."""

import itertools
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.bytepairs import Merges, _Library
from regard.data.tokens import Tokenizer
from regard.errors import ConfigError

TEXTS = ["the lower tower", "a flower shower lowers the tower", "lower, slower; the slowest tower of all"] * 3


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXTS, kind="bpe", size=300)


@given(text=st.text(max_size=40), share=st.floats(0.0, 0.99), seed=st.integers(0, 9))
@settings(max_examples=50)
def test_whatever_is_left_out_the_text_comes_back(tokenizer, text, share, seed):
    [numbers] = tokenizer.recut(share=share, seed=seed)([text])
    assert tokenizer.decode(numbers) == text


def test_without_chance_it_is_the_usual_cut(tokenizer):
    assert tokenizer.recut(share=0.0, seed=1)(TEXTS) == tokenizer.encode_all(TEXTS)


def test_with_every_merge_left_out_bytes_remain(tokenizer):
    [numbers] = tokenizer.recut(share=1.0, seed=1)(["tower"])
    assert tokenizer.pieces_of(numbers) == list("tower")


def test_a_seed_decides_the_cut(tokenizer):
    cuts = [tokenizer.recut(share=0.3, seed=seed)(TEXTS) for seed in (1, 1, 2)]
    assert cuts[0] == cuts[1] != cuts[2]


def test_a_merge_is_left_out_as_often_as_asked(monkeypatch):
    """Of "ab" with one merge, a share of 0.3 stays in two pieces."""
    tokenizer = Tokenizer.train(["ab ab"], kind="bpe", size=261)
    monkeypatch.setattr("regard.data.bytepairs.DRAWS", 4000)
    recut = tokenizer.recut(share=0.3, seed=5)
    found = [len(numbers) for numbers in recut(["ab"] * 4000)]
    assert set(found) == {1, 2}
    assert found.count(2) / 4000 == pytest.approx(0.3, abs=0.03)  # four standard deviations


def test_the_exact_chances_of_a_word_with_two_merges(monkeypatch):
    """The word abc with the merges ab, then ab + c: every way chance can go, counted by hand.

    The pair "ab" stays with 1 - q; then "ab c" merges with 1 - q. Otherwise nothing is left at once, since
    "bc" is no merge. So the pieces are abc with (1 - q)², ab c with (1 - q) q, a b c with q.
    """
    tokenizer = Tokenizer.train(["abc", "abc", "abd"], kind="bpe", size=262)
    q, total = 0.4, 6000
    monkeypatch.setattr("regard.data.bytepairs.DRAWS", total)
    recut = tokenizer.recut(share=q, seed=3)
    cuts = [tuple(tokenizer.pieces_of(numbers)) for numbers in recut(["abc"] * total)]
    shares = {cut: len(list(group)) / total for cut, group in itertools.groupby(sorted(cuts))}
    wanted = {("abc",): (1 - q) ** 2, ("ab", "c"): (1 - q) * q, ("a", "b", "c"): q}
    assert shares == pytest.approx(wanted, abs=0.03)


def test_later_occurrences_take_one_of_the_first_draws(tokenizer):
    cuts = {tuple(numbers) for numbers in tokenizer.recut(share=0.5, seed=1)(["flowershowertower"] * 3000)}
    assert 1 < len(cuts) <= 64


def test_words_have_no_merges_to_leave_out():
    tokenizer = Tokenizer.train(TEXTS, kind="words")
    with pytest.raises(
        ConfigError, match=r"^Tokenizer: `kind` has 'words', which merges nothing; expected 'bpe'\.$"
    ):
        tokenizer.recut(share=0.1, seed=1)


def known(character):
    """Assigned in this Python's Unicode; the library may know letters of a later one."""
    return unicodedata.category(character) != "Cn"


PARTS = st.sampled_from(
    [
        " ",
        "  ",
        "\n",
        "'s",
        "'re",
        "'S",
        "it's",
        "\u00a0",
        "\x85",
        "\x1c",
        "é",
        "½",
        "Ⅷ",
        "中",
        "_",
        "...",
        "12",
    ]
)
CHARACTERS = st.characters(exclude_categories=["Cs", "Cn"]).filter(known)
ANY = st.characters(exclude_categories=["Cs"])


@given(parts=st.lists(PARTS | st.text(CHARACTERS, max_size=6), max_size=10))
@settings(max_examples=300)
def test_without_the_library_text_is_cut_the_same(tokenizer, parts):
    merges = [tuple(pair) for pair in tokenizer._cutter.settings()["merges"]]
    library, ours = (made(list(tokenizer.vocabulary), merges) for made in (_Library, Merges))
    text = "".join(parts)
    assert ours.cut(text) == library.cut(text)
    assert ours.words(text) == library.words(text)
    assert ours.numbers([text]) == library.numbers([text])


@given(texts=st.lists(st.lists(PARTS | st.text(ANY, max_size=6), max_size=8).map("".join), max_size=4))
@settings(max_examples=300)
def test_words_that_are_looked_up_have_the_numbers_of_the_library(tokenizer, texts):
    merges = [tuple(pair) for pair in tokenizer._cutter.settings()["merges"]]
    expected = _Library(list(tokenizer.vocabulary), merges).numbers(texts)
    assert tokenizer.encode_all(texts) == expected


def test_no_more_words_are_remembered_than_wanted(tokenizer, monkeypatch):
    monkeypatch.setattr("regard.data.bytepairs.KEPT_WORDS", 3)
    texts = ["a b c d", "e f", "a g"]
    for _ in range(2):
        for text in texts:
            assert tokenizer.encode_all([text]) == [tokenizer.encode(text)]
            assert len(tokenizer._cutter._known) <= 3 + 4  # those of one call come on top


def test_without_the_library_byte_pairs_cannot_be_learnt(monkeypatch):
    monkeypatch.setattr("regard.extras.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'expected the extra \'train\': pip install "regard\[train\]"'):
        Tokenizer.train(TEXTS, kind="bpe", size=300)
