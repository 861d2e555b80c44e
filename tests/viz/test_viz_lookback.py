"""The look-back picture: its files, its errors, and that its shades are its weights."""

import pytest
import torch
from pages import Page

from regard.errors import ConfigError, DataError, ShapeError
from regard.viz import lookback, style

WORDS = ["⟨s⟩", "the", "run", "of", "the", "mill"]


def weights(T=6):
    return torch.rand(T, T).tril(-1)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_same_weights_give_the_same_file(tmp_path, ending):
    given = weights()
    one, two = (tmp_path / f"{name}.{ending}" for name in "ab")
    lookback.draw_lookback(given, WORDS, path=one)
    lookback.draw_lookback(given.double().numpy(), WORDS, path=two)
    assert one.read_bytes() == two.read_bytes()


def test_each_earlier_word_is_shaded_by_its_weight(sheets):
    given = torch.zeros(3, 3)
    given[1, 0], given[2, 0], given[2, 1] = 0.5, 0.25, 0.5
    lookback.draw_lookback(given, ["a", "b", "c"], path="x.png")
    page = Page(sheets[0])
    assert [box.fill for box in page.shapes("cell")] == [style.WEIGHTS.at(x) for x in (1.0, 0.5, 1.0)]


def test_one_word_alone_can_be_drawn(tmp_path):
    assert lookback.draw_lookback([[0.0]], ["alone"], path=tmp_path / "one.png").stat().st_size > 0


def test_what_cannot_be_drawn_says_so(tmp_path):
    with pytest.raises(
        ShapeError, match=r"draw_lookback: `weights` has shape \(6, 5\); expected \(T=6, T=6\)"
    ):
        lookback.draw_lookback(torch.rand(6, 5), WORDS, path=tmp_path / "a.png")
    with pytest.raises(ShapeError, match=r"`weights` has shape \(0, 0\); expected .* of one word or more"):
        lookback.draw_lookback(torch.zeros(0, 0), [], path=tmp_path / "a.png")
    with pytest.raises(ConfigError, match=r"draw_lookback: `path` has the ending '.pdf'"):
        lookback.draw_lookback(weights(), WORDS, path=tmp_path / "a.pdf")
    with pytest.raises(DataError, match="draw_lookback"):
        lookback.draw_lookback(torch.full((6, 6), torch.nan), WORDS, path=tmp_path / "a.png")
