"""Pictures and their classes: the drawn scenes, the splits of a data set, and the models that pool them."""

import pytest
import torch
from seeds import offset_seed

from regard.data.pictures import PictureBatch
from regard.errors import ConfigError
from regard.models.pooled import PooledPictures, PooledPicturesConfig, PooledSentences, PooledSentencesConfig
from regard.tasks.entailment import EntailmentSettings, EntailmentTask
from regard.tasks.picture_classes import PictureClassesSettings, PictureClassesTask


def numbered(**settings):
    """A data set of 50 and 20 pictures whose first pixel is their number."""
    task = PictureClassesTask(PictureClassesSettings(corpus="fashion-mnist", **settings))
    pictures = torch.zeros(50, 28, 28, 3, dtype=torch.uint8)
    pictures[:, 0, 0, 0] = torch.arange(50)
    labels = torch.arange(50) % 10
    task.__dict__["pictures"] = {"train": (pictures, labels), "test": (pictures[:20], labels[:20])}
    return task


def test_a_scene_has_one_coloured_thing_and_its_class_is_that_thing_s_shape():
    task = PictureClassesTask(PictureClassesSettings(clutter=0))
    batch = task.batch("train", range(300))
    assert batch.pictures.shape == (300, 48, 48, 3)
    assert set(batch.labels.tolist()) == set(range(5))
    # alone on the ground, a square covers more than a cross of the same radius
    ink = (batch.pictures.amax(-1) > 110).float().mean((1, 2))
    by_class = [float(ink[batch.labels == c].mean()) for c in range(5)]
    assert by_class[task.labels.index("square")] > by_class[task.labels.index("cross")] + 0.01
    crowded = PictureClassesTask(PictureClassesSettings()).batch("train", range(300)).pictures
    coloured = (crowded.amax(-1).int() - crowded.amin(-1).int() > 60).flatten(1).any(1).float()
    assert coloured.mean() > 0.75  # all but the white ones


def test_scenes_are_the_same_in_whichever_batch_and_others_in_every_split():
    task = PictureClassesTask(PictureClassesSettings())
    alone, among = task.batch("train", [7]), task.batch("train", [3, 7])
    assert torch.equal(alone.pictures[0], among.pictures[1])
    assert not torch.equal(alone.pictures, task.batch("valid", [7]).pictures)


def test_the_last_pictures_of_the_training_part_are_held_out():
    task = numbered(train=1000, valid=8, test=1000)
    assert [task.count(split) for split in ("train", "valid", "test")] == [42, 8, 20]
    rows = [row for rows in task.plan(0, seed=1, batch=6) for row in rows]
    assert sorted(task.batch("train", rows).pictures[:, 0, 0, 0].tolist()) == list(range(42))
    held = task.batch("valid", task.evaluation_plan("valid", batch=50)[0])
    assert held.pictures[:, 0, 0, 0].tolist() == list(range(42, 50))
    assert held.labels.tolist() == [n % 10 for n in range(42, 50)]
    assert numbered(train=12, valid=8, test=5).count("train") == 12


@pytest.mark.parametrize("pooling", ["attention", "average"])
def test_a_classifier_pools_every_place_once(pooling):
    torch.manual_seed(offset_seed(0))
    model = PooledPictures(
        PooledPicturesConfig(classes=5, side=28, channels=(4, 6, 8), hidden=5, pooling=pooling)
    ).eval()
    batch = PictureBatch(torch.randint(0, 256, (3, 28, 28, 3), dtype=torch.uint8), torch.zeros(3))
    assert model(batch).shape == (3, 5)
    grid = model.cnn(batch.pictures.permute(0, 3, 1, 2).float() / 127.5 - 1)
    assert grid.shape == (3, 8, 7, 7)
    if pooling == "average":
        torch.testing.assert_close(model(batch), model.W(grid.mean((2, 3))))


@pytest.mark.parametrize("pooling", ["attention", "average"])
def test_padding_does_not_change_the_label_of_two_sentences(pooling):
    torch.manual_seed(offset_seed(0))
    task = EntailmentTask.create(EntailmentSettings(train=60, valid=10, test=10))
    model = PooledSentences(
        PooledSentencesConfig(**task.sizes(), embedding=6, hidden=8, pooling=pooling)
    ).eval()
    pairs = sorted(task.pairs("test"), key=lambda pair: len(pair.premise) + len(pair.hypothesis))
    together = model(task.tensors(pairs))
    torch.testing.assert_close(together[:1], model(task.tensors(pairs[:1])))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PictureClassesSettings(train=0), r"^picture-classes: `train` has 0; expected 1 or more\.$"),
        (lambda: PictureClassesSettings(clutter=9), r"^picture-classes: `clutter` has 9; expected 0 to 8\.$"),
    ],
    ids=["train", "clutter"],
)
def test_what_is_wrong_with_pictures_is_said(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_more_held_out_than_there_are_is_refused(monkeypatch):
    small = numbered().pictures
    monkeypatch.setattr(PictureClassesTask, "pictures", small)
    message = r"^picture-classes: `valid` has 60; expected less than the 50 pictures of the training part\.$"
    with pytest.raises(ConfigError, match=message):
        PictureClassesTask.create(PictureClassesSettings(corpus="cifar10", valid=60))
