"""Views of other people's models: generation with a cache, encoder-decoders, words of both sides."""

import sys
from pathlib import Path

import pytest
import torch

import regard
from regard.integrations.transformers import TracedText, trace_text

transformers = pytest.importorskip("transformers")
sys.path.insert(0, str(Path(__file__).parents[1] / "integrations"))
from families import FAMILIES, tokenizer_of  # noqa: E402


def layers(view):
    return {layer["path"]: layer for group in view.data["groups"] for layer in group["layers"]}


def test_the_steps_of_a_generation_are_one_lower_triangle():
    model = transformers.AutoModelForCausalLM.from_config(FAMILIES["gpt2"].config()).eval()
    prompt = torch.randint(3, 64, (1, 4))
    with torch.no_grad(), regard.record(model) as trace:
        written = model.generate(prompt, max_new_tokens=5, min_new_tokens=5, do_sample=False, pad_token_id=0)
    tokens = [f"Ġ{number}" for number in written[0].tolist()]
    view = regard.view(trace, tokens)
    layer = view.layers[0]
    assert (layer.T, layer.S, layer.heads) == (8, 8, 4)  # the last token has not been read
    weights = layer.rows(0, 8)
    assert not weights[:, *torch.triu_indices(8, 8, 1).numpy()].any()
    found = view.data
    assert found["texts"] == [[str(number) for number in written[0, :-1].tolist()]]
    assert regard.view(trace, call=0).layers[0].T == 4


def test_an_encoder_decoder_has_its_words_on_both_sides():
    model = transformers.AutoModelForSeq2SeqLM.from_config(FAMILIES["marian"].config()).eval()
    tokenizer = tokenizer_of(["a", "dog", "runs"])
    model.generation_config.max_length = 6
    for target in ("dog a runs", None):
        traced = trace_text(model, tokenizer, "a dog runs", target=target)
        view = regard.view(traced)
        found, texts = layers(view), view.data["texts"]
        assert len(view.data["groups"]) == 3
        source, written = ["a", "dog", "runs"], [*map(str, traced.target_tokens)][: view.layers[2].T]
        cross = found["model.decoder.layers.1.encoder_attn"]
        itself = found["model.decoder.layers.0.self_attn"]
        read = found["model.encoder.layers.0.self_attn"]
        assert (texts[cross["rows"]], texts[cross["columns"]]) == (written, source)
        assert (texts[itself["rows"]], texts[itself["columns"]]) == (written, written)
        assert (texts[read["rows"]], texts[read["columns"]]) == (source, source)
        assert traced._repr_html_().startswith("<iframe")


def test_words_are_shown_without_the_marks_of_their_tokenizer():
    attention = regard.Attention(regard.DotScore())
    result = attention(torch.randn(1, 4, 8), attention.prepare(torch.randn(1, 4, 8)))
    trace = regard.Trace()
    trace["x"] = [result]
    view = regard.view(TracedText(trace, ["Ġthe", "▁cat", "Ċ", "Ġ"], None, None))
    assert view.data["texts"] == [["the", "cat", "↵", "␣"]]
    assert view.texts.tokens[0] == "Ġthe"


def test_steps_of_a_recurrent_decoder_are_joined():
    attention = regard.Attention(regard.DotScore())
    source = attention.prepare(torch.randn(1, 5, 8))
    with regard.record(attention) as trace:
        for _ in range(3):
            attention(torch.randn(1, 1, 8), source)
    [layer] = regard.view(trace).layers
    assert (layer.T, layer.S) == (3, 5)
