"""`regard show` on a language model of tapes and on recall: what is printed, drawn and refused."""

import pytest
import torch
from pages import read

from regard.errors import DataError
from regard.layers.lstmn import LSTMNCell
from regard.models.lstm_lm import LSTMLanguageConfig, LSTMLanguageModel
from regard.models.lstmn import LSTMNClassifier, LSTMNClassifierConfig, LSTMNConfig, LSTMNLanguageModel
from regard.tasks.language import WordSettings
from regard.tasks.recall import RecallSettings, RecallTask
from regard.tasks.sentences import SentenceTask
from regard.train.config import RunConfig
from regard.train.run import Run
from regard.views.lookback import lookback, view, view_pairs


def run_of(model, task, folder, name):
    config = RunConfig(model=name, model_settings={}, task="", task_settings={})
    return Run(config, model.eval(), task, folder, 0)


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(["the black cat sees two white dogs ."] * 40), encoding="utf-8")
    return SentenceTask.create(WordSettings(text=str(path)))


@pytest.mark.parametrize("span", [None, 2], ids=["whole", "span2"])
def test_the_rows_of_a_look_back_stand_at_their_slots(span):
    from regard.attention.record import record

    cell = LSTMNCell(inputs=3, hidden=4, span=span)
    with record(cell) as trace:
        cell(torch.randn(1, 5, 3))
    weights = lookback(trace["attention"])
    assert weights.shape == (5, 6)
    torch.testing.assert_close(weights.sum(1), torch.ones(5))
    first = [0, 0, 1, 2, 3] if span else [0] * 5
    for t in range(5):
        seen = weights[t].nonzero().flatten().tolist()
        assert seen == list(range(first[t], t + 1))


@pytest.mark.parametrize("text", [None, "The cat sees dogs"], ids=["test-set", "own"])
def test_a_sentence_is_drawn_and_its_perplexity_printed(sentences, tmp_path, text):
    model = LSTMNLanguageModel(LSTMNConfig(**sentences.sizes(), embedding=4, hidden=5))
    line = view(run_of(model, sentences, tmp_path, "lstmn"), text, tmp_path / "a.png", beam=None)
    expected = "the black cat sees two white dogs ." if text is None else "the cat sees dogs"
    assert line.startswith(f"{expected}\nperplexity ")
    assert read(tmp_path / "a.png").shape[0] > 100


def test_a_page_is_written_too(sentences, tmp_path):
    model = LSTMNLanguageModel(LSTMNConfig(**sentences.sizes(), embedding=4, hidden=5))
    view(run_of(model, sentences, tmp_path, "lstmn"), "the cat", tmp_path / "a.html", beam=None)
    assert "the cat" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_a_model_without_attention_has_nothing_to_show(sentences, tmp_path):
    model = LSTMLanguageModel(LSTMLanguageConfig(**sentences.sizes(), embedding=4, hidden=5))
    with pytest.raises(DataError, match="model is 'lstm-lm', which has no attention; nothing can be shown"):
        view(run_of(model, sentences, tmp_path, "lstm-lm"), None, tmp_path / "a.png", beam=None)


def test_pairs_are_drawn_and_answered(tmp_path):
    task = RecallTask.create(RecallSettings())
    model = LSTMNClassifier(LSTMNClassifierConfig(**task.sizes(), embedding=4, hidden=5, pool="last"))
    run = run_of(model, task, tmp_path, "lstmn-classifier")
    line = view_pairs(run, "3=7 5=1 5", tmp_path / "a.png", beam=None)
    assert line.startswith("3=7 5=1; 5 = ")
    assert line.endswith(("(right)", "(it was 1)"))
    assert "; " in view_pairs(run, None, tmp_path / "b.svg", beam=None)
