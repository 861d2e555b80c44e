"""Hulls and triangulations against SciPy, tours against all permutations, and what degenerate sets give."""

import itertools
from math import cos, sin

import pytest
import torch
from scipy.spatial import ConvexHull, Delaunay

from regard.data import geometry as g
from regard.data.counter_rng import random_words, unit
from regard.data.points import PointSets
from regard.errors import ConfigError, DataError


def tour_lengths(points, order):
    """(B, n, 2), (B, n) -> (B,) lengths of the closed tours."""
    path = points.double().gather(1, order[..., None].expand(-1, -1, 2))
    return (path - path.roll(-1, 1)).norm(dim=-1).sum(-1)


def random_sets(B, n, D=2, key="tests"):
    return unit(random_words(key, torch.arange(B), n * D)).view(B, n, D)


def one(solve, points):
    points = torch.as_tensor(points, dtype=torch.float64)
    found = solve(points[None], torch.tensor([len(points)]))[0]
    return found[found >= 0].tolist()


def triangles(points):
    return torch.tensor(one(g.triangulations, points)).view(-1, 3)


def test_random_sets_are_uniform_and_a_function_of_their_number():
    drawn = random_sets(4000, 10)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert abs(drawn.mean() - 0.5) < 0.005
    assert abs(drawn.var() - 1 / 12) < 0.002
    assert abs(drawn[:, 0].T.corrcoef()[0, 1]) < 0.05
    assert abs(torch.stack([drawn[:-1, 0, 0], drawn[1:, 0, 0]]).corrcoef()[0, 1]) < 0.05
    some = unit(random_words("tests", [7, 3], 20)).view(2, 10, 2)
    assert torch.equal(some, drawn[[7, 3]])
    assert not torch.equal(random_sets(10, 10, key="test"), drawn[:10])


def test_every_size_comes_equally_often():
    _, sizes = PointSets("hull", "1 train", 5, 9).points(torch.arange(5000))
    counts = sizes.bincount()
    assert set(sizes.tolist()) == {5, 6, 7, 8, 9}
    assert counts[5:].min() > 900


@pytest.mark.parametrize("n", [3, 5, 10, 50])
def test_hulls_are_scipys(n):
    sets = random_sets(100, n)
    for points, found in zip(sets, g.hulls(sets, torch.full((100,), n)), strict=True):
        right = ConvexHull(points.double().numpy()).vertices.tolist()  # counter-clockwise in the plane
        first = right.index(min(right))
        assert found[found >= 0].tolist() == right[first:] + right[:first]


@pytest.mark.parametrize(
    "height",
    [lambda x: x * x, lambda x: -x * x, lambda x: x % 2 * x * x, lambda x: (x - 20).abs(), lambda x: x**3],
)
def test_hulls_of_points_on_a_curve_are_scipys(height):
    """Most points are corners, or most are none, some of them only when others have gone."""
    x = torch.randperm(41)
    points = torch.stack([x, height(x)], 1).double()
    right = ConvexHull(points.numpy()).vertices.tolist()
    first = right.index(min(right))
    assert one(g.hulls, points) == right[first:] + right[:first]


@pytest.mark.parametrize(("n", "mean"), [(5, 4.22), (10, 5.94), (20, 7.81), (50, 10.17)])
def test_hulls_have_the_expected_number_of_corners(n, mean):
    found = g.hulls(random_sets(3000, n), torch.full((3000,), n))
    assert (found >= 0).sum() / 3000 == pytest.approx(mean, abs=0.12)


def test_sets_of_different_sizes_are_solved_as_each_alone():
    sizes = torch.tensor([1, 2, 3, 7, 12, 4])
    sets = random_sets(6, 12)
    for question in ("hull", "tsp", "delaunay"):
        solve = g.QUESTIONS[question].solve
        for points, n, found in zip(sets, sizes, solve(sets, sizes), strict=True):
            assert found[found >= 0].tolist() == one(solve, points[:n])


def test_order_is_stable():
    assert one(g.orders, [[0.5], [0.1], [0.5], [0.3]]) == [1, 3, 0, 2]


