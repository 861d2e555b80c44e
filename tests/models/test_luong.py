"""Luong's models: one step written again as loops over numbers, and every option step by step."""

import math

import pytest
import torch
from oracles.linear import apply, sigmoid
from pairs import batch
from seeds import offset_seed
from torch.utils._python_dispatch import TorchDispatchMode

from regard import Attention, catalog
from regard.attention import hidden, source
from regard.attention.config import AttentionConfig
from regard.attention.record import record
from regard.data.batches import PairBatch
from regard.errors import ConfigError
from regard.layers.lstm import FLAGS
from regard.models.base import teacher_inputs
from regard.models.luong import Luong, LuongConfig
from regard.tasks.translation import cross_entropy

SIZES = {
    "source_vocab": 17, "target_vocab": 19, "embedding": 5, "hidden": 6, "layers": 2,
    "initialization": "standard",
}  # fmt: skip


def mechanism(score="general", **settings):
    return {"attention": AttentionConfig(score, hidden=7, **settings)}


def build(**settings):
    torch.manual_seed(offset_seed(0))
    return Luong(LuongConfig(**(SIZES | mechanism() | settings)))


def lstm_step(layer, x, h, c):
    W, U = layer.weight_ih_l0.tolist(), layer.weight_hh_l0.tolist()
    b = (layer.bias_ih_l0 + layer.bias_hh_l0).tolist()
    sums = [w + u + bias for w, u, bias in zip(apply(W, x), apply(U, h), b, strict=True)]
    n = len(h)
    i, f, g, o = (sums[k * n : (k + 1) * n] for k in range(4))
    c = [sigmoid(f[k]) * c[k] + sigmoid(i[k]) * math.tanh(g[k]) for k in range(n)]
    return [sigmoid(o[k]) * math.tanh(c[k]) for k in range(n)], c


def test_what_is_fed_is_what_the_softmax_reads_after_dropout():
    model = build(dropout=0.5).train()
    state = model.start(batch())
    found, state = model.step(torch.tensor([4, 5]), state)
    assert (state.fed == 0).any(), "nothing was dropped"
    assert torch.equal(found, model.W_s(state.fed).log_softmax(-1))


def test_two_decoder_steps_are_the_papers_equations():
    """Equations 5 to 8 with input feeding: h_t reads [y_{t-1}; h̃_{t-1}] and asks with itself."""
    model = build().double().eval()
    state = model.start(batch(lengths=(4,), targets=(2,)))
    annotations = state.source.values[0].tolist()
    W_a = model.attention.score.W.weight.tolist()
    hidden = [(h[0].tolist(), c[0].tolist()) for h, c in state.hidden]
    fed = [0.0] * 6
    for token in (1, 11):
        x = model.E.weight[token].tolist() + fed
        for level, layer in enumerate(model.decoder.layers):
            hidden[level] = lstm_step(layer, x, *hidden[level])
            x = hidden[level][0]
        # h_tᵀ W_a h̄_s
        energies = [sum(a * b for a, b in zip(x, apply(W_a, h), strict=True)) for h in annotations]
        weights = [math.exp(e) / sum(map(math.exp, energies)) for e in energies]
        context = [sum(a * h[i] for a, h in zip(weights, annotations, strict=True)) for i in range(6)]
        fed = [math.tanh(v) for v in apply(model.W_c.weight.tolist(), context + x)]
        logits = apply(model.W_s.weight.tolist(), fed)
        total = math.log(sum(map(math.exp, logits)))
        with record(model) as trace:
            log_probabilities, state = model.step(torch.tensor([token]), state)
        torch.testing.assert_close(trace["attention"][0].weights[0, 0].tolist(), weights)
        torch.testing.assert_close(log_probabilities[0].tolist(), [v - total for v in logits])


