import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from train_support import TinySettings, TinyTask

from regard.data.batches import Plan
from regard.errors import DataError
from regard.train.batch_stream import Stream, join_small, moved_position, plan_epoch


def stream(processes: int = 1, process: int = 0, **place: int) -> Stream:
    return Stream(TinyTask(TinySettings()), seed=3, batch=9, processes=processes, process=process, **place)


def test_an_epoch_sees_every_example_once_and_the_next_in_another_order() -> None:
    walk = stream()
    epochs: list[list[int]] = []
    while len(epochs) < 3:
        rows = walk.next()
        if walk.epoch == len(epochs):
            epochs.append([])
        epochs[-1] += rows
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(40))
    assert epochs[0] != epochs[1]


def test_a_place_is_two_numbers() -> None:
    walk = stream()
    for _ in range(20):
        walk.next()
    again = stream(epoch=walk.epoch, position=walk.position)
    assert [again.next() for _ in range(20)] == [walk.next() for _ in range(20)]


def test_processes_share_each_batch() -> None:
    # the plan is made for the batch of all processes together
    first, second = stream(2, 0), stream(2, 1)
    for epoch in range(3):
        plan = TinyTask(TinySettings()).plan(epoch, seed=3, batch=18)
        for rows in join_small(plan, 2):
            assert (first.next(), second.next()) == (rows[::2], rows[1::2])
    assert first.epoch == second.epoch == 2


def test_a_batch_smaller_than_the_processes_joins_its_neighbour() -> None:
    assert list(join_small([[1], [2, 3, 4], [5], [6, 7], [8]], 2)) == [[1, 2, 3, 4, 5], [6, 7, 8]]
    assert list(join_small([[1], [2], [3]], 2)) == [[1, 2, 3]]
    assert list(join_small([[], [1], []], 1)) == [[1]]
    assert list(join_small([[1]], 2)) == []


@pytest.mark.parametrize(("were", "processes"), [(1, 2), (2, 1), (3, 2), (2, 2)])
def test_with_other_processes_an_epoch_goes_on_after_the_same_share(were: int, processes: int) -> None:
    task = TinyTask(TinySettings())
    plans = {n: plan_epoch(task, 1, seed=3, batch=9, processes=n) for n in (were, processes)}
    for position in range(len(plans[were]) + 1):
        moved = moved_position(
            task, seed=3, batch=9, epoch=1, position=position, were=were, processes=processes
        )
        done, before = moved / len(plans[processes]), position / len(plans[were])
        assert 0 <= done - before < 1 / len(plans[processes])
        walk = stream(processes, epoch=1, position=moved)
        rows = walk.next()
        if moved < len(plans[processes]):
            assert rows == list(plans[processes][moved][::processes])
        else:
            assert (walk.epoch, walk.position) == (2, 1)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(2, 4))
def test_joined_batches_of_tensors_are_those_of_lists(counts: list[int], least: int) -> None:
    starts = torch.tensor([0, *counts]).cumsum(0)
    plan = Plan(torch.arange(sum(counts)), starts)
    joined = join_small(plan, least)
    assert list(joined) == list(join_small(list(plan), least))
    if sum(counts) >= least:
        assert [row for rows in joined for row in rows] == list(range(sum(counts)))
        assert all(len(rows) >= least for rows in joined)


def test_a_plan_whose_batches_are_large_enough_stays_in_its_tensors() -> None:
    plan = Plan(torch.arange(6), torch.tensor([0, 2, 6]))
    assert join_small(plan, 2) is plan


def test_a_plan_without_work_for_everyone_is_an_error() -> None:
    task = TinyTask(TinySettings(examples=1))
    with pytest.raises(
        DataError, match="TinyTask: `plan` has fewer than 2 examples; expected one per process"
    ):
        Stream(task, seed=1, batch=9, processes=2, process=0)
