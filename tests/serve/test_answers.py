"""Every address of the API, asked as a page would ask it."""

import base64
import io
import json
import struct
import threading
import zlib

import numpy as np
import pytest
from PIL import Image

import regard


def values(matrix):
    """The numbers of a matrix of the wire, as a page decodes them."""
    data = base64.b64decode(matrix["data"])
    if matrix.get("compressed") == "deflate":
        data = zlib.decompress(data)
    kind = "<f4" if matrix["type"] == "float32" else np.uint8
    found = np.frombuffer(data, kind).reshape(matrix["shape"]).astype(np.float32)
    return found if matrix["type"] == "float32" else found / 255 * matrix["scale"]


def post(client, path, **body):
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refusal(client, path, **body):
    answer = client.post(f"/v1/{path}", json=body)
    error = answer.json()["error"]
    assert set(error) == {"code", "message"}
    assert error["message"].endswith(".")
    return answer.status_code, error["message"]


def test_models_are_listed_with_kind_figure_and_limits(client):
    models = client.get("/v1/models").json()
    assert {model["kind"] for model in models} == {
        *("translate", "point", "run", "ask", "caption", "classify", "sample", "entail", "score")
    }
    fr = next(model for model in models if model["name"] == "en-fr")
    assert fr["system"] == "transformer"
    assert fr["summary"] == "English to French, a Transformer."
    assert fr["figure"].startswith("BLEU 52")
    assert fr["limits"] | {"characters": 2000, "texts": 64, "beam": 16} == fr["limits"]
    tapes = {model["name"]: model["tape"] for model in models if model["tape"]}
    assert tapes["ntm-recall"] == {"width": 6, "item": 3, "trained": 6}
    assert set(tapes) == {"ntm-copy", "ntm-recall"}


def test_a_text_is_translated_as_the_library_does(client):
    [found] = post(client, "translate", model="demo-rnnsearch", text="The cat sleeps.")["results"]
    own = regard.load("demo-rnnsearch", device="cpu").translate("The cat sleeps.")
    assert found["text"] == own.text
    assert found["source_words"] == list(own.source_pieces)
    assert found["target_words"] == list(own.pieces)
    assert np.allclose(values(found["alignment"]), own.alignment, atol=1e-5)
    assert "layers" not in found


def test_several_texts_with_a_beam_come_back_in_order_with_all_hypotheses(client):
    texts = ["The cat sleeps.", "She is eating an apple."]
    found = post(client, "translate", model="demo-rnnsearch", text=texts, beam=3)["results"]
    assert [each["source_words"][1] for each in found] == ["cat", "is"]
    for each in found:
        assert len(each["beam"]) == 3
        assert each["beam"][0]["text"] == each["text"]
        for hypothesis in each["beam"]:
            shape = [len(hypothesis["words"]), len(each["source_words"])]
            assert hypothesis["alignment"]["shape"] == shape


def test_a_given_translation_is_aligned(client):
    body = {"model": "demo-rnnsearch", "text": "The cat sleeps.", "target": "Le chat dort."}
    [found] = post(client, "align", **body)["results"]
    assert post(client, "translate", **body)["results"] == [found]
    assert found["text"] == "Le chat dort."
    assert found["alignment"]["shape"] == [4, 4]
    assert refusal(client, "align", **body | {"target": ["a", "b"]}) == (
        422,
        "target: has 2 texts and `text` 1; expected as many.",
    )


def test_the_tree_of_a_beam_holds_its_hypotheses(client):
    [found] = post(client, "translate", model="demo-rnnsearch", text="The cat sleeps.", beam=3, tree=True)[
        "results"
    ]
    nodes = found["tree"]["nodes"]
    assert [node["id"] for node in nodes] == list(range(len(nodes)))
    for way, hypothesis in zip(found["tree"]["hypotheses"], found["beam"], strict=True):
        words = [nodes[number]["word"] for number in way]
        assert words == [*hypothesis["words"], "<eos>"]
        assert [nodes[number]["parent"] for number in way] == [None, *way[:-1]]


def test_heads_of_a_transformer_can_be_seen_one_by_one_and_all_at_once(client):
    body = {"model": "en-fr", "text": "A cat.", "target": "Un chat."}
    every = post(client, "attention", **body, part="cross")
    assert every["layers"] == {"encoder": 4, "decoder": 4, "heads": 4}
    assert [len(layer) for layer in every["heads"]] == [4] * 4
    one = post(client, "attention", **body, part="cross", layer=1, head=2)
    assert (one["rows"], one["columns"]) == (["Un", " chat", ".", "<eos>"], ["A", " cat", ".", "<eos>"])
    assert np.allclose(values(one["matrix"]), values(every["heads"][1][2]), atol=0.003)
    before = post(client, "attention", **body, part="decoder", layer=0, head=0)
    assert before["columns"] == ["<bos>", "Un", " chat", "."]
    assert values(before["matrix"])[0].tolist() == [1, 0, 0, 0]
    assert refusal(client, "attention", **body, layer=4, head=0) == (422, "layer: has 4; expected 0 to 3.")
    status, message = refusal(client, "attention", model="demo-rnnsearch", text="A cat.")
    assert status == 422
    assert "expected 'transformer'" in message


