"""Sentences of a test set that no model can read at once."""

import torch
from seeds import offset_seed

from regard.evaluate.translation import evaluate_translation
from regard.models.rnnsearch import RNNsearch
from regard.tasks.files import FilesSettings, FilesTask


def test_a_sentence_too_long_to_translate_counts_as_empty_and_the_others_go_on(tmp_path, caplog):
    texts = ["One two three .", "word " * 20_000, "Two three one ."]
    path = tmp_path / "a.en"
    path.write_text("\n".join(texts))
    names = ("source", "target", "valid_source", "valid_target")
    task = FilesTask.create(FilesSettings(**dict.fromkeys(names, str(path)), pieces="words"))
    torch.manual_seed(offset_seed(0))
    vocabularies = {"source_vocab": len(task.source), "target_vocab": len(task.target)}
    model = RNNsearch(RNNsearch.Config(**vocabularies, hidden=4, embedding=4))
    found = evaluate_translation(model.eval(), task)
    assert [len(translation.source_pieces) for translation in found.translations] == [4, 0, 4]
    assert found.lines()[1] == ""
    assert found.text.sentences == 3
    assert (
        "1 of 3 sentences of the test split have more than 400 pieces and count as not translated."
        in caplog.text
    )
