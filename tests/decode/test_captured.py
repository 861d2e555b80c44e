"""Decoding by graphs gives what decoding step by step gives."""

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch

from regard.attention import paths
from regard.attention.config import AttentionConfig
from regard.attention.record import record
from regard.data.batches import pair_batch
from regard.data.tokens import SPECIAL
from regard.decode import captured
from regard.decode.base import Lengths, PowerPenalty, WuPenalty, evaluating, limits_of
from regard.decode.beam import Call, Finished, Options, beam_search, ends_of, step_by_step
from regard.decode.greedy import greedy
from regard.layers.lstm import LSTMEncoder, hold_on_padding
from regard.models.luong import Luong, LuongConfig
from regard.models.rnnsearch import RNNsearch, RNNsearchConfig
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.transformer import Transformer, TransformerConfig

VOCAB = 23
NVIDIA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
MODELS = {
    "transformer": lambda: Transformer(
        TransformerConfig(source_vocab=VOCAB, target_vocab=VOCAB, size="tiny", norm="pre")
    ),
    "looking back": lambda: Transformer(
        TransformerConfig(
            source_vocab=VOCAB, target_vocab=VOCAB, size="tiny", attention=AttentionConfig(score="coverage")
        )
    ),
    "rnnsearch": lambda: RNNsearch(
        RNNsearchConfig(source_vocab=VOCAB, target_vocab=VOCAB, embedding=16, hidden=24)
    ),
    "luong": lambda: Luong(LuongConfig(source_vocab=VOCAB, target_vocab=VOCAB, embedding=16, hidden=24)),
    "seq2seq": lambda: Seq2Seq(
        Seq2SeqConfig(source_vocab=VOCAB, target_vocab=VOCAB, embedding=16, hidden=24)
    ),
}


def a_model(name):
    model = MODELS[name]()
    for parameter in model.parameters():  # far from each other, so that sentences end at different lengths
        torch.nn.init.normal_(parameter, std=0.4)
    for module in model.modules():
        if isinstance(module, LSTMEncoder):
            hold_on_padding(module)
    return model.eval()


def a_batch(rows=5):
    lengths = torch.randint(1, 9, (rows,)).tolist()
    return pair_batch([torch.randint(len(SPECIAL), VOCAB, (n,)).tolist() for n in lengths], [[]] * rows)


def same(found, expected):
    assert [each.tokens for each in found] == [each.tokens for each in expected]
    assert [each.finished for each in found] == [each.finished for each in expected]
    for a, b in zip(found, expected, strict=True):
        assert a.log_probability == pytest.approx(b.log_probability, rel=1e-4, abs=1e-4)


class Eager(captured._Recording):
    """The same steps, computed when they would be captured; good for one run."""

    def _capture(self, length):
        return self._step(SimpleNamespace(replay=lambda: None), length)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_a_sentence_that_is_over_changes_nothing_by_staying(name, width):
    model, batch = a_model(name), a_batch()
    limits = limits_of(batch, Lengths(1.5, 3), 0)
    options = Options(width, width, 0, WuPenalty(0.6), attention=False)
    call = Call(model, batch, options, limits, int(limits.max()))
    with evaluating(model):
        tracks, sentences = step_by_step(call)
        trellis, settled = Eager(model, batch, limits, options).run(batch, limits, call.longest)
        finished = Finished(*settled.finished)
        ends = ends_of(finished, settled.total, settled.nodes, torch.arange(batch.size), settled.lengths)
        again = trellis.tracks(ends, batch)
    by_sentence = sorted(zip(sentences, [(t.tokens, t.log_probability) for t in tracks], strict=True))
    staying = zip(ends.sentences.tolist(), [(t.tokens, t.log_probability) for t in again], strict=True)
    for (row, (tokens, p)), (same_row, (same_tokens, q)) in zip(by_sentence, sorted(staying), strict=True):
        assert (row, tokens) == (same_row, same_tokens)
        assert q == pytest.approx(p, rel=1e-4, abs=1e-4)


def test_on_a_cpu_a_search_goes_step_by_step():
    model, batch = a_model("transformer"), a_batch()
    limits = limits_of(batch, 7, 0)
    call = Call(model, batch, Options(1, 1, 0, PowerPenalty(0.0), attention=False), limits, 7)
    assert str(paths.explain("decoding", call)).startswith("reference: the batch is not on an NVIDIA GPU")


@pytest.mark.gpu
@NVIDIA
@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "autocast"])
@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("name", [name for name in MODELS if name != "seq2seq"])
def test_graphs_write_what_steps_write(name, width, autocast):
    """The second batch of a shape is captured, the third replayed with other sentences."""
    model = a_model(name).cuda()

    def write(batch):
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            if width == 1:
                return greedy(model, batch, maximum=Lengths(1.5, 3))
            return [
                h for each in beam_search(model, batch, width=width, maximum=Lengths(1.5, 3)) for h in each
            ]

    for _ in range(2):
        write(a_batch(7).to("cuda"))
    for rows in (7, 8, 3):
        batch = a_batch(rows).to("cuda")
        paths._places, kept = {}, paths._places
        try:
            expected = write(batch)
        finally:
            paths._places = kept
        found = write(batch)
        if autocast:  # padding changes the order of sums, and bf16 rounds to 8 bits: most words are the same
            pairs = zip(found, expected, strict=True)
            assert sum(a.tokens == b.tokens for a, b in pairs) >= len(found) * 0.5
        else:
            same(found, expected)


@pytest.mark.gpu
@NVIDIA
def test_graphs_see_new_parameters_and_step_aside_for_a_record():
    model = a_model("transformer").cuda()
    batch = a_batch(8).to("cuda")
    for _ in range(3):
        before = greedy(model, batch, maximum=9)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
    after = greedy(model, batch, maximum=9)
    assert [each.tokens for each in after] != [each.tokens for each in before]
    with record(model) as trace:
        recorded = greedy(model, batch, maximum=9)
    assert trace
    same(after, recorded)
    model.half()  # other tensors
    assert len(greedy(model, batch, maximum=9)) == 8


def test_a_recording_does_not_keep_its_model_alive():
    model, batch = a_model("transformer"), a_batch()
    limits = limits_of(batch, 5, 0)
    options = Options(1, 1, 0, PowerPenalty(0.0), attention=False)
    recording = Eager(model, batch, limits, options)
    with evaluating(model):
        recording.run(batch, limits, 5)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
