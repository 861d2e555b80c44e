"""What `launch` hands to Triton, and what it remembers: no GPU, and a kernel that writes down its calls."""

from types import SimpleNamespace

import pytest
import torch

from regard.kernels import launching


class Kernel:
    """A Triton kernel, as far as `launch` looks at it."""

    def __init__(self):
        self.asked, self.ran = [], []

    def __getitem__(self, grid):
        def asked(*arguments, **options):
            self.asked.append((grid, arguments, options))
            return Compiled(self)

        return asked


class Compiled:
    """What Triton has compiled: launched by its own `run`, or as the kernel is."""

    function, packed_metadata = "function", "metadata"

    def __init__(self, kernel):
        self.run = lambda *all_of_it: kernel.ran.append(all_of_it)
        self.kernel = kernel

    def __getitem__(self, grid):
        return lambda *arguments: self.kernel.ran.append((grid, arguments))


def on_a_gpu(address, dtype=torch.float32, device=0):
    return SimpleNamespace(data_ptr=lambda: address, dtype=dtype, get_device=lambda: device)


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setattr(launching, "_compiled", {})
    monkeypatch.setattr(launching, "_together", {})
    monkeypatch.setattr(launching, "_release", lambda: "3.6")
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 77, raising=False)
    return Kernel()


def launch(kernel, given, made, sizes=(5,), numbers=(2.0,), constants=(True, 8)):
    launching.launch(kernel, (3, 2, 1), given, made, sizes, numbers, constants, warps=2)


def test_what_was_compiled_runs_with_addresses_and_without_asking_triton(kernel):
    x, y = on_a_gpu(32), on_a_gpu(64)
    launch(kernel, (x,), (y,))
    assert kernel.asked == [((3, 2, 1), (x, y, 5, 2.0, True, 8), {"num_warps": 2, "maxnreg": None})]
    launch(kernel, (on_a_gpu(160),), (on_a_gpu(96),), numbers=(0.5,))
    hooks = (None, None, None)
    assert kernel.ran == [(3, 2, 1, 77, "function", "metadata", *hooks, 160, 96, 5, 0.5, True, 8)]
    assert len(kernel.asked) == 1


def test_places_inside_a_tensor_are_handed_over_as_addresses(kernel):
    class Space(list):
        def data_ptr(self):
            return 1024

    space = Space(range(20))

    def launch():
        given, made = (on_a_gpu(32),), (on_a_gpu(64),)
        launching.launch(kernel, (1, 1, 1), given, made, (5,), (), (), inside=(space, (0, 8)))

    launch()
    (_, (_, first, second, _, size), _) = kernel.asked[0]
    assert (first, second, size) == (space, space[8:], 5)
    launch()
    assert kernel.ran[0][9:] == (32, 1024, 1024 + 4 * 8, 64, 5)


def test_a_release_of_triton_that_nobody_has_looked_at_launches_in_its_own_way(kernel, monkeypatch):
    monkeypatch.setattr(launching, "_release", lambda: "4.0")
    x, y = on_a_gpu(32), on_a_gpu(64)
    for _ in range(2):
        launch(kernel, (x,), (y,))
    assert len(kernel.asked) == 1
    assert kernel.ran == [((3, 2, 1), (x, y, 5, 2.0, True, 8))]


@pytest.mark.parametrize(
    "change",
    [
        {"given": (on_a_gpu(36),)},
        {"given": (on_a_gpu(32, torch.bfloat16),)},
        {"given": (on_a_gpu(32, device=1),)},
        {"given": (on_a_gpu(32, device=-1),)},
        {"made": (on_a_gpu(68),)},
        {"sizes": (6,)},
        {"constants": (False, 8)},
    ],
    ids=["begins elsewhere", "dtype", "another GPU", "a CPU", "result begins elsewhere", "size", "constant"],
)
def test_triton_is_asked_again_where_it_could_answer_otherwise(change, kernel):
    call = {"given": (on_a_gpu(32),), "made": (on_a_gpu(64),)}
    launch(kernel, **call)
    launch(kernel, **call | change)
    assert len(kernel.asked) == 2
    assert kernel.ran == []


def test_nothing_is_remembered_of_tensors_on_a_cpu(kernel):
    for _ in range(2):
        launch(kernel, (torch.zeros(4),), (torch.zeros(4),))
    assert len(kernel.asked) == 2
    assert launching._compiled == {}


def together(kernel, given, made, facts=(7,), numbers=(2.0, 3.0)):
    planned = []

    def plan(facts):
        planned.append(facts)
        yield launching.Launch(kernel, (3, 2, 1), (0, 2), facts, (), (True,), warps=2)
        yield launching.Launch(kernel, (1, 1, 1), (2, 1, 3), (), (1, 0), (8,))

    for _ in range(2):
        launching.launch_together(PLANS.setdefault(id(kernel), plan), facts, given, made, numbers)
    return planned


PLANS = {}
PAIR = (on_a_gpu(32), on_a_gpu(48)), (on_a_gpu(64), on_a_gpu(80))


def test_several_launches_are_planned_and_looked_up_once(kernel):
    (x, y), (a, b) = PAIR
    assert together(kernel, (x, y), (a, b)) == [(7,)]
    options = {"num_warps": 2, "maxnreg": None}
    assert kernel.asked[0] == ((3, 2, 1), (x, a, 7, True), options)
    assert kernel.asked[1] == ((1, 1, 1), (a, y, b, 3.0, 2.0, 8), options | {"num_warps": 4})
    first, second = kernel.ran
    assert first == (3, 2, 1, 77, "function", "metadata", None, None, None, 32, 64, 7, True)
    assert second == (1, 1, 1, 77, "function", "metadata", None, None, None, 64, 48, 80, 3.0, 2.0, 8)


@pytest.mark.parametrize(
    ("change", "remembered"),
    [
        ({"given": (on_a_gpu(36), on_a_gpu(48))}, 0),
        ({"given": (on_a_gpu(32), on_a_gpu(48, device=1))}, 0),
        ({"given": (on_a_gpu(32, device=-1), on_a_gpu(48))}, 0),
        ({"made": (on_a_gpu(64), on_a_gpu(81))}, 0),
        ({"given": (on_a_gpu(32, torch.bfloat16), on_a_gpu(48))}, 1),
        ({"facts": (8,)}, 1),
    ],
    ids=["begins elsewhere", "another GPU", "a CPU", "result begins elsewhere", "dtype", "fact"],
)
def test_several_launches_are_planned_again_where_they_could_be_others(change, remembered, kernel):
    given, made = PAIR
    together(kernel, given, made)
    asked, ran = len(kernel.asked), len(kernel.ran)
    together(kernel, **{"given": given, "made": made} | change)
    assert len(launching._together) == 1 + remembered
    assert len(kernel.asked) > asked
    if not remembered:  # one by one, each as `launch` has it
        assert len(kernel.asked) + len(kernel.ran) == asked + ran + 4


def test_several_launches_of_a_release_that_nobody_has_looked_at_are_not_remembered(kernel, monkeypatch):
    monkeypatch.setattr(launching, "_release", lambda: "4.0")
    together(kernel, *PAIR)
    assert launching._together == {}
    assert len(kernel.asked) == 2
    assert len(kernel.ran) == 2
