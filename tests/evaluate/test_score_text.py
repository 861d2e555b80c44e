import subprocess
import sys

import pytest
import sacrebleu

from regard.errors import ConfigError, DataError
from regard.evaluate.text import LengthScore, moses_bleu, score_by_length, score_text

REFERENCES = ["Le chat dort sur le tapis rouge.", "Un homme mange une pomme dans la rue.", "Oui."]
HYPOTHESES = ["Le chat dort sur un tapis rouge.", "Un homme mange la pomme dans une rue.", "Non."]


def test_scores_are_those_of_sacrebleu_and_say_how():
    scores = score_text(HYPOTHESES, REFERENCES)
    assert scores.bleu == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score)
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score)
    assert "tok:13a" in scores.signature
    assert "case:mixed" in scores.signature
    assert scores.chrf_signature.startswith("nrefs:1")
    assert scores.sentences == 3


def test_a_perfect_translation_scores_100():
    scores = score_text(REFERENCES, REFERENCES)
    assert scores.bleu == pytest.approx(100)
    assert scores.chrf == pytest.approx(100)


def test_chinese_is_scored_by_characters():
    scores = score_text(["我喜欢红色的猫。"], ["我喜欢白色的猫。"], language="zh")
    assert "tok:zh" in scores.signature
    assert 0 < scores.bleu < 100


def test_case_may_be_ignored():
    shouted = [line.upper() for line in REFERENCES]
    assert score_text(shouted, REFERENCES).bleu < 50
    lowered = score_text(shouted, REFERENCES).lowercased
    assert lowered.score == pytest.approx(100)
    assert "case:lc" in lowered.signature


def test_each_group_of_lengths_is_scored_alone():
    groups = score_by_length(HYPOTHESES, REFERENCES, [7, 10, 55], edges=(5, 7, 50))
    assert [(g.low, g.high, g.sentences) for g in groups] == [(6, 7, 1), (8, 50, 1), (51, None, 1)]
    assert groups[0].bleu == pytest.approx(score_text(HYPOTHESES[:1], REFERENCES[:1]).bleu)


def test_an_empty_sentence_belongs_to_the_shortest_group():
    low, high, sentences, _ = score_by_length(HYPOTHESES, REFERENCES, [0, 1, 10])[0]
    assert (low, high, sentences) == (0, 10, 3)


def test_unequal_line_counts_are_errors():
    with pytest.raises(DataError, match="score_text: `references` has 2 lines; expected 3, as `hypotheses`"):
        score_text(HYPOTHESES, REFERENCES[:2])
    with pytest.raises(
        DataError, match="score_by_length: `lengths` has 1 lines; expected 3, as `hypotheses`"
    ):
        score_by_length(HYPOTHESES, REFERENCES, [1])
    with pytest.raises(DataError, match="score_text: `hypotheses` has no lines; expected 1 or more"):
        score_text([], [])


def test_edges_must_rise():
    with pytest.raises(ConfigError, match=r"`edges` has \(20, 10\); expected rising numbers"):
        score_by_length(HYPOTHESES, REFERENCES, [1, 2, 3], edges=(20, 10))


def test_importing_does_not_import_sacrebleu():
    code = "import sys, regard.evaluate.text; sys.exit('sacrebleu' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_group_of_lengths_has_a_name():
    names = [LengthScore(low, high, 1, 0.0).words for low, high in ((0, 10), (11, 20), (51, None))]
    assert names == ["up to 10", "11 to 20", "51 and more"]


def test_case_is_forgiven_in_the_lowercased_forms():
    pytest.importorskip("sacremoses")
    scores = score_text(["Der HUND schläft heute."], ["Der Hund schläft heute."], language="de")
    assert scores.bleu < 70
    assert scores.lowercased.score == pytest.approx(100)
    assert scores.moses.score == pytest.approx(100)
    assert "case:lc|eff:no|tok:13a" in scores.lowercased.signature
    assert "case:lc|eff:no|tok:none" in scores.moses.signature
    assert "moses:de, sacremoses" in scores.moses.signature


def test_moses_tokens_are_those_of_the_literature():
    pytest.importorskip("sacremoses")
    # normalised quotes are the same quotes, and Moses keeps the hyphen that sacrebleu's 13a keeps too
    texts = ["Ein „blau-weißes“ T-Shirt, z.B. heute.", "Zwei Männer ."]
    references = ['ein "blau-weißes" t-shirt, z.b. heute.', "zwei Männer."]
    found = moses_bleu(texts, references, language="de-AT")
    assert found.score == pytest.approx(100)
    assert score_text(texts, references, language="de").lowercased.score < 100


def test_a_language_without_spaces_has_no_moses_form():
    scores = score_text(["我喜欢猫。"], ["我喜欢猫。"], language="zh")
    assert scores.moses is None
    assert "tok:zh" in scores.lowercased.signature
