"""A hypothesis of one word follows from a premise that has it: deep fusion looks it up.

Expected accuracy: 0.99, and 0.57 when the look at the premise is cut off, where guessing gives one half.
"""

from random import Random

import pytest
import torch
from measures import at_least, at_most

from regard.attention.normalizers.mean import Mean
from regard.evaluate.classification import evaluate_classification
from regard.models.lstmn_pairs import LSTMNPairs, LSTMNPairsConfig
from regard.tasks.entailment import EntailmentSettings, EntailmentTask
from regard.train.config import RunConfig, TrainConfig
from regard.train.loop import fit
from regard.train.progress import Quiet

pytestmark = pytest.mark.slow
STEPS = 600
WORDS, LONG = 8, 3


def rows(split, count):
    """Premises of three different words; the hypothesis is one of them, or a fourth."""
    pairs = []
    for number in range(count):
        words = [f"w{word}" for word in Random(f"{split} {number}").sample(range(WORDS), LONG + 1)]
        follows = number % 2
        hypothesis = words[number // 2 % LONG] if follows else words[LONG]
        label = "entailment" if follows else "neutral"
        pairs.append({"premise": " ".join(words[:LONG]), "hypothesis": hypothesis, "label": label})
    return pairs


@pytest.fixture(scope="module")
def task():
    counts = {"train": 8_000, "validation": 100, "test": 600}
    return EntailmentTask.from_dataset(
        {split: rows(split, count) for split, count in counts.items()}, EntailmentSettings(corpus="dataset")
    )


@pytest.fixture(scope="module")
def model(task, tmp_path_factory):
    model = LSTMNPairs(LSTMNPairsConfig(**task.sizes(), embedding=32, hidden=32, dropout=0.0))
    settings = TrainConfig(
        seed=torch.initial_seed(),
        steps=STEPS,
        batch=64,
        lr=1e-2,
        warmup=30,
        clip=5.0,
        schedule="linear",
        evaluate_every=0,
        checkpoint_every=0,
    )
    config = RunConfig(
        model="lstmn-pairs", model_settings={}, task="entailment", task_settings={}, train=settings
    )
    fit(model, task, config, run=tmp_path_factory.mktemp("fusion") / "run", progress=Quiet())
    return model.eval()


def test_the_word_is_found_in_new_premises(model, task):
    at_least(evaluate_classification(model, task).accuracy, 0.8, "accuracy", mean=0.9928, sd=0.0176)


def test_cutting_the_look_at_the_premise_off_breaks_it(model, task):
    attention = model.hypothesis.attention
    learnt, attention.normalizer = attention.normalizer, Mean()
    try:
        at_most(evaluate_classification(model, task).accuracy, 0.75, "accuracy", mean=0.5653, sd=0.0504)
    finally:
        attention.normalizer = learnt
