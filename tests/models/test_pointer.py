"""The pointer network against its equations; mixed lengths, one step at a time, and its two baselines."""

import pytest
import torch
from oracles import pointer as oracle

from regard.attention.config import AttentionConfig
from regard.attention.record import record
from regard.data.points import FIRST, own_batch, point_batch, positions
from regard.data.tokens import BOS, EOS, PAD, UNK
from regard.decode.forced import forced
from regard.errors import ConfigError, DataError, ShapeError
from regard.models.index_decoders import (
    AttentionIndex,
    AttentionIndexConfig,
    PlainIndex,
    PlainIndexConfig,
)
from regard.models.pointer import PointerConfig, PointerNetwork

SETS = [[0.1, 0.2, 0.8, 0.4, 0.5, 0.9], [0.3, 0.3, 0.6, 0.1, 0.2, 0.7, 0.9, 0.9, 0.5, 0.4], [0.4, 0.6]]
ORDERS = [[0, 1, 2], [1, 3, 2], [0]]
MODELS = {
    "pointer": lambda: PointerNetwork(
        PointerConfig(dimension=2, hidden=6, attention=AttentionConfig("additive", hidden=5))
    ),
    "attention": lambda: AttentionIndex(AttentionIndexConfig(dimension=2, places=6, hidden=6)),
    "plain": lambda: PlainIndex(PlainIndexConfig(dimension=2, places=6, hidden=6)),
}


