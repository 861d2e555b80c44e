"""The measures on figures whose values are known, and a model that knows or does not know the answers."""

import json
import math

import pytest
import torch

from regard.data.points import positions
from regard.evaluate.base import evaluate
from regard.evaluate.pointing import (
    COLUMNS,
    MEASURES,
    PAPER,
    PointingEvaluation,
    evaluate_pointing,
    measure_delaunay,
    measure_hull,
    measure_sort,
    measure_tour,
)
from regard.models.base import Translating
from regard.models.pointer import PointerConfig, PointerNetwork, numbered
from regard.tasks.pointing import DelaunayTask, HullTask, PointingSettings, SortTask, TourTask

SQUARE = torch.tensor([[0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0.25]])
KINDS = {"hull": HullTask, "delaunay": DelaunayTask, "tsp": TourTask, "sort": SortTask}


def test_hulls_are_compared_as_polygons():
    assert measure_hull(SQUARE, [0, 1, 2, 3], [2, 1, 0, 3]) == {"accuracy": 1.0, "area": 1.0, "invalid": 0.0}
    triangle = measure_hull(SQUARE, [0, 1, 2, 3], [0, 1, 2])
    assert triangle == {"accuracy": 0.0, "area": 0.5, "invalid": 0.0}
    crossed = measure_hull(SQUARE, [0, 1, 2, 3], [0, 2, 1, 3])
    assert crossed == {"accuracy": 0.0, "area": None, "invalid": 1.0}
    assert measure_hull(SQUARE, [0, 1, 2, 3], [0, 1])["invalid"] == 1.0
    assert measure_hull(SQUARE, [0, 1, 2, 3], [0, 1, 5]) == {"accuracy": 0.0, "area": None, "invalid": 1.0}
    line = torch.tensor([[0, 0], [0.5, 0.5], [1, 1]])
    assert measure_hull(line, [0, 2], [0, 2]) == {"accuracy": 1.0, "area": None, "invalid": None}


def test_triangles_are_compared_as_sets():
    right = [0, 1, 4, 1, 2, 4, 2, 3, 4]
    assert measure_delaunay(SQUARE, right, [4, 3, 2, 4, 1, 0, 2, 1, 4]) == {"accuracy": 1.0, "coverage": 1.0}
    found = measure_delaunay(SQUARE, right, [0, 1, 4, 0, 1, 2])
    assert found == {"accuracy": 0.0, "coverage": pytest.approx(1 / 3)}
    assert measure_delaunay(SQUARE, right, [*right, 0])["accuracy"] == 0.0
    assert measure_delaunay(SQUARE, right, [*right, 0, 1, 4])["accuracy"] == 0.0, "one comes twice"
    assert measure_delaunay(SQUARE, [], [])["coverage"] is None


def test_tours_count_if_they_visit_every_point():
    right = [0, 1, 2, 3]
    found = measure_tour(SQUARE[:4], right, [0, 2, 1, 3])
    assert found["length"] == pytest.approx(2 + 2 * 2**0.5)
    assert found["solver"] == 4
    assert measure_tour(SQUARE[:4], right, [0, 1, 2])["length"] is None
    assert measure_tour(SQUARE[:4], right, [0, 1, 2, 2])["invalid"] == 1.0
    assert measure_tour(SQUARE[:1], [0], [0]) == {"length": 0, "solver": 0, "invalid": 0, "accuracy": 1}


def test_orders_are_compared_place_by_place():
    assert measure_sort(SQUARE, [0, 1, 2, 3], [0, 1, 3, 2]) == {"accuracy": 0.0, "places": 0.5}


class Knowing(Translating):
    """Says the target of its batch, whatever the points are."""

    def __init__(self, wrong=0.0):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))

    def start(self, batch):
        return positions(batch.target), 0, batch.source.shape[1]

    def step(self, tokens, state):
        target, t, S = state
        each = torch.full((len(target), S), -50.0)
        column = target[:, min(t, target.shape[1] - 1)]
        each[torch.arange(len(target)), column] = -0.01
        return numbered(each), (target, t + 1, S)

    def select(self, state, rows):
        return state[0][rows], *state[1:]


