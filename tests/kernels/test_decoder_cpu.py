"""The compiled step of a decoder: the words of its modules, whatever stands beside a row, and never stale."""

import shutil

import pytest
import torch
from seeds import offset_seed

from regard.attention.record import record
from regard.data.batches import pair_batch
from regard.data.tokens import BOS, PAD
from regard.decode.base import PowerPenalty, best_tokens, forbid
from regard.decode.beam import beam_search
from regard.decode.greedy import greedy
from regard.kernels import compiler
from regard.kernels.decoder import decoder_cpu
from regard.kernels.decoder.decoder_cpu import BEST_TOKENS, TokenChoice, Written
from regard.layers.fast_decoder import PackedDecoder
from regard.models.transformer import Transformer, TransformerConfig

V = 83
pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")


def transformer(**settings):
    torch.manual_seed(offset_seed(5))
    sizes = {"size": "tiny", "d_model": 48, "d_ff": 70, "source_vocab": V, "target_vocab": V}
    model = Transformer(TransformerConfig(**sizes | settings)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def sentences(lengths):
    rows = [torch.randint(4, V, (length,)).tolist() for length in lengths]
    return pair_batch(rows, [[] for _ in rows])


def by_modules(model, run):
    """What `run` finds while a hook keeps every fused step away."""
    hook = model.W.register_forward_hook(lambda *_, **__: None)
    try:
        return run()
    finally:
        hook.remove()


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("width", [1, 4])
def test_a_search_writes_the_words_of_the_modules(norm, width):
    model, batch = transformer(norm=norm), sentences([9, 1, 5, 5, 3])

    def run():
        settings = {"maximum": 17, "penalty": PowerPenalty(0.0)}
        return [[one.tokens for one in each] for each in beam_search(model, batch, width=width, **settings)]

    assert run() == by_modules(model, run)


@torch.no_grad()
def test_no_rows_have_no_words():
    model = transformer()
    state = model.start(sentences([6, 6]))
    _, state = model.step(torch.tensor([BOS, BOS]), state)
    nobody = torch.empty(0, dtype=torch.long)
    found, _ = model.step(nobody, model.select(state, nobody))
    assert found.shape == (0, V)


@torch.no_grad()
def test_a_row_has_the_same_bits_whatever_stands_beside_it():
    model, batch = transformer(), sentences([6] * 29)
    together, state = [], model.start(batch)
    assert isinstance(state.stepper.weights, PackedDecoder)
    words = torch.randint(4, V, (5, 29))
    for tokens in words:
        found, state = model.step(tokens, state)
        together.append(found)
    for n in (0, 12, 28):
        state = model.select(model.start(batch), torch.tensor([n]))
        for tokens, found in zip(words, together, strict=True):
            alone, state = model.step(tokens[n : n + 1], state)
            assert torch.equal(alone[0], found[n])


@torch.no_grad()
def test_a_state_can_be_continued_twice():
    model, batch = transformer(), sentences([4, 7])
    _, state = model.step(torch.tensor([BOS, BOS]), model.start(batch))
    swapped = model.select(state, torch.tensor([1, 0]))
    first, _ = model.step(torch.tensor([5, 6]), state)
    other, _ = model.step(torch.tensor([6, 5]), swapped)
    again, _ = model.step(torch.tensor([5, 6]), state)
    assert torch.equal(first, again)
    assert torch.equal(first, other.flip(0))


@torch.no_grad()
def test_steps_can_change_between_the_modules_and_the_loops():
    model, batch = transformer(), sentences([4, 7])
    words = torch.randint(4, V, (6, 2))
    plain, mixed = model.start(batch), model.start(batch)
    for t, tokens in enumerate(words):
        expected, plain = model.step(tokens, plain)
        if t in (1, 2, 4):
            with record(model) as trace:
                found, mixed = model.step(tokens, mixed)
            assert trace
        else:
            found, mixed = model.step(tokens, mixed)
        assert isinstance(mixed.caches, Written) == (t not in (1, 2, 4))
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("change", ["fused optimizer", "in place", "another tensor"])
def test_weights_that_have_changed_are_packed_again(change):
    model, batch = transformer(), sentences([5, 2])
    before = greedy(model, batch, maximum=6)
    weight = model.decoder.layers[0].feed_forward.W_1.weight
    if change == "fused optimizer":  # which does not count its changes
        version = weight._version
        weight.grad = torch.randn_like(weight)
        torch.optim.Adam([weight], lr=0.5, fused=True).step()
        assert weight._version == version
    elif change == "in place":
        weight.data.mul_(-1.5)
    else:
        model.decoder.layers[0].feed_forward.W_1.weight = torch.nn.Parameter(-1.5 * weight.detach())
    found = greedy(model, batch, maximum=6)
    expected = by_modules(model, lambda: greedy(model, batch, maximum=6))
    assert [each.tokens for each in found] == [each.tokens for each in expected]
    pairs = zip(found, expected, strict=True)
    assert all(a.log_probability == pytest.approx(b.log_probability, abs=1e-4) for a, b in pairs)
    assert [each.log_probability for each in found] != [each.log_probability for each in before]


@torch.no_grad()
@pytest.mark.parametrize("transposed", [False, True])
def test_weights_are_packed_once_for_many_batches(transposed):
    model = transformer()
    if transposed:  # as memory has them; they are copied to be read
        network = model.decoder.layers[0].feed_forward
        network.W_1.weight = torch.nn.Parameter(torch.randn(48, 70).mT)
    first, second = (model.start(sentences([3])).stepper.weights for _ in range(2))
    assert first is second


@torch.no_grad()
def test_several_threads_find_the_same_bits(monkeypatch):
    model, batch = transformer(), sentences([6] * 13)
    tokens = torch.full((13,), BOS)
    alone, _ = model.step(tokens, model.start(batch))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(decoder_cpu, "SHARED", 1)
    together, _ = model.step(tokens, model.start(batch))
    assert torch.equal(alone, together)


@torch.no_grad()
def test_without_a_compiler_operations_of_pytorch_run(monkeypatch):
    model, batch = transformer(), sentences([5, 8])
    expected = greedy(model, batch, maximum=9)
    monkeypatch.setattr(compiler, "library", lambda *_, **__: None)
    monkeypatch.setattr(decoder_cpu, "library", lambda *_, **__: None)
    decoder_cpu.compiled.cache_clear()
    try:
        assert not isinstance(model.start(batch).stepper.weights, PackedDecoder)
        found = greedy(model, batch, maximum=9)
    finally:
        decoder_cpu.compiled.cache_clear()
    assert [each.tokens for each in found] == [each.tokens for each in expected]


@pytest.mark.parametrize("width", [1, 5, 64])
@pytest.mark.parametrize("minimum", [0, 3])
@torch.no_grad()
def test_the_best_tokens_are_those_of_topk(width, minimum):
    scores = torch.randn(7, 97).log_softmax(-1)
    assert BEST_TOKENS.refuses(TokenChoice(scores, width, (PAD, BOS))) is None
    values, tokens = best_tokens(scores, width, step=0, minimum=minimum)
    expected = forbid(scores, step=0, minimum=minimum).topk(width)
    assert torch.equal(values, expected.values)
    assert torch.equal(tokens, expected.indices)


@torch.no_grad()
def test_of_equal_tokens_the_first_is_taken_and_nan_comes_first():
    scores = torch.full((3, 40), -2.0)
    scores[1, [17, 33]] = torch.tensor([-1.0, torch.nan])
    scores[2] = -torch.inf
    values, tokens = best_tokens(scores, 3, step=9, minimum=0)
    allowed = [token for token in range(40) if token not in (PAD, BOS)]
    assert tokens[0].tolist() == allowed[:3]
    assert tokens[1].tolist() == [33, 17, allowed[0]]
    assert values[1, 0].isnan()
    assert values[2].tolist() == [-torch.inf] * 3


def test_what_the_loops_cannot_choose_from_is_refused():
    scores = torch.zeros(2, 99)
    with torch.no_grad():
        assert "float64" in BEST_TOKENS.refuses(TokenChoice(scores.double(), 1, ()))
        assert "65 tokens" in BEST_TOKENS.refuses(TokenChoice(scores, 65, ()))
    assert "gradients" in BEST_TOKENS.refuses(TokenChoice(scores, 1, ()))
