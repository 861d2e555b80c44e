"""Fetching from a server on this machine: what succeeds, and every way in which it fails."""

import errno
import hashlib
import io
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from regard.data import fetch as module
from regard.data.fetch import fetch
from regard.errors import DataError

BODY = bytes(range(256)) * 600  # more than one chunk
DIGEST = hashlib.sha256(BODY).hexdigest()


class Home(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/gone":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        if self.path == "/silent":
            self.server.released.wait(10)
        self.wfile.write(BODY[:100_000] if self.path == "/cut" else BODY)

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def home():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Home)
    server.released = threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.released.set()
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_file_arrives_whole_in_a_new_folder(home, tmp_path):
    path = tmp_path / "new" / "file"
    fetch(f"{home}/file", path, sha256=DIGEST)
    assert path.read_bytes() == BODY
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]


def test_the_digest_of_a_file_that_changes_is_told(home, tmp_path, caplog):
    fetch(f"{home}/file", tmp_path / "file")
    assert f"downloaded, SHA-256 {DIGEST}" in caplog.text


@pytest.mark.parametrize(
    ("path", "sha256", "message"),
    [
        ("file", "0" * 64, f"the file has the SHA-256 digest {DIGEST}; expected {'0' * 64}"),
        ("cut", None, r"the connection was cut after 100,000 of 153,600 bytes; try again\."),
        ("gone", DIGEST, r"/gone: the server answered 404 \(not found\)\."),
    ],
)
def test_a_file_that_is_wrong_cut_or_gone_is_not_kept(home, tmp_path, path, sha256, message):
    (tmp_path / "file").write_text("what was there before")
    with pytest.raises(DataError, match=message):
        fetch(f"{home}/{path}", tmp_path / "file", sha256=sha256)
    assert (tmp_path / "file").read_text() == "what was there before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_fetch_after_a_cut_one_starts_anew(home, tmp_path):
    with pytest.raises(DataError):
        fetch(f"{home}/cut", tmp_path / "file", sha256=DIGEST)
    fetch(f"{home}/file", tmp_path / "file", sha256=DIGEST)
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_home_that_does_not_answer_is_given_up(home, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    with pytest.raises(
        DataError, match=r"/silent: no answer in time; try again, or put the file at .*file\."
    ):
        fetch(f"{home}/silent", tmp_path / "file")


def test_a_refused_connection_is_told(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(
        DataError, match=r"cannot be downloaded \(connection refused\); put the file at .*file\."
    ):
        fetch(f"http://127.0.0.1:{port}/file", tmp_path / "file")


def test_no_network_is_told(tmp_path):
    with pytest.raises(DataError, match=r"the network cannot be reached; put the file at .*file\."):
        fetch("http://no-such-home.invalid/file", tmp_path / "file")


def test_a_full_disk_is_told(home, tmp_path, monkeypatch):
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.Path, "open", lambda self, mode: Full())
    with pytest.raises(DataError, match="file: the disk is full; free some space, or name another folder"):
        fetch(f"{home}/file", tmp_path / "file")


def test_a_folder_that_cannot_be_written_is_told(home, tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(DataError, match=r"taken.*(file exists|not a directory)"):
        fetch(f"{home}/file", tmp_path / "taken" / "file")
