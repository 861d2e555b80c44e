import numpy as np
import pytest
import torch
from seeds import offset_seed

from regard.errors import ConfigError, ShapeError
from regard.viz.pictures import DIM, draw_caption, lit

PICTURE = np.full((24, 24, 3), 200, dtype=np.uint8)


def test_a_caption_is_drawn_and_the_same_every_time(tmp_path):
    weights = np.random.default_rng(offset_seed(0)).dirichlet(np.ones(9), size=9)
    words = ["a", "red", "circle", "above", "a", "blue", "square", "猫", "$5"]
    pictures = [
        draw_caption(PICTURE, words, weights, title=" ".join(words), path=tmp_path / name).read_bytes()
        for name in ("a.svg", "b.svg")
    ]
    assert pictures[0] == pictures[1]
    assert pictures[0].startswith(b"<?xml")
    assert draw_caption(PICTURE, [], np.zeros((0, 9)), path=tmp_path / "c.png").stat().st_size > 500


def test_light_falls_where_the_weight_is():
    weights = torch.zeros(3, 3)
    weights[0, 2] = 0.4
    shown = lit(torch.from_numpy(PICTURE), weights)
    assert int(shown[4, 20].min()) > 185  # nearly the middle of the place
    assert shown[20, 4].tolist() == [round(200 * DIM)] * 3


@pytest.mark.parametrize(
    ("picture", "weights", "argument"),
    [
        (PICTURE[:, :20], np.ones((1, 9)) / 9, "picture"),
        (PICTURE, np.ones((1, 8)) / 8, "weights"),
        (PICTURE, np.ones((2, 9)) / 9, "weights"),
    ],
    ids=["oblong", "no-square", "rows"],
)
def test_what_does_not_fit_is_refused(tmp_path, picture, weights, argument):
    with pytest.raises(ShapeError, match=rf"^draw_caption: `{argument}` has shape"):
        draw_caption(picture, ["word"], weights, path=tmp_path / "a.png")


def test_the_ending_must_be_a_pictures(tmp_path):
    with pytest.raises(ConfigError, match=r"expected \.png or \.svg"):
        draw_caption(PICTURE, ["word"], np.ones((1, 9)) / 9, path=tmp_path / "a.pdf")
