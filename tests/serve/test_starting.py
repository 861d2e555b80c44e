"""`regard serve` and `regard studio` as processes and as pages."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from regard.cli.main import app
from regard.errors import ConfigError, DataError
from regard.serve.limits import Pace
from regard.serve.metrics import Metrics
from regard.serve.models import Models
from regard.serve.page import copy_page, require_page
from regard.serve.settings import Settings
from regard.serve.start import start
from regard.shipped.find import names as shipped

ASK = {"model": "stories", "story": ["Lena went to the attic."], "question": "Where is Lena?"}


def ask(port, answers):
    connection = http.client.HTTPConnection("localhost", port, timeout=60)
    connection.request("POST", "/v1/ask", json.dumps(ASK), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answers.append((answer.status, json.loads(answer.read()).get("answer")))
    connection.close()


def test_a_server_told_to_stop_answers_what_was_asked_and_ends_with_0():
    environment = {key: value for key, value in os.environ.items() if key != "REGARD_TOKEN"}
    command = [sys.executable, "-m", "regard", "serve", "stories", "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        started = json.loads(process.stderr.readline())
        assert started["event"] == "serving"
        assert started["models"] == ["stories"]
        answers = []
        threads = [threading.Thread(target=ask, args=(started["port"], answers)) for _ in range(8)]
        for thread in threads:
            thread.start()
        while not answers:  # the first one is answered: all have come
            threads[0].join(0.01)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join()
        log = [json.loads(line) for line in process.stderr.read().splitlines()]
    assert process.returncode == 0
    assert answers == [(200, "attic")] * 8
    assert {"event": "stopping", "signal": int(signal.SIGTERM)}.items() <= {
        key: value for line in log for key, value in line.items() if line["event"] == "stopping"
    }.items()


def test_an_address_that_others_reach_is_not_opened_without_a_token(monkeypatch):
    monkeypatch.delenv("REGARD_TOKEN", raising=False)
    done = CliRunner().invoke(app, ["serve", "stories", "--host", "0.0.0.0"])
    assert done.exit_code == 2
    assert done.stderr.startswith("regard: serve: `--host` has '0.0.0.0', which others can reach;")


def test_the_studio_copies_its_page_or_says_what_is_missing(monkeypatch, web, tmp_path):
    monkeypatch.setattr("regard.serve.page.copy_page", lambda folder: copy_page(folder, web))
    done = CliRunner().invoke(app, ["studio", "--static", str(tmp_path / "site")])
    assert done.exit_code == 0
    assert done.stdout.strip() == str(tmp_path / "site" / "index.html")


def test_the_studio_shows_all_that_ships_and_opens_the_browser(monkeypatch, web):
    started, opened = [], []
    monkeypatch.setattr("regard.serve.page.require_page", lambda: web)
    monkeypatch.setattr("webbrowser.open", opened.append)

    def start(settings, names, *, device, loading, ready):
        started.append((settings.page, len(names), loading))
        ready("http://127.0.0.1:8000/")

    monkeypatch.setattr("regard.serve.start.start", start)
    for options in ([], ["--no-browser"], ["--token", "0123456789abcdef"]):
        assert CliRunner().invoke(app, ["studio", *options]).exit_code == 0
    assert started == [(web, len(shipped()), False)] * 3
    assert opened == ["http://127.0.0.1:8000/", "http://127.0.0.1:8000/#token=0123456789abcdef"]


@pytest.mark.parametrize(("host", "name"), [("0.0.0.0", "localhost"), ("127.0.0.1", "127.0.0.1")])
def test_the_address_that_is_told_has_a_name_that_the_server_answers_to(monkeypatch, web, host, name):
    told = []
    server = SimpleNamespace(stop=None, run=lambda sockets: [each.close() for each in sockets])
    monkeypatch.setattr("regard.serve.start.make_server", lambda app, settings: server)
    monkeypatch.setattr("regard.serve.start.log_to_stderr", lambda: None)
    settings = Settings(host=host, port=0, page=web, token="0123456789abcdef")
    start(settings, [], loading=False, ready=told.append)
    assert re.fullmatch(rf"http://{name}:\d+/", told[0])
    assert name in settings.allowed


def test_models_that_cannot_be_served_are_named():
    with pytest.raises(DataError, match="twice"):
        Models(["stories", "stories"], Pace(), Metrics())
    with pytest.raises(DataError, match="no such run folder"):
        Models(["nothing-at-all"], Pace(), Metrics())


def test_a_server_is_ready_when_its_models_are_loaded(made):
    with made() as client:
        client.app.state.models.ready = False
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "loading")
        client.app.state.models.ready = True
        assert client.get("/readyz").status_code == 200
        client.app.state.stopping = True
        assert client.get("/readyz").json()["error"]["code"] == "stopping"


@pytest.fixture
def web(tmp_path):
    for path in ("studio/index.html", "studio/examples/models.json", "views/a.js", "vendor/b.js"):
        file = tmp_path / "web" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(path)
    (tmp_path / "web" / "views" / "__pycache__").mkdir()
    return tmp_path / "web"


def test_the_page_can_be_copied_with_its_examples(web, tmp_path):
    page = copy_page(tmp_path / "site", web)
    assert 'url=studio/"' in page.read_text()
    copied = sorted(str(path.relative_to(page.parent)) for path in page.parent.rglob("*"))
    assert "studio/examples/models.json" in copied
    assert "views/a.js" in copied
    assert "views/__pycache__" not in copied
    with pytest.raises(ConfigError, match="not empty"):
        copy_page(tmp_path / "site", web)


def test_a_copy_of_regard_without_the_page_says_so(tmp_path):
    with pytest.raises(ConfigError, match=r"has no index\.html"):
        require_page(tmp_path)


def test_the_page_is_at_the_root_and_what_it_imports_beside_it(made, web):
    with made(page=web) as client:
        assert client.get("/").text == "studio/index.html"
        assert client.get("/examples/models.json").text == "studio/examples/models.json"
        assert client.get("/views/a.js").text == "views/a.js"
        assert client.get("/vendor/b.js").text == "vendor/b.js"
        assert client.get("/healthz").text == "ok\n"
        assert client.get("/").headers["cache-control"] == "no-cache"
        assert client.get("/v1/models").headers["cache-control"] == "no-store"
        assert client.post("/", json={}).status_code == 405
