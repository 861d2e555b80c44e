import json
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tokens import BOS, EOS, PAD, SPECIAL, UNK, Tokenizer
from regard.errors import ConfigError, DataError

ENGLISH = [
    "The dog sleeps.",
    "A man's dog doesn't sleep, does it?",
    'He said: "I see the house (the red one)!"',
    "The boys' dog is well-known; it's 3.5 years old.",
    "In 2014, 20 people paid $1,000 at 10:30.",
    "Paris is on the 2nd page of a 10-year-old book...",
    "At 8:00 p.m. he left the U.S. for plan B. A man stayed.",
    "The year 1990 was good/bad, 50% of it.",
]
FRENCH = [
    "L'homme qu'elle aime dort aujourd'hui.",
    "Où est-il\u00a0?",
    "Voilà\u00a0: c'est l'été, n'est-ce pas\u00a0?",
    "Il dit\u00a0: «\u00a0Bonjour\u00a0!\u00a0»",
    "Quoi\u00a0?! Un enfant (petit) mange, puis s'endort\u00a0; elle aussi…",
    "Cela coûte 1,5 million, soit 50\u00a0%.",
]
CHINESE = [
    "我喜欢猫。",
    "他说：“你好！”",
    "你有3只猫吗？是的，我有（三只）。",
    "这是《书》……",
    "“来杯茶吗？”“嗯，好的。”",
]
CORPORA = {"en": ENGLISH, "fr": FRENCH, "zh": CHINESE}


def words(texts, **options):
    return Tokenizer.train(texts, kind="words", **options)


@pytest.mark.parametrize(
    ("language", "text"), [(lang, text) for lang, texts in CORPORA.items() for text in texts]
)
def test_words_of_ordinary_sentences_come_back_as_they_were(language, text):
    tokenizer = words(CORPORA[language], language=language)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode_pieces(tokenizer.pieces(text)) == text
    assert tokenizer.unknown(text) == []


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("l'homme", ["l'", "homme"]),
        ("the dog's bone", ["the", "dog", "'s", "bone"]),
        ("l’homme n’est", ["l'", "homme", "n'", "est"]),
        ("est-ce que, non?", ["est-ce", "que", ",", "non", "?"]),
        ("a_b __ 12ab", ["a", "_", "b", "__", "12", "ab"]),
        ("cafe\u0301", ["caf\u00e9"]),  # one way to write é
    ],
)
def test_words_are_cut_by_the_pattern(text, pieces):
    assert words([]).pieces(text) == pieces


WORD = st.sampled_from(["cat", "dogs", "well-known", "été", "Paris", "12"])
MARK = st.sampled_from([".", ",", "?", "!", ";", ":", "…"])


@given(st.lists(st.tuples(WORD, st.none() | MARK), min_size=1, max_size=8), st.sampled_from(["en", "fr"]))
def test_words_and_marks_keep_their_spaces(clauses, language):
    gap = {m: "\u00a0" if language == "fr" and m in "?!;:" else "" for m in ".,?!;:…"}
    pairs = zip(clauses, [*clauses[1:], (None, None)], strict=True)
    # between two numbers a mark may belong to them: 3.14
    clauses = [(w, None if w == "12" and after == "12" else m) for (w, m), (after, _) in pairs]
    text = " ".join(word + (gap[mark] + mark if mark else "") for word, mark in clauses)
    text = text[0].upper() + text[1:]
    tokenizer = words([text], language=language)
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.text())
def test_no_visible_character_vanishes_from_words(text):
    normal = unicodedata.normalize("NFC", text).replace("\u2019", "'")
    assert "".join(words([]).pieces(text)) == "".join(normal.split())


@given(st.lists(st.text(), max_size=5), st.text())
@settings(deadline=None, max_examples=60)
def test_bytepairs_bring_any_text_back(texts, text):
    tokenizer = Tokenizer.train(texts, kind="bpe", size=300)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode_pieces(tokenizer.pieces(text)) == text
    assert tokenizer.unknown(text) == []
    assert len(tokenizer.pieces(text)) == len(tokenizer.encode(text))


@given(st.lists(st.text(), max_size=5))
def test_characters_bring_text_of_known_characters_back(texts):
    tokenizer = Tokenizer.train(texts, kind="characters", language="zh")
    for text in texts:
        assert tokenizer.pieces(text) == list(text)
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_special_tokens_written_in_a_text_are_text():
    for kind in ("words", "characters", "bpe"):
        tokenizer = Tokenizer.train(["a<eos>b <pad> <eos>"] * 9, kind=kind, size=400)
        numbers = tokenizer.encode("<eos>")
        assert not {PAD, BOS, EOS} & set(numbers)
        assert tokenizer.decode(numbers).replace(" ", "").lower() == "<eos>"


def test_pad_bos_and_eos_are_left_out_and_unk_is_written():
    tokenizer = words(["the cat"])
    cat = tokenizer.encode("cat")[0]
    assert tokenizer.decode([BOS, UNK, cat, EOS, PAD, PAD]) == "<unk> cat"
    assert tokenizer.pieces_of([BOS, UNK, cat]) == ["<bos>", "<unk>", "cat"]
    assert tokenizer.decode_pieces(["<bos>", "cat", "<eos>"]) == "Cat"


