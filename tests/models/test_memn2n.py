"""The memory network against its paper, written again as loops over numbers."""

import math

import pytest
import torch
from seeds import offset_seed
from torch.testing import assert_close

from regard.attention.record import record
from regard.data.questions import EncodedQuestions, Question
from regard.data.wordlist import WordList
from regard.errors import ConfigError
from regard.models.memn2n import LinearStart, MemN2N, MemN2NConfig, empty_after, position_blend

WORDS = WordList(["<null>", *"abcdefghij"], unknown="<null>")
V, D, M = len(WORDS), 5, 6
QUESTIONS = [
    Question((tuple("abc"), tuple("dea"), tuple("fg")), tuple("ab"), "j"),
    Question((tuple("ccd"),), tuple("hid"), "a"),
    Question(tuple(tuple(x) for x in ("ab", "bc", "cd", "de", "ef", "fg", "gh")), ("a",), "b"),
]


def batch():
    return EncodedQuestions(QUESTIONS, WORDS, memory=M).batch(range(3))


def build(**settings):
    torch.manual_seed(offset_seed(3))
    config = MemN2NConfig(**({"vocab": V, "memory": M, "embedding": D, "spread": 0.5} | settings))
    return MemN2N(config).double().eval()


def sentence_vector(table, words, position, gain):
    """Σ_j l_j · A x_j, with l_kj = (1 - j/J) - (k/d)(1 - 2j/J), all indices from 1."""
    J = len(words)
    vector = [0.0] * D
    for j, word in enumerate(words, 1):
        for k in range(1, D + 1):
            l_kj = (1 - j / J) - (k / D) * (1 - 2 * j / J) if position else 1.0
            vector[k - 1] += gain * l_kj * table[WORDS.number(word)][k - 1]
    return vector


def oracle(model, question):
    """Section 2 and 4.1 of the paper, word by word."""
    config = model.config
    tables, adjacent = model.tables.tolist(), config.tying == "adjacent"
    times = model.time.tolist() if config.time else None
    position = config.encoding == "position"
    how = (position, config.gain)
    u = sentence_vector(tables[0 if adjacent else 2], question.question, *how)
    story = question.story[-config.memory :]
    attended = []
    for k in range(config.hops):
        a, c = (k, k + 1) if adjacent else (0, 1)
        m = [sentence_vector(tables[a], sentence, *how) for sentence in story]
        out = [sentence_vector(tables[c], sentence, *how) for sentence in story]
        for i in range(len(story)):
            age = len(story) - 1 - i  # counted backwards: the most recent is 0
            for d in range(D):
                if times is not None:
                    m[i][d] += times[a][age][d]
                    out[i][d] += times[c][age][d]
        scores = [sum(x * y for x, y in zip(u, row, strict=True)) for row in m]
        blanks = config.memory - len(story) if config.blanks else 0
        total = sum(math.exp(s) for s in scores) + blanks * math.exp(0.0)
        p = [math.exp(s) / total for s in scores]
        attended.append(p)
        o = [sum(p[i] * out[i][d] for i in range(len(story))) for d in range(D)]
        kept = (
            u
            if adjacent
            else [sum(h * x for h, x in zip(row, u, strict=True)) for row in model.H.weight.tolist()]
        )
        u = [x + y for x, y in zip(kept, o, strict=True)]
        rectified = round(config.relu * D)
        u = [max(x, 0.0) if d < rectified else x for d, x in enumerate(u)]
    W = tables[config.hops] if adjacent else model.W.weight.tolist()
    return [sum(w * x for w, x in zip(row, u, strict=True)) for row in W], attended


CASES = {
    "one hop": {"hops": 1},
    "three hops": {"hops": 3},
    "one hop, layer-wise": {"hops": 1, "tying": "layer-wise"},
    "three hops, layer-wise": {"hops": 3, "tying": "layer-wise"},
    "bag of words": {"encoding": "bag"},
    "no time": {"time": False},
    "layer-wise without time": {"tying": "layer-wise", "time": False},
    "all units rectified": {"relu": 1.0},
    "some units rectified": {"relu": 0.4, "tying": "layer-wise"},
    "as in the authors' program": {"gain": 2.0, "blanks": True},
    "blanks, layer-wise": {"blanks": True, "tying": "layer-wise", "hops": 2},
}


@pytest.mark.parametrize("name", CASES)
def test_the_scores_and_the_weights_of_every_hop_are_the_papers(name):
    model = build(**CASES[name])
    with record(model) as trace:
        scores = model(batch())
    for row, question in enumerate(QUESTIONS):
        expected, attended = oracle(model, question)
        assert_close(scores[row], torch.tensor(expected, dtype=torch.float64), msg=name)
        for k, weights in enumerate(attended):
            found = trace[f"hops.{k}"][0].weights[row, 0]
            assert_close(found[: len(weights)], torch.tensor(weights, dtype=torch.float64))
            rest = found[len(weights) :]
            blanks = M - len(weights) if model.config.blanks else 0
            assert_close(rest[:blanks], ((1 - sum(weights)) / max(blanks, 1)) * torch.ones(blanks).double())
            assert (rest[blanks:] == 0).all()


def test_the_position_encoding_is_a_blend_of_two_sums():
    plain, placed = (factor.tolist() for factor in position_blend(torch.zeros(D).double()))
    for J in (1, 2, 5):
        for j in range(1, J + 1):
            for k in range(1, D + 1):
                l_kj = (1 - j / J) - (k / D) * (1 - 2 * j / J)
                assert plain[k - 1] + placed[k - 1] * j / J == pytest.approx(l_kj)


