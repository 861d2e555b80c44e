"""A memory network learns where people are and, by two hops, where things are; without attention it cannot.

Expected: one fact always right, and less than half with every sentence weighing the same; two facts always
right with three hops, and 0.44 with one, which cannot find who took the thing and then where that person
went.
"""

import pytest
import torch
from measures import at_least, at_most

from regard.attention.config import AttentionConfig
from regard.attention.normalizers.mean import Mean
from regard.attention.record import record
from regard.evaluate.questions import evaluate_questions
from regard.models.memn2n import MemN2N, MemN2NConfig
from regard.tasks.stories import StoriesSettings, StoriesTask
from regard.train.config import RunConfig, TrainConfig
from regard.train.loop import fit
from regard.train.progress import Quiet

pytestmark = pytest.mark.slow


def train(task, run, steps, **settings):
    model = MemN2N(MemN2NConfig(**task.sizes(), embedding=40, linear_start=0.3, gain=2.0, **settings))
    how = TrainConfig(
        seed=torch.initial_seed(),
        steps=steps,
        batch=32,
        lr=0.01,
        clip=5.0,
        schedule="linear",
        evaluate_every=0,
        checkpoint_every=0,
    )
    config = RunConfig(model="memn2n", model_settings={}, task="stories", task_settings={}, train=how)
    fit(model, task, config, run=run, progress=Quiet())
    return model.eval()


def accuracy(model, task, split="test"):
    return 1 - evaluate_questions(model, task, split).mean_error / 100


def best_of_three(task, run, **settings):
    """Now and then a training is stuck at its start: the paper, too, repeats it and keeps the best."""
    tries = []
    for number in range(3):
        model = train(task, run / str(number), 500, **settings)
        tries.append((accuracy(model, task, "valid"), number, model))
        if tries[-1][0] > 0.95:
            break
    return max(tries)[2]


def questions(facts):
    return StoriesTask.create(StoriesSettings(facts=facts, train=5000, valid=64, test=500))


@pytest.fixture(scope="module")
def one():
    return questions(1)


@pytest.fixture(scope="module")
def two():
    return questions(2)


@pytest.fixture(scope="module")
def model_of_one(one, tmp_path_factory):
    return train(one, tmp_path_factory.mktemp("one") / "run", 400, hops=1)


def test_one_fact_is_found_in_one_hop(model_of_one, one):
    at_least(accuracy(model_of_one, one), 0.95, "accuracy", mean=0.9999, sd=0.0004)


def test_the_hop_attends_to_the_fact(model_of_one, one):
    with record(model_of_one) as trace, torch.no_grad():
        model_of_one(one.batch("test", range(200)))
    best = trace["hops.0"][0].weights[:, 0].argmax(-1).tolist()
    facts = [question.supports[0] for question in one.questions("test")[:200]]
    at_least(
        sum(a == b for a, b in zip(best, facts, strict=True)) / 200,
        0.9,
        "looked at the fact",
        mean=1.0000,
        sd=0.0000,
    )


def test_cutting_the_attention_off_breaks_it(model_of_one, one):
    learnt, model_of_one.hops[0].normalizer = model_of_one.hops[0].normalizer, Mean()
    try:
        at_most(accuracy(model_of_one, one), 0.6, "accuracy", mean=0.4197, sd=0.0222)
    finally:
        model_of_one.hops[0].normalizer = learnt


def test_trained_without_attention_the_same_budget_fails(one, tmp_path):
    model = train(one, tmp_path / "run", 400, hops=1, attention=AttentionConfig("dot", normalizer="mean"))
    at_most(accuracy(model, one), 0.6, "accuracy", mean=0.4057, sd=0.0393)


def test_two_facts_need_more_than_one_hop(two, tmp_path):
    at_least(
        accuracy(best_of_three(two, tmp_path / "three", hops=3), two),
        0.9,
        "three hops",
        mean=1.0000,
        sd=0.0000,
    )
    at_most(
        accuracy(best_of_three(two, tmp_path / "one", hops=1), two), 0.6, "one hop", mean=0.4318, sd=0.0126
    )
