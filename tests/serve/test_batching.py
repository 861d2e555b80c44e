"""One queue and one thread a model: who waits together is computed together, and gets the own answer."""

import asyncio
import threading
import time

import pytest

from regard.decode.cancel import check_cancelled
from regard.errors import DataError
from regard.serve.batching import Worker
from regard.serve.limits import Pace
from regard.serve.metrics import Metrics
from regard.serve.problems import Problem


class Compute:
    """Doubles numbers, and remembers the batches; told to, it waits or fails."""

    def __init__(self):
        self.batches, self.gate, self.fail, self.begun = [], threading.Event(), {}, 0
        self.gate.set()

    def __call__(self, key, items):
        self.begun += 1
        self.gate.wait(10)
        self.batches.append((key, list(items)))
        for item in items:
            if item in self.fail:
                raise self.fail[item]
        return [2 * item for item in items]


@pytest.fixture
def make():
    workers = []

    def made(**pace):
        compute, metrics = Compute(), Metrics()
        worker = Worker("double", compute, Pace(**pace), metrics)
        workers.append((worker, compute))
        return worker, compute, metrics

    yield made
    for worker, compute in workers:
        compute.gate.set()
        worker.stop(5)


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


def test_what_waits_together_is_computed_together_and_everyone_gets_the_own_answer(make):
    worker, compute, _ = make(linger=0.05, longest_linger=0.5)

    async def ask():
        return await asyncio.gather(*(worker.submit("k", n) for n in range(40)))

    assert asyncio.run(ask()) == [2 * n for n in range(40)]
    assert len(compute.batches) < 40


def test_items_of_another_key_are_not_in_the_batch(make):
    worker, compute, _ = make(linger=0.02)

    async def ask():
        return await asyncio.gather(*(worker.submit(n % 2, n) for n in range(10)))

    assert asyncio.run(ask()) == [2 * n for n in range(10)]
    assert all(n % 2 == key for key, items in compute.batches for n in items)


def test_a_batch_is_no_larger_than_allowed(make):
    worker, compute, _ = make(batch=4, linger=0.05)

    async def ask():
        await asyncio.gather(*(worker.submit("k", n) for n in range(10)))

    asyncio.run(ask())
    assert max(len(items) for _, items in compute.batches) <= 4


def test_large_items_fill_a_batch_sooner_and_one_alone_may_be_too_large(make):
    worker, compute, _ = make(batch=4, linger=0.05)

    async def ask():
        await asyncio.gather(*(worker.submit("k", n, 3) for n in range(3)), worker.submit("k", 9, 70))

    asyncio.run(ask())
    assert [items for _, items in compute.batches] == [[0], [1], [2], [9]]


def test_an_item_that_cannot_be_computed_takes_no_other_with_it(make):
    worker, compute, _ = make(linger=0.05)
    compute.fail = {3: DataError("ask: `n` has 3; expected another."), 5: RuntimeError("secret")}

    async def ask():
        return await asyncio.gather(*(worker.submit("k", n) for n in range(8)), return_exceptions=True)

    found = asyncio.run(ask())
    assert [each for n, each in enumerate(found) if n not in (3, 5)] == [0, 2, 4, 8, 12, 14]
    assert (found[3].status, found[3].message) == (422, "ask: `n` has 3; expected another.")
    assert found[5].status == 500
    assert "secret" not in found[5].message


def test_a_full_queue_refuses(make):
    worker, compute, _ = make(waiting=3, batch=1, linger=0.0)
    compute.gate.clear()

    async def ask():
        first = asyncio.create_task(worker.submit("k", 0))
        await until(lambda: compute.begun == 1)
        others = [asyncio.create_task(worker.submit("k", n)) for n in (1, 2, 3)]
        await until(lambda: worker.waiting == 3)
        with pytest.raises(Problem) as refused:
            await worker.submit("k", 4)
        compute.gate.set()
        return refused.value.status, await asyncio.gather(first, *others)

    assert asyncio.run(ask()) == (429, [0, 2, 4, 6])


def test_a_cancelled_request_leaves_the_queue_and_is_not_computed(make):
    worker, compute, _ = make(batch=1, linger=0.0)
    compute.gate.clear()

    async def ask():
        first = asyncio.create_task(worker.submit("k", 1))
        await until(lambda: compute.begun == 1)
        second = asyncio.create_task(worker.submit("k", 2))
        await until(lambda: worker.waiting == 1)
        second.cancel()
        await until(lambda: worker.waiting == 0)
        compute.gate.set()
        return await first

    assert asyncio.run(ask()) == 2
    worker.stop(5)
    assert compute.batches == [("k", [1])]


class Endless:
    """Work of many steps that never ends by itself."""

    def __init__(self):
        self.steps, self.ended = 0, threading.Event()

    def __call__(self, key, items):
        if key == "short":
            return list(items)
        try:
            while True:
                check_cancelled()
                self.steps += 1
                time.sleep(0.001)
        finally:
            self.ended.set()


def test_work_that_nobody_waits_for_any_more_stops_at_its_next_step():
    compute, metrics = Endless(), Metrics()
    worker = Worker("endless", compute, Pace(linger=0.1, longest_linger=1.0), metrics)

    async def ask():
        asked = [asyncio.create_task(worker.submit("long", n)) for n in range(2)]
        await until(lambda: compute.steps > 2)
        asked[0].cancel()
        before = compute.steps
        await until(lambda: compute.steps > before + 2)  # the other still waits for it
        asked[1].cancel()
        await asyncio.to_thread(compute.ended.wait, 10)
        assert compute.ended.is_set()
        await asyncio.gather(*asked, return_exceptions=True)
        return await worker.submit("short", 7)  # by the same thread

    assert asyncio.run(ask()) == 7
    assert worker.stop(5)
    assert 'regard_cancelled_batches_total{model="endless"} 1' in metrics.text()
    assert "regard_workers_replaced_total{" not in metrics.text()


