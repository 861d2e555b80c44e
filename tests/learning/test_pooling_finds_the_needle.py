"""One position of forty decides: attention pooling finds it, the mean of all does not.

Each position's vector is the sum of its symbol's and its mark's, and behind the pooling stands one linear
layer. Expected on new sequences: above 0.95 with attention, below 0.4 with the mean, and below 0.4 for the
trained attention when its weights are made equal. By chance 1 in 12 is right.
"""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from measures import at_least, at_most
from torch import nn

from regard.attention.normalizers.mean import Mean
from regard.layers.pooling import build_pooling

pytestmark = pytest.mark.slow
SYMBOLS, SIZE, POSITIONS, STEPS = 12, 32, 40, 250


def marked(B, generator):
    symbols = torch.randint(SYMBOLS, (B, POSITIONS), generator=generator)
    place = torch.randint(POSITIONS, (B, 1), generator=generator)
    return symbols, (torch.arange(POSITIONS) == place).long(), symbols.gather(1, place)[:, 0]


class Reader(nn.Module):
    def __init__(self, pooling):
        super().__init__()
        self.symbols, self.marks = nn.Embedding(SYMBOLS, SIZE), nn.Embedding(2, SIZE)
        self.pool = build_pooling(pooling, inputs=SIZE, hidden=SIZE)
        self.W = nn.Linear(SIZE, SYMBOLS)

    def forward(self, symbols, marks):
        return self.W(self.pool(self.symbols(symbols) + self.marks(marks)))


def train(pooling):
    model, generator = Reader(pooling), torch.Generator().manual_seed(torch.initial_seed())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        symbols, marks, answers = marked(64, generator)
        optimizer.zero_grad()
        F.cross_entropy(model(symbols, marks), answers).backward()
        optimizer.step()
    return model


def accuracy(model):
    symbols, marks, answers = marked(1000, torch.Generator().manual_seed(1))
    with torch.no_grad():
        return float((model(symbols, marks).argmax(-1) == answers).float().mean())


@pytest.fixture(scope="module")
def attentive():
    return train("attention")


def test_attention_pooling_finds_the_marked_position(attentive):
    at_least(accuracy(attentive), 0.95, "accuracy", mean=1.0000, sd=0.0000)


def test_with_attention_cut_off_it_does_not(attentive):
    cut = deepcopy(attentive)
    cut.pool.attention.normalizer = Mean()
    at_most(accuracy(cut), 0.4, "accuracy", mean=0.0846, sd=0.0114)


def test_the_mean_of_all_positions_does_not_tell_which_is_marked():
    at_most(accuracy(train("average")), 0.4, "accuracy", mean=0.1540, sd=0.0095)
