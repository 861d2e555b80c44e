"""The views in Chromium: `make test-browser`."""

import base64
import io
import re
import struct
import xml.etree.ElementTree as ET
from html import escape
from pathlib import Path

import pytest
import torch
from PIL import Image

import regard
from regard.web.bundle import bundle

pytestmark = pytest.mark.browser
WEB = Path(regard.__file__).parent / "web"
SITE = "http://views.test"
STYLE = (WEB / "views" / "page.css").read_text(encoding="utf-8")
PAGE = f"""<!doctype html><html lang="en"><meta charset="utf-8"><style>{STYLE}</style>
<body><main><div id="box" style="width: 900px"></div></main>
<script type="module">
import * as alignment from "/views/alignment.js";
import * as curves from "/views/curves.js";
import * as heads from "/views/heads.js";
import * as heatmap from "/views/heatmap.js";
import * as matrix from "/views/matrix.js";
import * as words from "/views/words.js";
Object.assign(window, {{ ...alignment, ...curves, ...heads, ...heatmap, ...matrix, ...words }});
window.box = document.getElementById("box");
window.calls = [];
window.ready = true;
</script></body></html>"""
SMALL = """
    window.values = [[0.9, 0.1, 0], [0.2, 0.5, 0.3]];
    window.options = { matrix: matrixOf(values), rows: ["le", "chat"], columns: ["the", "cat", "<b>"],
      label: "test", onHover: (r, c) => calls.push(["hover", r, c]),
      onSelect: (r) => calls.push(["select", r]) };
"""


@pytest.fixture
def page(chromium):
    """An empty page with the views; errors of scripts fail the test."""
    with_errors = []
    context = chromium.new_context(viewport={"width": 1000, "height": 900})
    made = context.new_page()
    made.on("pageerror", lambda error: with_errors.append(str(error)))
    made.route(f"{SITE}/**", serve)
    made.goto(SITE)
    made.wait_for_function("window.ready")
    yield made
    context.close()
    assert with_errors == []


def serve(route):
    name = route.request.url.removeprefix(SITE).lstrip("/")
    if not name:
        route.fulfill(body=PAGE, content_type="text/html")
    elif (WEB / name).is_file():
        route.fulfill(body=(WEB / name).read_text(encoding="utf-8"), content_type="text/javascript")
    else:
        route.fulfill(status=404, body="")


FRAMES = """async () => {
    const n = 4096, values = new Float32Array(n * n);
    for (let i = 0; i < n; i++) {
        for (let j = 0; j <= i; j++) values[i * n + j] = ((i * 31 + j * 17) % 97) / 97 / (1 + i - j);
    }
    const names = Array.from({ length: n }, (_, i) => `token${i}`);
    const started = performance.now();
    window.view = heatmap(box, { matrix: { rows: n, columns: n, values }, rows: names, columns: names });
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    await frame(); await frame();
    const found = { start: performance.now() - started };
    const cells = document.querySelector(".rg-cells"), place = cells.getBoundingClientRect();
    const x = place.left + 0.3 * place.width, y = place.top + 0.7 * place.height;
    cells.setPointerCapture = () => {};
    const send = (event) => cells.dispatchEvent(event);
    const at = (d) => ({ clientX: x + d, clientY: y - d, pointerId: 1, cancelable: true });
    const wheel = (deltaY) => send(new WheelEvent("wheel", { deltaY, ...at(0) }));
    const pointer = (kind, d) => send(new PointerEvent(kind, at(d)));
    async function second(name, act) {
        const begin = performance.now();
        let count = 0;
        while (performance.now() - begin < 1000) { act(count++); await frame(); }
        found[name] = 1000 * count / (performance.now() - begin);
    }
    await second("zoom in", () => wheel(-12));
    pointer("pointerdown", 0);
    await second("pan", (i) => pointer("pointermove", 3 * (i % 60)));
    pointer("pointerup", 0);
    await second("zoom out", () => wheel(12));
    await second("hover", (i) => pointer("pointermove", 2 * (i % 60)));
    return found;
}"""


def test_four_thousand_tokens_pan_and_zoom_at_thirty_frames_a_second(page):
    best = {}
    for _ in range(3):  # another process may have the cores for a while
        page.evaluate("box.replaceChildren()")
        found = page.evaluate(FRAMES)
        best = {name: max(best.get(name, 0), value) for name, value in found.items() if name != "start"}
        if min(best.values()) >= 30:
            break
    print("frames a second:", {name: round(value) for name, value in best.items()})
    print("milliseconds until it is drawn:", round(found["start"]))
    assert min(best.values()) >= 30


