"""Clients that mean harm: bodies and pictures that exhaust a server, connections that are never let go."""

import base64
import http.client
import io
import json
import socket
import struct
import time
import zlib
from contextlib import ExitStack

import pytest
from PIL import Image

from regard.serve import mechanisms, studio_routes
from regard.serve import server as server_module
from regard.serve.limits import SCANS, Pace
from regard.train.config import load_recipe
from regard.train.loop import fit
from regard.train.progress import Quiet
from regard.train.run import create

STORY = '"story": ["Lena went to the attic."], "question": "Where is Lena?"'


def sent(client, path, body):
    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
    return answer.status_code, answer.json()


# Bodies --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        '{"model": "stories", "seed": ' + "9" * 100_000 + "}",
        b'{"model": "\xff\xfe"}',
    ],
)
def test_json_that_cannot_be_parsed_is_refused_with_a_sentence(client, body):
    status, answer = sent(client, "/v1/ask", body)
    assert (status, answer["error"]["message"]) == (400, "The body cannot be read; expected JSON.")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(client, number):
    points = f"[[0.1], [{number}], [0.3]]"
    status, answer = sent(client, "/v1/point", f'{{"model": "sort", "points": {points}}}')
    assert (status, answer["error"]["code"]) == (422, "invalid")
    status, _ = sent(client, "/v1/mechanism", f'{{"name": "softmax", "parameters": {{"noise": {number}}}}}')
    assert status == 422


def test_of_a_key_that_stands_twice_the_last_counts_and_is_checked(client):
    status, answer = sent(client, "/v1/ask", f'{{"model": "nobody", "model": "stories", {STORY}}}')
    assert (status, answer["answer"]) == (200, "attic")
    assert sent(client, "/v1/ask", f'{{"model": "stories", "model": 7, {STORY}}}')[0] == 422


@pytest.mark.parametrize(
    "body",
    [
        '{"\\ud800": 1}',
        f'{{"model": "\\ud800", {STORY}}}',
        f'{{"model": "stories", {STORY}, "\\udfff": 1}}',
        '{"' + "k" * 500_000 + '": 1}',
        "{" + ",".join(f'"k{n}": 1' for n in range(50_000)) + "}",
    ],
)
def test_odd_keys_and_signs_are_refused_in_a_short_sentence(client, body):
    status, answer = sent(client, "/v1/ask", body)
    assert status == 422
    assert len(answer["error"]["message"]) < 300


# Pictures ------------------------------------------------------------------------------------------


def caption(client, data):
    body = {"model": "shapes-captions-hard", "picture": base64.b64encode(data).decode()}
    return sent(client, "/v1/caption", json.dumps(body))


def saved(format, **options):
    file = io.BytesIO()
    Image.new("RGB", (32, 32), "red").save(file, format, **options)
    return file.getvalue()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@pytest.mark.parametrize("kind", [b"zTXt", b"iTXt", b"iCCP"])
def test_a_chunk_of_png_that_unpacks_to_much_is_not_unpacked(client, kind):
    packed = zlib.compress(bytes(50_000_000), 9)
    head = {b"zTXt": b"k\0\0", b"iTXt": b"k\0\1\0\0\0", b"iCCP": b"k\0\0"}[kind]
    plain = saved("PNG")
    end = plain.index(b"IDAT") - 4
    status, answer = caption(client, plain[:end] + chunk(kind, head + packed) + plain[end:])
    assert status == 422
    assert answer["error"]["message"] == "picture: cannot be read; expected a PNG or JPEG file in base64."


def test_of_an_animation_the_first_picture_is_described_or_none(client):
    more = {"save_all": True, "append_images": [Image.new("RGB", (32, 32), (n, 0, 0)) for n in range(50)]}
    still = caption(client, saved("PNG"))
    assert still[0] == 200
    assert caption(client, saved("PNG", **more)) == still
    for format in ("WEBP", "GIF", "TIFF"):
        assert caption(client, saved(format, **more))[0] == 422


def test_much_metadata_does_no_harm(client):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned
    exif[0x9286] = b"A" * 60_000
    assert caption(client, saved("JPEG", exif=exif))[0] == 200
    plain, segment = saved("JPEG"), b"\xff\xe1\xff\xffExif\0\0" + b"M" * 65_527
    assert caption(client, plain[:2] + 60 * segment + plain[2:])[0] in (200, 422)


