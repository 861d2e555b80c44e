"""Attention by the keys of the catalogue."""

import pytest
from built import built
from laws.cases import EVERY, sizes

from regard import (
    Attention,
    ConfigError,
    DotScore,
    Everywhere,
    GumbelSoftmax,
    LocationAwareScore,
    LocationScore,
    Softmax,
    catalog,
)
from regard.attention.config import build_part
from regard.attention.parts import Sizes


def test_every_combination_is_built_of_the_classes_of_its_rows():
    for case in EVERY:
        keys = {"normalizer": case.normalizer, "window": case.window}
        attention = built(case.score, sizes(case), **keys, kernel="reference")
        assert isinstance(attention, Attention)
        assert type(attention.score) is catalog.find(case.score, "score").load()
        assert type(attention.normalizer) is catalog.find(case.normalizer, "normalizer").load()
        if case.window == "global":
            assert attention.window is None  # no window is the same, and may be fused
        else:
            assert type(attention.window) is catalog.find(case.window, "window").load()
        assert attention.kernel == "reference"


def test_the_two_dot_products_differ_in_their_scale():
    z = Sizes(query=4, keys=4, hidden=3)
    dot, scaled = build_part("score", "dot", z), build_part("score", "scaled-dot", z)
    assert isinstance(dot, DotScore)
    assert isinstance(scaled, DotScore)
    assert dot.factor(4) == 1.0
    assert scaled.factor(4) == 0.5


def test_sizes_reach_the_parts():
    z = Sizes(query=4, keys=6, hidden=3, positions=9, half_width=2, filters=5, width=7, temperature=0.5)
    location, aware = build_part("score", "location", z), build_part("score", "location-aware", z)
    assert isinstance(location, LocationScore)
    assert location.W.out_features == 9
    assert isinstance(aware, LocationAwareScore)
    assert (aware.F.out_channels, aware.F.kernel_size) == (5, (7,))
    for name, kind in (("softmax", Softmax), ("gumbel-softmax", GumbelSoftmax)):
        normalizer = build_part("normalizer", name, z)
        assert isinstance(normalizer, kind)
        assert normalizer.temperature == 0.5
    assert build_part("window", "local-monotonic", z).half_width == 2
    assert build_part("window", "local-predictive", z).half_width == 2
    assert isinstance(build_part("window", "global", z), Everywhere)


@pytest.mark.parametrize("name", ["dot", "scaled-dot", "cosine", "feedforward"])
def test_scores_that_multiply_directly_need_equal_sizes(name):
    with pytest.raises(
        ConfigError, match=rf"^{name}: `query` has size 4 and `keys` 6; expected equal sizes\."
    ):
        build_part("score", name, Sizes(query=4, keys=6, hidden=3))