def test_one_large_weight_among_millions_is_seen(page):
    dark = page.evaluate("""async () => {
        const n = 2048, values = new Float32Array(n * n);
        values[1001 * n + 777] = 1;
        heatmap(box, { matrix: { rows: n, columns: n, values } });
        await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
        const cells = document.querySelector(".rg-cells"), pen = cells.getContext("2d");
        const data = pen.getImageData(0, 0, cells.width, cells.height).data;
        let count = 0;
        for (let i = 0; i < data.length; i += 4) if (data[i] < 100) count++;
        return [count, cells.width];
    }""")
    assert 1 <= dark[0] <= 4
    assert dark[1] < 1000


def test_a_heat_map_is_read_with_the_keyboard(page):
    page.evaluate(f"() => {{ {SMALL} window.view = heatmap(box, options); }}")
    cells = page.locator(".rg-cells")
    assert cells.get_attribute("aria-label") == (
        "test: heat map, 2 rows, 3 columns. Arrow keys move, + and − zoom, Enter selects."
    )
    cells.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    calls = [["hover", 0, 0], ["hover", 1, 0], ["hover", 1, 1], ["select", 1]]
    assert page.evaluate("calls") == calls
    assert page.locator(".rg-say").text_content() == "“chat” looked at cat 50 %, <b> 30 %, the 20 %"
    outline = cells.evaluate("(element) => getComputedStyle(element).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Escape")
    assert page.locator(".rg-say").text_content() == "Point at a cell."


def test_the_pointer_finds_the_cell_under_it(page):
    page.evaluate(f"() => {{ {SMALL} window.view = heatmap(box, options); }}")
    place = page.locator(".rg-cells").bounding_box()
    page.mouse.move(place["x"] + place["width"] * 5 / 6, place["y"] + place["height"] / 4)
    page.mouse.down()
    page.mouse.up()
    assert page.evaluate("calls") == [["hover", 0, 2], ["select", 0]]
    page.mouse.move(2, 890)
    assert page.evaluate("calls.at(-1)") == ["hover", -1, -1]
    page.evaluate(
        "view.update({ matrix: matrixOf([[1]]), rows: ['x'], columns: ['y'] }); view.highlight(0, 0)"
    )
    assert page.locator(".rg-say").text_content() == "“x” looked at y 100 %"
    page.evaluate("view.destroy()")
    assert page.evaluate("box.childElementCount") == 0


def test_light_and_dark_follow_the_page(page):
    page.evaluate(f"() => {{ {SMALL} window.view = heatmap(box, options); }}")
    corner = """([red, green, blue]) => {
        const cells = document.querySelector(".rg-cells");
        const found = cells.getContext("2d").getImageData(cells.width - 5, 5, 1, 1).data;
        return found[0] === red && found[1] === green && found[2] === blue && found[3] === 255;
    }"""
    page.wait_for_function(corner, arg=[255, 255, 255])
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(corner, arg=[26, 31, 40])
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    page.wait_for_function(corner, arg=[255, 255, 255])


@pytest.mark.parametrize("kind", ["heatmap", "curves", "words", "heads"])
def test_each_view_becomes_a_picture(page, kind):
    options = "options" if kind != "heads" else "{ layers: 2, heads: 3, thumbnail: () => options.matrix }"
    page.evaluate(f"() => {{ {SMALL} window.view = {kind}(box, {options}); }}")
    encoded = page.evaluate("""async () => {
        const bytes = new Uint8Array(await (await view.toPNG()).arrayBuffer());
        return btoa(String.fromCharCode(...bytes));
    }""")
    picture = base64.b64decode(encoded)
    assert picture.startswith(b"\x89PNG")
    assert min(struct.unpack(">II", picture[16:24])) > 30
    svg = ET.fromstring(page.evaluate("view.toSVG()"))
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    if kind != "heads":
        assert {"le", "chat", "the", "cat", "<b>"} <= {text.strip() for text in svg.itertext()}


