"""Scenes of coloured shapes: what is said is what is drawn."""

import pytest
import torch

from regard.data.batches import plan_by_rows
from regard.data.shapes import CELL, COLOURS, SHAPES, SIDE, draw_scenes
from regard.errors import ConfigError
from regard.tasks.captions import ShapesSettings, ShapesTask

SCENES = draw_scenes("shapes 1 test", range(200), fewest=2, most=3, clutter=2)


def test_a_scene_depends_on_its_number_alone():
    some = draw_scenes("shapes 1 test", [7, 3], fewest=2, most=3, clutter=2)
    assert some.sentence(0) == SCENES.sentence(7)
    assert torch.equal(some.pictures()[1], SCENES.pictures()[3])
    assert draw_scenes("shapes 2 test", [7], fewest=2, most=3, clutter=2).sentence(0) != SCENES.sentence(7)


def test_the_pixels_of_a_thing_have_its_colour():
    pictures = SCENES.pictures().int()
    for scene in range(50):
        for n in range(int(SCENES.named[scene])):
            inner = SCENES.cover[scene, n] == 1
            paint = torch.tensor(COLOURS[SCENES.things[scene][n][0]])
            assert inner.any()
            assert abs(pictures[scene][inner] - paint).max() <= 9  # the noise


def test_things_do_not_overlap_and_no_two_named_ones_are_alike():
    for scene in range(len(SCENES)):
        masks = [SCENES.mask(scene, n) for n in range(int(SCENES.count[scene]))]
        assert torch.stack(masks).sum(0).max() == 1
        assert len({*SCENES.things[scene]}) == SCENES.named[scene]


def test_sentences_go_in_reading_order_and_tell_rows_apart():
    relations = set()
    for scene in range(len(SCENES)):
        words = SCENES.sentence(scene).replace("left of", "left-of").split()
        middles = []
        for t in range(1, len(words), 4):
            n = SCENES.find(scene, words[t], words[t + 1])
            ys, xs = SCENES.mask(scene, n).nonzero().double().T
            middles.append((int(ys.mean()) // CELL, xs.mean()))
        for (y1, x1), (y2, x2), joined in zip(middles, middles[1:], words[3::4], strict=False):
            relations.add(joined)
            assert (y1 == y2 and x1 < x2) if joined == "left-of" else y1 < y2
    assert relations == {"left-of", "above"}
    assert SCENES.find(0, "pink", SHAPES[0]) is None


def test_the_splits_have_different_scenes_and_one_tokenizer_knows_all_words():
    task = ShapesTask.create(ShapesSettings(train=50, valid=50, test=50))
    pictures = {
        split: {repr(p.tolist()) for p in task.pictures(split, range(50))}
        for split in ("train", "valid", "test")
    }
    assert len(pictures["train"] | pictures["valid"] | pictures["test"]) == 150
    for [sentence] in task.references("train"):
        assert task.tokenizer.unknown(sentence) == []
        assert task.tokenizer.decode(task.tokenizer.encode(sentence)) == sentence
    batch = task.batch("train", [3, 4])
    assert batch.source.shape == (2, SIDE, SIDE, 3)


def test_what_a_caption_names_is_found_or_is_nowhere():
    task = ShapesTask.create(ShapesSettings(test=5))
    scene = task.scenes("test", [2])
    words = scene.sentence(0).split()
    named = task.named("test", 2, words)
    assert list(named[0].words) == [1, 2]
    assert len(named) == scene.named[0]
    assert torch.equal(named[0].mask, scene.mask(0, 0))
    absent = next(c for c in COLOURS if scene.find(0, c, "cross") is None)
    assert task.named("test", 2, ["a", absent, "cross"])[0].mask is None


def test_a_plan_by_rows_has_batches_of_one_size_and_similar_lengths():
    lengths = [3 + n % 7 for n in range(100)]
    plan = plan_by_rows(lengths, rows=8, epoch=0, seed=1)
    assert [len(rows) for rows in plan] == [8] * 12
    rows = [row for each in plan for row in each]
    assert len(set(rows)) == 96
    spans = [[lengths[row] for row in each] for each in plan]
    assert sum(max(each) - min(each) for each in spans) <= len(plan)
    assert plan == plan_by_rows(lengths, rows=8, epoch=0, seed=1)
    assert plan != plan_by_rows(lengths, rows=8, epoch=1, seed=1)
    assert [len(rows) for rows in plan_by_rows(lengths[:5], rows=8, epoch=0, seed=1)] == [5]
    with pytest.raises(ConfigError, match=r"^plan: `rows` has 0; expected 1 or more\.$"):
        plan_by_rows(lengths, rows=0, epoch=0, seed=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fewest": 3, "most": 2}, "shapes: `fewest` has 3 and `most` 2; expected 1 <= fewest <= most."),
        (
            {"most": 8, "clutter": 2},
            "shapes: `most` has 8 and `clutter` 2; expected 9 things at most, one a cell.",
        ),
    ],
    ids=["order", "room"],
)
def test_impossible_scenes_are_refused(settings, message):
    with pytest.raises(ConfigError) as error:
        ShapesSettings(**settings)
    assert str(error.value) == message
