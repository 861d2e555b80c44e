"""The page is there before the models' code is."""

import http.client
import json
import os
import subprocess
import sys
import threading
import time

import pytest

from regard.errors import DataError
from regard.serve.app import create_app
from regard.serve.opening import Opening
from regard.serve.server import make_server, open_socket
from regard.serve.settings import Settings


@pytest.fixture
def opening(tmp_path):
    """opening(load): the port of a server whose application `load` makes, itself, and its thread."""
    for name in ("index.html", "app.js"):
        (tmp_path / "studio").mkdir(exist_ok=True)
        (tmp_path / "studio" / name).write_text(name)
    settings = Settings(port=0, page=tmp_path)
    running = []

    def start(load):
        app, opened = Opening(settings, tmp_path, lambda: load(settings)), open_socket(settings)
        server = make_server(app, settings)
        app.failed = server.stop
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
        thread.start()
        running.append((server, thread))
        return opened.getsockname()[1], app, thread

    yield start
    for server, thread in running:
        server.stop()
        thread.join(20)
        assert not thread.is_alive()


def get(port, path, host="localhost"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers={"Host": host})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


def test_the_page_comes_before_the_application_and_questions_wait_for_it(opening):
    gate, answers = threading.Event(), []

    def load(settings):
        assert gate.wait(20)
        return create_app(settings, ["stories"], device="cpu")

    port, app, _ = opening(load)
    assert get(port, "/") == (200, "index.html")
    assert get(port, "/app.js") == (200, "app.js")
    assert get(port, "/", host="evil.example")[0] == 421
    asked = threading.Thread(target=lambda: answers.append(get(port, "/v1/models")))
    asked.start()
    asked.join(0.2)
    assert answers == []
    gate.set()
    asked.join(30)
    assert answers[0][0] == 200
    assert '"stories"' in answers[0][1]
    assert get(port, "/") == (200, "index.html")
    app.check()


def test_an_application_that_cannot_be_loaded_ends_the_server(opening):
    _, app, thread = opening(lambda settings: create_app(settings, ["nothing-at-all"]))
    thread.join(20)
    assert not thread.is_alive()
    with pytest.raises(DataError, match="no such run folder"):
        app.check()


def test_a_server_that_stops_while_it_loads_stops_its_application_too(opening):
    known = threading.Event()

    def load(settings):
        assert known.wait(20)  # it begins before `app` is known here
        while not app.state.stopping:
            time.sleep(0.01)
        return create_app(settings, ["stories"], device="cpu")

    port, app, thread = opening(load)
    known.set()
    assert get(port, "/")[0] == 200
    app.state.stopping = True
    thread.join(0.1)
    assert get(port, "/readyz")[0] == 503


HELD = """
import sys

class Held:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print("torch", flush=True)
            sys.stdin.readline()

sys.meta_path.insert(0, Held())
from regard.cli.main import main
sys.argv[1:] = ["studio", "stories", "--port", "0", "--device", "cpu", "--no-browser"]
main()
"""


def test_the_studio_serves_its_page_and_kept_examples_without_torch():
    """The import of torch is held until the page has come; a question waits for it."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environment = {key: value for key, value in os.environ.items() if key != "REGARD_TOKEN"}
    with subprocess.Popen([sys.executable, "-c", HELD], text=True, env=environment, **streams) as process:
        started = json.loads(process.stderr.readline())
        assert started["event"] == "serving"
        port = started["port"]
        assert "regard studio" in get(port, "/")[1]
        assert get(port, "/examples/translate.json")[0] == 200
        assert get(port, "/", host="evil.example")[0] == 421
        assert process.stdout.readline() == "torch\n"  # now it is asked for, and held
        assert get(port, "/examples/models.json")[0] == 200
        process.stdin.write("\n")
        process.stdin.flush()
        assert '"stories"' in get(port, "/v1/models")[1]
        process.terminate()
        process.communicate()
    assert process.returncode == 0
