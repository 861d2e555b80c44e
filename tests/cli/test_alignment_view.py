"""Pictures of alignments show whole words, whatever pieces the model reads and writes."""

import pytest
import torch
from pages import Page
from torch.testing import assert_close

import regard
from regard.decode.translator import Translation
from regard.views.alignment import word_numbers, word_weights

CASES = {
    "subwords": (["Elle", " mange", " ver", "te", "."], "Elle mange verte.", [0, 1, 2, 2, 3]),
    "a number in two pieces": (["in", " 19", "84"], "in 1984", [0, 1, 1]),
    "lower case": (["i", " pad"], "I pad", [0, 1]),
    "elisions": (["l", "'", "h", "omme"], "l'homme", [0, 1, 2, 2]),
    "words without their spaces": (["le", "chat", "dort", "."], "le chat dort.", [0, 1, 2, 3]),
    "one such word": (["chat"], "chat", [0]),
    "elided ones": (["l'", "homme", "dort"], "l'homme dort", [0, 1, 2]),
    "Chinese characters": (["她", "吃", "苹", "果", "。"], "她吃苹果。", [0, 1, 2, 3, 4]),
    "letters after Chinese ones": (["她", "有", "i", "Pad"], "她有iPad", [0, 1, 2, 2]),
    "half a character": (["ver", "<0xC3>", "te"], "ver�te", [0, 1, 2]),
    "spaces that the tokenizer keeps": ([" ver", "te "], "  verte", [0, 0]),
    "nothing": ([], "", []),
}


@pytest.mark.parametrize("case", CASES)
def test_pieces_of_one_word_share_its_number(case):
    pieces, text, numbers = CASES[case]
    assert word_numbers(pieces, text) == numbers


def test_weights_are_summed_over_a_source_word_and_averaged_over_a_target_word():
    translation = Translation(
        source="a verte",
        text="x malheureux",
        source_pieces=("a", " ver", "te"),
        pieces=("x", " mal", "heureux"),
        score=-1.0,
        log_probability=-2.0,
        finished=True,
        weights=torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.5, 0.4], [0.3, 0.7, 0.0]]),
        unknown=(),
        written="x malheureux",
    )
    weights, source, target = word_weights(translation)
    assert_close(weights, torch.tensor([[0.5, 0.5], [0.2, 0.8]]))
    assert (source, target) == (["a", " verte"], ["x", " malheureux"])
    assert repr(translation) == "<Translation 'a verte' -> 'x malheureux', score -1.00>"


def test_pictures_and_pages_of_a_translation_show_whole_words(tmp_path):
    found = regard.load("en-fr", device="cpu").translate("An unforgettable apple.")
    assert " unforgettable" not in found.source_pieces  # or nothing is shown here
    svg = found.save(tmp_path / "x.svg").read_text(encoding="utf-8")
    assert {"An", "unforgettable", "apple", "."} <= {word.text.strip() for word in Page(svg).words()}
    assert "unforgettable" in found.save(tmp_path / "x.html").read_text(encoding="utf-8")