OPTIONS = {
    "as printed": {},
    "without feeding": {"feed": False},
    "read forward": {"encoder": "forward"},
    "bidirectional": {"encoder": "bidirectional"},
    "one layer": {"layers": 1},
    "tied": {"tied": "target", "embedding": 6},
    "local-m": mechanism(window="local-monotonic", half_width=1),
    "local-m without feeding": mechanism(window="local-monotonic", half_width=1) | {"feed": False},
    "local-p": mechanism(window="local-predictive", half_width=2),
    "local-p without feeding": mechanism(window="local-predictive", half_width=2) | {"feed": False},
    "location": mechanism("location"),
    "concat without feeding": mechanism("concat") | {"feed": False},
    "coverage": mechanism("coverage"),
    "coverage without feeding": mechanism("coverage") | {"feed": False},
    "sparsemax": mechanism(normalizer="sparsemax"),
    "without attention": {"attends": False, "feed": False},
}


@pytest.mark.parametrize("settings", OPTIONS.values(), ids=OPTIONS)
def test_one_step_at_a_time_equals_teacher_forcing(settings):
    model = build(**settings).double().eval()
    forced = model(batch()).log_softmax(-1)
    state, tokens = model.start(batch()), teacher_inputs(batch())
    for t in range(tokens.shape[1]):
        log_probabilities, state = model.step(tokens[:, t], state)
        torch.testing.assert_close(log_probabilities, forced[:, t])


@pytest.mark.parametrize("settings", OPTIONS.values(), ids=OPTIONS)
def test_a_sentence_does_not_see_the_padding_of_its_batch(settings):
    model = build(**settings).double().eval()
    both = batch()
    alone = PairBatch(
        both.source[1:, :3], both.source_lengths[1:], both.target[1:, :2], both.target_lengths[1:]
    )
    torch.testing.assert_close(model(both)[1:, :2], model(alone))
    rounded = both.rounded()
    torch.testing.assert_close(model(rounded)[:2, :5], model(both))


@pytest.mark.parametrize("settings", OPTIONS.values(), ids=OPTIONS)
def test_hypotheses_can_be_reordered(settings):
    model = build(**settings).double().eval()
    rows = torch.tensor([1, 0, 1])
    _, state = model.step(torch.tensor([5, 6]), model.start(batch()))
    expected, _ = model.step(torch.tensor([7, 8]), state)
    found, _ = model.step(torch.tensor([7, 8])[rows], model.select(state, rows))
    torch.testing.assert_close(found, expected[rows])


class HostReads(TorchDispatchMode):
    """Collects operations whose result the host must wait for; a captured step can have none."""

    WAITS = (
        "aten::_local_scalar_dense",
        "aten::nonzero",
        "aten::masked_select",
        "aten::equal",
        "aten::unique",
    )

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.name().partition(".")[0].startswith(self.WAITS):
            self.found.append(func.name())
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("settings", OPTIONS.values(), ids=OPTIONS)
def test_a_training_step_never_waits_for_a_number(settings, monkeypatch):
    monkeypatch.setattr(hidden, "_can_look", lambda keys, values: False)  # as on a GPU
    monkeypatch.setattr(source, "_all_positive", lambda lengths: False)  # the same
    model = build(**settings).train()
    for module in model.modules():
        if isinstance(module, Attention):
            module.kernel = "reference"  # a kernel for CPUs may read what lies in their memory
    pairs = batch()
    with HostReads() as reads:
        torch.tensor(1.0).item()
    assert reads.found == ["aten::_local_scalar_dense"]  # it would be seen
    with HostReads() as reads:
        cross_entropy(model(pairs), pairs).total.backward()
    assert reads.found == []


@pytest.mark.parametrize("score", catalog.names("score"))
@pytest.mark.parametrize("window", catalog.names("window"))
def test_any_score_fits_any_window(score, window):
    model = build(**mechanism(score, window=window, half_width=2))
    model(batch()).logsumexp(-1).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("feed", [True, False])
