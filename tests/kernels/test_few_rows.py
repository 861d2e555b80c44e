"""Matrices in panels while a search runs: the words of the modules, and never stale."""

import shutil
from functools import partial
from itertools import chain

import pytest
import torch
from seeds import offset_seed
from torch import nn

from regard.attention.config import AttentionConfig
from regard.attention.record import record
from regard.data.batches import pair_batch
from regard.decode.base import PowerPenalty
from regard.decode.beam import beam_search
from regard.decode.forced import forced
from regard.decode.greedy import greedy
from regard.decode.sample import sample
from regard.kernels.decoder import decoder_cpu, few_rows
from regard.kernels.decoder.few_rows import Panels, product, products, steady_weights
from regard.layers.lstm import LSTMDecoder
from regard.models.luong import Luong, LuongConfig
from regard.models.rnnsearch import RNNsearch, RNNsearchConfig

V = 61
MODELS = ("rnnsearch", "rnnsearch, heads", "rnnsearch, coverage", "luong", "luong, local", "luong, alone")
pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")


def translator(name):
    torch.manual_seed(offset_seed(3))
    sizes = {"source_vocab": V, "target_vocab": V, "embedding": 20, "hidden": 36}
    attention = {
        "rnnsearch, heads": AttentionConfig("additive", hidden=12, heads=3),
        "rnnsearch, coverage": AttentionConfig("coverage", hidden=12),
        "luong": AttentionConfig("concat", hidden=28),
        "luong, local": AttentionConfig("general", window="local-predictive", half_width=2),
    }.get(name, AttentionConfig("additive", hidden=28))
    if name.startswith("rnnsearch"):
        model = RNNsearch(RNNsearchConfig(**sizes, readout=22, attention=attention))
    else:
        attends = name != "luong, alone"
        settings = {"layers": 2, "attends": attends, "feed": attends, "attention": attention}
        model = Luong(LuongConfig(**sizes, **settings))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


def sentences(lengths):
    rows = [torch.randint(4, V, (length,)).tolist() for length in lengths]
    return pair_batch(rows, [torch.randint(4, V, (4,)).tolist() for _ in rows])


def greedily(model, batch):
    return [[one] for one in greedy(model, batch, maximum=11, attention=model.aligner is not None)]


def by_beam(model, batch):
    settings = {"width": 4, "nbest": 4, "maximum": 11, "penalty": PowerPenalty(0.0)}
    return beam_search(model, batch, **settings, attention=model.aligner is not None)


def sampled(model, batch):
    generator = torch.Generator().manual_seed(5)
    # of few tokens: with many, a number that is drawn at the edge of one may choose its neighbour
    return sample(model, batch, maximum=11, count=3, top_k=3, generator=generator)


def by_force(model, batch):
    return [[track] for track in forced(model, batch, attention=model.aligner is not None)]


def by_modules(monkeypatch, run):
    """What `run` finds where no matrix is read in panels."""
    with monkeypatch.context() as patch:
        patch.setattr(few_rows, "_is_steady", lambda: False)
        return run()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("search", [greedily, by_beam, sampled, by_force])
