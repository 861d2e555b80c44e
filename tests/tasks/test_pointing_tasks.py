"""Point sets as tasks: sizes, splits, batches, the loss, and training answers solved by several processes."""

from math import log
from pathlib import Path

import pytest
import torch
from forking import forks

from regard.data import solving
from regard.data.points import FIRST, PointSets, own_batch, points_of, positions
from regard.data.solving import solved
from regard.data.tokens import EOS, PAD
from regard.errors import ConfigError, DataError
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
            assert torch.equal(batch.source[row, 1 : n + 1], own[:n])
            assert batch.source[row, n + 1 :].eq(0).all()
            assert batch.source[row, 0].eq(0).all()


def test_sizes_are_mixed_in_a_batch_and_test_sizes_may_be_new():
    task = make()
    assert set(task.solved("train", range(300))[1].tolist()) == {5, 6, 7, 8, 9}
    assert task.solved("test", range(20))[1].tolist() == [5] * 10 + [12] * 10


def test_log_uniform_sizes_give_every_doubling_the_same_share():
    task = make(longest=50, spread="log-uniform", train=8)
    drawn = task._sets("train").points(torch.arange(40_000))[1]
    assert (drawn.min(), drawn.max()) == (5, 50)
    share = log(2) / log(51 / 5)
    for low in (5, 10, 20):
        assert ((drawn >= low) & (drawn < 2 * low)).double().mean() == pytest.approx(share, abs=0.01)
    for n in (5, 6, 50):
        assert (drawn == n).double().mean() == pytest.approx(log((n + 1) / n) / log(51 / 5), abs=0.004)
    assert task.solved("test", range(20))[1].tolist() == [5] * 10 + [12] * 10, "test sizes are as asked for"


def test_the_spread_decides_the_sizes_and_nothing_else():
    uniform, other = (make(longest=20, spread=spread) for spread in ("uniform", "log-uniform"))
    (a, n, _), (b, m, _) = (task.solved("valid", range(20)) for task in (uniform, other))
    assert torch.equal(a, b)
    assert not torch.equal(n, m)
    fixed = make(shortest=7, longest=7, spread="log-uniform")
    assert set(fixed.solved("train", range(300))[1].tolist()) == {7}


def test_splits_share_no_set():
    task = make(shortest=5, longest=5, tests=(5,))
    seen = [str(task.solved(split, range(10))[0].tolist()) for split in ("train", "valid", "test")]
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


def span(sizes):
    return int(sizes.max() - sizes.min())


def test_groups_have_similar_sizes_and_a_few_widths():
    task = make(longest=30, groups=4, train=1000)
    plan = task.plan(0, seed=1, batch=32)
    assert [len(rows) for rows in plan] == [32] * 28, "seven pools of four batches"
    assert len({row for rows in plan for row in rows}) == 28 * 32
    assert plan == task.plan(0, seed=1, batch=32) != task.plan(1, seed=1, batch=32)
    sizes = [task.solved("train", rows)[1] for rows in plan]
    mixed = [task.solved("train", rows)[1] for rows in make(longest=30).plan(0, seed=1, batch=32)]
    assert max(map(span, sizes)) < 15 < min(map(span, mixed))
    first = [int(own.max()) for own in sizes]
    assert first != sorted(first), "groups take turns at random"
    batches = [task.batch("train", rows) for rows in plan]
    assert {batch.source.shape[1] for batch in batches} <= {9, 13, 17, 21, 25, 29, 31}
    assert all(int(batch.source_lengths.max()) <= batch.source.shape[1] for batch in batches)
    assert len(make(groups=100).plan(0, seed=1, batch=64)) == 4, "no more groups than batches"


def test_sizes_alone_are_those_of_the_sets():
    for spread in ("uniform", "log-uniform"):
        sets = PointSets("hull", "1 train", 5, 50, spread)
        numbers = torch.tensor([5, 0, 77_000])
        assert torch.equal(sets.sizes(numbers), sets.points(numbers)[1])


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


