"""The setup of every test: one thread, a seed of its own, and failures that say how to reproduce them.

REGARD_SEED_OFFSET=3 shifts every seed, REGARD_TEST_THREADS=2 gives torch two threads, and REGARD_TEST_ORDER=5
shuffles the tests; `make test-matrix` runs the suite with all of them.
"""

import os
import random
import shutil
import signal
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from documentation import generator
from seeds import offset, offset_seed

torch.set_num_threads(int(os.environ.get("REGARD_TEST_THREADS", "1")))
deaf = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
if deaf and threading.current_thread() is threading.main_thread():
    # a background shell makes us and our children ignore Ctrl-C, which tests send
    signal.signal(signal.SIGINT, signal.default_int_handler)

try:
    import hypothesis
except ImportError:  # a GPU machine needs only pytest
    hypothesis = None
else:  # no state is kept between runs, and a slow machine fails no test
    hypothesis.settings.register_profile("suite", database=None, deadline=None)
    hypothesis.settings.load_profile("suite")


def pytest_configure(config: pytest.Config) -> None:
    """Hide GPUs from all tests except those marked `gpu`."""
    if config.getoption("markexpr") != "gpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def seed_of(item: pytest.Item) -> int:
    """The seed of a test, from its name and the offset only, so that order and selection do not matter."""
    return seed_named(item.nodeid)


def seed_named(name: str) -> int:
    return offset_seed(zlib.crc32(name.encode())) % 2**31


def seed_all(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def drawn() -> list[object]:
    """The states of torch's and NumPy's generators. Python's generator is excluded: imports draw from it."""
    return [torch.get_rng_state().numpy().tobytes(), repr(np.random.get_state(legacy=False))]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    seed_all(seed_of(item))
    if hypothesis is not None and hypothesis.is_hypothesis_test(item.obj):
        hypothesis.seed(seed_of(item))(item.obj)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest):
    """Seed shared fixtures by name, and restore the generators: it does not matter which test asks first."""
    if fixturedef.scope == "function":
        return (yield)
    states = torch.get_rng_state(), random.getstate(), np.random.get_state(legacy=False)
    seed_all(seed_named(f"{fixturedef.baseid}::{fixturedef.argname}[{request.param_index}]"))
    try:
        return (yield)
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):
    """Fail a file that draws random numbers at import: they would depend on the files imported before it."""
    if not isinstance(collector, pytest.Module):
        return (yield)
    before = drawn()
    report = yield
    if report.passed and drawn() != before:
        report.outcome = "failed"
        report.longrepr = (
            f"{collector.nodeid} draws from a global generator at import; draw in a test or a fixture"
        )
    return report


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m gpu` skip files without such tests; their imports may be missing on a GPU machine."""
    if config.option.markexpr != "gpu" or not collection_path.name.startswith("test_"):
        return None
    return "mark.gpu" not in collection_path.read_text() or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """REGARD_TEST_ORDER=5 shuffles the files, and the tests in each file.

    Tests that need a browser, the built site, Ray or many processes run only if selected, as with `-m
    browser`.
    """
    apart = {"browser", "documentation", "ray", "many"} - {config.option.markexpr}
    items[:] = [item for item in items if not any(item.get_closest_marker(name) for name in apart)]
    order = os.environ.get("REGARD_TEST_ORDER")
    if order:
        items.sort(
            key=lambda item: (
                zlib.crc32(f"{order} {item.path}".encode()),
                zlib.crc32(f"{order} {item.nodeid}".encode()),
            )
        )


def pytest_report_header() -> str:
    names = ("REGARD_SEED_OFFSET", "REGARD_TEST_THREADS", "REGARD_TEST_ORDER")
    return ", ".join(f"{name}={os.environ.get(name, '')}" for name in names)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if report.failed:
        report.sections.append(("seed", f"REGARD_SEED_OFFSET={offset()}: torch.manual_seed({seed_of(item)})"))
    return report


@pytest.fixture(scope="session")
def tables():
    """docs/generator/tables.py, which writes the tables of README and documentation."""
    return generator("tables")


@pytest.fixture(scope="session")
def chromium():
    """The browser of `make test-browser`, shared by all tests, because Playwright starts only once."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("REGARD_CHROMIUM") or shutil.which("chromium")
    assert path, "there is no chromium; on Debian: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def is_mapped(monkeypatch):
    """Whether a tensor lies in a file that was mapped."""
    places, map_file = set(), torch.from_file

    def from_file(*given, **options):
        found = map_file(*given, **options)
        places.add(found.untyped_storage().data_ptr())
        return found

    monkeypatch.setattr(torch, "from_file", from_file)
    return lambda tensor: tensor.untyped_storage().data_ptr() in places
