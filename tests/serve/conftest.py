import threading
import time
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

# a machine with a GPU needs no more than pytest; it is asked for nothing here
collect_ignore_glob = [] if find_spec("fastapi") else ["test_*.py"]

NAMES = (
    *("demo-rnnsearch", "en-fr", "sort", "ntm-copy", "ntm-recall", "stories", "lstmn"),
    *("shapes-captions-hard", "snail-omniglot", "sagan-shapes", "entailment"),
)


@pytest.fixture(scope="session")
def client(tmp_path_factory):
    """A client of one application with a model of each kind; they are loaded when they are asked."""
    from fastapi.testclient import TestClient

    from regard.serve.app import create_app
    from regard.serve.settings import Settings

    settings = Settings(runs=tmp_path_factory.mktemp("runs"))
    with TestClient(create_app(settings, NAMES, device="cpu"), base_url="http://localhost:8000") as made:
        yield made


@pytest.fixture
def made():
    """made(["stories"], token="…"): a client of an application with these settings."""
    from fastapi.testclient import TestClient

    from regard.serve.app import create_app
    from regard.serve.settings import Settings

    def make(names=("stories",), **settings):
        app = create_app(Settings(**settings), names, device="cpu")
        return TestClient(app, base_url="http://localhost:8000")

    return make


@contextmanager
def serving(app, settings):
    """A real server in a thread; its port."""
    from regard.serve.server import make_server, open_socket

    opened = open_socket(settings)
    server = make_server(app, settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield opened.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def server():
    """server(["stories"], pace=Pace(…)): a context with a real server of these models."""
    from regard.serve.app import create_app
    from regard.serve.limits import Pace
    from regard.serve.settings import Settings

    def make(names=("stories",), pace=None, **settings):
        chosen = Settings(port=0, pace=pace or Pace(), **settings)
        return serving(create_app(chosen, names, device="cpu"), chosen)

    return make