def test_numbers_are_sorted_by_pointing(client):
    found = post(client, "point", model="sort", points=[[3], [1], [2], [5], [4]])
    assert found["order"] == found["exact"] == [1, 2, 0, 4, 3]
    assert values(found["weights"]).shape == (6, 6)
    assert refusal(client, "point", model="sort", points=[[1, 2], [3, 4]])[0] == 422


@pytest.mark.parametrize(
    ("model", "bits", "ask"),
    [("ntm-copy", [[1, 0] * 4, [0, 1] * 4, [1] * 8], 0), ("ntm-recall", [[[0, 1] * 3] * 3] * 3, 1)],
)
def test_a_machine_shows_its_four_stages(client, model, bits, ask):
    found = post(client, "run", model=model, bits=bits, ask=ask)
    steps = len(found["inputs"])
    assert (np.array(found["outputs"]) != np.array(found["right"])).sum() == found["wrong"]
    assert {head["kind"] for head in found["heads"]} == {"read", "write"}
    for head in found["heads"]:
        assert list(head["stages"]) == ["content", "gated", "shifted", "sharpened"]
        for stage in head["stages"].values():
            assert values(stage).shape == (steps, found["memory"]["rows"])
            assert values(stage).sum(1) == pytest.approx(np.ones(steps), abs=0.3)
    other = [[0, 1]] if model == "ntm-recall" else [[[0, 1]]]
    assert refusal(client, "run", model=model, bits=other)[0] == 422
    assert refusal(client, "run", model=model, bits=[[0, 1], [0]])[0] == 422
    assert refusal(client, "run", model=model, bits=[[0, 2]])[0] == 422


def test_a_story_is_answered(client):
    story = ["Lena took the lamp.", "Lena went to the attic."]
    found = post(client, "ask", model="stories", story=story, question="Where is the lamp?")
    assert (found["answer"], found["sentences"]) == ("attic", story)
    assert values(found["hops"]).sum(1) == pytest.approx([1, 1, 1])


def test_a_model_that_is_loaded_does_not_wait_for_one_that_is_loading(client):
    models = client.app.state.models
    served = models.find("stories", "ask")
    models.load(served)
    with models._loading:  # as while another is loaded
        asked = threading.Thread(target=models.load, args=(served,), daemon=True)
        asked.start()
        asked.join(10)
        assert not asked.is_alive()


def picture(format="PNG", size=(32, 32)):
    file = io.BytesIO()
    Image.new("RGB", size, "red").save(file, format)
    return base64.b64encode(file.getvalue()).decode()


def test_pictures_are_described(client):
    example = client.get("/v1/caption/example?model=shapes-captions-hard&number=3").json()
    again = post(client, "caption", model="shapes-captions-hard", picture=example["picture"])
    assert again == example
    assert len(example["maps"]) == len(example["words"]) == len(example["text"].split())
    assert example["maps"][0]["shape"] == example["grid"]
    for format in ("PNG", "JPEG"):
        assert post(client, "caption", model="shapes-captions-hard", picture=picture(format))["words"]


def test_what_is_no_picture_is_refused_without_a_word_of_the_decoder(client):
    def asked(data):
        return refusal(client, "caption", model="shapes-captions-hard", picture=data)

    sentence = (422, "picture: cannot be read; expected a PNG or JPEG file in base64.")
    assert asked(picture("GIF")) == sentence
    assert asked(base64.b64encode(b"no picture").decode()) == sentence
    broken = base64.b64decode(picture("PNG", (64, 64)))
    assert asked(base64.b64encode(broken[:80]).decode()) == sentence
    assert asked("%%%") == (422, "picture: `data` is not valid base64.")
    assert asked(picture(size=(4, 4))) == (422, "picture: has 4 × 4 pixels; expected 8 or more a side.")


@pytest.mark.parametrize("side", [5_000, 100_000])
def test_a_picture_of_too_many_pixels_is_refused_before_it_is_unpacked(client, side):
    size = struct.pack(">II", side, side)
    head = b"IHDR" + size + b"\x08\x02\x00\x00\x00"
    bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))
    bomb += struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))
    data = base64.b64encode(bomb).decode()
    status, message = refusal(client, "caption", model="shapes-captions-hard", picture=data)
    assert (status, message) == (413, "picture: has too many pixels; expected 16,000,000 at most.")