@pytest.mark.parametrize(
    ("points", "hull"),
    [
        ([[0.3, 0.3]], [0]),
        ([[0.3, 0.3], [0.1, 0.9]], [0, 1]),
        ([[0.3, 0.3], [0.3, 0.3], [0.3, 0.3]], [0]),
        ([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0], [0.25, 0.25]], [0, 2]),  # a line: its ends
        ([[0.5, 0.0], [0.5, 1.0], [0.5, 0.25]], [0, 1]),  # upright
        ([[0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0]], [0, 1, 2, 3]),  # on an edge: no corner
        ([[1, 0], [0, 0], [1, 0], [0, 1], [0, 0]], [0, 3, 1]),  # coinciding: the lower number
    ],
)
def test_degenerate_hulls(points, hull):
    assert one(g.hulls, points) == hull


def test_triangles_are_scipys_in_canonical_order():
    for points in random_sets(50, 12):
        found = triangles(points)
        right = Delaunay(points.double().numpy()).simplices
        assert {tuple(t) for t in found.tolist()} == {tuple(sorted(t)) for t in right.tolist()}
        assert (found.diff(dim=1) > 0).all()
        assert (g.incentres(points[found])[:, 0].diff() >= 0).all()
        hull = one(g.hulls, points)
        assert len(found) == 2 * 12 - 2 - len(hull) <= g.most_triangles(12)


@pytest.mark.parametrize("turn", [0.0, 0.7])
@pytest.mark.parametrize("steps", [(2, 2), (4, 4), (6, 7)])
def test_points_of_a_grid_are_covered_once(steps, turn):
    """Four points on a circle: either diagonal is right, but no triangle may lie on another."""
    i, j = torch.ones(steps, dtype=torch.float64).nonzero().double().T
    points = torch.stack([i * cos(turn) - j * sin(turn), i * sin(turn) + j * cos(turn)], 1)
    found = triangles(points)
    cells = (steps[0] - 1) * (steps[1] - 1)
    assert len(found) == 2 * cells
    assert [abs(g.area(points[each])) for each in found] == pytest.approx([0.5] * len(found))
    assert set(found.flatten().tolist()) == set(range(len(points)))


def test_the_incentre_is_equally_far_from_all_sides():
    corners = random_sets(5, 3).double()
    for triangle, centre in zip(corners, g.incentres(corners), strict=True):
        distances = []
        for k in range(3):
            a, b = triangle[k], triangle[(k + 1) % 3]
            u, v = b - a, centre - a
            distances.append(abs(u[0] * v[1] - u[1] * v[0]) / u.norm())
        assert max(distances) - min(distances) < 1e-12


@pytest.mark.parametrize(
    "points", [[[0, 0]], [[0, 0], [1, 1]], [[0, 0], [0.5, 0.5], [1, 1]], [[0, 0], [0, 0], [1, 1], [1, 1]]]
)
def test_points_on_a_line_have_no_triangles(points):
    assert one(g.triangulations, points) == []


def test_of_coinciding_points_the_lowest_is_in_the_triangles():
    assert one(g.triangulations, [[0, 0], [1, 0], [0, 1], [1, 0], [0, 0]]) == [0, 1, 2]


@pytest.mark.parametrize("n", range(1, 9))
def test_exact_tours_are_shortest_of_all(n):
    sets = random_sets(4, n)
    found = g.exact_tours(sets)
    assert (found[:, 0] == 0).all()
    assert (found.sort().values == torch.arange(n)).all()
    ways = torch.tensor([(0, *rest) for rest in itertools.permutations(range(1, n))])
    for points, tour in zip(sets, found, strict=True):
        every = tour_lengths(points.expand(len(ways), n, 2), ways)
        assert tour_lengths(points[None], tour[None])[0] == pytest.approx(float(every.min()), abs=1e-9)


def test_tours_go_counter_clockwise():
    sets = random_sets(50, 7)
    assert all(g.area(points[tour]) > 0 for points, tour in zip(sets, g.exact_tours(sets), strict=True))
    assert one(g.tours, [[0, 0], [0, 1], [1, 1], [1, 0]]) == [0, 3, 2, 1]


def test_shortest_tours_have_the_papers_mean_length():
    for n, count, mean in ((5, 4000, 2.12), (10, 800, 2.87)):
        sets = random_sets(count, n)
        assert tour_lengths(sets, g.exact_tours(sets)).mean() == pytest.approx(mean, abs=0.03)


def test_tours_through_coinciding_points_visit_them_all():
    assert sorted(one(g.tours, [[0, 0], [0, 0], [1, 1], [1, 1], [0, 1]])) == [0, 1, 2, 3, 4]
    assert one(g.tours, [[0, 0]]) == [0]
    assert one(g.tours, [[0, 0], [1, 1]]) == [0, 1]


