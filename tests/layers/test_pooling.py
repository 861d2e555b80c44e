"""Pooling by attention and by the mean: against loops, with padding, and what it says when it is wrong."""

import math

import pytest
import torch
from seeds import offset_seed

from regard.attention.mask import Mask
from regard.errors import ShapeError
from regard.layers.pooling import AttentionPooling, AveragePooling, build_pooling


def test_attention_pooling_is_the_paper_s_sum():
    torch.manual_seed(offset_seed(0))
    pool = AttentionPooling(inputs=3, hidden=4).double()
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    U, b, v = pool.attention.score.U.weight, pool.attention.score.U.bias, pool.attention.score.v.weight[0]
    U, b, v, found = (tensor.detach() for tensor in (U, b, v, pool(x)))
    for row in range(2):
        scores = []
        for s in range(5):
            hidden = [math.tanh(float(U[i] @ x[row, s] + b[i])) for i in range(4)]
            scores.append(sum(float(v[i]) * hidden[i] for i in range(4)))
        total = sum(math.exp(score) for score in scores)
        wanted = sum(math.exp(scores[s]) / total * x[row, s] for s in range(5))
        torch.testing.assert_close(found[row], wanted)


@pytest.mark.parametrize("name", ["attention", "average"])
def test_padding_changes_nothing(name):
    torch.manual_seed(offset_seed(0))
    pool = build_pooling(name, inputs=3, hidden=4).double()
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    padded = torch.cat([x, 1e3 * torch.ones(2, 4, 3, dtype=torch.float64)], 1)
    torch.testing.assert_close(pool(padded, Mask(lengths=torch.tensor([5, 5]))), pool(x))


def test_average_pooling_is_the_mean_and_learns_nothing():
    pool = AveragePooling(inputs=3)
    x = torch.randn(2, 5, 3)
    torch.testing.assert_close(pool(x), x.mean(1))
    torch.testing.assert_close(pool(x, Mask(lengths=torch.tensor([5, 2])))[1], x[1, :2].mean(0))
    assert not list(pool.parameters())


def test_the_weight_of_one_position_can_be_all():
    pool = AttentionPooling(inputs=2, hidden=1)
    with torch.no_grad():
        pool.attention.score.U.weight.copy_(torch.tensor([[5.0, 0.0]]))
        pool.attention.score.U.bias.zero_()
        pool.attention.score.v.weight.fill_(50.0)
    x = torch.tensor([[[-1.0, 3.0], [1.0, 7.0], [-1.0, 9.0]]])
    torch.testing.assert_close(pool(x), torch.tensor([[1.0, 7.0]]))


def test_what_has_no_positions_is_refused():
    with pytest.raises(ShapeError, match=r"^AveragePooling: `x` has shape \(2, 3\); expected"):
        AveragePooling(inputs=3)(torch.zeros(2, 3))
