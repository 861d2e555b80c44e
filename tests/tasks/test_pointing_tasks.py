"""Point sets as tasks: sizes, splits, batches, the loss, and training answers solved by several processes."""

import numpy as np
import pytest
import torch

from regard.data import points as module
from regard.data.points import FIRST, PointSets, own_batch, points_of, positions
from regard.data.tokens import EOS, PAD
from regard.errors import ConfigError
from regard.tasks.pointing import DelaunayTask, HullTask, PointingSettings, SortTask, TourTask
from regard.train.capture import Rounding

SMALL = {"train": 300, "valid": 20, "test": 10}


def make(kind=HullTask, **settings):
    return kind.create(PointingSettings(**{"longest": 9, "tests": (5, 12), **SMALL, **settings}))


@pytest.mark.parametrize("kind", [SortTask, HullTask, DelaunayTask, TourTask])
def test_the_target_is_the_answer_closed_by_the_end(kind):
    task = make(kind)
    for split, rows in (("train", [3, 1, 299]), ("valid", [0, 19]), ("test", [0, 19])):
        points, sizes, _ = task.solved(split, rows)
        batch = task.batch(split, rows)
        for row, (own, n) in enumerate(zip(points, sizes.tolist(), strict=True)):
            T = int(batch.target_lengths[row])
            target = batch.target[row].tolist()
            assert points_of(target[: T - 1]) == task.answer(own[:n])
            assert target[T - 1] == EOS
            assert set(target[T:]) <= {PAD}
            assert int(batch.source_lengths[row]) == n + 1
            assert torch.equal(batch.source[row, 1 : n + 1], torch.from_numpy(own[:n]))
            assert batch.source[row, n + 1 :].eq(0).all()
            assert batch.source[row, 0].eq(0).all()


def test_sizes_are_mixed_in_a_batch_and_test_sizes_may_be_new():
    task = make()
    assert set(task.solved("train", range(300))[1].tolist()) == {5, 6, 7, 8, 9}
    assert task.solved("test", range(20))[1].tolist() == [5] * 10 + [12] * 10


def test_splits_share_no_set():
    task = make(shortest=5, longest=5, tests=(5,))
    seen = [task.solved(split, range(10))[0].tobytes() for split in ("train", "valid", "test")]
    assert len(set(seen)) == 3


def test_a_plan_has_every_set_once_in_whole_batches():
    task = make()
    plan = task.plan(0, seed=1, batch=64)
    assert [len(rows) for rows in plan] == [64] * 4
    assert len({row for rows in plan for row in rows}) == 256
    assert plan == task.plan(0, seed=1, batch=64)
    assert plan != task.plan(1, seed=1, batch=64)
    assert [len(rows) for rows in task.evaluation_plan("test", batch=8)] == [8, 2, 8, 2]
    assert sorted(row for rows in task.evaluation_plan("valid", batch=8) for row in rows) == list(range(20))


def test_training_batches_round_to_one_shape():
    task = make()
    batches = [task.batch("train", rows) for rows in task.plan(0, seed=1, batch=64)]
    assert all(isinstance(batch, Rounding) for batch in batches)
    rounded = {(tuple(b.source.shape), tuple(b.target.shape)) for b in (b.rounded() for b in batches)}
    assert all(source == (64, 10, 2) and target[1] % 4 == 0 for source, target in rounded)


def test_rounding_changes_no_loss():
    from regard.models.pointer import PointerConfig, PointerNetwork

    task = make()
    model = PointerNetwork(PointerConfig(dimension=2, hidden=8))
    batch = task.batch("train", range(6))
    plain, rounded = task.loss(model, batch), task.loss(model, batch.rounded())
    assert torch.equal(plain.count, rounded.count)
    torch.testing.assert_close(plain.total, rounded.total)
    assert int(plain.count) == int(batch.target_lengths.sum())


def test_the_loss_is_the_sum_of_minus_log_probabilities():
    task = make()
    batch = task.batch("valid", range(3))
    scores = torch.randn(*batch.target.shape, batch.source.shape[1])
    expected = 0.0
    for row in range(3):
        for t in range(int(batch.target_lengths[row])):
            expected -= float(scores[row, t].log_softmax(-1)[positions(batch.target)[row, t]])
    assert float(task.loss(lambda _: scores, batch).total) == pytest.approx(expected, rel=1e-5)


def test_many_sets_are_solved_by_processes_into_one_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "IN_PROCESS", 10)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    sets = PointSets("tsp", "1 train", 3, 6)
    found = sets.solved(50, processes=2)
    assert isinstance(found, np.memmap)
    assert np.array_equal(found, sets.answers(np.arange(50)))
    assert capsys.readouterr().err == "tsp: solving 50 point sets with 2 processes …\n"
    assert [path.name for path in (tmp_path / "points").iterdir()] == ["tsp-3-6-1-train-50-v3.npy"]
    sets.solved(50)
    assert capsys.readouterr().err == "", "the second time it is there"


def test_a_batch_of_own_points_has_no_answer():
    batch = own_batch([np.array([[0.5, 0.5]]), np.array([[0.1, 0.2], [0.3, 0.4]])])
    assert batch.source.shape == (2, 3, 2)
    assert batch.target.tolist() == [[EOS], [EOS]]
    assert positions(torch.tensor([PAD, EOS, FIRST, FIRST + 4])).tolist() == [0, 0, 1, 5]


@pytest.mark.parametrize(
    ("kind", "settings", "text"),
    [
        (
            HullTask,
            {"shortest": 9, "longest": 5},
            "hull: `shortest` has 9 and `longest` 5; expected 1 <= shortest <= longest.",
        ),
        (
            DelaunayTask,
            {"shortest": 2},
            "delaunay: `shortest` has 2 and `longest` 9; expected 3 <= shortest <= longest.",
        ),
        (TourTask, {"tests": (0,)}, "tsp: `tests` has [0]; expected sizes of 1 or more."),
        (SortTask, {"train": 0}, "sort: `train` has 0; expected 1 or more."),
    ],
    ids=["order", "triangles", "tests", "train"],
)
def test_settings_are_checked(kind, settings, text):
    with pytest.raises(ConfigError) as caught:
        make(kind, **settings)
    assert str(caught.value) == text


def test_one_and_two_points_are_sets_too():
    task = make(HullTask, shortest=1, longest=2, tests=(1, 2))
    assert task.batch("test", [0]).target.tolist() == [[FIRST, EOS]]
    assert task.batch("test", [10]).target.tolist() == [[FIRST, FIRST + 1, EOS]]