def batch(rows=(0, 1, 2), width=None):
    points = torch.zeros(len(rows), 6, 2)
    answers = torch.full((len(rows), 5), -1)
    for k, row in enumerate(rows):
        own = torch.tensor(SETS[row]).view(-1, 2)
        points[k, : len(own)] = own
        answers[k, : len(ORDERS[row])] = torch.tensor(ORDERS[row])
    sizes = torch.tensor([len(SETS[row]) // 2 for row in rows])
    return point_batch(points, sizes, answers, width=width)


def double(made):
    """The batch in float64."""
    return type(made)(made.source.double(), made.source_lengths, made.target, made.target_lengths)


@pytest.fixture
def model():
    return PointerNetwork(
        PointerConfig(dimension=2, hidden=4, attention=AttentionConfig("additive", hidden=3))
    ).double()


def log_probabilities(model, made):
    """(B,) of each target with its end."""
    each = model(made).log_softmax(-1).gather(-1, positions(made.target)[..., None])[..., 0]
    t = torch.arange(made.target.shape[1])
    return torch.where(t < made.target_lengths[:, None], each, 0.0).sum(1)


def test_the_network_is_the_papers(model):
    p = {name: value.detach().tolist() for name, value in model.named_parameters()}

    def bias(name):
        return [a + b for a, b in zip(p[f"{name}.bias_ih_l0"], p[f"{name}.bias_hh_l0"], strict=True)]

    parameters = {
        "end": p["end"],
        "go": p["go"],
        "enc_W": [row[:2] for row in p["encoder.layers.0.weight_ih_l0"]],
        "enc_U": p["encoder.layers.0.weight_hh_l0"],
        "enc_b": bias("encoder.layers.0"),
        "dec_W": p["decoder.weight_ih_l0"],
        "dec_U": p["decoder.weight_hh_l0"],
        "dec_b": bias("decoder"),
        "W1": p["attention.score.U.weight"],
        "b1": p["attention.score.U.bias"],
        "W2": p["attention.score.W.weight"],
        "v": p["attention.score.v.weight"][0],
    }
    made = double(batch())
    found = log_probabilities(model, made).tolist()
    for row, order in enumerate(ORDERS):
        points = made.source[row, 1 : len(SETS[row]) // 2 + 1].tolist()
        assert found[row] == pytest.approx(oracle.network(points, order, parameters), abs=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_sets_of_different_sizes_in_a_batch_are_as_each_alone(name):
    made = MODELS[name]().double()
    together = log_probabilities(made, double(batch(width=6)))
    alone = torch.cat([log_probabilities(made, double(batch([row]))) for row in range(3)])
    torch.testing.assert_close(together, alone, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", MODELS)
def test_one_step_at_a_time_is_all_at_once(name):
    made, sets = MODELS[name]().eval(), batch()
    tracks = forced(made, sets, attention=False)
    each = made(sets).log_softmax(-1).gather(-1, positions(sets.target)[..., None])[..., 0]
    for row, track in enumerate(tracks):
        torch.testing.assert_close(track.log_probabilities, each[row, : len(track.tokens)].detach())


def test_the_weights_are_the_output(model):
    made = double(batch())
    with record(model) as trace:
        scores = model(made)
    weights = trace["attention"][0].weights
    torch.testing.assert_close(weights, scores.softmax(-1))
    assert weights[0, :, 4:].eq(0).all(), "padding is never pointed at"
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_a_step_gives_numbers_with_the_end_as_eos(model):
    made = double(batch())
    state = model.start(made)
    each, _ = model.step(torch.full((3,), BOS), state)
    assert each.shape == (3, FIRST + 5)
    assert each[:, [PAD, BOS, UNK]].isneginf().all()
    assert each[0, FIRST + 3 :].isneginf().all(), "the first set has three points"
    assert each[:, EOS].isfinite().all()
    torch.testing.assert_close(each.exp().sum(-1), torch.ones(3, dtype=torch.float64))


def test_the_padding_column_never_learns():
    made = PointerNetwork(PointerConfig(dimension=2, hidden=6))
    before = made.encoder.layers[0].weight_ih_l0[:, -1].clone()
    optimizer = torch.optim.Adam(made.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (-log_probabilities(made, batch()).sum()).backward()
        assert made.encoder.layers[0].weight_ih_l0.grad[:, -1].eq(0).all()
        optimizer.step()
    assert torch.equal(made.encoder.layers[0].weight_ih_l0[:, -1], before)


def test_gradients_are_finite_and_reach_every_parameter():
    for make in MODELS.values():
        made = make()
        (-log_probabilities(made, batch()).sum()).backward()
        for name, parameter in made.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
            assert parameter.grad.abs().sum() > 0, name


def test_a_pointer_takes_more_points_than_it_ever_saw_and_a_dictionary_refuses_them():
    points = torch.linspace(0, 1, 40).view(20, 2)
    assert MODELS["pointer"]()(own_batch([points])).shape == (1, 1, 21)
    for name in ("attention", "plain"):
        with pytest.raises(
            DataError,
            match=rf"^point-{'seq2seq' if name == 'plain' else name}: `source` has sets of 20 points; "
            r"expected at most 6, the size of the dictionary. A pointer network has no such limit.$",
        ):
            MODELS[name]()(own_batch([points]))


@pytest.mark.parametrize("name", ["pointer", "attention", "plain"])
def test_points_of_another_dimension_are_refused(name):
    with pytest.raises(
        ShapeError, match=r"^pointer: `source` has shape \(1, 5, 3\); expected \(B=1, S=5, D=2\)\.$"
    ):
        MODELS[name]()(own_batch([torch.zeros(4, 3)]))


def test_the_papers_initialization_is_uniform():
    made = PointerNetwork(PointerConfig(dimension=2, hidden=16, bound=0.08))
    for name, parameter in made.named_parameters():
        free = parameter[:, :-1] if name == "encoder.layers.0.weight_ih_l0" else parameter
        assert free.abs().max() <= 0.08, name
        assert free.abs().max() > 0, name


@pytest.mark.parametrize("bound", [-0.1, float("inf"), float("nan")])
def test_a_bound_of_the_weights_that_cannot_be_is_refused(bound):
    with pytest.raises(ConfigError, match=r"^'model\.bound' is .*; expected "):
        PointerNetwork(PointerConfig(dimension=2, hidden=16, bound=bound))
