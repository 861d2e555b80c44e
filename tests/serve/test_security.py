"""Who may ask, from where, how much, and how slowly; and what no answer ever says."""

import http.client
import json
import logging
import socket
import time

import pytest

from regard.errors import ConfigError
from regard.serve import server as server_module
from regard.serve.limits import BODY, PICTURE_BODY, Pace
from regard.serve.security import HEADERS
from regard.serve.settings import Settings
from regard.serve.start import JSONLines

TOKEN = "0123456789abcdef0123456789abcdef"
ASK = {"model": "stories", "story": ["Lena went to the attic."], "question": "Where is Lena?"}


def code(answer):
    return answer.status_code, answer.json()["error"]["code"]


# Where it listens ----------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_another_address_than_loopback_needs_a_token(host):
    with pytest.raises(ConfigError, match="expected a token"):
        Settings(host=host)
    Settings(host=host, token=TOKEN)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_needs_none(host):
    Settings(host=host)


@pytest.mark.parametrize("token", ["", "short", "пароль-пароль-пароль"])
def test_a_weak_token_is_refused(token):
    with pytest.raises(ConfigError, match="expected 16 or more"):
        Settings(token=token)


def test_a_port_that_is_taken_is_a_sentence():
    with server_module.open_socket(Settings(port=0)) as first:
        taken = Settings(port=first.getsockname()[1])
        with pytest.raises(ConfigError, match="expected a free one"):
            server_module.open_socket(taken)


# Host and Origin -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", ""),
        *("localhost@evil.example", "localhost/evil", "169.254.169.254", "0.0.0.0", "localhost:port"),
        *("localhost.", "127.1", "2130706433", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]", "[::1"),
        *("localhost#x", "localhost?x", "localhost,evil.example", "localhost:99999"),
    ],
)
def test_another_name_for_this_machine_is_refused_as_after_dns_rebinding(client, host):
    for path in ("/v1/models", "/", "/healthz", "/metrics"):
        assert code(client.get(path, headers={"Host": host})) == (421, "wrong_host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000"])
def test_names_of_loopback_are_taken(client, host):
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


def test_a_name_can_be_allowed(made):
    one = made(hosts=("studio.example.org",))
    assert one.get("/healthz", headers={"Host": "Studio.example.org"}).status_code == 200
    assert code(one.get("/healthz", headers={"Host": "example.org"})) == (421, "wrong_host")


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://localhost:9999", "file://", "http://localhost.evil:8000"],
)
def test_a_request_of_another_site_is_refused(client, origin):
    answer = client.post("/v1/ask", json=ASK, headers={"Origin": origin})
    assert code(answer) == (403, "wrong_origin")
    assert code(client.get("/v1/models", headers={"Origin": origin})) == (403, "wrong_origin")


def test_our_own_page_and_programs_may_ask(client):
    own = {"Origin": "http://localhost:8000", "Sec-Fetch-Site": "same-origin"}
    assert client.post("/v1/ask", json=ASK, headers=own).status_code == 200
    assert client.post("/v1/ask", json=ASK).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_no_other_site_can_set_the_server_to_work_with_a_picture_or_a_link(client, site):
    foreign = {"Sec-Fetch-Site": site}
    assert code(client.post("/v1/ask", json=ASK, headers=foreign)) == (403, "wrong_origin")
    for path in ("/v1/models", "/v1/caption/example?number=3", "/metrics"):
        assert code(client.get(path, headers=foreign)) == (403, "wrong_origin")
    assert client.get("/docs", headers=foreign).status_code == 200  # a page may link to a page
    assert client.get("/v1/models", headers={"Sec-Fetch-Site": "none"}).status_code == 200  # typed by hand


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_what_a_form_can_send_is_refused(client, kind):
    answer = client.post("/v1/ask", content=json.dumps(ASK), headers={"Content-Type": kind})
    assert code(answer) == (415, "wrong_type")


def test_no_answer_allows_other_sites_and_every_answer_guards_its_page(client):
    answers = [
        client.get("/healthz"),
        client.get("/docs"),
        client.get("/nothing"),
        client.post("/v1/ask", json=ASK),
        client.options("/v1/ask", headers={"Origin": "http://localhost:8000"}),
        client.get("/healthz", headers={"Host": "evil.example"}),
    ]
    for answer in answers:
        assert not any(name.startswith("access-control") for name in answer.headers)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "server" not in answer.headers


# Tokens --------------------------------------------------------------------------------------------


WRONG = (
    *("", TOKEN, f"Basic {TOKEN}", "Bearer", "Bearer ", f"Bearer {TOKEN[:-1]}"),
    *(f"Bearer {TOKEN}0", f"Bearer {TOKEN.upper()}", "Bearer \xff\xfe"),
)


def test_a_wrong_token_is_refused(made):
    one = made(token=TOKEN)
    for given in ({}, *({"Authorization": wrong.encode("latin-1")} for wrong in WRONG)):
        for path in ("/v1/models", "/v1/runs", "/metrics"):
            answer = one.get(path, headers=given)
            assert code(answer) == (401, "wrong_token"), given
            assert TOKEN not in answer.text
    assert one.get("/healthz").status_code == 200