def test_the_order_of_words_matters_under_position_encoding_alone():
    def scores(encoding, question):
        one = EncodedQuestions([Question((tuple("abc"),), question, "a")], WORDS, memory=M).batch([0])
        return build(encoding=encoding)(one)

    assert_close(scores("bag", tuple("de")), scores("bag", tuple("ed")))
    assert not torch.allclose(scores("position", tuple("de")), scores("position", tuple("ed")))


@pytest.mark.parametrize("sentence", ["?abc", "a?bc", "a??bc?", "abc?", "?"])
@pytest.mark.parametrize("encoding", ["position", "bag"])
def test_a_word_that_training_never_saw_is_left_out(sentence, encoding):
    def scores(words):
        asked = Question((words, tuple("de")), words, "a")
        return build(encoding=encoding)(EncodedQuestions([asked], WORDS, memory=M).batch([0]))

    known = tuple(word for word in sentence if word != "?")
    assert_close(scores(tuple(sentence)), scores(known))


def test_a_row_does_not_depend_on_its_batch():
    model, encoded = build(), EncodedQuestions(QUESTIONS, WORDS, memory=M)
    together = model(encoded.batch([0, 1, 2]))
    for row in range(3):
        assert_close(model(encoded.batch([row]))[0], together[row])


def test_the_linear_start_takes_the_scores_for_the_weights_and_ends_after_its_share_of_the_steps():
    model = build(hops=2, linear_start=0.25)
    model.at_step(25, 100)
    with record(model) as trace:
        model(batch())
    for result in (trace["hops.0"][0], trace["hops.1"][0]):
        hidden = result.scores == -torch.inf
        assert_close(result.weights, result.scores.masked_fill(hidden, 0.0))
    model.at_step(26, 100)
    with record(model) as trace:
        model(batch())
    assert_close(trace["hops.1"][0].weights.sum(-1), torch.ones(3, 1, dtype=torch.float64))


def test_a_checkpoint_keeps_whether_the_start_is_linear():
    model, other = build(linear_start=0.5), build(linear_start=0.5)
    model.at_step(1, 10)
    other.load_state_dict(model.state_dict())
    assert_close(other(batch()), model(batch()))
    other.at_step(9, 10)
    assert not torch.allclose(other(batch()), model(batch()))


def test_rows_with_nothing_to_read_stay_empty_under_a_linear_start():
    from regard import Softmax

    normalizer = LinearStart(Softmax())
    normalizer.linear.fill_(True)
    scores = torch.tensor([[-math.inf, -math.inf], [2.0, -math.inf]], requires_grad=True)
    weights = normalizer(scores)
    assert weights.tolist() == [[0.0, 0.0], [2.0, 0.0]]
    weights.sum().backward()
    assert scores.grad.tolist() == [[0.0, 0.0], [1.0, 0.0]]


def test_empty_memories_make_sentences_older_and_never_change_their_order():
    torch.manual_seed(offset_seed(0))
    counts = torch.tensor([20, 5, 1, 0]).repeat_interleave(500)
    older = empty_after(counts, 20, 0.1)
    assert older.min() == 0
    age = counts[:, None] - 1 - torch.arange(20) + older
    for row in (0, 500, 1000):
        n = int(counts[row])
        block = older[row : row + 500, :n]
        assert block.max() == math.ceil(0.1 * n)  # of n sentences at most a tenth as many, rounded up
        assert (age[row : row + 500, : n - 1] > age[row : row + 500, 1:n]).all()
        assert (block[:, -1] > 0).any()  # also after the last sentence
    drawn = older[:500, 0].float()
    assert abs(float(drawn.mean()) - 20 / 21) < 0.1  # none, one or two, equally often; few lie before all


def test_noise_is_for_training_alone():
    model = build(noise=0.5)
    assert_close(model(batch()), model(batch()))
    model.train()
    torch.manual_seed(offset_seed(1))
    first = model(batch())
    assert any(not torch.allclose(model(batch()), first) for _ in range(5))


def test_adjacent_hops_share_their_tables():
    model = build(hops=3)
    assert model.tables.shape == (4, V, D)
    assert sum(p.numel() for p in model.parameters()) == 4 * (V + M) * D
    layered = build(hops=3, tying="layer-wise")
    assert sum(p.numel() for p in layered.parameters()) == 3 * V * D + 2 * M * D + D * D + V * D


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"hops": 0}, "memn2n: `hops` has 0; expected 1 or more."),
        ({"noise": 2.0}, "memn2n: `noise` has 2.0; expected 0 to 1."),
        ({"relu": -0.5}, "memn2n: `relu` has -0.5; expected 0 to 1."),
        ({"spread": -1.0}, "memn2n: `spread` has -1.0; expected a finite number above 0."),
        ({"gain": math.nan}, "memn2n: `gain` has nan; expected a finite number above 0."),
    ],
)
def test_settings_that_cannot_be_are_named(settings, sentence):
    with pytest.raises(ConfigError) as error:
        MemN2NConfig(vocab=V, **settings)
    assert str(error.value) == sentence


def test_every_parameter_gets_a_gradient():
    for tying in ("adjacent", "layer-wise"):
        model = build(tying=tying).train()
        model(batch()).square().sum().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
