"""BLEU by length counts the source's words, whatever pieces the model reads."""

import pytest
import torch
from seeds import offset_seed

from regard.attention.config import AttentionConfig
from regard.data.tokens import count_words
from regard.decode.base import Decoding
from regard.evaluate.translation import evaluate_translation
from regard.models.rnnsearch import RNNsearch
from regard.tasks.files import FilesSettings, FilesTask


@pytest.mark.parametrize(
    ("text", "language", "count"),
    [
        ("The cat's dog doesn't bark.", "en", 8),
        ("L'homme dort.", "fr-FR", 4),
        ("我 喜欢狗。", "zh", 5),
        ("我喜欢狗。", "zh_CN", 5),
        ("", "en", 0),
    ],
)
def test_words_and_marks_are_counted_and_characters_where_no_spaces_are(text, language, count):
    assert count_words(text, language) == count


@pytest.mark.parametrize("pieces", ["words", "characters", "bpe"])
def test_lengths_are_in_words_however_text_is_cut(tmp_path, pieces):
    sentences = ["One two three four.", "One two three four five six seven eight nine ten eleven twelve."]
    for name in ("a.en", "a.fr"):
        (tmp_path / name).write_text("\n".join(sentences), encoding="utf-8")
    files = {side: str(tmp_path / name) for side, name in (("source", "a.en"), ("target", "a.fr"))}
    valid = {f"valid_{side}": path for side, path in files.items()}
    task = FilesTask.create(FilesSettings(**files, **valid, pieces=pieces, size=300))
    torch.manual_seed(offset_seed(1))
    sizes = {"source_vocab": len(task.source), "target_vocab": len(task.target)}
    model = RNNsearch(
        RNNsearch.Config(embedding=8, hidden=8, readout=8, attention=AttentionConfig("additive"), **sizes)
    ).eval()
    found = evaluate_translation(model, task, "valid", decoding=Decoding(beam=1))
    assert [(row.words, row.sentences) for row in found.by_length] == [("up to 10", 1), ("11 to 20", 1)]
