import math

import pytest
from pages import Page

from regard.errors import ConfigError, DataError
from regard.viz.bars import _ticks, draw_bars
from regard.viz.curves import draw_growth


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_same_bars_give_the_same_bytes(tmp_path, ending):
    values = {"dot, global": [37.2, 36.9, 37.6], "general": [35.0]}
    first = draw_bars(values, tmp_path / f"a.{ending}", xlabel="BLEU")
    second = draw_bars(values, tmp_path / f"b.{ending}", xlabel="BLEU")
    assert first.read_bytes() == second.read_bytes()
    other = draw_bars(values | {"general": [35.5]}, tmp_path / f"c.{ending}", xlabel="BLEU")
    assert other.read_bytes() != first.read_bytes()


def test_negative_and_zero_values_are_drawn(tmp_path):
    assert draw_bars({"a": [-1.0, -2.0], "b": [0.0]}, tmp_path / "a.png").exists()
    assert draw_bars({"a": [0.0]}, tmp_path / "b.png").exists()


def test_bars_of_nothing_but_zeros_have_an_axis_from_nought_to_one():
    places = _ticks({"a": [0.0, 0.0], "b": [0.0]})
    assert (places[0], places[-1]) == (0.0, 1.0)
    places = _ticks({"a": [0.3]})
    assert (places[0], places[-1]) == pytest.approx((0.0, 0.3))


def test_a_bar_reaches_from_zero_to_the_mean_and_each_run_is_a_point(sheets):
    draw_bars({"a": [10.0, 20.0], "b": [30.0], "c": [-10.0]}, "x.png")
    page = Page(sheets[0])
    zero, ten = (next(w.middle[0] for w in page.words("x") if w.text == text) for text in ("0", "10"))
    ends = [
        sorted({round((x - zero) / (ten - zero), 1) for x, _ in bar.points}) for bar in page.shapes("bar")
    ]
    assert ends == [[0, 1.5], [0, 3.0], [-1.0, 0]]
    assert [round((dot.points[0, 0] - zero) / (ten - zero), 1) for dot in page.shapes("dot")] == [1.0, 2.0]
    assert [word.text for word in page.words("y")] == ["a", "b", "c"]


def test_bars_without_values_are_refused(tmp_path):
    for values in ({}, {"a": []}):
        with pytest.raises(ConfigError, match="draw_bars: `values` has nothing to draw"):
            draw_bars(values, tmp_path / "a.png")
    with pytest.raises(DataError, match=r"draw_bars: `values` has \[nan\] for 'a'; expected finite numbers"):
        draw_bars({"a": [math.nan]}, tmp_path / "a.png")


def test_growth_is_drawn_and_refuses_what_has_no_logarithm(tmp_path):
    assert draw_growth({"a": ([1, 2, 4], [1.0, 4.0, 16.0])}, tmp_path / "a.svg").exists()
    for series in ({}, {"a": ([1, 2], [0.0, 1.0])}, {"a": ([0, 2], [1.0, 1.0])}):
        with pytest.raises(ConfigError, match="draw_growth: `series` has nothing or a value of 0 or less"):
            draw_growth(series, tmp_path / "a.png")
