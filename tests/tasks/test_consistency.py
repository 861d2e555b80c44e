"""Two passes under different dropout that are made to agree."""

import math

import pytest
import torch
from seeds import offset_seed
from torch import nn

from regard.data.batches import PairBatch
from regard.errors import ConfigError
from regard.tasks.files import FilesSettings
from regard.tasks.reverse import ReverseSettings, ReverseTask
from regard.tasks.translation import consistent, cross_entropy

BATCH = PairBatch(
    torch.tensor([[5, 6, 7], [5, 6, 0]]),
    torch.tensor([3, 2]),
    torch.tensor([[1, 3, 2], [4, 2, 0]]),
    torch.tensor([3, 2]),
)


class Told(nn.Module):
    """A model whose scores for the doubled batch are given."""

    def __init__(self, scores):
        super().__init__()
        self.scores = nn.Parameter(scores)

    def forward(self, batch):
        assert batch.size == self.scores.shape[0]
        return self.scores


def by_hand(scores, weight):
    """The paper's loss with plain loops, halved."""
    p = torch.softmax(scores.double(), -1).tolist()
    total = 0.0
    for b in range(2):
        for t in range(int(BATCH.target_lengths[b])):
            one, two, word = p[b][t], p[b + 2][t], int(BATCH.target[b, t])
            nll = -math.log(one[word]) - math.log(two[word])
            forth = sum(x * math.log(x / y) for x, y in zip(one, two, strict=True))
            back = sum(y * math.log(y / x) for x, y in zip(one, two, strict=True))
            total += (nll + weight * (forth + back) / 2) / 2
    return total


def test_the_loss_is_half_of_the_papers_sum():
    scores = torch.randn(4, 3, 6, generator=torch.Generator().manual_seed(offset_seed(1)))
    loss = consistent(Told(scores), BATCH, smoothing=0.0, weight=5.0)
    assert loss.total.item() == pytest.approx(by_hand(scores, 5.0), rel=1e-5)
    assert loss.count.item() == 5


def test_two_passes_that_agree_cost_what_one_costs():
    scores = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(offset_seed(2)))
    loss = consistent(Told(scores.repeat(2, 1, 1)), BATCH, smoothing=0.1, weight=5.0)
    assert loss.total.item() == pytest.approx(cross_entropy(scores, BATCH, smoothing=0.1).total.item())


def test_padding_counts_nothing_in_the_agreement():
    scores = torch.randn(4, 3, 6, generator=torch.Generator().manual_seed(offset_seed(3)))
    model = Told(scores)
    consistent(model, BATCH, smoothing=0.0, weight=5.0).total.backward()
    assert model.scores.grad[1, 2].abs().max() == 0 == model.scores.grad[3, 2].abs().max()
    assert model.scores.grad[1, 1].abs().max() > 0


def test_agreement_is_asked_for_in_training_alone():
    task = ReverseTask.create(ReverseSettings(train=4, valid=4, test=4))
    task.r_drop = 5.0
    scores = torch.randn(2, 3, 6)
    assert task.loss(Told(scores).eval(), BATCH).total == cross_entropy(scores, BATCH).total
    assert task.loss(Told(torch.randn(4, 3, 6)).train(), BATCH).total > 0


def test_a_negative_weight_is_refused():
    with pytest.raises(ConfigError, match=r"^task: `r_drop` has -1; expected 0 or more\.$"):
        FilesSettings(r_drop=-1)