def test_what_takes_too_long_is_answered_with_504(make):
    worker, compute, _ = make(seconds=0.05)
    compute.gate.clear()
    with pytest.raises(Problem) as refused:
        asyncio.run(worker.submit("k", 1))
    assert refused.value.status == 504


@pytest.mark.parametrize("death", [SystemExit(), MemoryError(), KeyboardInterrupt()])
def test_a_worker_that_dies_is_replaced(make, death):
    worker, compute, metrics = make()
    compute.fail = {1: death}

    async def ask():
        try:
            found = await worker.submit("k", 1)
        except Problem as problem:
            found = problem.status
        return found, await worker.submit("k", 2)

    assert asyncio.run(ask()) == (500, 4)
    if not isinstance(death, Exception):
        assert 'regard_workers_replaced_total{model="double"} 2' in metrics.text()


@pytest.mark.parametrize(("count", "size"), [(8, 1), (64, 8)])
def test_what_a_dead_worker_was_computing_is_computed_again_in_smaller_batches(count, size):
    metrics, batches = Metrics(), []

    def compute(key, items):
        batches.append(list(items))
        if len(batches) == 1:
            raise SystemExit
        return [2 * item for item in items]

    worker = Worker("double", compute, Pace(linger=0.05, longest_linger=0.5), metrics)

    async def ask():
        return await asyncio.gather(*(worker.submit("k", n) for n in range(count)))

    assert asyncio.run(ask()) == [2 * n for n in range(count)]
    assert batches == [list(range(count)), *(list(range(n, n + size)) for n in range(0, count, size))]
    assert 'regard_workers_replaced_total{model="double"} 1' in metrics.text()
    assert worker.stop(5)


@pytest.mark.parametrize(("count", "deaths"), [(1, 2), (8, 2), (64, 3)])
def test_a_request_that_kills_its_worker_again_is_told_so_and_takes_no_other_with_it(make, count, deaths):
    worker, compute, metrics = make(linger=0.05, longest_linger=0.5)
    compute.fail = {0: SystemExit()}

    async def ask():
        return await asyncio.gather(*(worker.submit("k", n) for n in range(count)), return_exceptions=True)

    found = asyncio.run(ask())
    assert found[1:] == [2 * n for n in range(1, count)]
    assert (found[0].status, found[0].message) == (
        500,
        "The worker died each time it computed this request. It will not be retried.",
    )
    assert f'regard_workers_replaced_total{{model="double"}} {deaths}' in metrics.text()


def test_stopping_waits_for_the_successor_of_a_worker_that_dies(make):
    worker, compute, _ = make(linger=0.0)
    compute.gate.clear()
    compute.fail = {1: SystemExit()}

    async def ask():
        asked = asyncio.create_task(worker.submit("k", 1))
        await until(lambda: compute.begun == 1)
        ended = asyncio.create_task(asyncio.to_thread(worker.stop, 5))
        await asyncio.sleep(0.02)
        compute.gate.set()
        return await asyncio.gather(asked, return_exceptions=True), await ended

    [problem], ended = asyncio.run(ask())
    assert (problem.status, ended) == (500, True)
    assert len(compute.batches) == 2


def test_one_bad_request_costs_a_batch_few_computations(make):
    worker, compute, _ = make(linger=0.1, longest_linger=1.0)
    compute.fail = {37: DataError("ask: `n` has 37; expected another.")}

    async def ask():
        return await asyncio.gather(*(worker.submit("k", n) for n in range(64)), return_exceptions=True)

    found = asyncio.run(ask())
    assert [each for n, each in enumerate(found) if n != 37] == [2 * n for n in range(64) if n != 37]
    assert len(compute.batches) <= 13  # halves, and halves of the half that fails


def test_a_worker_that_hangs_is_replaced_and_its_late_answer_dropped(make):
    worker, compute, _ = make(seconds=0.04, batch=1, linger=0.0)
    compute.gate.clear()

    async def ask():
        with pytest.raises(Problem):
            await worker.submit("k", 1)
        await asyncio.sleep(0.1)
        with pytest.raises(Problem):  # it finds that the first still runs, and replaces the thread
            await worker.submit("k", 2)
        compute.gate.set()
        worker.pace = Pace()
        return await worker.submit("k", 3)

    assert asyncio.run(ask()) == 6


def test_stopping_finishes_what_waits_and_takes_nothing_more(make):
    worker, compute, _ = make(batch=2, linger=0.0)
    compute.gate.clear()

    async def ask():
        asked = [asyncio.create_task(worker.submit("k", 0))]
        await until(lambda: compute.begun == 1)
        asked += [asyncio.create_task(worker.submit("k", n)) for n in range(1, 6)]
        await until(lambda: worker.waiting == 5)
        ended = asyncio.create_task(asyncio.to_thread(worker.stop, 5))
        await asyncio.sleep(0.02)
        with pytest.raises(Problem) as refused:
            await worker.submit("k", 9)
        compute.gate.set()
        return refused.value.status, await ended, await asyncio.gather(*asked)

    assert asyncio.run(ask()) == (503, True, [0, 2, 4, 6, 8, 10])


def test_one_request_does_not_wait_long_for_others(make):
    worker, _, _ = make()

    async def ask():
        await worker.submit("k", 0)
        began = time.monotonic()
        await worker.submit("k", 1)
        return time.monotonic() - began

    assert asyncio.run(ask()) < 1.0