def drawing(kind, seed):
    ink = (np.random.default_rng(seed).random((28, 28)) > 0.8) * 255
    raw = ink.astype(np.uint8 if kind == "uint8" else "<f4").tobytes()
    made = {"shape": [28, 28], "type": kind, "scale": 1.0}
    if kind == "float32":
        raw, made = zlib.compress(raw), made | {"compressed": "deflate"}
    return made | {"data": base64.b64encode(raw).decode()}


def test_a_drawing_is_named_after_its_equal(client):
    drawings = [drawing("uint8", seed) for seed in range(5)]
    body = {"model": "snail-omniglot", "drawings": drawings, "labels": list("abcde")}
    found = post(client, "classify", **body, query=drawing("float32", 3))
    assert sum(found["probabilities"].values()) == pytest.approx(1)
    assert found["label"] in "abcde"
    assert found["weights"]["shape"][1] == 6
    bad = drawing("uint8", 0) | {"data": "AAAA"}
    assert refusal(client, "classify", **body, query=bad)[1].startswith("drawing: `data` has another size")
    bad = drawing("float32", 0) | {"data": base64.b64encode(zlib.compress(bytes(10**6))).decode()}
    assert refusal(client, "classify", **body, query=bad)[0] == 422


def test_pictures_are_drawn_again_from_a_seed(client):
    body = {"model": "sagan-shapes", "count": 3, "seed": 5, "classes": ["square"], "maps": 2}
    found = post(client, "sample", **body)
    assert found == post(client, "sample", **body)
    assert found["labels"] == ["square"] * 3
    assert len(found["pictures"]) == 3
    assert len(found["maps"]) == 2
    assert found["maps"][0]["shape"] == [found["grid"][0] ** 2] * 2
    with Image.open(io.BytesIO(base64.b64decode(found["pictures"][0]))) as opened:
        assert opened.format == "PNG"
    assert refusal(client, "sample", **body | {"classes": ["unicorn"]})[0] == 422


def test_entailment_and_likelihood(client):
    found = post(client, "entail", model="entailment", premise="A man sleeps.", hypothesis="A man sleeps.")
    assert found["label"] == "entailment"
    assert found["weights"]["shape"] == [len(found["premise"]), len(found["hypothesis"])]
    found = post(client, "score", model="lstmn", text="The cat sleeps.")
    assert len(found["log_probabilities"]) == len(found["words"]) + 1 == found["weights"]["shape"][0]


def test_every_mechanism_with_parameters_has_an_example(client):
    rows = client.get("/v1/mechanisms").json()
    assert {"dot", "sparsemax", "local-predictive", "ntm-addressing", "multi-head"} <= {
        r["key"] for r in rows
    }
    assert all(row["equation"] for row in rows)
    for row in rows:
        if row["parameters"]:
            low = {each["name"]: each["min"] for each in row["parameters"]}
            found = post(client, "mechanism", name=row["key"], parameters=low)
            weights = values(found["weights"])
            assert weights.shape == (len(found["rows"]), len(found["columns"]))
            if row["key"] not in ("divide-by-length", "local-predictive"):  # theirs need not sum to one
                assert weights.sum(1) == pytest.approx(np.ones(len(weights)), abs=1e-4)


def test_the_symbols_of_an_equation_are_what_its_example_shows(client):
    for row in client.get("/v1/mechanisms").json():
        shown = {"rows", "columns", "scores", "weights", *(each["name"] for each in row["parameters"])}
        stages = {"", "row 0", "row 1", "row 2", "row 3"}
        assert set(row["symbols"].values()) <= shown | stages, row["key"]
        if row["symbols"]:
            assert any(symbol in row["equation"] for symbol in row["symbols"]), row["key"]


def test_a_mechanism_has_its_newest_measured_results(client):
    rows = {row["key"]: row["measured"] for row in client.get("/v1/mechanisms").json()}
    assert any(each["metric"] for each in rows["additive"])
    assert all(
        len({(each["recipe"], each["metric"]) for each in found}) == len(found) for found in rows.values()
    )


def test_the_file_of_a_mechanism_has_its_equation_and_no_other_file_is_read(client):
    for row in client.get("/v1/mechanisms").json():
        found = client.get(f"/v1/mechanisms/{row['key']}/file").json()
        assert found["file"] == row["file"]
        assert row["equation"].strip().splitlines()[0].strip() in found["text"]
    for name in ("nobody", "..%2f..%2fsetup", "dot.py"):
        assert client.get(f"/v1/mechanisms/{name}/file").status_code == 404


