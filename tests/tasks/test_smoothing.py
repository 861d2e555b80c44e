"""Label smoothing: in training alone, over the whole vocabulary, and never below what is reachable."""

import math

import pytest
import torch
from torch import nn

from regard.data.batches import pair_batch
from regard.errors import ConfigError
from regard.tasks.corpus import CorpusSettings
from regard.tasks.files import FilesSettings
from regard.tasks.grammar import GrammarSettings
from regard.tasks.reverse import ReverseSettings, ReverseTask
from regard.tasks.translation import cross_entropy


def smoothed_by_hand(scores, word, smoothing):
    """Σ_v q(v) · -log p(v), with q = (1 - ε) on the word and ε / V everywhere."""
    V = len(scores)
    log_z = math.log(sum(math.exp(x) for x in scores))
    q = [smoothing / V + (1 - smoothing if v == word else 0) for v in range(V)]
    return sum(weight * (log_z - x) for weight, x in zip(q, scores, strict=True))


def test_the_smoothed_loss_is_the_sum_over_the_vocabulary():
    batch = pair_batch([[3], [4]], [[4, 3], []])  # targets 4 3 eos, and eos alone
    scores = torch.randn(2, 3, 7, dtype=torch.double).float()
    targets = [(0, 0, 4), (0, 1, 3), (0, 2, 2), (1, 0, 2)]
    expected = sum(smoothed_by_hand(scores[b, t].tolist(), word, 0.1) for b, t, word in targets)
    found = cross_entropy(scores, batch, smoothing=0.1)
    assert float(found.total) == pytest.approx(expected, rel=1e-5)
    assert int(found.count) == 4


@pytest.mark.parametrize(("V", "lowest"), [(10, 0.500), (32, 0.651), (1000, 1.015), (37000, 1.377)])
def test_the_lowest_reachable_loss_is_the_papers(V, lowest):
    batch = pair_batch([[]], [[]])
    best = torch.full((1, 1, V), math.log(0.1 / V))
    best[0, 0, int(batch.target[0, 0])] = math.log(0.9 + 0.1 / V)
    found = cross_entropy(best, batch, smoothing=0.1)
    assert float(found.total) == pytest.approx(lowest, abs=5e-4)
    worse = [cross_entropy(best + 0.3 * torch.randn_like(best), batch, smoothing=0.1) for _ in range(20)]
    assert min(float(each.total) for each in worse) > float(found.total)


class Scores(nn.Module):
    def __init__(self, V):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(V))

    def forward(self, batch):
        return self.bias.expand(*batch.target.shape, -1)


def test_smoothing_is_for_training_alone():
    task = ReverseTask.create(ReverseSettings(train=4, valid=4, test=4, smoothing=0.2))
    model, batch = Scores(task.sizes()["target_vocab"]), task.batch("valid", [0, 1])
    plain = cross_entropy(model(batch), batch).total
    assert torch.equal(task.loss(model.eval(), batch).total, plain)
    assert not torch.isclose(task.loss(model.train(), batch).total, plain)


@pytest.mark.parametrize("settings", [FilesSettings, CorpusSettings, GrammarSettings, ReverseSettings])
def test_smoothing_is_off_unless_asked_for(settings):
    assert settings().smoothing == 0.0


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_impossible_smoothing_is_told(smoothing):
    with pytest.raises(ConfigError, match=f"task: `smoothing` has {smoothing}; expected 0 or more"):
        ReverseTask.create(ReverseSettings(smoothing=smoothing))
