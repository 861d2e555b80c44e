import pytest

from regard.errors import ConfigError
from regard.tasks.reverse import ReverseSettings, ReverseTask


def test_the_target_is_the_source_backwards_under_other_names():
    task = ReverseTask.create(ReverseSettings(train=50, test=50))
    names = {}
    for example in task.examples("train"):
        source, target = example.source.split(), example.target.split()
        assert len(source) == len(target)
        for old, new in zip(reversed(source), target, strict=True):
            assert names.setdefault(old, new) == new
        assert example.links == tuple((s, len(source) - 1 - s) for s in range(len(source)))


def test_forwards_the_links_are_the_diagonal():
    task = ReverseTask.create(ReverseSettings(train=5, backwards=False))
    for example in task.examples("train"):
        assert all(s == t for s, t in example.links)


def test_splits_differ_and_repeat():
    first, again = (ReverseTask.create(ReverseSettings(train=20, test=20)) for _ in range(2))
    assert first.examples("train") == again.examples("train")
    assert first.examples("train") != first.examples("test")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"symbols": 1}, "reverse: `symbols` has 1; expected 2 to 26"),
        ({"shortest": 5, "longest": 4}, "reverse: `shortest` has 5 and `longest` 4; expected 1 <= shortest"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        ReverseTask.create(ReverseSettings(**settings))