@pytest.mark.parametrize("direction", ["reversed", "forward", "bidirectional"])
def test_windows_count_source_positions_as_they_are_written(direction, feed):
    """Also where the source is read from its end: local-m at step t sees t - D to t + D of the original."""
    model = build(encoder=direction, feed=feed, **mechanism(window="local-monotonic", half_width=1)).eval()
    with record(model) as trace:
        model(batch())
    weights = torch.cat([result.weights for result in trace["attention"]], 1)  # (B, T, S)
    for row, length in ((0, 7), (1, 3)):
        for t in range(5):
            seen = weights[row, t].nonzero().squeeze(-1).tolist()
            centre = min(t, length - 1)
            assert seen == [s for s in range(centre - 1, centre + 2) if 0 <= s < length]


@pytest.mark.parametrize("direction", ["reversed", "forward"])
def test_annotations_stand_at_their_own_words(direction):
    """A changed word changes the annotations read after it: those before it where the source is reversed."""
    model = build(encoder=direction).eval()
    one = batch(lengths=(6,), targets=(1,))
    other = PairBatch(one.source.clone(), one.source_lengths, one.target, one.target_lengths)
    other.source[0, 2] = (other.source[0, 2] + 1) % 17
    before, after = (model.start(each).source.values[0] for each in (one, other))
    changed = (before != after).any(-1).tolist()
    assert changed == [s <= 2 if direction == "reversed" else s >= 2 for s in range(6)]


def test_input_feeding_doubles_the_first_layers_input_alone():
    """Section 3.3: with n cells the first layer reads 2 n, the others n."""
    fed, plain = build(embedding=6, layers=3), build(embedding=6, layers=3, feed=False)
    assert [layer.input_size for layer in fed.decoder.layers] == [12, 6, 6]
    assert [layer.input_size for layer in plain.decoder.layers] == [6, 6, 6]


def test_without_feeding_the_decoder_asks_once_for_all_steps():
    fed, plain = build(), build(feed=False)
    for model, calls in ((fed, 5), (plain, 1)):
        with record(model) as trace:
            model(batch())
        assert len(trace["attention"]) == calls


def test_the_papers_baseline_has_the_parameters_of_sutskevers_model():
    """4 × 1000 cells on both sides, 384 million with his vocabularies; the padding flags are ours."""
    with torch.device("meta"):
        model = Luong(LuongConfig(source_vocab=160_000, target_vocab=80_000, attends=False, feed=False))
    cells = sum(p.numel() for part in (model.encoder, model.decoder) for p in part.parameters())
    biases = 2 * 4 * 2 * 4000  # his count leaves them out
    flags = 4 * 4000 * FLAGS
    assert cells - biases - flags == 64_000_000
    assert sum(p.numel() for p in model.parameters()) - biases - flags == 384_000_000


def test_the_papers_parameters_lie_between_minus_and_plus_a_tenth():
    model = build(initialization="uniform")
    for name, parameter in model.named_parameters():
        weights = parameter[:, :-FLAGS] if name.startswith("encoder") and "weight_ih" in name else parameter
        assert weights.abs().max() <= 0.1
        assert weights.numel() < 50 or weights.std() > 0.04


def test_tied_embeddings_are_one_matrix():
    model = build(tied="all", embedding=6, source_vocab=19)
    assert model.W_s.weight is model.E.weight is model.E_source.weight
    assert sum(p.shape == (19, 6) for p in model.parameters()) == 1


def test_without_attention_nothing_aligns():
    assert build().aligner == "attention"
    assert build(attends=False, feed=False).aligner is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"attends": False},
            "^luong: `feed` is true without attention; expected false: there is nothing to feed.$",
        ),
        (
            {"tied": "target"},
            "^luong: `embedding` has 5 and `hidden` 6; expected equal sizes, since `tied` has 'target'.$",
        ),
        (
            {"tied": "all", "embedding": 6},
            "^luong: `tied` has 'all' with 17 source and 19 target pieces; expected one vocabulary for both",
        ),
        (mechanism("dott"), "attention: unknown score 'dott'; did you mean 'dot'"),
        ({"encoder": "bidirectional", "hidden": 7}, "`hidden` has 7; expected an even number"),
        (mechanism(heads=2), "^luong: `attention.heads` has 2; expected None.$"),
    ],
    ids=["feed", "tied-sizes", "tied-vocabularies", "score", "odd", "heads"],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        build(**settings)