def test_the_right_token_is_taken(made):
    one = made(token=TOKEN)
    assert one.get("/v1/models", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


# Files ---------------------------------------------------------------------------------------------


OUTSIDE = (
    *("/../pyproject.toml", "/..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/secret.txt", "//etc/passwd"),
    *("/views/../../secret.txt", "/views/%2e%2e/%2e%2e/secret.txt", "/..\\secret.txt", "/secret.txt%00"),
    *("/link.txt", "/views/../secret.txt"),
)


def test_no_path_leads_out_of_the_page(made, tmp_path):
    web = tmp_path / "web"
    for part in ("studio", "views"):
        (web / part).mkdir(parents=True)
    (web / "studio" / "index.html").write_text("<p>page")
    (web / "views" / "a.js").write_text("1")
    (tmp_path / "secret.txt").write_text("secret")
    (web / "secret.txt").write_text("secret")
    (web / "studio" / "link.txt").symlink_to(tmp_path / "secret.txt")
    with made(page=web) as one:
        assert one.get("/").text == "<p>page"
        assert one.get("/views/a.js").headers["content-type"].startswith("text/javascript")
        for path in OUTSIDE:
            answer = one.get(path)
            assert answer.status_code == 404, path
            assert "secret" not in answer.text


@pytest.mark.parametrize(
    "model", ["../stories", "/etc/passwd", "runs/x", "https://example.org/x", "owner/name", "file:///x"]
)
def test_models_are_names_never_paths_or_addresses(client, model):
    assert code(client.post("/v1/ask", json=ASK | {"model": model})) == (404, "unknown_model")


# Sizes and times -----------------------------------------------------------------------------------


def test_a_large_body_is_refused_whatever_it_says_of_itself(client):
    def chunks():
        for _ in range(BODY // 100_000 + 2):
            yield b" " * 100_000

    headers = {"Content-Type": "application/json"}
    assert code(client.post("/v1/ask", content=b" " * (BODY + 1), headers=headers)) == (413, "too_large")
    assert code(client.post("/v1/ask", content=chunks(), headers=headers)) == (413, "too_large")
    large = b" " * (PICTURE_BODY + 1)
    assert code(client.post("/v1/caption", content=large, headers=headers)) == (413, "too_large")


def test_a_body_that_comes_slowly_is_given_up(server):
    with server(pace=Pace(body_seconds=0.2)) as port, socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(
            b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        slow.settimeout(5)
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


def test_a_head_that_comes_slowly_is_given_up(server, monkeypatch):
    monkeypatch.setattr(server_module, "HEAD_SECONDS", 0.2)
    with server() as port, socket.create_connection(("127.0.0.1", port)) as slow:
        slow.settimeout(5)
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
        time.sleep(0.1)
        slow.sendall(b"alhost\r\nX: ")
        assert slow.recv(100) == b""
        # others are answered meanwhile, also twice on one connection
        connection = http.client.HTTPConnection("localhost", port, timeout=5)
        for _ in range(2):
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b"ok\n"
        connection.close()


def test_slow_clients_do_not_keep_others_from_being_answered(server):
    with server() as port:
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
        for each in slow:
            each.sendall(b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\n")
        connection = http.client.HTTPConnection("localhost", port, timeout=5)
        connection.request("POST", "/v1/ask", json.dumps(ASK), {"Content-Type": "application/json"})
        assert json.loads(connection.getresponse().read())["answer"] == "attic"
        connection.close()
        for each in slow:
            each.close()


def test_a_client_that_leaves_gives_its_place_up(server):
    with server(pace=Pace(linger=0.5, longest_linger=0.5)) as port:
        with socket.create_connection(("127.0.0.1", port)) as gone:
            body = json.dumps(ASK).encode()
            head = "POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            gone.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            time.sleep(0.1)
        connection = http.client.HTTPConnection("localhost", port, timeout=5)
        for _ in range(100):
            connection.request("GET", "/metrics")
            counted = connection.getresponse().read().decode()
            if 'route="/v1/ask",status="499"' in counted and 'length{model="stories"} 0' in counted:
                break
            time.sleep(0.02)
        assert 'regard_requests_total{route="/v1/ask",status="499"} 1' in counted
        assert 'regard_queue_length{model="stories"} 0' in counted
        assert "regard_batch_size_count" not in counted
        connection.close()


def test_too_many_headers_are_refused(server):
    with server() as port, socket.create_connection(("127.0.0.1", port)) as one:
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 40_000)
        one.settimeout(5)
        assert one.recv(100).startswith(b"HTTP/1.1 400")


# The log -------------------------------------------------------------------------------------------


def test_the_log_is_json_and_has_nothing_that_a_user_typed(client, caplog):
    with caplog.at_level(logging.INFO, logger="regard.serve"):
        client.post("/v1/ask", json=ASK | {"question": "Where is my secret?"})
        client.post("/v1/ask", json=ASK | {"model": "my-secret"})
        client.get("/my-secret?q=secret", headers={"Authorization": "Bearer secret", "User-Agent": "secret"})
    lines = [json.loads(JSONLines().format(record)) for record in caplog.records]
    assert [line["status"] for line in lines] == [200, 404, 404]
    assert {"time", "level", "event", "route", "milliseconds"} <= set(lines[0])
    assert "secret" not in json.dumps(lines)


def test_a_fault_of_ours_is_logged_by_place_and_not_told(made, caplog, monkeypatch):
    def broken(*given):
        raise RuntimeError("the secret was 42")

    monkeypatch.setattr("regard.systems.memory_system.ask_all", broken)
    with made() as one, caplog.at_level(logging.ERROR, logger="regard.serve"):
        answer = one.post("/v1/ask", json=ASK)
    assert code(answer) == (500, "failed")
    [line] = [json.loads(JSONLines().format(record)) for record in caplog.records]
    assert line["error"] == "RuntimeError"
    assert any("memory_system.py" in place for place in line["trace"])
    assert "42" not in answer.text + line["event"] + line["error"]
