"""The widget answers what the browser asks: exact rows of one head."""

import numpy as np
import pytest
import torch

import regard

pytest.importorskip("anywidget")


@pytest.fixture
def widget(monkeypatch):
    layer = torch.nn.TransformerEncoderLayer(16, 2, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).eval()
    with regard.record(model) as trace:
        model(torch.randn(1, 9, 16))
    made = regard.view(trace, limit=0).widget()
    made.trace, made.sent = trace, []
    monkeypatch.setattr(made, "send", lambda message, buffers=(): made.sent.append((message, buffers)))
    return made


def ask(widget, **asked):
    widget._handle_custom_msg(asked, [])
    return widget.sent[-1]


def test_rows_are_exact_where_the_page_has_pooled_ones(widget):
    assert widget.data["groups"][0]["layers"][0]["heads"][0]["pool"] > 1
    message, [rows] = ask(widget, id=7, path="layers.1.self_attn", head=1, first=2, count=3)
    assert message == {"id": 7, "shape": [3, 9]}
    expected = widget.trace["layers.1.self_attn"][0].weights[0, 1, 2:5]
    found = np.frombuffer(rows, "<f4").reshape(3, 9)
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "wrong",
    [{"path": "nowhere"}, {"head": 2}, {"first": 8}, {"first": -1}, {"count": "x"}, {"count": 0}],
)
def test_a_wrong_question_is_answered_with_an_error(widget, wrong):
    asked = {"id": 1, "path": "layers.0.self_attn", "head": 0, "first": 7, "count": 2} | wrong
    message, buffers = ask(widget, **asked)
    assert message["id"] == 1
    assert message["error"]
    assert not buffers


def test_the_script_is_one_module_that_imports_nothing(widget):
    assert "export default { render: views.widget.render };" in widget._esm
    assert not any(line.startswith("import") for line in widget._esm.splitlines())
