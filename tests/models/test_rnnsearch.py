"""RNNsearch against the paper's appendix A, written again as loops over numbers."""

import math

import pytest
import torch
from oracles.linear import apply, sigmoid
from pairs import batch
from seeds import offset_seed

from regard import catalog
from regard.attention.config import AttentionConfig
from regard.attention.record import record
from regard.data.batches import PairBatch
from regard.errors import ConfigError
from regard.layers.recurrent import BidirectionalEncoder, GatedCell
from regard.models.base import teacher_inputs
from regard.models.rnnsearch import RNNsearch, RNNsearchConfig

SIZES = {"source_vocab": 17, "target_vocab": 19, "embedding": 5, "hidden": 6, "readout": 3}


def config(*, score="additive", heads=None, normalizer="softmax", window="global", half_width=10, **settings):
    attention = AttentionConfig(
        score, normalizer=normalizer, window=window, heads=heads, hidden=7, half_width=half_width
    )
    return RNNsearchConfig(**SIZES, attention=attention, **settings)


def gated_step(cell, x, h):
    """Appendix A.2.1, one unit at a time: z keeps the NEW candidate, r acts before U."""
    n = len(h)
    W, b = cell.W.weight.tolist(), cell.W.bias.tolist()
    U, U_gates = cell.U.weight.tolist(), cell.U_gates.weight.tolist()
    given = [total + bias for total, bias in zip(apply(W, x), b, strict=True)]
    gates = apply(U_gates, h)
    z = [sigmoid(given[n + i] + gates[i]) for i in range(n)]
    r = [sigmoid(given[2 * n + i] + gates[n + i]) for i in range(n)]
    inner = apply(U, [r[i] * h[i] for i in range(n)])
    candidate = [math.tanh(given[i] + inner[i]) for i in range(n)]
    return [(1 - z[i]) * h[i] + z[i] * candidate[i] for i in range(n)]


def test_the_gated_cell_is_the_papers_recurrence():
    torch.manual_seed(offset_seed(0))
    cell = GatedCell(inputs=3, hidden=5).double()
    x, h = torch.randn(3, dtype=torch.double), torch.randn(5, dtype=torch.double)
    expected = torch.tensor(gated_step(cell, x.tolist(), h.tolist()), dtype=torch.double)
    torch.testing.assert_close(cell(cell.project(x), h), expected)


def test_annotations_join_both_directions_and_ignore_padding():
    torch.manual_seed(offset_seed(0))
    encoder = BidirectionalEncoder(inputs=3, hidden=4).double()
    inputs = torch.randn(2, 5, 3, dtype=torch.double)
    annotations, first = encoder(inputs, torch.tensor([5, 2]))
    for row, length in ((0, 5), (1, 2)):
        right, left = [0.0] * 4, [0.0] * 4
        rightward, leftward = [], []
        for s in range(length):
            right = gated_step(encoder.rightward, inputs[row, s].tolist(), right)
            rightward.append(right)
        for s in reversed(range(length)):
            left = gated_step(encoder.leftward, inputs[row, s].tolist(), left)
            leftward.insert(0, left)
        expected = torch.tensor([a + b for a, b in zip(rightward, leftward, strict=True)], dtype=torch.double)
        torch.testing.assert_close(annotations[row, :length], expected)
        torch.testing.assert_close(first[row], expected[0, 4:])


