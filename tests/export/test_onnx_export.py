"""A decoding step in onnxruntime: the same log-probabilities as our `step`, for any sizes and any search."""

import pytest
import torch
from seeds import offset_seed

from regard.attention.config import AttentionConfig
from regard.data.batches import pair_batch
from regard.decode.beam import beam_search
from regard.decode.forced import forced
from regard.decode.greedy import greedy
from regard.errors import ConfigError, DataError
from regard.export.onnx import save
from regard.export.onnx_runtime import OnnxModel
from regard.export.onnx_steps import steps_of
from regard.models.luong import Luong, LuongConfig
from regard.models.rnnsearch import RNNsearch, RNNsearchConfig
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.transformer import Transformer, TransformerConfig

V = 23


def transformer(**settings):
    return Transformer(
        TransformerConfig(
            **{"source_vocab": V, "target_vocab": V + 1, "size": "tiny", "layers": 1, "decoder_layers": 2}
            | settings
        )
    )


def luong(**settings):
    sizes = {"source_vocab": V, "target_vocab": V, "embedding": 10, "hidden": 12}
    choices = {"layers": 2, "dropout": 0.1, "attention": AttentionConfig("concat", hidden=7)}
    return Luong(LuongConfig(**sizes | choices | settings))


def local():
    return luong(attention=AttentionConfig("concat", hidden=7, window="local-predictive", half_width=3))


def rnnsearch(**settings):
    sizes = {"source_vocab": V, "target_vocab": V + 2, "embedding": 6, "hidden": 8, "readout": 5}
    choices = {"encoder_hidden": 7, "query": "state+word", "attention": AttentionConfig("additive", hidden=9)}
    return RNNsearch(RNNsearchConfig(**sizes | choices | settings))


def heads():
    return rnnsearch(query="state", attention=AttentionConfig("scaled-dot", heads=2))


MODELS = {"transformer": transformer, "luong, local-p": local, "rnnsearch": rnnsearch}


@pytest.fixture(scope="module", params=MODELS.values(), ids=MODELS)
def pair(request, tmp_path_factory):
    """A model, and the same in onnxruntime."""
    torch.manual_seed(offset_seed(7))
    model = request.param().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    folder = tmp_path_factory.mktemp("onnx")
    save(steps_of(model), folder)
    return model, OnnxModel(folder)


def rows(*lengths):
    generator = torch.Generator().manual_seed(offset_seed(5))
    return [torch.randint(4, V, (n,), generator=generator).tolist() for n in lengths]


@pytest.mark.parametrize("lengths", [(3, 7, 0, 12), (1,), (600, 2)], ids=str)
def test_every_step_has_the_same_log_probabilities(pair, lengths):
    model, exported = pair
    batch = pair_batch(rows(*lengths), rows(*lengths)[::-1])
    for ours, theirs in zip(
        forced(model, batch, attention=False), forced(exported, batch, attention=False), strict=True
    ):
        torch.testing.assert_close(ours.log_probabilities, theirs.log_probabilities, atol=1e-4, rtol=0)


def test_greedy_and_beam_search_run_on_it_unchanged(pair):
    batch = pair_batch(rows(3, 7, 1, 12), [[]] * 4)
    ours, theirs = (greedy(each, batch, maximum=15) for each in pair)
    assert [each.tokens for each in ours] == [each.tokens for each in theirs]
    several = [beam_search(each, batch, width=3, nbest=3, maximum=9) for each in pair]
    for a, b in zip(*several, strict=True):
        assert [each.tokens for each in a] == [each.tokens for each in b]
        assert [each.score for each in a] == pytest.approx([each.score for each in b], abs=1e-3)


@pytest.mark.parametrize("build", [luong, heads], ids=["luong", "rnnsearch, two heads"])
def test_steps_on_plain_tensors_are_the_models_own(build):
    model = build().eval()
    steps = steps_of(model)
    batch = pair_batch(rows(3, 7, 1), [[]] * 3)
    with torch.no_grad():
        ours, theirs = model.start(batch), steps.begin(batch.source, batch.source_lengths)
        for tokens in torch.randint(1, V, (4, 3)):
            expected, ours = model.step(tokens, ours)
            found, changed = steps.advance(tokens, theirs)
            theirs |= changed
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_a_step_leaves_its_state_as_it_was(pair):
    _, exported = pair
    state = exported.start(pair_batch(rows(4, 2), [[], []]))
    first, _ = exported.step(torch.tensor([1, 1]), state)
    exported.step(torch.tensor([5, 6]), state)
    again, _ = exported.step(torch.tensor([1, 1]), state)
    assert torch.equal(first, again)


def test_the_model_that_is_exported_stays_as_it_was():
    model = luong(layers=1)
    model.train()
    steps_of(model)
    assert model.training
    assert model.attention.kernel == "auto"


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (
            lambda: transformer(restricted=2),
            "export to onnx: `restricted` has 2; expected 0, because the exported step attends to all "
            "earlier words.",
        ),
        (
            lambda: luong(attention=AttentionConfig("dot", window="local-monotonic")),
            "export to onnx: `attention.window` has 'local-monotonic'; expected 'global' or "
            "'local-predictive', because the exported step does not know its number.",
        ),
        (
            lambda: rnnsearch(attention=AttentionConfig("coverage", hidden=4)),
            "export to onnx: `attention.score` has 'coverage', which looks back at earlier alignments; "
            "expected one that does not.",
        ),
        (
            lambda: luong(attention=AttentionConfig("coverage")),
            "export to onnx: `attention.score` has 'coverage', which looks back at earlier alignments; "
            "expected one that does not.",
        ),
        (
            lambda: transformer(attention=AttentionConfig("location-aware")),
            "export to onnx: `attention.score` has 'location-aware', which looks back at earlier alignments; "
            "expected one that does not.",
        ),
        (
            lambda: Seq2Seq(Seq2SeqConfig(source_vocab=9, target_vocab=9, embedding=4, hidden=4, layers=1)),
            "export to onnx: the model is Seq2Seq; expected Transformer, Luong or RNNsearch.",
        ),
    ],
    ids=["restricted", "window", "score of RNNsearch", "score", "score of a Transformer", "model"],
)
def test_what_the_graphs_cannot_hold_is_refused(model, sentence):
    with pytest.raises(ConfigError) as error:
        steps_of(model())
    assert str(error.value) == sentence


def test_a_damaged_graph_is_told(tmp_path):
    (tmp_path / "encoder.onnx").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"encoder.onnx: onnxruntime cannot read it: "):
        OnnxModel(tmp_path)
