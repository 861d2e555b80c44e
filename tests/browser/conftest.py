"""The studio in Chromium: once from a plain folder with its examples, once with the server behind it."""

import functools
import http.server
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

WEB = Path(__file__).parents[2] / "regard/web"
WAIT = 20_000  # milliseconds, for a busy machine


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


@pytest.fixture(scope="session")
def static():
    """The address of the page on a web host that knows nothing but files."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(WEB)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/studio/"
    server.shutdown()
    server.server_close()
    thread.join()


@contextmanager
def serving(names, **settings):
    """The address of the page with a real server behind it."""
    from regard.serve.app import create_app
    from regard.serve.server import make_server, open_socket
    from regard.serve.settings import Settings

    chosen = Settings(port=0, page=WEB, **settings)
    opened = open_socket(chosen)
    server = make_server(create_app(chosen, names), chosen)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{opened.getsockname()[1]}/"
    server.should_exit = True
    thread.join(30)


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Where the live server looks for runs, comparisons and models of transformers."""
    made = tmp_path_factory.mktemp("folders")
    for name in ("runs", "comparisons", "models"):
        (made / name).mkdir()
    return made


@pytest.fixture(scope="session")
def live(folders):
    """The address of the page with all shipped models behind it."""
    from regard.shipped.find import names

    own = {name: folders / name for name in ("runs", "comparisons")}
    with serving(names(), folder=folders / "models", **own) as address:
        yield address


@pytest.fixture(scope="session")
def locked():
    """The address of a server that others can reach, and so asks for a token; and the token."""
    token = "0123456789abcdef0123456789abcdef"
    with serving(["stories"], host="0.0.0.0", token=token) as address:
        yield address, token


@pytest.fixture
def visit(chromium):
    """Open an address; at the end of the test the console must be without errors."""
    contexts, problems = [], []

    def go(address, *, width=1280, height=900, still=True, **settings):
        motion = "reduce" if still else "no-preference"
        context = chromium.new_context(
            viewport={"width": width, "height": height}, reduced_motion=motion, **settings
        )
        context.set_default_timeout(WAIT)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(_told(said)) if _is_error(said) else None)
        page.on("request", lambda request: problems.append(request.url) if _is_foreign(request) else None)
        page.goto(address)
        page.wait_for_selector("main h1")
        return page

    go.problems = problems
    yield go
    for context in contexts:
        context.close()
    assert problems == []


def _is_error(said):
    asked = said.location.get("url", "").endswith("/v1/models")  # how a page learns of no server, or a token
    return said.type == "error" and not asked


def _told(said):
    return f"{said.text} {said.location.get('url', '')}"


def _is_foreign(request):
    return not request.url.startswith(("http://127.0.0.1", "blob:", "data:"))


@pytest.fixture(scope="session")
def axe():
    """The script of axe-core, which `npm install` brings."""
    path = WEB.parents[1] / "node_modules/axe-core/axe.min.js"
    assert path.is_file(), "axe-core is not installed; run: npm install"
    return path.read_text(encoding="utf-8")


@pytest.fixture
def check_access(axe):
    """What axe-core finds wrong with a page for people who cannot see it, or not well."""

    def check(page):
        page.evaluate(axe)
        # the corner of the grid of heads, between the two lines of numbers, is empty
        found = page.evaluate("axe.run(document, {rules: {'empty-table-header': {enabled: false}}})")
        return [
            f"{each['id']}: {each['help']}: {[node['html'][:160] for node in each['nodes'][:3]]}"
            for each in found["violations"]
        ]

    return check


@pytest.fixture
def save():
    """Save a card's drawing in each form; the files' beginnings."""

    def saved(page, card):
        found = {}
        for name in ("PNG picture", "SVG drawing", "HTML page"):
            card.get_by_role("button", name="Save").click()
            with page.expect_download() as waiting:
                card.get_by_role("button", name=name).click()
            found[Path(waiting.value.suggested_filename).suffix] = Path(waiting.value.path()).read_bytes()
        assert found[".png"].startswith(b"\x89PNG")
        assert b"<svg" in found[".svg"][:200]
        assert found[".html"].startswith(b"<!doctype html>")
        assert b"<svg" in found[".html"]
        assert b"<script" not in found[".html"]
        return found

    return saved
