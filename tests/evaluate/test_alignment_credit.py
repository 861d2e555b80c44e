"""Whose a step's attention is: the word it writes, or the word it has read."""

import pytest
import torch

from regard.attention.compose import Attention
from regard.attention.scores.dot import DotScore
from regard.evaluate.translation import measure_alignment
from regard.models.base import Translating
from regard.tasks.reverse import ReverseSettings, ReverseTask


class Late(Translating):
    """At step t it looks at source position t - `late`."""

    def __init__(self, size, late):
        super().__init__()
        self.attention, self.aligner = Attention(DotScore(1.0)), "attention"
        self.size, self.late, self.scale = size, late, torch.nn.Parameter(torch.tensor(50.0))

    def start(self, batch):
        S = batch.source.shape[1]
        return self.attention.prepare(torch.eye(S).expand(batch.size, S, S)), 0

    def step(self, tokens, state):
        source, t = state
        at = min(max(t - self.late, 0), source.S - 1)
        self.attention(self.scale * torch.eye(source.S)[at].expand(len(tokens), 1, -1), source)
        return torch.zeros(len(tokens), self.size).log_softmax(-1), (source, t + 1)

    def select(self, state, rows):
        return state[0].select(rows), state[1]


@pytest.mark.parametrize(("late", "credit"), [(0, "written"), (1, "read")])
def test_the_alignment_is_credited_as_asked(late, credit):
    task = ReverseTask.create(ReverseSettings(backwards=False, test=8, train=1, valid=1))
    model = Late(len(task.target), late)
    rates = {
        way: measure_alignment(model, task, "test", credit=way).error_rate for way in ("written", "read")
    }
    assert rates.pop(credit) == 0
    assert min(rates.values()) > 0.8
    assert (measure_alignment(model, task, "test").error_rate == 0) == (credit == "written")