def test_curves_are_as_wide_as_their_weights_and_words_have_keys(page):
    page.evaluate(f"() => {{ {SMALL} window.view = curves(box, options); }}")
    widths = page.evaluate(
        "[...box.querySelectorAll('path')].map((p) => Number(p.getAttribute('stroke-width')))"
    )
    assert widths == [9.1, 1.9, 2.8, 5.5, 3.7]
    page.locator("text", has_text="le").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("calls") == [["hover", 0, -1], ["hover", 1, -1], ["hover", -1, 1]]
    assert page.locator(".rg-say").text_content() == "“cat” was looked at by chat 50 %, le 10 %"
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate("getComputedStyle(box.querySelector('path')).transitionDuration") in ("0s", "1e-05s")


def test_heads_are_chosen_with_arrows_and_missing_ones_are_left_out(page):
    page.evaluate(f"""async () => {{ {SMALL}
        window.view = heads(box, {{ layers: 2, heads: 3,
            thumbnail: (layer, head) => (layer && head === 2 ? null : options.matrix),
            onSelect: (layer, head) => calls.push([layer, head]) }});
        await view.toPNG();
    }}""")
    page.locator("button[aria-pressed=true]").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    assert page.evaluate("calls") == [[0, 1], [1, 1], [0, 1]]
    assert page.evaluate("document.activeElement.title") == "Layer 0, head 1"
    page.evaluate("view.update({ selected: [0, 0] })")  # as `[` and `]` do: the arrows go on from there
    assert page.evaluate("document.activeElement.title") == "Layer 0, head 0"


@pytest.fixture(scope="module")
def trace():
    layer = torch.nn.TransformerEncoderLayer(32, 4, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 3).eval()
    with regard.record(model) as trace:
        model(torch.randn(1, 11, 32))
    return trace


TOKENS = ["the", "cat", "sat", "on", "a", "mat", "and", "slept", "well", "there", "."]


def test_a_saved_view_shows_its_weights_and_makes_no_request(chromium, trace, tmp_path):
    path = regard.view(trace, TOKENS).save(tmp_path / "x.html")
    context = chromium.new_context(viewport={"width": 1200, "height": 800}, offline=True)
    page, asked, errors = context.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.goto(path.as_uri())
    page.wait_for_selector(".rg-cells")
    page.locator("button[title='Layer 0, head 0']").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.get_by_text("Layer 1, head 1").wait_for()
    page.locator(".rg-list button", has_text="sat").hover()
    weights = trace["layers.1.self_attn"][0].weights[0, 1, 2].detach()
    best = int(weights.argmax())
    said = page.locator(".rg-say").text_content()
    found = re.match(r"“sat” looked at (\S+) ([\d.]+) %", said)
    assert found, said
    assert found[1] == TOKENS[best]
    assert float(found[2]) == pytest.approx(100 * float(weights[best]), abs=0.6)
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert errors == []
    context.close()


def test_in_a_notebook_the_frame_is_as_high_as_the_page_and_as_dark_as_the_notebook(chromium, trace):
    context = chromium.new_context(viewport={"width": 1000, "height": 700})
    page = context.new_page()
    page.set_content(f'<body data-jp-theme-light="false">{trace._repr_html_()}</body>')
    frame = page.frames[1]
    frame.wait_for_selector(".rg-cells")
    page.wait_for_timeout(300)
    inner = frame.evaluate("document.querySelector('main').getBoundingClientRect().height")
    assert page.locator("iframe").bounding_box()["height"] == pytest.approx(inner, abs=12)
    assert (
        frame.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--card').trim()")
        == "#1a1f28"
    )
    context.close()


@pytest.mark.parametrize(
    "notebook", ['class="dark dark-theme"', 'class="vscode-dark"', 'data-jp-theme-light="false"']
)
def test_a_view_is_transparent_in_a_dark_notebook_on_a_light_system(chromium, trace, notebook):
    context = chromium.new_context(color_scheme="light")
    page = context.new_page()
    page.set_content(f'<body {notebook} style="background: #402040">{trace._repr_html_()}</body>')
    page.frames[1].wait_for_selector(".rg-cells")
    place = page.locator("iframe").bounding_box()
    with Image.open(io.BytesIO(page.screenshot())) as picture:
        corner = picture.getpixel((int(place["x"] + place["width"]) - 3, int(place["y"]) + 3))
    assert corner[:3] == (0x40, 0x20, 0x40)
    context.close()


