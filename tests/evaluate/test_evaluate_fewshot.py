"""Accuracy by shots with its interval, the nearest drawing by pixels, and the weight on the query's class."""

import math

import pytest
import torch

from regard.data.episodes import EpisodeBatch
from regard.evaluate.base import evaluate
from regard.evaluate.fewshot import FewShotEvaluation, ShotsScore, nearest, weight_on_class
from regard.models.snail import SNAIL, SNAILConfig
from regard.tasks.fewshot import FewShotSettings, FewShotTask

SMALL = {"embedding": 8, "channels": 4, "keys": (8, 8, 8), "values": (4, 4, 4), "filters": 4}


@pytest.fixture(scope="module")
def task():
    return FewShotTask.create(FewShotSettings(tested=(3, 1), test=150))


class Oracle(torch.nn.Module):
    """Knows the answer of three episodes in four."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, batch):
        scores = torch.nn.functional.one_hot(batch.answers, 5).float()
        scores[::4] = scores[::4].roll(1, -1)
        return scores


def test_accuracy_and_interval_are_those_of_the_episodes(task):
    found = evaluate(Oracle(), task, "test")
    assert [score.shots for score in found.scores] == [3, 1]
    assert [score.episodes for score in found.scores] == [150, 150]
    right = (75 + 37) / 150  # batches of 100 and 50: of the second, 13 are wrong
    assert found.headline() == ("accuracy", pytest.approx(right))
    assert found.scores[0].interval == pytest.approx(1.96 * math.sqrt(right * (1 - right) / 150))
    assert found.scores[0].looked == {}


def test_an_untrained_model_is_near_chance_and_looks_everywhere(task):
    found = evaluate(SNAIL(SNAILConfig(**task.sizes(), **SMALL)), task, "test")
    for score in found.scores:
        assert 0.08 < score.right < 0.35
        assert list(score.looked) == ["blocks.0.attention", "blocks.2.attention", "blocks.4.attention"]
        chance = score.shots / (5 * score.shots + 1)
        assert all(abs(weight - chance) < 0.05 for weight in score.looked.values())
    assert found.summary()["by_shots"][1]["shots"] == 1


def test_what_is_shown_names_ways_and_shots():
    score = ShotsScore(1, 2000, 0.95, 0.5, {"a": 0.25, "b": 0.5})
    found = FewShotEvaluation("test", 5, (score,))
    assert found.measures() == [
        ("accuracy, 5-way 1-shot", "95.00 %"),
        ("95 % interval, 5-way 1-shot, plus and minus", "0.96 %"),
    ]
    assert found.tables()[0].rows == [("1", "2000", "0.9500", "0.0096", "0.5000", "0.25, 0.50")]


def test_the_nearest_drawing_is_the_one_that_differs_least():
    support = torch.zeros(1, 3, 28, 28, dtype=torch.uint8)
    support[0, 1, :14], support[0, 2, 14:] = 255, 255
    query = torch.zeros(1, 2, 28, 28, dtype=torch.uint8)
    query[0, :, :13] = 200
    batch = EpisodeBatch(support, torch.tensor([[2, 0, 1]]), query, torch.tensor([[0, 1]]))
    assert int(nearest(batch)) == 1


def test_the_weight_on_the_class_leaves_the_query_itself_out():
    batch = EpisodeBatch(torch.zeros(1), torch.tensor([[0, 1, 0]]), torch.zeros(1), torch.tensor([[0]]))
    weights = torch.tensor([[[0.1, 0.2, 0.3, 0.4]]])
    assert float(weight_on_class(weights, batch)) == pytest.approx(0.4)
