import numpy as np
import pytest
from seeds import offset_seed

from regard.errors import ConfigError, ShapeError
from regard.viz.points import draw_points

POINTS = np.random.default_rng(offset_seed(0)).random((6, 2))


@pytest.mark.parametrize("shape", ["cycle", "path", "triangles"])
def test_a_figure_is_drawn_and_the_same_every_time(tmp_path, shape):
    weights = np.full((7, 7), 1 / 7)
    pictures = [
        draw_points(
            POINTS,
            [0, 3, 2, 1, 4, 5],
            right=[0, 1, 2],
            shape=shape,
            weights=weights,
            title="A",
            path=tmp_path / name,
        ).read_bytes()
        for name in ("a.svg", "b.svg")
    ]
    assert pictures[0] == pictures[1]
    assert pictures[0].startswith(b"<?xml")


@pytest.mark.parametrize(
    "points",
    [[[0.5, 0.5]], [[0.1, 0.1], [0.2, 0.3]], [[0.3, 0.3]] * 3, [[0.1], [0.7], [0.4]]],
    ids=["one", "two", "coinciding", "numbers"],
)
def test_degenerate_sets_are_drawn(tmp_path, points):
    order = list(range(len(points)))
    draw_points(np.array(points), order, right=order, path=tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_an_empty_answer_is_drawn(tmp_path):
    draw_points(POINTS, [], path=tmp_path / "a.png")


def test_more_points_make_another_picture(tmp_path):
    a = draw_points(POINTS, [0, 1, 2], path=tmp_path / "a.svg").read_text()
    b = draw_points(POINTS, [0, 1, 3], path=tmp_path / "b.svg").read_text()
    assert a != b


def test_what_cannot_be_drawn_is_refused(tmp_path):
    with pytest.raises(
        ShapeError, match=r"^draw_points: `points` has shape \(2, 3\); expected \(n, 2\) or \(n, 1\).$"
    ):
        draw_points(np.zeros((2, 3)), [], path=tmp_path / "a.png")
    with pytest.raises(
        ShapeError, match=r"^draw_points: `found` has a number outside 0 to 5; expected numbers of"
    ):
        draw_points(POINTS, [6], path=tmp_path / "a.png")
    with pytest.raises(
        ShapeError, match=r"^draw_points: `weights` has shape \(2, 6\); expected \(T, 7\), the end"
    ):
        draw_points(POINTS, [1], weights=np.zeros((2, 6)), path=tmp_path / "a.png")
    with pytest.raises(ConfigError, match=r"expected \.png or \.svg"):
        draw_points(POINTS, [1], path=tmp_path / "a.gif")