def test_more_than_twelve_points_are_no_affair_of_the_exact_solver():
    with pytest.raises(
        ConfigError, match=r"^exact_tours: `points` has 13 points a set; expected at most 12.$"
    ):
        g.exact_tours(random_sets(1, 13))


def test_two_opt_leaves_no_crossing_and_comes_near_the_shortest():
    sets = random_sets(100, 10)
    heuristic, exact = g.heuristic_tours(sets), g.exact_tours(sets)
    ratio = tour_lengths(sets, heuristic) / tour_lengths(sets, exact)
    assert ratio.min() > 1 - 1e-9
    assert ratio.mean() < 1.05
    assert all(g.is_simple(points[tour]) for points, tour in zip(sets, heuristic, strict=True))
    first = g.nearest_insertion(sets)
    assert (first.sort().values == torch.arange(10)).all()
    assert tour_lengths(sets, first).mean() > tour_lengths(sets, heuristic).mean()


@pytest.mark.parametrize(
    ("polygon", "simple"),
    [
        ([[0, 0], [1, 0], [1, 1], [0, 1]], True),
        ([[0, 0], [1, 1], [1, 0], [0, 1]], False),  # crosses
        ([[0, 0], [1, 0]], False),
        ([[0, 0], [1, 0], [1, 0], [0, 1]], False),  # a corner twice
        ([[0, 0], [2, 0], [1, 0], [1, 1]], False),  # turns back on itself
        ([[0, 0], [1, 0], [2, 0], [1, 1]], True),  # a straight corner is one
        ([[0, 0], [2, 0], [2, 2], [1, 0], [0, 2]], False),  # touches a side
        ([[0, 0], [3, 0], [3, 1], [2, 1], [2, 2], [1, 2], [1, 1], [0, 1]], True),  # sides on one line, apart
    ],
)
def test_simple_polygons(polygon, simple):
    for k in range(len(polygon)):
        assert g.is_simple(torch.tensor(polygon[k:] + polygon[:k])) is simple
        assert g.is_simple(torch.tensor((polygon[k:] + polygon[:k])[::-1])) is simple


def test_the_same_polygon_wherever_it_begins():
    assert g.same_cycle([1, 2, 3, 0], [0, 1, 2, 3])
    assert g.same_cycle([3, 2, 1, 0], [0, 1, 2, 3])
    assert not g.same_cycle([0, 2, 1, 3], [0, 1, 2, 3])
    assert not g.same_cycle([0, 1, 2], [0, 1, 2, 3])
    assert not g.same_cycle([0, 1, 1], [0, 1, 2])
    assert not g.same_cycle([], [0])
    assert g.same_cycle([1, 0], [0, 1])


def test_area_is_that_of_the_shoelace():
    assert g.area(torch.tensor([[0, 0], [2, 0], [2, 1]])) == 1
    assert g.area(torch.tensor([[2, 1], [2, 0], [0, 0]])) == -1


def test_points_are_checked():
    with pytest.raises(
        DataError, match=r"^mine: `points` has shape \(3,\); expected \(n, 2\), one point a row.$"
    ):
        g.check_points("mine", torch.zeros(3), dimension=2)
    with pytest.raises(DataError, match=r"^mine: `points` has no rows; expected one or more.$"):
        g.check_points("mine", torch.zeros(0, 2), dimension=2)
    with pytest.raises(DataError, match=r"^mine: point 1 has \[nan, 1.0\]; expected finite numbers.$"):
        g.check_points("mine", torch.tensor([[0, 1], [torch.nan, 1]]), dimension=2)


def test_points_outside_the_square_are_moved_into_it_and_others_left_alone():
    inside = torch.tensor([[0.2, 0.3], [0.4, 0.9]])
    assert torch.equal(g.in_unit_square(inside), inside)
    moved = g.in_unit_square(torch.tensor([[-10.0, 0], [10, 10]]))
    assert moved.tolist() == [[0, 0], [1, 0.5]]
    assert g.in_unit_square(torch.tensor([[5.0, 5], [5, 5]])).tolist() == [[0, 0], [0, 0]]


def test_every_letter_of_the_key_matters():
    keys = ("1 test", "2 test", "1 tess", "11 test", "1 test 5", "2 test 5", "3", "4")
    drawn = {key: tuple(random_words(key, range(3), 2).flatten().tolist()) for key in keys}
    assert len(set(drawn.values())) == len(keys)
