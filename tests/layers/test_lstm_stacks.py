"""Stacked LSTMs against the cell's equations; padding leaves no trace; steps equal whole runs."""

import math
from itertools import chain

import pytest
import torch
from oracles.linear import sigmoid
from seeds import offset_seed

from regard.errors import ConfigError
from regard.layers.lstm import FLAGS, LSTMDecoder, LSTMEncoder

DIRECTIONS = ["reversed", "forward", "bidirectional"]


def encoder(direction, layers=2, dropout=0.0):
    torch.manual_seed(offset_seed(0))
    made = LSTMEncoder(inputs=3, hidden=4, layers=layers, direction=direction, dropout=dropout)
    return made.double()


def lstm_step(layer, x, h, c, suffix=""):
    """i, f, g, o one unit at a time; the padding flags are zero and their weights left out."""
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    W, U, b, more = (getattr(layer, name + suffix).tolist() for name in names)
    n = len(h)
    sums = [
        sum(w * v for w, v in zip(W[k], x, strict=False))
        + sum(u * v for u, v in zip(U[k], h, strict=True))
        + b[k]
        + more[k]
        for k in range(4 * n)
    ]
    i, f, g, o = (sums[k * n : (k + 1) * n] for k in range(4))
    c = [sigmoid(f[k]) * c[k] + sigmoid(i[k]) * math.tanh(g[k]) for k in range(n)]
    return [sigmoid(o[k]) * math.tanh(c[k]) for k in range(n)], c


def read(layer, words, suffix=""):
    """All states of one layer over one sentence, in the order it is read."""
    n = layer.hidden_size
    h, c, states = [0.0] * n, [0.0] * n, []
    for x in words:
        h, c = lstm_step(layer, x, h, c, suffix)
        states.append(h)
    return states, h, c


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_annotations_and_last_states_are_the_cells_of_each_sentence_alone(direction):
    made = encoder(direction)
    inputs = torch.randn(2, 5, 3, dtype=torch.double)
    annotations, hidden = made(inputs, torch.tensor([5, 2]))
    for row, length in ((0, 5), (1, 2)):
        words = inputs[row, :length].tolist()
        for layer, (h, c) in zip(made.layers, hidden, strict=True):
            parts = [(False, "")] if direction == "forward" else [(True, "")]
            parts = [(False, ""), (True, "_reverse")] if direction == "bidirectional" else parts
            found = [(turned, *read(layer, words[::-1] if turned else words, end)) for turned, end in parts]
            sides = [states[::-1] if turned else states for turned, states, _, _ in found]
            words = [list(chain(*each)) for each in zip(*sides, strict=True)]
            torch.testing.assert_close(h[row].tolist(), [*chain(*(f[2] for f in found))])
            torch.testing.assert_close(c[row].tolist(), [*chain(*(f[3] for f in found))])
        torch.testing.assert_close(annotations[row, :length].tolist(), words)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_weights_of_the_padding_flags_get_no_gradient(direction):
    made = encoder(direction).float()
    annotations, hidden = made(torch.randn(3, 6, 3), torch.tensor([6, 1, 3]))
    visible = (torch.arange(6) < torch.tensor([6, 1, 3])[:, None])[..., None]
    ((annotations * visible).sum() + sum(h.sum() + c.square().sum() for h, c in hidden)).backward()
    for layer in made.layers:
        for name, weight in layer.named_parameters():
            assert weight.grad.abs().sum() > 0
            if name.startswith("weight_ih"):
                assert (weight.grad[:, -FLAGS:] == 0).all()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_sentence_of_nothing_but_padding_has_the_zero_state(direction):
    _, hidden = encoder(direction)(torch.randn(2, 4, 3, dtype=torch.double), torch.tensor([4, 0]))
    for h, c in hidden:
        assert (h[1] == 0).all()
        assert (c[1] == 0).all()


def test_an_odd_number_of_cells_cannot_be_halved():
    with pytest.raises(ConfigError, match="LSTMEncoder: `hidden` has 5; expected an even number"):
        LSTMEncoder(inputs=3, hidden=5, layers=1, direction="bidirectional")


@pytest.mark.parametrize("layers", [1, 3])
def test_steps_of_the_decoder_equal_one_run_over_the_sequence(layers):
    torch.manual_seed(offset_seed(0))
    decoder = LSTMDecoder(inputs=3, hidden=4, layers=layers).double()
    inputs = torch.randn(2, 5, 3, dtype=torch.double)
    hidden = tuple(tuple(torch.randn(2, 2, 4, dtype=torch.double)) for _ in range(layers))
    expected, last = decoder(inputs, hidden)
    matrices = decoder.matrices()
    for t, projected in enumerate(matrices[0](inputs).unbind(1)):
        top, hidden = decoder.step(projected, None, hidden, matrices)
        torch.testing.assert_close(top, expected[:, t])
    torch.testing.assert_close(hidden, last)


def test_what_is_fed_is_read_beside_the_word():
    torch.manual_seed(offset_seed(0))
    decoder = LSTMDecoder(inputs=3, hidden=4, layers=1, fed=2).double()
    [layer] = decoder.layers
    x, fed, h, c = (torch.randn(1, n, dtype=torch.double) for n in (3, 2, 4, 4))
    matrices = decoder.matrices()
    top, [(_, cell)] = decoder.step(matrices[0](x), fed, ((h, c),), matrices)
    expected = lstm_step(layer, torch.cat([x, fed], -1)[0].tolist(), h[0].tolist(), c[0].tolist())
    torch.testing.assert_close((top[0].tolist(), cell[0].tolist()), expected)


def test_the_cell_stays_in_full_precision_under_autocast():
    torch.manual_seed(offset_seed(0))
    decoder = LSTMDecoder(inputs=3, hidden=4, layers=2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = tuple((torch.zeros(2, 4, dtype=torch.bfloat16),) * 2 for _ in range(2))
        matrices = decoder.matrices()
        top, hidden = decoder.step(matrices[0](torch.randn(2, 3)), None, hidden, matrices)
    assert top.dtype == torch.bfloat16
    assert {c.dtype for _, c in hidden} == {torch.float32}


def test_dropout_leaves_the_way_through_time_alone():
    """Zaremba 2014: with everything that goes up dropped, a layer sees only its own past."""
    made = LSTMDecoder(inputs=3, hidden=4, layers=2, dropout=1.0).double().train()
    torch.manual_seed(offset_seed(0))
    inputs = torch.randn(1, 4, 3, dtype=torch.double)
    start = tuple((torch.ones(1, 4, dtype=torch.double),) * 2 for _ in range(2))
    kept, _ = made(inputs, start)
    other, _ = made(inputs + 1, start)
    torch.testing.assert_close(kept, other)  # the top layer, whose input is dropped
    assert (kept[:, 0] != kept[:, -1]).any()  # and which goes on from its own state