def test_a_search_writes_the_words_of_the_modules(monkeypatch, name, search):
    model, batch = translator(name), sentences([9, 1, 5, 5, 3])
    found = list(chain(*search(model, batch)))
    expected = list(chain(*by_modules(monkeypatch, lambda: search(model, batch))))
    assert [each.tokens for each in found] == [each.tokens for each in expected]
    for mine, other in zip(found, expected, strict=True):
        assert mine.log_probability == pytest.approx(other.log_probability, abs=1e-4)
        assert mine.attention.keys() == other.attention.keys()
        for path, weights in mine.attention.items():
            torch.testing.assert_close(weights, other.attention[path], atol=1e-5, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("rows", [(1,), (7,), (33,), (2, 5), (3, 1)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_product_is_the_modules_own(rows, bias):
    linear = nn.Linear(30, 45, bias=bias)
    x = torch.randn(*rows, 60)[..., ::2]  # features with gaps between them
    with steady_weights():
        assert isinstance(panels_of(linear, x), Panels)
        torch.testing.assert_close(product(linear, x), linear(x), atol=1e-5, rtol=1e-5)


def panels_of(linear, x):
    product(linear, x)
    [panels] = few_rows._known.get()[linear]
    return panels


@torch.no_grad()
def test_a_row_has_the_same_bits_whatever_stands_beside_it():
    linear, x = nn.Linear(300, 45), torch.randn(29, 300)
    with steady_weights():
        together = product(linear, x)
        assert all(torch.equal(product(linear, x[n : n + 1])[0], together[n]) for n in (0, 12, 28))


@torch.no_grad()
def test_several_threads_find_the_same_bits(monkeypatch):
    linear, x = nn.Linear(30, 45), torch.randn(13, 30)
    with steady_weights():
        alone = product(linear, x)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
        monkeypatch.setattr(decoder_cpu, "SHARED", 1)
        assert torch.equal(product(linear, x), alone)


def hooked(linear):
    linear.register_forward_hook(lambda module, given, found: 2 * found)
    return linear


def replaced(linear):
    forward = linear.forward
    linear.forward = lambda x: 2 * forward(x)
    return linear


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


@torch.no_grad()
@pytest.mark.parametrize(
    "make", [lambda: hooked(nn.Linear(8, 5)), lambda: replaced(nn.Linear(8, 5)), lambda: Doubled(8, 5)]
)
def test_a_module_that_computes_something_else_runs_itself(make):
    linear, x = make(), torch.randn(3, 8)
    with steady_weights():
        assert torch.equal(product(linear, x), 2 * nn.functional.linear(x, linear.weight, linear.bias))


class Tripled(torch.Tensor):
    """A weight that multiplies in its own way, as quantized ones do."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is nn.functional.linear:
            x, weight, bias = args
            return nn.functional.linear(x, 3 * weight.as_subclass(torch.Tensor), bias)
        return super().__torch_function__(function, types, args, kwargs or {})


@torch.no_grad()
@pytest.mark.parametrize("kind", ["a class of its own", "no parameter", "another module"])
def test_a_weight_that_is_no_plain_parameter_is_left_to_its_module(kind):
    linear, x = nn.Linear(8, 5, bias=False), torch.randn(3, 8)
    expected = linear(x)
    if kind == "a class of its own":
        linear.weight = nn.Parameter(linear.weight.detach().as_subclass(Tripled))
        expected = 3 * expected
    elif kind == "no parameter":  # as where parameters are flattened to be divided among processes
        weight = linear.weight.detach()
        del linear.weight
        linear.weight = weight
    else:
        linear = nn.Sequential(linear)
    with steady_weights():
        torch.testing.assert_close(product(linear, x), expected)
        assert not any((few_rows._known.get() or {}).values())


@torch.no_grad()
def test_a_hook_that_comes_between_two_steps_is_called():
    linear, x = nn.Linear(8, 5), torch.randn(3, 8)
    with steady_weights():
        product(linear, x)
        assert torch.equal(
            product(hooked(linear), x), 2 * nn.functional.linear(x, linear.weight, linear.bias)
        )


def test_outside_a_search_and_with_gradients_the_module_runs():
    linear, x = nn.Linear(8, 5), torch.randn(3, 8)
    assert product(linear, x).requires_grad
    with steady_weights():
        assert product(linear, x).requires_grad
        assert not few_rows._known.get()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            assert product(linear, x).dtype == torch.bfloat16
    with torch.no_grad():
        assert torch.equal(product(linear, x), linear(x))


@torch.no_grad()
@pytest.mark.parametrize(("rows", "dtype"), [(3, torch.double), (2000, torch.float), (0, torch.float)])
def test_other_rows_than_few_of_float32_are_the_modules(rows, dtype):
    linear, x = nn.Linear(8, 5, dtype=dtype), torch.randn(rows, 8, dtype=dtype)
    with steady_weights():
        assert torch.equal(product(linear, x), linear(x))
        assert not few_rows._known.get()


@torch.no_grad()
def test_a_wrong_size_is_the_modules_error():
    with steady_weights(), pytest.raises(RuntimeError, match="cannot be multiplied"):
        product(nn.Linear(8, 5), torch.randn(3, 7))


@pytest.mark.parametrize("name", ["rnnsearch", "luong"])
@pytest.mark.parametrize("change", ["fused optimizer", "in place", "another tensor"])
def test_weights_that_have_changed_are_packed_again(monkeypatch, name, change):
    model, batch = translator(name), sentences([5, 2])
    owner = model.C if name == "rnnsearch" else model.decoder.layers[1]
    kind = "weight" if name == "rnnsearch" else "weight_hh_l0"
    weight = getattr(owner, kind)
    before = greedy(model, batch, maximum=6)
    if change == "fused optimizer":  # which does not count its changes
        version = weight._version
        weight.grad = torch.randn_like(weight)
        torch.optim.Adam([weight], lr=0.5, fused=True).step()
        assert weight._version == version
    elif change == "in place":
        weight.data.mul_(-1.5)
    else:
        setattr(owner, kind, nn.Parameter(-1.5 * weight.detach()))
    run = partial(greedy, model, batch, maximum=6)
    found, expected = run(), by_modules(monkeypatch, run)
    pairs = zip(found, expected, strict=True)
    assert all(a.log_probability == pytest.approx(b.log_probability, abs=1e-4) for a, b in pairs)
    assert [each.log_probability for each in found] != [each.log_probability for each in before]


@torch.no_grad()
def test_weights_are_packed_once_for_many_searches():
    linear, x, found = nn.Linear(8, 5), torch.randn(3, 8), []
    for _ in range(2):
        with steady_weights():
            found.append(panels_of(linear, x))
    assert found[0] is found[1]


@torch.no_grad()
def test_without_a_compiler_the_modules_run(monkeypatch):
    model, batch = translator("rnnsearch"), sentences([5, 8])
    expected = greedy(model, batch, maximum=9)
    monkeypatch.setattr(few_rows, "compiled", lambda: None)
    linear, x = nn.Linear(8, 5), torch.randn(3, 8)
    with steady_weights():
        assert torch.equal(product(linear, x), linear(x))
    found = greedy(model, batch, maximum=9)
    assert [each.tokens for each in found] == [each.tokens for each in expected]


@torch.no_grad()
def test_an_lstm_keeps_its_matrices_in_panels_while_a_search_runs():
    decoder = LSTMDecoder(inputs=3, hidden=4, layers=2, fed=4)
    with steady_weights():
        inside = decoder.matrices()
    outside = decoder.matrices()
    assert all(isinstance(each, Panels) for each in inside)
    for mine, other, size in zip(inside, outside, (3, 8, 8), strict=True):
        x = torch.randn(2, size)
        torch.testing.assert_close(mine(x), other(x))


@torch.no_grad()
def test_no_rows_give_no_rows():
    linear = nn.Linear(3, 4)
    with steady_weights():
        [times] = products(linear, lambda: [(linear.weight, linear.bias)])
        assert isinstance(times, Panels)
        assert times(torch.randn(0, 3)).shape == (0, 4)


def test_matrices_outside_a_search_have_gradients():
    linear = nn.Linear(3, 4)
    [times] = products(linear, lambda: [(linear.weight, linear.bias)])
    assert times(torch.randn(2, 3)).requires_grad


def test_a_search_can_be_recorded_as_before():
    model, batch = translator("rnnsearch"), sentences([5, 8])
    with record(model) as trace:
        found = greedy(model, batch, maximum=7)
    steps = max(len(each.tokens) + each.finished for each in found)
    assert list(trace) == ["attention"]
    assert len(trace["attention"]) == steps
    assert trace["attention"][0].weights.shape == (2, 1, batch.source.shape[1])


def test_a_beam_prepares_its_source_once(monkeypatch):
    """Hypotheses of a sentence share its keys, and what was made of them."""
    from regard.kernels.additive import additive_step_cpu

    calls = []
    own = additive_step_cpu.exponentials
    monkeypatch.setattr(additive_step_cpu, "exponentials", lambda x: calls.append(len(x)) or own(x))
    model = translator("rnnsearch")
    beam_search(model, sentences([7]), width=4, maximum=9, minimum=8)
    assert calls == [1]


def reads_of(monkeypatch, model):
    """What is multiplied with `model.C` at a step from now on, where large matrices are to be mixed first."""
    contexts, own = [], few_rows.product

    def noted(linear, x):
        if linear is model.C:
            contexts.append(x)
        return own(linear, x)

    monkeypatch.setattr(few_rows, "LARGE", 1)
    monkeypatch.setattr(few_rows, "product", noted)
    return contexts


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("lengths", [[7], [3, 9, 5]])
def test_what_a_matrix_makes_of_a_context_is_mixed_from_what_it_makes_of_the_annotations(
    monkeypatch, width, lengths
):
    model, batch = translator("rnnsearch"), sentences(lengths)
    run = partial(beam_search, model, batch, width=width, maximum=9)
    expected = list(chain(*run()))
    contexts = reads_of(monkeypatch, model)
    found = list(chain(*run()))
    assert not contexts
    assert [each.tokens for each in found] == [each.tokens for each in expected]
    assert [each.score for each in found] == pytest.approx([each.score for each in expected], abs=1e-4)


def test_a_context_that_somebody_sees_or_changes_is_multiplied_itself(monkeypatch):
    model, batch = translator("rnnsearch"), sentences([7])
    contexts = reads_of(monkeypatch, model)
    with record(model) as trace:
        greedy(model, batch, maximum=5, minimum=4)
    assert len(contexts) == len(trace["attention"]) == 5
    contexts.clear()
    model.attention.register_forward_hook(lambda module, given, found: found.with_context(0 * found.context))
    greedy(model, batch, maximum=5, minimum=4)
    assert [x.abs().max() for x in contexts] == [0] * 5


def test_many_sentences_and_heads_multiply_their_contexts(monkeypatch):
    for name, lengths in (("rnnsearch", [4] * 5), ("rnnsearch, heads", [4])):
        model = translator(name)
        contexts = reads_of(monkeypatch, model)
        greedy(model, sentences(lengths), maximum=5, minimum=4)
        assert len(contexts) == 5


def test_what_was_mixed_with_other_weights_is_made_anew(monkeypatch):
    model, batch = translator("rnnsearch"), sentences([7])
    reads_of(monkeypatch, model)
    tokens = torch.tensor([5])
    with torch.no_grad():
        before, found = model.start(batch), []
        for factor in (1.0, -1.5):
            model.C.weight.mul_(factor)
            with steady_weights():
                found.append(model.step(tokens, before)[1].state)
        torch.testing.assert_close(found[1], model.step(tokens, before)[1].state, atol=1e-5, rtol=1e-4)
    assert not torch.equal(*found)