def test_a_jpeg_of_very_many_scans_is_refused_before_it_is_unpacked(client):
    plain = saved("JPEG", progressive=True)
    assert caption(client, plain)[0] == 200
    first = plain.index(b"\xff\xda")
    status, answer = caption(client, plain[:-2] + SCANS * plain[first:-2] + plain[-2:])
    assert (status, answer["error"]["code"]) == (413, "too_large")
    assert answer["error"]["message"] == f"picture: has too many scans; expected {SCANS} at most."


def test_sixteen_bits_of_grey_are_read_as_grey(client):
    file = io.BytesIO()
    Image.new("I;16", (48, 48), 10_000).save(file, "PNG")
    status, answer = caption(client, file.getvalue())
    assert status == 200
    with Image.open(io.BytesIO(base64.b64decode(answer["picture"]))) as seen:
        assert seen.getpixel((5, 5)) == (39, 39, 39)


# Connections ---------------------------------------------------------------------------------------


def answered(port):
    connection = http.client.HTTPConnection("localhost", port, timeout=10)
    connection.request("GET", "/healthz")
    status = connection.getresponse().status
    connection.close()
    return status


def until_the_end(connection):
    """What the server sends until it ends the connection."""
    connection.settimeout(10)
    parts = []
    try:
        while part := connection.recv(1 << 20):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


def test_two_hosts_or_none_are_refused(server):
    for head in (b"HTTP/1.1\r\nHost: localhost\r\nHost: evil.example", b"HTTP/1.1", b"HTTP/1.0"):
        with server() as port, socket.create_connection(("127.0.0.1", port)) as one:
            one.sendall(b"GET /healthz " + head + b"\r\n\r\n")
            one.settimeout(5)
            assert one.recv(12) in (b"HTTP/1.1 400", b"HTTP/1.1 421")


def test_a_client_that_does_not_take_its_answers_is_let_go(server, monkeypatch):
    monkeypatch.setattr(server_module, "TAKE_SECONDS", 0.3)
    mechanisms.rows()  # kept from now on: the answers are ready before the client begins to read
    with server() as port, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.connect(("127.0.0.1", port))
        slow.sendall(200 * b"GET /v1/mechanisms HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(1.5)
        assert until_the_end(slow).count(b"HTTP/1.1 200 OK") < 200
        assert answered(port) == 200


@pytest.mark.parametrize(
    "start", [b"Transfer-Encoding: chunked\r\n\r\n1;", b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: "]
)
def test_a_body_without_an_end_of_its_own_words_is_cut_off(server, start):
    with server() as port, socket.create_connection(("127.0.0.1", port)) as one:
        one.settimeout(10)
        one.sendall(b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + start)
        with pytest.raises(ConnectionError):
            one.sendall(100_000_000 * b"a")
        assert answered(port) == 200


def test_very_many_connections_are_refused_and_let_go(server, monkeypatch):
    monkeypatch.setattr(server_module, "HEAD_SECONDS", 4.0)
    with server(pace=Pace(connections=20)) as port, ExitStack() as closing:
        idle = [
            closing.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            for _ in range(40)
        ]
        until = time.monotonic() + 3.0  # the server may not have accepted all of them yet
        while answered(port) != 503:
            assert time.monotonic() < until
        for each in idle:
            assert until_the_end(each) == b""
        assert answered(port) == 200


def test_who_follows_a_run_for_ever_leaves_room_for_others(server, tmp_path, monkeypatch):
    monkeypatch.setattr(studio_routes, "FOLLOWERS", 3)
    options = ["model.hidden=8", "model.embedding=8", "task.train=8", "task.valid=8", "train.steps=1"]
    config = load_recipe("rnnsearch-reverse", [*options, "train.threads=1"])
    fit(*create(config), config, run=tmp_path / "reverse", progress=Quiet())
    (tmp_path / "reverse" / "owner.json").write_text("{}")  # it looks as if it trained
    with server(runs=tmp_path) as port:
        following = []
        for _ in range(3):
            one = socket.create_connection(("127.0.0.1", port))
            one.sendall(b"GET /v1/runs/reverse/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            one.settimeout(10)
            assert one.recv(12) == b"HTTP/1.1 200"
            following.append(one)
        connection = http.client.HTTPConnection("localhost", port, timeout=10)
        for expected in (429, 200):
            for _ in range(100):
                connection.request("GET", "/v1/runs/reverse/events")
                answer = connection.getresponse()
                if answer.status == expected:
                    break
                assert answer.read()
                time.sleep(0.05)
            assert answer.status == expected
            if expected == 429:
                assert json.loads(answer.read())["error"]["message"] == (
                    "3 clients are already following runs; try again later."
                )
                following.pop().close()
        (tmp_path / "reverse" / "owner.json").write_text("")  # and all of them end
        connection.close()
        for one in following:
            one.close()
