"""The mechanism of a model by its settings."""

from dataclasses import MISSING, dataclass, fields, replace

import pytest

from regard import Softmax, catalog
from regard.attention.config import AttentionConfig, attention_field, check_attention
from regard.errors import ConfigError


def test_every_setting_reaches_its_part():
    config = AttentionConfig("additive", normalizer="gumbel-softmax", window="local-predictive", hidden=5,
                             half_width=2, temperature=0.5, kernel="reference")  # fmt: skip
    attention = config.build(query=3, keys=4, keep_weights=True)
    assert (attention.score.W.weight.shape, attention.score.U.weight.shape) == ((5, 3), (5, 4))
    assert attention.normalizer.temperature == 0.5
    assert (attention.window.half_width, attention.window.W.weight.shape) == (2, (5, 3))
    assert (attention.kernel, attention.keep_weights) == ("reference", True)
    aware = AttentionConfig("location-aware", filters=2, width=3).build(query=3, keys=4)
    assert aware.score.F.weight.shape == (2, 1, 3)


def test_sizes_left_open_are_those_of_the_model():
    plain = AttentionConfig("additive").build(query=3, keys=4)
    assert plain.score.v.weight.shape == (1, 3)  # as many units as the query has
    assert isinstance(plain.normalizer, Softmax)
    assert (plain.window, plain.kernel, plain.keep_weights) == (None, "auto", False)
    location = AttentionConfig("location").build(query=3, keys=4, positions=9)
    assert location.score.W.weight.shape == (9, 3)
    own = AttentionConfig("location", positions=7).build(query=3, keys=4, positions=9)
    assert own.score.W.weight.shape == (7, 3)


@pytest.mark.parametrize("name", ["heads", "hidden", "positions", "filters", "width"])
def test_a_size_of_nothing_is_refused(name):
    with pytest.raises(ConfigError, match=rf"^attention: `{name}` has 0; expected 1 or more\.$"):
        AttentionConfig("dot", **{name: 0})
    with pytest.raises(
        ConfigError, match=r"^attention: `temperature` has 0\.0; expected a finite number above 0"
    ):
        AttentionConfig("dot", temperature=0.0)


@dataclass(frozen=True)
class Config:
    attention: AttentionConfig = attention_field(
        "dot", fixed=("score", "window"), normalizers=("softmax", "mean")
    )


def test_a_model_takes_what_it_leaves_open():
    check_attention("model", Config())
    check_attention("model", Config(AttentionConfig("dot", normalizer="mean", heads=2)))
    with pytest.raises(ConfigError, match=r"^model: `attention\.score` has 'general'; expected 'dot'\.$"):
        check_attention("model", Config(AttentionConfig("general")))
    with pytest.raises(
        ConfigError, match=r"`attention\.normalizer` has 'hard'; expected 'softmax' or 'mean'\.$"
    ):
        check_attention("model", Config(AttentionConfig("dot", normalizer="hard")))


MODELS = [row.key for row in catalog.rows("model")]


@pytest.mark.parametrize("key", MODELS)
def test_every_model_says_what_it_does_not_take(key):
    config = catalog.find(key, "model").load().Config
    [own] = [field for field in fields(config) if field.name == "attention"] or [None]
    if own is None or not isinstance(own.default, AttentionConfig):
        return
    given = {field.name: 8 for field in fields(config) if field.default is MISSING}
    other = {"score": "rectified", "normalizer": "sparsemax", "window": "local-monotonic", "heads": 4}
    for name, value in other.items():
        attention = replace(own.default, **{name: value})
        if value not in own.metadata["allowed"].get(name, (value,)):
            with pytest.raises(ConfigError, match=rf"^{key}: `attention\.{name}` has {value!r}; expected "):
                config(**given, attention=attention)
        else:
            assert config(**given, attention=attention).attention == attention
