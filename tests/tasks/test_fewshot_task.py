"""Episodes: what they consist of, that they are new and reproducible, and that splits share no class."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.data.episodes import Sheets, bent
from regard.data.omniglot import _read
from regard.data.strokes import draw_characters
from regard.errors import ConfigError, DataError
from regard.tasks import fewshot
from regard.tasks.fewshot import FewShotSettings, FewShotTask, distinct, turned


@pytest.fixture
def numbered(monkeypatch):
    """A task whose drawings say what they are: the first pixel is the class, the second the drawing."""

    def make(**settings):
        task = FewShotTask(FewShotSettings(**settings))
        images = torch.zeros(50, 20, 28, 28, dtype=torch.uint8)
        images[:, :, 0, 0] = torch.arange(50)[:, None]
        images[:, :, 0, 1] = torch.arange(20)
        task.__dict__["drawings"] = {"train": images, "valid": images, "test": images}
        return task

    return make


@pytest.fixture(scope="module")
def strokes():
    return FewShotTask.create(FewShotSettings())


@pytest.mark.parametrize(("ways", "shots", "queries"), [(5, 1, 1), (5, 3, 4), (20, 5, 2)])
def test_an_episode_has_n_classes_k_drawings_of_each_and_other_drawings_to_name(
    numbered, ways, shots, queries
):
    task = numbered(ways=ways, shots=(shots,), queries=queries)
    batch = task.batch("train", range(40)).to("cpu")
    assert batch.support.shape == (40, ways * shots, 28, 28)
    assert batch.queries.shape == (40, queries, 28, 28)
    for b in range(40):
        owner, used = {}, set()
        for image, label in zip(batch.support[b], batch.labels[b].tolist(), strict=True):
            who = int(image[0, 0])
            assert owner.setdefault(label, who) == who
            used.add((who, int(image[0, 1])))
        assert sorted(owner) == list(range(ways))
        assert len(set(owner.values())) == ways
        assert len(used) == ways * shots
        for image, answer in zip(batch.queries[b], batch.answers[b].tolist(), strict=True):
            asked = (int(image[0, 0]), int(image[0, 1]))
            assert asked[0] == owner[answer]
            assert asked not in used
            used.add(asked)


def test_an_episode_is_the_same_in_whichever_batch_it_comes(numbered):
    task = numbered(shots=(2,))
    alone, among = (task.batch("train", rows).to("cpu") for rows in ([7], [3, 7, 9]))
    assert torch.equal(alone.support[0], among.support[1])
    assert torch.equal(alone.queries[0], among.queries[1])
    assert not torch.equal(among.labels[0], among.labels[1])


def test_labels_places_and_classes_are_left_to_chance(numbered):
    batch = numbered().batch("train", range(6000)).to("cpu")
    rows = torch.arange(6000)
    for label in range(5):
        step = (batch.labels == label).int().argmax(1)
        assert torch.bincount(step, minlength=5).min() > 1050  # 1200 expected, standard deviation 31
        who = batch.support[rows, step, 0, 0].long()
        assert torch.bincount(who, minlength=50).min() > 70  # 120 expected, standard deviation 11
    assert torch.bincount(batch.answers.flatten()).min() > 1050


def test_floyd_s_numbers_are_distinct_and_every_set_is_as_likely():
    chosen = distinct(torch.rand(20_000, 2, dtype=torch.double), 4).sort(1).values
    sets, counts = chosen.unique(dim=0, return_counts=True)
    assert len(sets) == 6
    assert counts.min() > 3100  # 3333 expected, standard deviation 53


def test_a_batch_has_one_number_of_shots_and_an_epoch_has_all(numbered):
    task = numbered(shots=(1, 2, 3), train=600)
    plan = task.plan(0, seed=1, batch=10)
    steps = [task.batch("train", rows).support.shape[1] for rows in plan]
    assert len(plan) == 60
    assert set(steps) == {5, 10, 15}
    assert plan == task.plan(0, seed=1, batch=10)
    assert not {r for rows in plan for r in rows} & {
        r for rows in task.plan(1, seed=1, batch=10) for r in rows
    }
    with pytest.raises(ConfigError, match=r"^few-shot: `rows` has 2 numbers of shots; expected one\.$"):
        task.batch("train", [0, 1])


def test_the_test_asks_every_number_of_shots_as_often(numbered):
    task = numbered(tested=(5, 1), test=70)
    rows = [row for batch in task.evaluation_plan("test", batch=32) for row in batch]
    assert len(rows) == len(set(rows)) == 140
    assert task.batch("test", [0]).support.shape[1] == 25
    assert task.sizes() == {"ways": 5, "steps": 26}


def test_moving_keeps_the_ink_and_stays_in_its_bounds(numbered):
    task = numbered(shift=2, queries=4)
    for images in task.drawings.values():
        images[:] = 0
        images[:, :, 14, 14] = 255
    batch = task.batch("train", range(40)).to("cpu")
    for moved in (batch.support, batch.queries):
        where = moved.nonzero()
        assert len(where) == moved.shape[0] * moved.shape[1]
        for axis in (2, 3):
            assert set(where[:, axis].tolist()) == {12, 13, 14, 15, 16}
    still = task.batch("test", range(9)).to("cpu")
    assert set(map(tuple, still.support.nonzero()[:, 2:].tolist())) == {(14, 14)}


def test_a_moved_drawing_is_cut_from_its_sheet():
    drawings = torch.randint(0, 256, (3, 28, 28), dtype=torch.uint8)
    numbers, corners = torch.tensor([[2, 0]]), torch.tensor([[[0, 3], [4, 1]]])
    cut = Sheets(drawings, margin=2).cut(numbers, corners)
    padded = F.pad(drawings, [2] * 4)
    assert torch.equal(cut[0, 0], padded[2, 0:28, 3:31])
    assert torch.equal(cut[0, 1], padded[0, 4:32, 1:29])
    assert torch.equal(Sheets(drawings, margin=2).cut(numbers)[0], drawings[[2, 0]])


def test_a_bend_turns_about_the_middle():
    """(I + bend) = a quarter turn: what stood right of the middle stands below, or above."""
    pictures = torch.randint(0, 256, (1, 2, 28, 28), dtype=torch.uint8)
    quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]]) - torch.eye(2)
    found = bent(pictures, torch.stack([quarter, torch.zeros(2, 2)])[None])
    assert torch.equal(found[0, 1], pictures[0, 1])
    assert torch.equal(found[0, 0], pictures[0, 0].rot90(1))


def test_every_second_training_drawing_is_bent_and_no_other(numbered):
    task = numbered(bend=0.2, queries=4)
    dealt = task.batch("train", range(200))
    assert dealt.bends.shape == (200, 5 + 4, 2, 2)
    assert dealt.bends.abs().max() <= 0.2
    bent_ones = dealt.bends.ne(0).any(-1).any(-1).float().mean()
    assert 0.45 < bent_ones < 0.55
    for split in ("valid", "test"):
        assert task.batch(split, range(3)).bends is None
    plain = numbered(queries=4).batch("train", range(200))
    assert torch.equal(plain.support, dealt.support)  # the same episodes
    assert torch.equal(plain.queries, dealt.queries)


def test_turning_makes_four_classes_of_one():
    images = torch.randint(0, 255, (3, 2, 28, 28), dtype=torch.uint8)
    four = turned(images)
    assert four.shape == (12, 2, 28, 28)
    assert np.array_equal(np.rot90(images[1, 0].numpy()), four[4, 0])


def test_omniglot_is_split_by_character(tmp_path, monkeypatch):
    images = torch.zeros(1623, 20, 28, 28, dtype=torch.uint8)
    images[:, :, 14, 14], images[:, :, 14, 15] = (
        (torch.arange(1623) // 256)[:, None],
        (torch.arange(1623) % 256)[:, None],
    )
    monkeypatch.setattr(fewshot, "read_omniglot", lambda data: images)
    drawings = FewShotTask(FewShotSettings(characters="omniglot")).drawings
    assert {split: len(found) for split, found in drawings.items()} == {
        "train": 4560,
        "valid": 240,
        "test": 423,
    }
    upright = {
        split: {(int(a), int(b)) for a, b in found[: len(found) // turns, 0, 14, 14:16]}
        for split, turns in (("train", 4), ("valid", 4), ("test", 1))
        for found in (drawings[split],)
    }
    assert [len(numbers) for numbers in upright.values()] == [1140, 60, 423]
    assert len(set().union(*upright.values())) == 1623


def test_without_data_omniglot_is_refused_at_once(tmp_path, monkeypatch):
    _read.cache_clear()
    with pytest.raises(DataError, match=r"^omniglot: no file .*https://github.com/brendenlake/omniglot"):
        FewShotTask.create(FewShotSettings(characters="omniglot", data=str(tmp_path)))


def test_strokes_look_more_like_their_class_than_like_others(strokes):
    drawn = strokes.drawings["test"][:40].reshape(40, 20, -1).double().numpy()
    drawn -= drawn.mean((0, 1))
    drawn /= np.linalg.norm(drawn, axis=-1, keepdims=True)
    same = np.einsum("cid,cjd->cij", drawn, drawn)[:, 0, 1:].mean()
    other = np.einsum("cd,ed->ce", drawn[:, 0], drawn[:, 1])[~np.eye(40, dtype=bool)].mean()
    assert same > other + 0.15
    assert same < 0.9  # no two drawings are the same


def test_the_strokes_of_splits_differ_and_are_drawn_the_same_again(strokes):
    first = strokes.drawings["train"][0, 0]
    assert not torch.equal(first, strokes.drawings["test"][0, 0])
    assert torch.equal(draw_characters("strokes 1 train", 4, 20), strokes.drawings["train"][:4])
    assert torch.equal(draw_characters("strokes 1 train", 4, 20)[0, 0], first)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ways": 1}, r"^few-shot: `ways` has 1; expected 2 or more\.$"),
        ({"shots": (0,)}, r"^few-shot: `shots` has \[0\]; expected numbers of 1 to 19, since a class has 20"),
        ({"tested": ()}, r"^few-shot: `tested` has \[\]; expected numbers of 1 to 19"),
        (
            {"shots": (5,), "queries": 16},
            r"^few-shot: `queries` has 16; expected 1 to 15, the drawings of a cl",
        ),
        ({"shift": 28}, r"^few-shot: `shift` has 28; expected 0 to 27 pixels\.$"),
        ({"bend": 0.5}, r"^few-shot: `bend` has 0\.5; expected 0 or more and less than 0\.5\.$"),
        ({"test": 0}, r"^few-shot: `test` has 0; expected 1 or more\.$"),
    ],
    ids=["ways", "shots", "tested", "queries", "shift", "bend", "test"],
)
def test_what_is_wrong_is_said(settings, message):
    with pytest.raises(ConfigError, match=message):
        FewShotSettings(**settings)


def test_more_ways_than_classes_are_refused():
    message = r"^few-shot: `ways` has 41; expected at most 40, the classes of the valid split\.$"
    with pytest.raises(ConfigError, match=message):
        FewShotTask.create(FewShotSettings(ways=41))