@pytest.mark.parametrize("beam", [1, 2])
@pytest.mark.parametrize("question", KINDS)
def test_a_model_that_knows_is_always_right(question, beam):
    from regard.decode.base import Decoding

    task = KINDS[question].create(
        PointingSettings(shortest=5, longest=6, train=10, valid=6, test=4, tests=(5, 7))
    )
    told = []
    found = evaluate_pointing(Knowing(), task, decoding=Decoding(beam=beam), progress=told.append)
    assert sum(told) == 8
    assert list(found.by_size) == [5, 7]
    for values in found.by_size.values():
        assert values["accuracy"] == 1.0
        assert values.get("area", 1.0) == pytest.approx(1.0)
        assert values.get("coverage", 1.0) == 1.0
        assert values.get("above", 0.0) == pytest.approx(0.0, abs=1e-9)
    assert found.lines()[0] == " ".join(map(str, task.answer(task.solved("test", [0])[0][0][:5])))


def test_an_untrained_model_is_measured_and_shown_beside_the_paper():
    task = HullTask.create(PointingSettings(shortest=5, longest=6, train=10, valid=6, test=20, tests=(5, 9)))
    found = evaluate(PointerNetwork(PointerConfig(dimension=2, hidden=8)), task)
    name, value = found.headline()
    assert name == "accuracy at n = 5"
    assert value < 0.5
    [table] = found.tables()
    assert table.columns == ("n", "accuracy", "area", "invalid", "accuracy, paper", "area, paper")
    assert [row[0] for row in table.rows] == ["5", "9"]
    assert table.rows[0][-2] == "92.00 %"
    assert table.rows[1][-2] == ""
    assert found.summary()["by_size"]["9"]["sets"] == 20
    assert found.measures()[0] == (name, f"{100 * value:.2f} %")
    assert "paper" in found.note()


def test_a_column_stays_where_no_set_counts():
    values = {5: {"accuracy": 0.0, "invalid": 1.0}, 9: {"accuracy": 0.5, "area": 0.25, "invalid": 0.5}}
    found = PointingEvaluation("test", "hull", 1, values, {5: 4, 9: 4}, [])
    [table] = found.tables()
    assert table.columns == ("n", "accuracy", "area", "invalid", "accuracy, paper", "area, paper")
    assert table.rows[0] == ("5", "0.00 %", "", "100.00 %", "92.00 %", "99.60 %")
    assert table.rows[1] == ("9", "50.00 %", "25.00 %", "50.00 %", "", "")


class Stuck(Knowing):
    """Says the same point again and again."""

    def step(self, tokens, state):
        target, t, S = state
        each = torch.full((len(target), S), -50.0)
        each[:, 0] = -0.01
        return numbered(each), (target, t + 1, S)


def test_where_no_tour_visits_every_point_the_headline_is_no_number(monkeypatch):
    monkeypatch.setattr(TourTask, "rule", "free")
    task = TourTask.create(PointingSettings(shortest=4, longest=4, train=10, valid=6, test=3, tests=(4,)))
    found = evaluate(Stuck(), task)
    assert found.by_size[4]["invalid"] == 1.0
    name, value = found.headline()
    assert name == "above at n = 4"
    assert math.isnan(value)
    assert found.measures() == [(name, "no tour counts"), ("sets", "3")]
    assert [row[1] for row in found.tables()[0].rows] == [""]
    assert json.loads(json.dumps(found.summary()))["by_size"]["4"]["sets"] == 3


def test_a_tour_beyond_twelve_points_says_what_it_is_compared_with():
    task = TourTask.create(PointingSettings(shortest=3, longest=4, train=10, valid=6, test=3, tests=(4, 14)))
    found = evaluate(PointerNetwork(PointerConfig(dimension=2, hidden=8)), task)
    assert found.note() == "solver: shortest up to n = 12, nearest insertion and 2-opt beyond"
    assert found.headline()[0] == "above at n = 4"
    assert all(values["invalid"] == 0 for values in found.by_size.values())
    assert found.by_size[4]["above"] >= -1e-9


def test_every_question_has_its_measure_and_its_figures():
    assert set(MEASURES) == set(COLUMNS) == set(PAPER) == set(KINDS)
