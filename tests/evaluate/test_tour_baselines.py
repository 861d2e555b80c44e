"""Tours of the paper's baselines: valid, bounded, and shortest where they say so."""

from itertools import pairwise, permutations, product

import pytest
import torch

from regard.data.geometry import exact_tours, heuristic_tours, perimeter
from regard.evaluate import tour_baselines
from regard.evaluate.tour_baselines import (
    BASELINES,
    christofides,
    closed_walk,
    shortest_tour,
    spanning_tree,
)


def sets(count, n, seed):
    chance = torch.Generator().manual_seed(seed)
    return torch.rand(count, n, 2, generator=chance, dtype=torch.float64)


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 14])
def test_every_tour_visits_every_point_once(name, n):
    for points in sets(3, n, n):
        assert sorted(BASELINES[name](points)) == list(range(n))


def test_the_program_finds_what_the_table_finds(monkeypatch):
    monkeypatch.setattr(tour_baselines, "EXACT", 3)
    for points in sets(8, 9, 1):
        table = exact_tours(points[None])[0].tolist()
        assert perimeter(points, shortest_tour(points)) == pytest.approx(perimeter(points, table), abs=1e-9)


def test_two_far_groups_need_more_than_one_round():
    """Without the inequalities the best solution is two closed ways, one around each group."""
    square = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    points = torch.cat([square + torch.tensor([100.0 * k, 0.0]) for k in range(4)])
    tour = shortest_tour(points)
    assert sorted(tour) == list(range(16))
    # there and back along the row, and the far sides of the first and the last square
    assert perimeter(points, tour) == pytest.approx(2 * 301.0 + 2, abs=1e-6)


def test_no_baseline_is_shorter_than_the_shortest_and_christofides_keeps_its_bound():
    for points in sets(4, 20, 3):
        best = perimeter(points, shortest_tour(points))
        lengths = {name: perimeter(points, solve(points)) for name, solve in BASELINES.items()}
        lengths["2-opt"] = perimeter(points, heuristic_tours(points[None])[0].tolist())
        assert min(lengths.values()) >= best - 1e-9
        assert lengths["Christofides"] <= 1.5 * best


def test_christofides_on_a_cross_joins_the_four_odd_ends():
    """Four arms around a centre: the tree is a star, and the matching joins its ends in pairs."""
    points = torch.tensor([[0.0, 0.0], [1.0, 0.1], [0.1, 1.0], [-1.0, -0.1], [-0.1, -1.0]])
    tour = christofides(points)
    rounds = [perimeter(points, [0, *order]) for order in permutations(range(1, 5))]
    assert sorted(tour) == [0, 1, 2, 3, 4]
    assert perimeter(points, tour) <= 1.5 * min(rounds)


def test_the_spanning_tree_is_the_lightest_of_all():
    points = sets(1, 5, 6)[0]
    d = (points[:, None] - points).norm(dim=-1)
    found = float(sum(d[a, b] for a, b in spanning_tree(d)))
    # Prüfer: every sequence of n - 2 points is a tree
    weights = []
    for code in product(range(5), repeat=3):
        degree = [1 + code.count(point) for point in range(5)]
        sides = []
        for point in code:
            leaf = degree.index(1)
            sides.append((leaf, point))
            degree[leaf] -= 1
            degree[point] -= 1
        sides.append(tuple(point for point in range(5) if degree[point] == 1))
        weights.append(float(sum(d[a, b] for a, b in sides)))
    assert found == pytest.approx(min(weights))


def test_a_walk_uses_every_side_once():
    sides = [(0, 1), (1, 2), (2, 0), (0, 3), (3, 4), (4, 0)]
    walk = closed_walk(sides, 5)
    assert walk[0] == walk[-1] == 0
    assert sorted(tuple(sorted(step)) for step in pairwise(walk)) == sorted(
        tuple(sorted(side)) for side in sides
    )