@pytest.mark.parametrize(
    ("spread", "name"),
    [("uniform", "tsp-3-6-1-train-50-v4.pt"), ("log-uniform", "tsp-3-6-log-uniform-1-train-50-v4.pt")],
    ids=["uniform", "log-uniform"],
)
def test_many_sets_are_solved_by_processes_into_one_file(tmp_path, monkeypatch, capsys, spread, name):
    monkeypatch.setattr(solving, "IN_PROCESS", 10)
    monkeypatch.setattr(solving, "LOOK", 0.0)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    sets = PointSets("tsp", "1 train", 3, 6, spread)
    numbers = torch.tensor([7, 49, 0])
    with forks():
        found = solved(sets, 50, processes=2)
    assert torch.equal(found[numbers].long(), sets.answers(numbers)), "asked for before they are there"
    assert capsys.readouterr().err == "tsp: solving 50 point sets while training\n"
    for worker in found._workers:
        assert worker.wait(timeout=60) == 0
    assert torch.equal(found[numbers].long(), sets.answers(numbers))
    assert [path.name for path in (tmp_path / "points").iterdir()] == [name]
    again = solved(sets, 50)
    if (maps := Path("/proc/self/maps")).exists():
        assert str(tmp_path / "points" / name) in maps.read_text(), "it is mapped, not read"
    assert torch.equal(again.long(), sets.answers(torch.arange(50)))
    assert capsys.readouterr().err == "", "the second time it is there"


def test_parts_that_another_run_has_solved_are_read(tmp_path, monkeypatch):
    """Answers are mixed from parts that are there, even wrong ones, and sets that are solved now."""
    monkeypatch.setattr(solving, "IN_PROCESS", 10)
    monkeypatch.setattr(solving, "PART", 16)
    monkeypatch.setenv("LOCAL_RANK", "1")  # one process of several: it starts no others
    sets = PointSets("hull", "1 train", 5, 9)
    found = solved(sets, 50, folder=str(tmp_path))
    assert found._workers == []
    numbers = torch.tensor([20, 3, 31, 49])
    right = sets.answers(numbers)
    torch.save(torch.full((16, sets.width), 5, dtype=torch.int8), found.folder / "1.pt")
    rows = found[numbers]
    assert torch.equal(rows[[1, 3]], right[[1, 3]])
    assert (rows[[0, 2]] == 5).all()


def test_a_process_that_fails_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(solving, "IN_PROCESS", 10)
    monkeypatch.setattr(solving, "LOOK", 0.0)
    with forks():
        found = solved(PointSets("riddle", "1 train", 5, 9), 50, folder=str(tmp_path), processes=1)
    found._workers[0].wait(timeout=60)
    with pytest.raises(DataError, match=r"^riddle: solving failed: KeyError: 'riddle'\.$"):
        found[torch.tensor([1])]


def test_a_batch_of_own_points_has_no_answer():
    batch = own_batch([torch.tensor([[0.5, 0.5]]), torch.tensor([[0.1, 0.2], [0.3, 0.4]])])
    assert batch.source.shape == (2, 3, 2)
    assert batch.target.tolist() == [[EOS], [EOS]]
    assert positions(torch.tensor([PAD, EOS, FIRST, FIRST + 4])).tolist() == [0, 0, 1, 5]


@pytest.mark.parametrize(
    ("sets", "text"),
    [
        ([], "own_batch: `sets` has no point set; expected one or more."),
        ([torch.zeros(0, 2)], "own_batch, set 0: `points` has no rows; expected one or more."),
        (
            [torch.zeros(3, 2), torch.zeros(3, 1)],
            "own_batch, set 1: `points` has shape (3, 1); expected (n, 2), one point a row.",
        ),
        (
            [torch.tensor([[0.0, torch.nan]])],
            "own_batch, set 0: point 0 has [0.0, nan]; expected finite numbers.",
        ),
    ],
    ids=["none", "empty", "dimension", "nan"],
)
def test_own_points_that_are_none_are_refused(sets, text):
    with pytest.raises(DataError) as caught:
        own_batch(sets)
    assert str(caught.value) == text


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
        (SortTask, {"groups": 0}, "sort: `groups` has 0; expected 1 or more."),
    ],
    ids=["order", "triangles", "tests", "train", "groups"],
)
def test_settings_are_checked(kind, settings, text):
    with pytest.raises(ConfigError) as caught:
        make(kind, **settings)
    assert str(caught.value) == text


def test_one_and_two_points_are_sets_too():
    task = make(HullTask, shortest=1, longest=2, tests=(1, 2))
    assert task.batch("test", [0]).target.tolist() == [[FIRST, EOS]]
    assert task.batch("test", [10]).target.tolist() == [[FIRST, FIRST + 1, EOS]]
