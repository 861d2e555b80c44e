"""Sizes and shares that no model can have are refused by name, before anything is built."""

from dataclasses import MISSING, fields

import pytest

from regard import catalog
from regard.errors import ConfigError
from regard.models.decomposable import BagOfWordsConfig, DecomposableConfig
from regard.models.lstmn_pairs import LSTMNPairsConfig
from regard.models.pooled import PooledPicturesConfig, PooledSentencesConfig
from regard.models.sagan import SAGANConfig
from regard.models.show_attend_tell import ShowAttendTellConfig
from regard.models.snail import SNAILConfig
from regard.models.snail_policy import SNAILPolicyConfig
from regard.tasks.captions import ShapesSettings

PAIR = {"vocab": 9, "classes": 3}


@pytest.mark.parametrize(
    ("config", "given", "wrong", "message"),
    [
        (
            ShowAttendTellConfig,
            {"target_vocab": 9},
            {"hidden": 0},
            "show-attend-tell: `hidden` has 0; {more}",
        ),
        (
            ShowAttendTellConfig,
            {"target_vocab": 9},
            {"dropout": 1.5},
            "show-attend-tell: `dropout` has 1.5; {share}",
        ),
        (SNAILConfig, {"ways": 5, "steps": 6}, {"filters": -1}, "snail: `filters` has -1; {more}"),
        (SNAILConfig, {"ways": 5, "steps": 6}, {"keys": (8, 0, 8)}, "snail: `keys` has [8, 0, 8]; {more}"),
        (
            SNAILPolicyConfig,
            {"inputs": 7, "actions": 5, "steps": 9},
            {"keys": 0},
            "snail-policy: `keys` has 0; {more}",
        ),
        (SAGANConfig, {"classes": 5, "side": 16}, {"noise": 0}, "sagan: `noise` has 0; {more}"),
        (
            SAGANConfig,
            {"classes": 5, "side": 16},
            {"rate": -1.0},
            "sagan: `rate` has -1.0; expected a finite number above 0.",
        ),
        (DecomposableConfig, PAIR, {"hidden": 0}, "decomposable: `hidden` has 0; {more}"),
        (DecomposableConfig, PAIR, {"dropout": float("nan")}, "decomposable: `dropout` has nan; {share}"),
        (BagOfWordsConfig, PAIR, {"embedding": -3}, "bag-of-words: `embedding` has -3; {more}"),
        (LSTMNPairsConfig, PAIR, {"span": 0}, "lstmn-pairs: `span` has 0; {more}"),
        (PooledSentencesConfig, PAIR, {"hidden": 0}, "pooled-sentences: `hidden` has 0; {more}"),
        (
            PooledPicturesConfig,
            {"classes": 5, "side": 8},
            {"channels": (0,)},
            "pooled-pictures: `channels` has [0]; {more}",
        ),
        (ShapesSettings, {}, {"test": -1}, "shapes: `test` has -1; {more}"),
    ],
    ids=lambda value: (
        next(iter(value)) if isinstance(value, dict) and value else getattr(value, "__name__", "")
    ),
)
def test_what_cannot_be_is_refused_by_name(config, given, wrong, message):
    config(**given)
    with pytest.raises(ConfigError) as error:
        config(**given, **wrong)
    assert str(error.value) == message.format(more="expected 1 or more.", share="expected 0 to 1.")


SIZES = ("hidden", "embedding", "layers", "d_model", "hops", "width", "channels")


def configs():
    for row in catalog.rows("model"):
        config = row.load().Config
        for field in fields(config):
            if field.name in SIZES:
                yield pytest.param(config, field.name, id=f"{row.key}-{field.name}")


@pytest.mark.parametrize(("config", "name"), list(configs()))
def test_no_model_of_the_catalogue_takes_a_size_of_nothing(config, name):
    given = {field.name: 8 for field in fields(config) if field.default is MISSING}
    plain = getattr(config(**given), name)
    with pytest.raises(ConfigError, match=f"`{name}` has "):
        config(**given, **{name: (0,) if isinstance(plain, tuple) else 0})