def test_unknown_words_are_named_and_their_pieces_kept():
    tokenizer = words(["the cat sleeps."])
    assert tokenizer.encode("the zorblax sleeps")[1] == UNK
    assert tokenizer.pieces("the zorblax sleeps") == ["the", "zorblax", "sleeps"]
    assert tokenizer.unknown("zorblax the quince zorblax") == ["zorblax", "quince"]


def test_the_first_word_gets_the_case_it_has_elsewhere():
    tokenizer = words(
        ["London is big. Look: the cat.", "The house of London.", "Cats sleep.", "See USA", "USA wins"]
    )
    assert tokenizer.pieces("The cat") == ["the", "cat"]
    assert tokenizer.pieces("London is") == ["London", "is"]
    assert tokenizer.pieces("Cats sleep") == ["cats", "sleep"]  # only ever seen first
    assert tokenizer.pieces("USA wins") == ["USA", "wins"]
    assert tokenizer.pieces("Zorblax wins") == ["Zorblax", "wins"]  # never seen: perhaps a name
    assert tokenizer.pieces('"The cat') == ['"', "the", "cat"]
    assert tokenizer.pieces("3 Cats") == ["3", "Cats"]
    assert tokenizer.decode_pieces(["(", "the", "cat", ")"]) == "(The cat)"
    assert "The" not in tokenizer.vocabulary


def test_a_word_behind_a_full_stop_says_nothing_about_case():
    tokenizer = words(["It rains. Cats sleep. Cats eat. I see cats."])
    assert tokenizer.pieces("Cats sleep") == ["cats", "sleep"]


def test_lower_case_is_kept_low():
    for kind in ("words", "characters", "bpe"):
        tokenizer = Tokenizer.train(["The Cat"], kind=kind, lowercase=True, size=300)
        assert tokenizer.decode(tokenizer.encode("The CAT")) == "the cat"


def test_the_vocabulary_is_ordered_by_frequency_then_text():
    texts = ["b a c", "b c d", "x b"]
    assert words(texts).vocabulary == (*SPECIAL, "b", "c", "a", "d", "x")
    assert words(reversed(texts)).vocabulary == words(texts).vocabulary
    assert words(texts, minimum=2).vocabulary == (*SPECIAL, "b", "c")
    assert words(texts, size=5).vocabulary == (*SPECIAL, "b")
    assert len(words(texts, size=5)) == 5
    assert Tokenizer.train(["bab"], kind="characters").vocabulary == (*SPECIAL, "b", "a")


def test_bytepairs_learn_frequent_pieces_within_the_size():
    tokenizer = Tokenizer.train(["la maison de la maison"] * 5, kind="bpe", size=280)
    assert 260 < len(tokenizer) <= 280
    assert tokenizer.pieces("la maison") == ["la", " maison"]
    assert tokenizer.pieces("é")[0] == "<0xC3>"  # half a character


@pytest.mark.parametrize("kind", ["words", "characters", "bpe"])
def test_a_saved_tokenizer_is_the_same(kind, tmp_path):
    tokenizer = Tokenizer.train(FRENCH, kind=kind, language="fr", size=400)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    tokenizer.save(path)
    loaded = Tokenizer.load(path)
    assert [p.name for p in tmp_path.iterdir()] == ["tokenizer.json"]  # nothing is left aside
    assert (loaded.kind, loaded.language, loaded.lowercase) == (kind, "fr", False)
    assert loaded.vocabulary == tokenizer.vocabulary
    for text in [*FRENCH, "Inconnu et zorblax\u00a0!"]:
        assert loaded.encode(text) == tokenizer.encode(text)
        assert loaded.decode(loaded.encode(text)) == tokenizer.decode(tokenizer.encode(text))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not valid JSON; expected what Tokenizer.save wrote"),
        ("[]", "has another format; expected `format` 1"),
        (json.dumps({"format": 1, "kind": "words"}), "has missing or wrong fields; expected kind, language"),
        (
            json.dumps(
                {"format": 1, "kind": "runes", "language": "en", "lowercase": False, "pieces": SPECIAL}
            ),
            "has missing or wrong fields",
        ),
        (
            json.dumps(
                {"format": 1, "kind": "characters", "language": "en", "lowercase": False, "pieces": ["a"]}
            ),
            "has missing or wrong fields",
        ),
    ],
)
def test_a_file_that_is_no_tokenizer_is_an_error(content, message, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        Tokenizer.load(path)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(DataError, match="Tokenizer: `path` has no file"):
        Tokenizer.load(tmp_path / "nothing.json")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "runes"}, "Tokenizer: `kind` has 'runes'; expected one of words, characters, bpe."),
        ({"kind": "bpe"}, "Tokenizer: `size` has None; expected 260 or more for kind 'bpe'."),
        ({"kind": "bpe", "size": 259}, "Tokenizer: `size` has 259; expected 260 or more for kind 'bpe'."),
        ({"kind": "words", "size": 3}, "Tokenizer: `size` has 3; expected 4 or more for kind 'words'."),
        ({"kind": "words", "minimum": 0}, "Tokenizer: `minimum` has 0; expected 1 or more."),
    ],
)
def test_impossible_settings_are_errors(options, message):
    with pytest.raises(ConfigError) as error:
        Tokenizer.train(["a"], **options)
    assert str(error.value) == message


def test_importing_tokens_does_not_import_the_library():
    code = "import sys, regard.data.tokens; sys.exit('tokenizers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
