"""Cost in bits, wrong bits and whole sequences, length by length."""

import math

import pytest
import torch
from torch import nn

from regard.evaluate.base import evaluate
from regard.tasks.ntm import CopySettings, CopyTask, NGramSettings, NGramTask


class Biased(nn.Module):
    """Says that every bit is 1, with probability 3/4."""

    def __init__(self):
        super().__init__()
        self.logit = nn.Parameter(torch.tensor(math.log(3.0)))

    def forward(self, batch):
        return self.logit.expand_as(batch.targets)


@pytest.fixture(scope="module")
def task():
    return CopyTask(CopySettings(bits=3, tested=(5, 2), test=70))


@pytest.fixture(scope="module")
def found(task):
    return evaluate(Biased(), task)


def test_costs_and_wrong_bits_are_those_of_a_plain_count(task, found):
    for i, score in enumerate(found.shapes):
        [L] = score.shape
        ones, zeros, whole = 0, 0, 0
        for number in range(70):
            bits = task.batch("test", [2 * number + i]).targets[0, -L:].flatten().tolist()
            ones += sum(bits)
            zeros += len(bits) - sum(bits)
            whole += all(bits)
        assert score.sequences == 70
        assert score.bits == 3 * L
        assert score.cost == pytest.approx((ones * math.log2(4 / 3) + zeros * 2) / 70, rel=1e-5)
        assert score.wrong == pytest.approx(zeros / (70 * 3 * L))
        assert score.whole == pytest.approx(whole / 70)
        assert score.optimum == 0


def test_the_first_tested_shape_is_the_headline_and_the_table_is_in_order(found):
    assert [score.shape for score in found.shapes] == [(5,), (2,)]
    assert found.headline() == ("bits per sequence at length 5", found.shapes[0].cost)
    assert found.measures()[0][0] == found.headline()[0]
    [table] = found.tables()
    assert table.columns[:2] == ("length", "sequences")
    assert [row[0] for row in table.rows] == ["2", "5"]
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_the_summary_is_plain_json(found):
    import json

    again = json.loads(json.dumps(found.summary()))
    assert again["shapes"][1]["shape"] == [2]
    assert again["value"] == found.shapes[0].cost


def test_the_optimum_stands_beside_the_cost_where_there_is_one():
    task = NGramTask(NGramSettings(length=40, tested=(40,), test=20))
    found = evaluate(Biased(), task)
    [score] = found.shapes
    assert 5 < score.optimum < 40
    assert score.optimum < score.cost
    assert ("the best possible", f"{score.optimum:.3f}") in found.measures()


def test_validation_covers_the_trained_shapes_and_progress_counts_sequences():
    task = CopyTask(CopySettings(bits=3, shortest=2, longest=4, valid=9))
    counted = []
    found = evaluate(Biased(), task, "valid", progress=counted.append)
    assert [score.shape for score in found.shapes] == [(2,), (3,), (4,)]
    assert sum(counted) == 9
