"""Unknown words through a dictionary: learnt from alignments, or read from a file."""

from types import SimpleNamespace

import pytest
import torch

from regard.attention.compose import Attention
from regard.attention.scores.dot import DotScore
from regard.data.parallel import Example
from regard.data.tokens import EOS, UNK, Tokenizer
from regard.decode.base import GREEDY, Decoding
from regard.decode.translator import Translator
from regard.decode.unknown import (
    carry_unknown,
    credited,
    learn_dictionary,
    read_dictionary,
    write_dictionary,
)
from regard.errors import DataError
from regard.evaluate.translation import evaluate_translation
from regard.models.base import Translating
from regard.tasks.translation import TranslationTask

PAIRS = [("the cat", "le chat")] * 3 + [("the dog", "le chien"), ("the zebra", "le zebre")]


class Diagonal(Translating):
    """Writes as many words as the source has, each `<unk>`, looking at its own position meanwhile."""

    def __init__(self, size, word=UNK, late=0):
        super().__init__()
        self.word, self.late = word, late
        self.attention, self.aligner, self.size = Attention(DotScore(1.0)), "attention", size
        self.scale = torch.nn.Parameter(torch.tensor(50.0))

    def start(self, batch):
        keys = torch.eye(batch.source.shape[1]).expand(batch.size, -1, -1)
        return self.attention.prepare(keys), batch.source_lengths, 0

    def step(self, tokens, state):
        source, lengths, t = state
        at = min(max(t - self.late, 0), source.S - 1)
        query = self.scale * torch.eye(source.S)[at].expand(len(tokens), 1, -1)
        self.attention(query, source)
        scores = torch.full((len(tokens), self.size), -20.0)
        scores[:, self.word] = torch.where(t < lengths - 1, 0.0, -20.0)
        scores[:, EOS] = torch.where(t < lengths - 1, -20.0, 0.0)
        return scores.log_softmax(-1), (source, lengths, t + 1)

    def select(self, state, rows):
        return state[0].select(rows), state[1][rows], state[2]


class Pairs(TranslationTask):
    """A few fixed pairs; words seen once are outside the vocabularies."""

    languages = ("en", "fr")

    def __init__(self, pairs=PAIRS):
        self.pairs = pairs
        sides = zip(*pairs, strict=True)
        settings = SimpleNamespace(smoothing=0.0)
        super().__init__(settings, *(Tokenizer.train(side, kind="words", minimum=2) for side in sides))

    def read(self, split):
        return [Example(*pair) for pair in self.pairs]


@pytest.fixture
def translator():
    task = Pairs()
    return Translator(Diagonal(len(task.target)), task.source, task.target)


def test_a_translation_is_one_line_whatever_the_model_writes():
    sides = [Tokenizer.train(["the cat"] * 3, kind="bpe", size=300) for _ in range(2)]
    [line_break] = sides[1].encode("\n")
    model = Diagonal(len(sides[1]), line_break)
    [[found]] = Translator(model, *sides).translate(["the cat"], GREEDY)
    assert "\n" in found.pieces
    assert "\n" not in found.text + found.written


def test_attention_that_belongs_to_the_word_read_is_credited_to_it():
    task = Pairs()
    model = Diagonal(len(task.target), late=1)
    late = Translator(model, task.source, task.target)
    texts = {
        credit: late.translate(["the zebra"], Decoding(beam=1, credit=credit))[0][0].text
        for credit in ("written", "read")
    }
    assert texts == {"written": "The the", "read": "The zebra"}
    assert learn_dictionary(model, task)["the"] == "le"
    assert "zebra" not in learn_dictionary(model, task)
    assert learn_dictionary(model, task, credit="read")["zebra"] == "zebre"


def test_the_last_word_of_a_cut_output_keeps_the_step_that_wrote_it():
    weights = torch.eye(4)[[0, 0, 1, 2]]  # the steps of three words and of eos
    assert credited(weights, 3, "read").argmax(-1).tolist() == [0, 1, 2]
    assert credited(weights[:3], 3, "read").argmax(-1).tolist() == [0, 1, 1]
    assert credited(weights[:1], 0, "read").shape == (0, 4)


def test_a_dictionary_translates_what_it_knows_and_the_rest_is_copied():
    weights = torch.tensor([[0.6, 0.1, 0.3], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5]])
    pieces = carry_unknown(
        ["<unk>", "mange", "<unk>"], ["Zorblax", "eats", "quince"], weights, {"quince": "coing"}
    )
    assert pieces == ["Zorblax", "mange", "coing"]


def test_a_learnt_dictionary_holds_words_outside_the_vocabulary():
    task = Pairs()
    assert task.source.unknown("the dog zebra") == ["dog", "zebra"]
    found = learn_dictionary(Diagonal(len(task.target)), task)
    assert found == {"cat": "chat", "dog": "chien", "the": "le", "zebra": "zebre"}


def test_a_translation_seen_less_often_than_asked_for_is_left_out():
    task = Pairs(
        [("the cat", "le chat"), ("the cat", "le minou"), ("the dog", "le chien")] + [("a b", "c d")] * 2
    )
    model = Diagonal(len(task.target))
    assert "cat" not in learn_dictionary(model, task)
    assert learn_dictionary(model, task, minimum=1)["cat"] == "chat"  # the first in the alphabet


def test_every_training_pair_is_counted_once():
    counts = []
    learn_dictionary(Diagonal(9), Pairs(), progress=counts.append)
    assert sum(counts) == len(PAIRS)


def test_a_model_without_attention_teaches_no_dictionary():
    model = Diagonal(9)
    model.aligner = None
    with pytest.raises(
        DataError, match=r"^dictionary: the model has no attention; expected one with attention\.$"
    ):
        learn_dictionary(model, Pairs())


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize(
    ("dictionary", "text"),
    [({}, "The cat"), ({"cat": "chat"}, "The chat"), (None, "<unk> <unk>")],
    ids=["copy", "dictionary", "keep"],
)
def test_unknown_words_of_known_sentences_are_carried_too(translator, dictionary, text, beam):
    """Nothing of the source is unknown, no attention was asked for, and it is found all the same."""
    decoding = Decoding(beam=beam, dictionary=dictionary)
    [[found]] = translator.translate(["the cat"], decoding, attention=False)
    assert found.text == text
    assert found.written == "<unk> <unk>"


@pytest.mark.parametrize(("dictionary", "told"), [({}, True), (None, False)], ids=["copy", "keep"])
def test_bleu_before_and_after_replacing_unknown_words(dictionary, told):
    task = Pairs([("one two three four five", "one two three four five"), *PAIRS])
    found = evaluate_translation(
        Diagonal(len(task.target)), task, decoding=Decoding(beam=1, dictionary=dictionary)
    )
    names = [name for name, _ in found.measures()]
    assert ("BLEU, unknown words left" in names) is told
    if told:
        assert found.text.bleu > found.written == found.summary()["bleu_written"] == 0.0


def test_a_dictionary_is_read_as_it_was_written(tmp_path):
    words = {"dog": "chien", "naïve": "naïf", "New York": "two words", "tab\there": "x"}
    write_dictionary(tmp_path / "words.tsv", words)
    assert read_dictionary(tmp_path / "words.tsv") == {"dog": "chien", "naïve": "naïf"}


def test_a_line_without_two_words_is_an_error(tmp_path):
    (tmp_path / "words.tsv").write_text("dog\tchien\n\ncat chat\n")
    with pytest.raises(DataError, match=r"line 3 has 'cat chat'; expected two words with a tab between\.$"):
        read_dictionary(tmp_path / "words.tsv")
