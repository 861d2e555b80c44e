"""Attend, compare, aggregate tells antonyms and new words from words of the premise; a mean of the other
sentence in place of the aligned word does not.

Expected accuracy on new pairs: above 0.95 with attention; with the mean in its place 0.5 if it is put there
after training, 0.73 if before.
"""

import pytest
import torch
from measures import at_least, at_most

from regard.attention.config import AttentionConfig
from regard.attention.normalizers.mean import Mean
from regard.evaluate.classification import evaluate_classification
from regard.models.decomposable import Decomposable, DecomposableConfig
from regard.tasks.entailment import EntailmentSettings, EntailmentTask
from regard.train.config import RunConfig, TrainConfig
from regard.train.loop import fit
from regard.train.progress import Quiet

pytestmark = pytest.mark.slow
STEPS = 500


def train(task, run, **choices):
    model = Decomposable(DecomposableConfig(**task.sizes(), embedding=32, hidden=48, dropout=0.0, **choices))
    settings = TrainConfig(
        seed=torch.initial_seed(),
        steps=STEPS,
        batch=100,
        lr=4e-3,
        schedule="linear",
        evaluate_every=0,
        checkpoint_every=0,
    )
    config = RunConfig(
        model="decomposable", model_settings={}, task="entailment", task_settings={}, train=settings
    )
    fit(model, task, config, run=run, progress=Quiet())
    return model.eval()


@pytest.fixture(scope="module")
def task():
    return EntailmentTask.create(EntailmentSettings(train=30_000, valid=300, test=900))


@pytest.fixture(scope="module")
def attentive(task, tmp_path_factory):
    return train(task, tmp_path_factory.mktemp("attentive") / "run")


def test_new_pairs_are_labelled_rightly(attentive, task):
    at_least(evaluate_classification(attentive, task).accuracy, 0.95, "accuracy", mean=0.9997, sd=0.0009)


def test_cutting_the_attention_off_breaks_it(attentive, task):
    learnt, attentive.attend.normalizer = attentive.attend.normalizer, Mean()
    try:
        at_most(evaluate_classification(attentive, task).accuracy, 0.75, "accuracy", mean=0.5034, sd=0.0598)
    finally:
        attentive.attend.normalizer = learnt


def test_a_model_that_learns_with_the_mean_stays_behind(task, tmp_path):
    model = train(task, tmp_path / "run", attention=AttentionConfig("dot", normalizer="mean"))
    at_most(evaluate_classification(model, task).accuracy, 0.85, "accuracy", mean=0.7298, sd=0.0155)
