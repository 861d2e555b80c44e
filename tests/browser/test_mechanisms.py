"""Mechanisms, Compare and Any model."""

import json
from functools import partial

import pytest
from waiting import until

pytestmark = pytest.mark.browser


def test_every_mechanism_has_a_page(static, visit):
    page = visit(f"{static}#/mechanisms")
    links = page.locator(".shelf nav a")
    links.first.wait_for()
    assert links.count() > 20
    for number in range(links.count()):
        title = links.nth(number).inner_text().split("\n")[0]
        links.nth(number).click()
        page.get_by_role("heading", name=title, exact=True, level=3).wait_for()
        page.get_by_text("regard/").first.wait_for()


def test_a_slider_moves_the_example_and_the_address(live, visit):
    page = visit(f"{live}#/mechanisms?name=softmax")
    page.get_by_role("slider", name="Temperature").fill("5")
    until(page, "location.hash.includes('temperature=5')")
    with page.expect_response("**/v1/mechanism") as answer:
        page.get_by_role("slider", name="Temperature").fill("0.1")
    assert answer.value.ok
    page.reload()
    slider = page.get_by_role("slider", name="Temperature")
    slider.wait_for()
    assert slider.input_value() == "0.1"


def test_the_example_can_be_saved(static, visit, save):
    page = visit(f"{static}#/mechanisms?name=sparsemax")
    page.wait_for_selector(".rg-cells")
    save(page, page.get_by_role("region", name="Move it"))


def fulfil(answer, route):
    route.fulfill(json=answer)


def test_runs_are_compared(live, visit):
    page = visit(f"{live}#/compare")
    page.get_by_text("There are no runs in the folder.").wait_for()
    runs = [
        {
            "id": name,
            "status": "finished",
            "model": "ntm",
            "task": "copy",
            "step": 100,
            "steps": 100,
            "loss": 0.5,
            "valid_loss": 0.25,
        }
        for name in ("first", "second")
    ]
    curve = {"train": [[10, 1.0], [100, 0.5]], "valid": [[50, 0.6], [100, 0.25]]}
    page.route("**/v1/runs", partial(fulfil, runs))
    for run in runs:
        page.route(f"**/v1/runs/{run['id']}", partial(fulfil, run | {"curve": curve}))
    page.reload()
    page.get_by_role("row").nth(2).wait_for()
    until(page, "document.querySelectorAll('.chart .curve').length === 2")
    page.get_by_role("checkbox", name="Show second").uncheck()
    until(page, "document.querySelectorAll('.chart .curve').length === 1")


def test_a_saved_trace_is_opened(static, visit):
    head = {"shape": [2, 2], "type": "uint8", "scale": 1.0, "data": "/wAA/w==", "pool": 1}
    layer = {"name": "0", "path": "layers.0", "shape": [2, 2], "rows": 0, "columns": 0, "heads": [head, head]}
    data = {"groups": [{"name": "Self", "layers": [layer]}], "texts": [["one", "two"]], "note": "A note."}
    saved = f'<!doctype html><script type="application/json" id="data">{json.dumps(data)}</script>'
    page = visit(f"{static}#/model")
    chosen = {"name": "attention.html", "mimeType": "text/html", "buffer": saved.encode()}
    page.set_input_files("input[type=file]", chosen)
    page.get_by_text("A note.").wait_for()
    page.set_input_files("input[type=file]", {**chosen, "buffer": b"<p>something else</p>"})
    assert "no page of regard.view" in page.get_by_role("alert").inner_text()