def test_a_decoder_step_is_the_papers_equations():
    torch.manual_seed(offset_seed(0))
    model = RNNsearch(config()).double().eval()
    one = batch(lengths=(4,), targets=(1,))
    state = model.start(one)
    h, keys = state.source.values[0].tolist(), None
    s = state.state[0, 0].tolist()
    score = model.attention.score
    W, U, b, v = (score.W.weight, score.U.weight, score.U.bias, score.v.weight[0])
    energies = []
    for annotation in h:
        keys = [
            a + c + d
            for a, c, d in zip(apply(W.tolist(), s), apply(U.tolist(), annotation), b.tolist(), strict=True)
        ]
        energies.append(sum(weight * math.tanh(x) for weight, x in zip(v.tolist(), keys, strict=True)))
    weights = [math.exp(e) / sum(map(math.exp, energies)) for e in energies]
    context = [
        sum(a * annotation[i] for a, annotation in zip(weights, h, strict=True)) for i in range(len(h[0]))
    ]
    word = model.E.weight[1].tolist()
    out = model.readout
    sums = [
        a + bias + c + d
        for a, bias, c, d in zip(
            apply(out.U.weight.tolist(), s), out.U.bias.tolist(), apply(out.V.weight.tolist(), word),
            apply(out.C.weight.tolist(), context), strict=True,
        )
    ]  # fmt: skip
    maxout = [max(sums[2 * j], sums[2 * j + 1]) for j in range(len(sums) // 2)]
    logits = [a + c for a, c in zip(apply(out.W.weight.tolist(), maxout), out.W.bias.tolist(), strict=True)]
    total = math.log(sum(map(math.exp, logits)))
    with record(model) as trace:
        log_probabilities, _ = model.step(torch.tensor([1]), state)
    torch.testing.assert_close(trace["attention"][0].weights[0, 0].tolist(), weights)
    torch.testing.assert_close(log_probabilities[0].tolist(), [x - total for x in logits])


@pytest.mark.parametrize("readout_state", ["previous", "new"])
@pytest.mark.parametrize(("query", "neighbours"), [("state", None), ("state+word", None), ("state+word", 2)])
def test_one_step_at_a_time_equals_teacher_forcing(readout_state, query, neighbours):
    torch.manual_seed(offset_seed(0))
    model = RNNsearch(config(readout_state=readout_state, query=query, neighbours=neighbours)).eval()
    forced = model(batch()).log_softmax(-1)
    state, tokens = model.start(batch()), teacher_inputs(batch())
    for t in range(tokens.shape[1]):
        log_probabilities, state = model.step(tokens[:, t], state)
        torch.testing.assert_close(log_probabilities, forced[:, t])


def test_with_neighbours_a_context_is_made_of_words_and_little_about_what_stands_beside_them():
    torch.manual_seed(offset_seed(0))
    model = RNNsearch(config(neighbours=2)).eval()
    state = model.start(batch())
    annotations, _ = model.encoder(model.E_source(batch().source), batch().source_lengths)
    words = model.E_source(batch().source)
    seen = torch.arange(words.shape[1]) < batch().source_lengths[:, None]
    expected = torch.cat([words, annotations @ model.narrow.weight.mT], -1)
    torch.testing.assert_close(state.source.values[seen], expected[seen])
    with pytest.raises(ConfigError, match="`neighbours` has 2 with several heads; expected one head"):
        RNNsearch(config(neighbours=2, heads=2))


def test_a_sentence_does_not_see_the_padding_of_its_batch():
    torch.manual_seed(offset_seed(0))
    model = RNNsearch(config()).eval()
    both = batch()
    alone = PairBatch(
        both.source[1:, :3], both.source_lengths[1:], both.target[1:, :2], both.target_lengths[1:]
    )
    torch.testing.assert_close(model(both)[1:, :2], model(alone))


def test_the_papers_initialization_starts_with_uniform_attention():
    model = RNNsearch(config(initialization="paper"))
    with record(model) as trace:
        model(batch())
    torch.testing.assert_close(trace["attention"][0].weights[0, 0], torch.full((7,), 1 / 7))
    torch.testing.assert_close(trace["attention"][0].weights[1, 0, :3], torch.full((3,), 1 / 3))
    U = model.cell.U.weight
    torch.testing.assert_close(U @ U.T, torch.eye(6), atol=1e-5, rtol=0)


def test_the_papers_sizes_have_the_papers_parameters():
    with torch.device("meta"):
        model = RNNsearch(RNNsearchConfig(source_vocab=30_000, target_vocab=30_000))
    millions = {
        name: sum(p.numel() for p in part) / 1e6
        for name, part in {
            "encoder": list(model.encoder.parameters()),
            "decoder": [*model.cell.parameters(), *model.C.parameters(), *model.W_s.parameters()],
            "alignment": list(model.attention.parameters()),
            "output": list(model.readout.parameters()),
            "embeddings": [model.E.weight, model.E_source.weight],
        }.items()
    }
    expected = {"encoder": 9.73, "decoder": 11.86, "alignment": 3.00, "output": 18.65, "embeddings": 37.2}
    assert {name: round(count, 2) for name, count in millions.items()} == expected


@pytest.mark.parametrize("score", catalog.names("score"))
@pytest.mark.parametrize("window", catalog.names("window"))
def test_any_score_and_window_can_take_the_papers_place(score, window):
    torch.manual_seed(offset_seed(0))
    model = RNNsearch(config(encoder_hidden=3, score=score, window=window, half_width=2))
    model(batch()).logsumexp(-1).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("normalizer", catalog.names("normalizer"))
def test_any_normalizer_can_take_the_papers_place(normalizer):
    torch.manual_seed(offset_seed(0))
    model = RNNsearch(config(normalizer=normalizer))
    model(batch()).logsumexp(-1).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_heads_have_their_own_weights():
    model = RNNsearch(config(heads=2)).eval()
    with record(model) as trace:
        model(batch())
    assert model.aligner == "attention.attention"
    assert trace[model.aligner][0].weights.shape == (2, 2, 1, 7)


def test_a_score_that_needs_equal_sizes_says_so():
    with pytest.raises(ConfigError, match=r"dot: `query` has size 6 and `keys` 12; expected equal sizes"):
        RNNsearch(config(score="dot"))


def test_several_heads_share_the_state_alone():
    with pytest.raises(
        ConfigError, match="rnnsearch: `query` has 'state\\+word' with several heads; expected 'state'"
    ):
        RNNsearch(config(heads=2, query="state+word"))
