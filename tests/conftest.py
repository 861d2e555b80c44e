"""One thread, one seed per test; a failing test prints the seed it ran with."""

import signal
import sys
import threading
import zlib
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)
deaf = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
if deaf and threading.current_thread() is threading.main_thread():
    # a shell that starts us in the background lets us, and what we start, ignore Ctrl-C, which tests press
    signal.signal(signal.SIGINT, signal.default_int_handler)


def seed_of(item: pytest.Item) -> int:
    """The seed of a test: a function of its name, so that order and selection change nothing."""
    return zlib.crc32(item.nodeid.encode()) % 2**31


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    torch.manual_seed(seed_of(item))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        report.sections.append(("seed", f"torch.manual_seed({seed_of(item)})"))


@pytest.fixture(scope="session")
def tables():
    """docs/_hooks/tables.py, which makes the tables of README and documentation."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "_hooks"))
    try:
        import tables

        return tables
    finally:
        sys.path.pop(0)
