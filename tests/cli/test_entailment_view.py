"""`regard show` on a pair of sentences: what is printed, drawn and refused."""

import pytest
import torch
from pages import read
from torch.testing import assert_close

from regard.attention.record import record
from regard.data.entailment import LABELS
from regard.errors import DataError
from regard.models.decomposable import BagOfWords, BagOfWordsConfig, Decomposable, DecomposableConfig
from regard.models.lstmn_pairs import LSTMNPairs, LSTMNPairsConfig
from regard.tasks.entailment import EntailmentSettings, EntailmentTask
from regard.train.config import RunConfig
from regard.train.run import Run
from regard.views.entailment import looks, view

TASK = EntailmentTask.create(EntailmentSettings(train=30, valid=3, test=3))


def run_of(model, folder, name):
    config = RunConfig(model=name, model_settings={}, task="entailment", task_settings={})
    return Run(config, model.eval(), TASK, folder, 0)


@pytest.fixture
def run(tmp_path):
    model = Decomposable(DecomposableConfig(**TASK.sizes(), embedding=4, hidden=5))
    return run_of(model, tmp_path, "decomposable")


def test_a_pair_is_labelled_and_drawn_both_ways(run, tmp_path):
    line = view(run, "w1 w2 w3 ||| w3 -w1", tmp_path / "a.png", beam=None)
    shares = [float(part.split()[1]) for part in line.split(", ")]
    assert [part.split()[0] for part in line.split(", ")] == ["entailment", "neutral", "contradiction"]
    assert sum(shares) == pytest.approx(1, abs=0.02)
    height, width, _ = read(tmp_path / "a.png").shape
    assert width > height > 100


def test_a_pair_of_the_test_set_comes_with_its_label(run, tmp_path):
    pair = TASK.pairs("test")[0]
    with torch.no_grad():
        said = int(run.model(TASK.tensors([pair])).argmax())
    line = view(run, None, tmp_path / "a.svg", beam=None)
    assert line.endswith(f"(it was {LABELS[pair.label]})") == (said != pair.label)
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "each premise word in the hypothesis" in text
    assert "each hypothesis word in the premise" in text


def test_a_page_has_both_directions(run, tmp_path):
    view(run, "w1 w2 ||| w2", tmp_path / "a.html", beam=None)
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "Each premise word in the hypothesis" in page
    assert "Each hypothesis word in the premise" in page


def test_an_lstmn_shows_what_the_hypothesis_looked_at(tmp_path):
    model = LSTMNPairs(LSTMNPairsConfig(**TASK.sizes(), embedding=4, hidden=5))
    line = view(run_of(model, tmp_path, "lstmn-pairs"), "w1 w2 w3 ||| w3", tmp_path / "a.html", beam=None)
    assert line.startswith("entailment ")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "Each hypothesis word in the premise" in page
    assert "Each premise word in the hypothesis" not in page


def test_the_looks_of_each_pair_are_its_own_in_a_batch():
    model = LSTMNPairs(LSTMNPairsConfig(**TASK.sizes(), embedding=4, hidden=5)).eval()
    texts = ["w1 w2 w3 ||| w3", "w4 ||| w1 w2 w5 w6"]

    def back(*texts):
        pairs = [TASK.read(text) for text in texts]
        with torch.no_grad(), record(model) as trace:
            model(TASK.tensors(pairs))
        weights = [result.weights for result in trace[model.aligner]]
        sizes = [(len(pair.premise) + 1, len(pair.hypothesis) + 1) for pair in pairs]
        return [looks(model, weights, number, A, B)[1] for number, (A, B) in enumerate(sizes)]

    together = back(*texts)
    assert [tuple(each.shape) for each in together] == [(2, 4), (5, 2)]
    for each, alone in zip(together, [*back(texts[0]), *back(texts[1])], strict=True):
        assert_close(each, alone)
        assert_close(each.sum(-1), torch.ones(len(each)))


def test_a_bag_of_words_has_nothing_to_show(tmp_path):
    run = run_of(
        BagOfWords(BagOfWordsConfig(**TASK.sizes(), embedding=4, hidden=5)), tmp_path, "bag-of-words"
    )
    with pytest.raises(
        DataError, match="model is 'bag-of-words', which has no attention; nothing can be shown"
    ):
        view(run, None, tmp_path / "a.png", beam=None)
