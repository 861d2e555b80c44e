"""Lines too long to be read at once: cut into sentences and joined again, or refused by themselves."""

import pytest
import torch

from regard.data.tokens import Tokenizer
from regard.decode import lines
from regard.decode.base import GREEDY, Decoding, Hypothesis
from regard.decode.lines import LONGEST, Refused, sentences_of, translate_lines
from regard.decode.translator import TextTranslator

TEXTS = ["the cat sleeps .", "does a dog bark ?", "我们 在 家 。 你 呢 ？"]


class Copying(TextTranslator):
    """Writes what it reads, and attends to it."""

    def __init__(self, kind="words", language="en"):
        size = 300 if kind == "bpe" else None
        tokenizer = Tokenizer.train(TEXTS, kind=kind, language=language, size=size)
        super().__init__(tokenizer, tokenizer, aligner="attention")
        self.read = []

    def decode(self, encoded, decoding, attention):
        self.read += map(len, encoded)
        return [
            [
                Hypothesis(
                    tokens=tuple(ids),
                    log_probability=-1.0 - rank,
                    score=-1.0 - rank,
                    finished=True,
                    attention={"attention": torch.eye(len(ids) + 1)},
                )
                for rank in range(decoding.nbest)
            ]
            for ids in encoded
        ]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("The cat sleeps. A dog barks!  Where?", ["The cat sleeps.", "A dog barks!", "Where?"]),
        ('He said "No." Then he left.', ['He said "No."', "Then he left."]),
        ("It costs 3.14 euros", ["It costs 3.14 euros"]),
        ("我们在家。你呢？“好！”他说", ["我们在家。", "你呢？", "“好！”", "他说"]),
        ("...", ["..."]),
        ("   ", []),
    ],
)
def test_a_text_is_cut_behind_the_ends_of_its_sentences(text, sentences):
    assert sentences_of(text) == sentences


@pytest.mark.parametrize(
    ("kind", "language", "sentence"),
    [
        ("words", "en", "The cat sleeps. "),
        ("bpe", "en", "The cat sleeps. "),
        ("characters", "zh", "我们在家。"),
    ],
)
def test_a_long_line_is_translated_by_sentences_and_joined_with_its_alignment(kind, language, sentence):
    translator = Copying(kind, language)
    line = (sentence * 150).strip()
    assert len(translator.source.pieces(line)) > LONGEST
    pieces = translator.source.pieces(sentence.strip()) * 150  # what the model reads, and links count
    [[found]] = translate_lines(translator, [line], GREEDY)
    assert max(translator.read) < LONGEST
    assert found.source == line
    assert found.source_pieces == tuple(pieces)
    assert found.text.lower() == line.lower()
    assert torch.equal(found.weights, torch.eye(len(pieces)))


def test_a_line_that_cannot_be_cut_is_refused_and_the_others_go_on():
    translator = Copying()
    long = "cat " * 50_000
    found = translate_lines(translator, ["the cat .", long, "a dog ."], GREEDY)
    assert [own[0].text if isinstance(own, list) else own for own in found] == [
        "The cat.",
        Refused("has 50,000 pieces, 50,000 of them in one sentence; expected 400 at most."),
        "A dog.",
    ]


def test_a_line_of_too_many_characters_is_refused_before_it_is_cut(monkeypatch):
    monkeypatch.setattr(lines, "LARGEST", 100)
    [found] = translate_lines(Copying(), ["cat. " * 21], GREEDY)
    assert found == Refused("has 105 characters; expected 100 at most.")


def test_the_n_best_of_a_long_line_join_those_of_its_sentences():
    line = ("the cat sleeps . " * 150).strip()
    [found] = translate_lines(Copying(), [line], Decoding(beam=2, nbest=2))
    assert [own.log_probability for own in found] == [-150.0, -300.0]
    assert found[0].score == pytest.approx(-150 / (150 * 5))  # the mean over words and ends


def test_lines_up_to_the_limit_are_read_whole():
    translator = Copying()
    [[found]] = translate_lines(translator, ["cat . " * (LONGEST // 2)], GREEDY)
    assert translator.read == [LONGEST]
    assert len(found.pieces) == LONGEST


def test_a_long_line_of_blanks_is_an_empty_translation():
    translator = Copying("bpe")
    line = " " * (LONGEST + 1)
    assert len(translator.source.encode(line)) > LONGEST
    [[found]] = translate_lines(translator, [line], GREEDY)
    assert (found.text, found.finished) == ("", True)
