"""The page about the server: every line with curl is answered, with the fields that its table names."""

import json
import re
import shlex
from pathlib import Path

from regard.serve.limits import Pace
from regard.serve.metrics import Metrics
from regard.serve.models import Models
from regard.serve.page import WEB
from regard.shipped.find import names

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "serve.md").read_text(encoding="utf-8")


def asked(line):
    """(address, body) of a line with curl; None: a GET."""
    _, _, address, *rest = shlex.split(line)
    return address.removeprefix("localhost:8000"), json.loads(rest[1]) if rest else None


def test_every_line_with_curl_is_answered_as_the_table_says(client):
    lines = re.findall(r"^curl .*$", PAGE, re.MULTILINE)
    assert len(lines) == 17
    rows = [line for line in PAGE.splitlines() if line.startswith("| `/v1/")]
    for line in lines:
        address, body = asked(line)
        answer = client.get(address) if body is None else client.post(address, json=body)
        assert answer.status_code == 200, line
        found = answer.json()
        path = address.partition("?")[0]
        [row] = [row for row in rows if f"`{path}`" in row.split("|")[1]]
        first = found[0] if isinstance(found, list) and found else found
        for field in first if path != "/v1/mechanisms" else ():
            assert re.search(rf"\b{field}\b", row), f"{path}: {field}"


def test_every_address_of_the_schema_stands_on_the_page(client):
    for path in client.app.openapi()["paths"]:
        assert f"`{path}`" in PAGE, path


def test_the_kept_examples_of_the_page_are_of_the_models_that_ship():
    [kept] = json.loads((WEB / "studio/examples/models.json").read_text(encoding="utf-8"))
    assert kept["answer"] == Models(names(), Pace(), Metrics()).describe()
