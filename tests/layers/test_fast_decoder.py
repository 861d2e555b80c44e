"""The flat step of a decoder: equal to its modules, and left to them wherever it would not be."""

import pytest
import torch
from seeds import offset_seed

from regard.attention.config import AttentionConfig
from regard.attention.mask import Mask
from regard.attention.record import record
from regard.attention.source import Source
from regard.data.batches import pair_batch
from regard.decode.greedy import greedy
from regard.layers.fast_decoder import gather
from regard.layers.transformer import DecoderLayer, FeedForward
from regard.models.transformer import Transformer, TransformerConfig

V, SIZES = 19, {"size": "tiny", "d_model": 24, "d_ff": 20}


def transformer(**settings):
    torch.manual_seed(offset_seed(11))
    model = Transformer(TransformerConfig(source_vocab=V, target_vocab=V, **SIZES | settings)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


@pytest.fixture
def batch():
    return pair_batch([[4, 5, 6, 7, 8], [9], [10, 11, 12]], [[], [], []])


@pytest.mark.parametrize("settings", [{"norm": "post"}, {"norm": "pre"}, {"d_k": 5}], ids=str)
@torch.no_grad()
def test_flat_steps_equal_the_modules(settings, batch):
    model = transformer(**settings)
    flat = model.start(batch)
    assert flat.stepper is not None
    composed = flat._replace(stepper=None, caches=model.start(batch).caches)
    for t in range(12):
        tokens = torch.randint(4, V, (len(flat.sources[0].keys) * flat.sources[0].copies,))
        a, flat = model.step(tokens, flat)
        b, composed = model.step(tokens, composed)
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
        if t in (1, 4):  # hypotheses that share their sentence, then only some sentences
            rows = torch.arange(3).repeat_interleave(4) if t == 1 else torch.tensor([3, 1, 2, 2, 9, 8, 8, 11])
            flat, composed = model.select(flat, rows), model.select(composed, rows)


@torch.no_grad()
def test_while_somebody_listens_the_modules_run(batch):
    model = transformer()
    state = model.start(batch)
    with record(model) as trace:
        assert state.stepper.listening()
        model.step(torch.tensor([1, 1, 1]), state)
    assert sum(map(len, trace.values())) == 4  # two of each decoder layer
    assert not state.stepper.listening()


PARTS = [
    *("self_attention", "self_attention.W_Q", "self_attention.attention", "self_attention.attention.score"),
    *("source_attention.W_O", "around_feed_forward", "around_self_attention.norm", "feed_forward.W_1"),
]


@pytest.mark.parametrize("put_on", ["before", "in between"])
@pytest.mark.parametrize("path", PARTS)
@torch.no_grad()
def test_a_hook_on_a_part_is_called_at_every_step(path, put_on, batch):
    model, seen, tokens = transformer(), [], torch.tensor([1, 1, 1])
    state = None if put_on == "before" else model.start(batch)
    part = model.decoder.layers[-1].get_submodule(path)
    part.register_forward_hook(lambda *_: seen.append(path))
    if state is None:
        state = model.start(batch)
        assert state.stepper is None
    _, state = model.step(tokens, state)
    model.step(tokens, state)
    assert len(seen) == 2


@torch.no_grad()
def test_parts_of_ones_own_are_left_to_the_modules(batch):
    class Doubled(FeedForward):
        def forward(self, x):
            return 2 * super().forward(x)

    class Skipping(DecoderLayer):
        def step(self, x, source, cache, looked):
            return x, cache, looked

    for own in (Doubled, Skipping):
        model = transformer()
        layer = model.decoder.layers[-1]
        (layer.feed_forward if own is Doubled else layer).__class__ = own
        assert model.start(batch).stepper is None


def test_decoding_with_and_without_attention_writes_the_same(batch):
    model = transformer()
    plain, recorded = (greedy(model, batch, maximum=15, attention=wanted) for wanted in (False, True))
    assert [each.tokens for each in plain] == [each.tokens for each in recorded]
    assert all(each.attention for each in recorded)


@pytest.mark.parametrize(
    "settings",
    [
        {"attention": AttentionConfig("additive")},
        {"attention": AttentionConfig("coverage")},
        {"attention": AttentionConfig("scaled-dot", normalizer="sparsemax")},
        {"norm_kind": "batch"},
        {"restricted": 2},
        {"attention": AttentionConfig("scaled-dot", kernel="reference")},
    ],
    ids=("additive", "coverage", "sparsemax", "batch norm", "restricted", "reference"),
)
@torch.no_grad()
def test_every_other_decoder_is_left_to_its_modules(settings, batch):
    assert transformer(**settings).start(batch).stepper is None


def test_gradients_training_and_other_precisions_are_left_to_the_modules(batch):
    model = transformer()
    assert model.start(batch).stepper is None  # gradients
    with torch.no_grad():
        assert model.train().start(batch).stepper is None
        assert model.eval().double().start(batch).stepper is None
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert transformer().start(batch).stepper is None


@torch.no_grad()
def test_a_source_whose_mask_differs_by_query_is_left_to_the_modules(batch):
    model = transformer()
    state = model.start(batch)
    first = state.sources[0]
    for mask in (Mask(causal=True), Mask(lengths=torch.tensor([1, 1, 1]))):
        sources = (Source(first.keys, first.values, mask), *state.sources[1:])
        assert gather(model.decoder, model.W, sources, state.caches) is None
