"""The LSTMN looks back at the pair it is asked for; an LSTM of the same budget does not recall it.

Expected at 2 to 6 pairs: nearly all right, the right place looked at, and nearly all right at 9 pairs, which
were never trained; the LSTM 0.54 right, a span of one slot 0.55, cut-off attention 0.42.
"""

import pytest
import torch
from measures import at_least, at_most

from regard.attention.normalizers.mean import Mean
from regard.evaluate.recall import evaluate_recall
from regard.models.lstmn import LSTMNClassifier, LSTMNClassifierConfig
from regard.tasks.recall import RecallSettings, RecallTask
from regard.train.config import RunConfig, TrainConfig
from regard.train.loop import fit
from regard.train.progress import Quiet

pytestmark = pytest.mark.slow
STEPS = 200


def train(task, run, **choices):
    sizes = {"embedding": 32, "hidden": 64, "pool": "last"} | choices
    model = LSTMNClassifier(LSTMNClassifierConfig(**task.sizes(), **sizes))
    settings = TrainConfig(
        seed=torch.initial_seed(),
        steps=STEPS,
        batch=64,
        lr=1.2e-2,
        warmup=30,
        schedule="linear",
        evaluate_every=0,
        checkpoint_every=0,
    )
    config = RunConfig(
        model="lstmn-classifier", model_settings={}, task="key-value", task_settings={}, train=settings
    )
    fit(model, task, config, run=run, progress=Quiet())
    return model.eval()


@pytest.fixture(scope="module")
def task():
    return RecallTask.create(RecallSettings(keys=10, longest=6, asked=(2, 4, 6, 9), test=200, train=6400))


@pytest.fixture(scope="module")
def tapes(task, tmp_path_factory):
    return train(task, tmp_path_factory.mktemp("tapes") / "run")


def test_each_value_is_recalled_from_where_it_was_written(tapes, task):
    found = evaluate_recall(tapes, task)
    at_least(found.headline()[1], 0.95, "accuracy", mean=0.9994, sd=0.0026)
    at_least(
        min(score.found for score in found.scores), 0.9, "looked at the right place", mean=0.9980, sd=0.0089
    )


def test_more_pairs_than_were_trained_on_are_recalled(tapes, task):
    longer = evaluate_recall(tapes, task).scores[-1]
    assert longer.pairs == 9
    at_least(longer.right, 0.85, "accuracy", mean=0.9980, sd=0.0089)


def test_an_lstm_of_the_same_budget_does_not_recall(task, tmp_path):
    model = train(task, tmp_path / "run", cell="lstm", hidden=80)
    at_most(evaluate_recall(model, task).headline()[1], 0.75, "accuracy", mean=0.5387, sd=0.0447)


def test_a_span_of_one_slot_is_no_better(task, tmp_path):
    model = train(task, tmp_path / "run", span=1)
    at_most(evaluate_recall(model, task).headline()[1], 0.75, "accuracy", mean=0.5523, sd=0.0428)


def test_cutting_the_attention_off_breaks_it(tapes, task):
    attention = tapes.get_submodule(tapes.aligner)
    learnt, attention.normalizer = attention.normalizer, Mean()
    try:
        at_most(evaluate_recall(tapes, task).headline()[1], 0.55, "accuracy", mean=0.4195, sd=0.0148)
    finally:
        attention.normalizer = learnt