def test_words_that_a_memory_network_never_read_are_named(client):
    story, question = ["Lena went to the attic.", "Xerxes went home."], "Where is Lena?"
    assert post(client, "ask", model="stories", story=story, question=question)["unknown"] == [
        "xerxes",
        "home",
    ]


def test_a_mechanism_says_which_parameters_it_has(client):
    assert refusal(client, "mechanism", name="softmax", parameters={"beta": 1})[1] == (
        "parameters: has 'beta'; expected some of seed, noise, length, temperature."
    )
    status, message = refusal(client, "mechanism", name="softmax", parameters={"temperature": 0})
    assert (status, message) == (422, "parameters.temperature: has 0; expected 0.1 to 5.")
    assert refusal(client, "mechanism", name="nothing")[0] == 404


def test_events_end_with_the_result_or_the_error(client):
    def events(**body):
        answer = client.post("/v1/ask", json=body, headers={"Accept": "text/event-stream"})
        assert answer.headers["content-type"].startswith("text/event-stream")
        parts = [part.split("\n") for part in answer.text.strip().split("\n\n")]
        return [
            (name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in parts
        ]

    found = events(model="stories", story=["Lena went to the attic."], question="Where is Lena?")
    assert found[0][0] == "waiting"
    assert found[-1][0] == "result"
    assert found[-1][1]["answer"] == "attic"
    assert events(model="stories", story=["."], question="Where is Lena?")[-1][0] in ("result", "error")


def test_limits_are_kept_with_a_status_and_a_sentence(client):
    fr = {"model": "demo-rnnsearch"}
    assert refusal(client, "translate", **fr, text="a" * 2001)[0] == 422
    assert refusal(client, "translate", **fr, text=["a"] * 65)[0] == 422
    assert refusal(client, "translate", **fr, text="")[0] == 422
    assert refusal(client, "translate", **fr, text="A cat.", beam=17)[0] == 422
    status, message = refusal(client, "translate", **fr, text="a " * 200)
    assert (status, message) == (422, "text: has 200 pieces of words; expected 150 at most.")
    message = refusal(client, "translate", **fr, text=["a " * 100] * 16)[1]
    assert message == "text: has 1600 pieces of words in all texts; expected 1500 at most."
    assert refusal(client, "translate", **fr, text=["A cat.", "A dog."], tree=True)[0] == 422
    assert refusal(client, "point", model="sort", points=[[1]] * 201)[0] == 422
    assert refusal(client, "run", model="ntm-copy", bits=[[0] * 8] * 129)[0] == 422
    assert refusal(client, "sample", model="sagan-shapes", count=65)[0] == 422
    assert refusal(client, "translate", **fr, text="A cat.", colour="red") == (
        422,
        "colour: Extra inputs are not permitted.",
    )
    assert refusal(client, "translate", model="nobody", text="A cat.")[0] == 404
    assert refusal(client, "translate", model="stories", text="A cat.") == (
        422,
        "model: 'stories' is for 'ask'; expected one for 'translate'.",
    )


def test_text_that_is_no_unicode_is_refused(client):
    body = b'{"model": "demo-rnnsearch", "text": "\\ud800"}'
    answer = client.post("/v1/translate", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422


@pytest.mark.parametrize("body", [b"{", b"[" * 100_000, b"\xff\xfe", b"", b"null", b"9" * 9999])
def test_a_body_that_is_no_request_is_refused(client, body):
    answer = client.post("/v1/ask", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["code"] == "invalid"


def test_answers_to_many_at_once_are_never_exchanged(client):
    people = ["Lena", "Omar", "Anna", "Paul"]
    places = ["attic", "garden", "kitchen", "library"]
    wrong = []

    def ask(number):
        who, where = people[number % 4], places[number // 4 % 4]
        story, question = [f"{who} went to the {where}."], f"Where is {who}?"
        found = post(client, "ask", model="stories", story=story, question=question)
        if found["answer"] != where or found["sentences"] != story:
            wrong.append((number, found["answer"]))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_health_readiness_counters_and_the_reference(client):
    assert client.get("/healthz").text == client.get("/readyz").text == "ok\n"
    counted = client.get("/metrics").text
    assert 'regard_requests_total{route="/healthz",status="200"}' in counted
    page = client.get("/docs").text
    assert "POST /v1/translate" in page
    text = "string (at most 2,000 characters)"
    assert f"<td>{text} or list (at most 64) of {text}<td>" in page
    assert "<td>integer, 1 to 16<td>" in page
    assert "http://" not in page
    assert "<script" not in page
    answer = client.get("/nothing/here")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    assert client.get("/v1/translate").status_code == 405