def test_vs_code_gets_the_wheel_events_that_a_view_does_not_use(chromium):
    context = chromium.new_context(viewport={"width": 900, "height": 900})
    page = context.new_page()
    layer = torch.nn.TransformerEncoderLayer(8, 1, batch_first=True).eval()
    with regard.record(layer) as trace:
        layer(torch.randn(1, 200, 8))
    view = regard.view(trace, [f"word{i}" for i in range(200)])
    page.set_content(f'<body class="vscode-light">{view._repr_html_()}</body>')
    page.evaluate("window.heard = []; addEventListener('wheel', (event) => heard.push(event.deltaY))")
    shown = page.frame_locator("iframe")
    # the list of words scrolls and the map zooms: neither event is passed on
    for place, wheel in (("h1", 70), (".rg-list", 30), (".rg-cells", -60), (".rg-cells", 60), ("h1", -70)):
        shown.locator(place).first.hover()
        page.mouse.wheel(0, wheel)
        page.wait_for_timeout(200)
    page.wait_for_function("heard.at(-1) === -70")
    assert page.evaluate("heard") == [70, -70]
    context.close()


@pytest.mark.parametrize("sandbox", ["allow-scripts", "allow-scripts allow-same-origin"])
def test_a_view_draws_itself_in_a_sandboxed_output_that_may_load_nothing(chromium, trace, sandbox):
    policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
    output = f'<meta http-equiv="Content-Security-Policy" content="{policy}">{trace._repr_html_()}'
    context, errors = chromium.new_context(offline=True), []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_content(f'<iframe sandbox="{sandbox}" srcdoc="{escape(output)}"></iframe>')
    shown = page.frame_locator("iframe").frame_locator("iframe")
    shown.locator(".rg-cells").first.wait_for()
    shown.get_by_text("Layer 0, head 0").first.wait_for()
    assert errors == []
    context.close()


def test_a_report_shows_the_first_word_and_its_links(chromium, tmp_path):
    from regard.viz.report import AlignmentSection, write_report

    section = AlignmentSection("a", torch.eye(3), list("abc"), ["x", "她", "z"], gold=[(0, 0)])
    path = write_report(tmp_path / "r.html", title="t", summary="", sections=[section, section])
    context = chromium.new_context(offline=True)
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.goto(path.as_uri())
    page.wait_for_selector(".rg-cells >> nth=1")
    assert page.locator(".rg-say").first.text_content() == "“x” looked at a 100 %"
    assert page.locator(".rg-linked").first.text_content() == "a"
    assert page.locator("button[lang=zh-Hans]").first.text_content() == "她"
    assert errors == []
    context.close()


def test_the_widget_asks_its_model_for_exact_rows(page, trace):
    view = regard.view(trace, TOKENS, limit=0)
    weights = trace["layers.2.self_attn"][0].weights[0, 3].detach()
    page.evaluate(
        """([script, data, rows]) => {
            const esm = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
            window.asked = [];
            let answer;
            const model = {
                get: () => data, on: (_, act) => { answer = act; }, off: () => { answer = undefined; },
                send: (message) => {
                    asked.push(message);
                    const values = Float32Array.from(rows.flat());
                    setTimeout(() => answer?.({ id: message.id }, [new DataView(values.buffer)]), 10);
                },
            };
            return import(esm).then((module) => { window.end = module.default.render({ model, el: box }); });
        }""",
        [
            f"{bundle('widget')}\nexport default {{ render: views.widget.render }};",
            view.data,
            weights.tolist(),
        ],
    )
    page.locator("button[title='Layer 2, head 3']").click()
    page.wait_for_function("asked.some((each) => each.path === 'layers.2.self_attn')")
    asked = page.evaluate("asked.at(-1)")
    assert {**asked, "id": 0} == {"id": 0, "path": "layers.2.self_attn", "head": 3, "first": 0, "count": 11}
    page.locator(".rg-list button", has_text="sat").hover()
    said = page.locator(".rg-say").text_content()
    assert said.startswith(f"“sat” looked at {TOKENS[int(weights[2].argmax())]} ")
    assert page.get_by_text("pooled").count() == 0  # what a page says of its heads
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")  # the notebook becomes dark meanwhile
    page.wait_for_function("getComputedStyle(box).getPropertyValue('--card').trim() === '#1a1f28'")
    page.evaluate("document.body.dataset.jpThemeLight = 'true'")
    page.wait_for_function("getComputedStyle(box).getPropertyValue('--card').trim() === '#ffffff'")
    page.evaluate("end()")
    assert page.evaluate("box.childElementCount") == 0
