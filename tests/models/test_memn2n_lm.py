"""The memory network as a language model, against its paper in loops over numbers."""

import math

import pytest
import torch
from seeds import offset_seed
from torch.testing import assert_close

from regard.data.text_windows import WordStream
from regard.errors import ConfigError
from regard.models.memn2n_lm import MemN2NLanguage, MemN2NLanguageConfig

V, M, D = 7, 3, 4
TEXT = [1, 4, 2, 6, 3, 3, 5, 0, 2, 1]


def build(**settings):
    torch.manual_seed(offset_seed(2))
    config = {"vocab": V, "context": M, "embedding": D, "hops": 3, "spread": 0.6} | settings
    return MemN2NLanguage(MemN2NLanguageConfig(**config)).double().eval()


def oracle(model, memory):
    """The scores of the next word after the words of the memory, the oldest first."""
    A, C = model.A.weight.tolist(), model.C.weight.tolist()
    time_A, time_C = model.time_A.tolist(), model.time_C.tolist()
    H, W = model.H.weight.tolist(), model.W.weight.tolist()
    u, attended = [0.1] * D, []
    for _ in range(model.config.hops):
        m = [[A[w][d] + time_A[i][d] for d in range(D)] for i, w in enumerate(memory)]
        c = [[C[w][d] + time_C[i][d] for d in range(D)] for i, w in enumerate(memory)]
        e = [math.exp(sum(x * y for x, y in zip(u, row, strict=True))) for row in m]
        p = [x / sum(e) for x in e]
        attended.append(p)
        u = [
            sum(H[d][j] * u[j] for j in range(D)) + sum(p[i] * c[i][d] for i in range(len(memory)))
            for d in range(D)
        ]
        u = [max(x, 0.0) if d < D // 2 else x for d, x in enumerate(u)]
    return [sum(W[v][d] * u[d] for d in range(D)) for v in range(V)], attended


@pytest.mark.parametrize("hops", [1, 3])
def test_the_scores_are_the_papers_for_every_word(hops):
    model = build(hops=hops)
    stream = WordStream(TEXT, context=M, predict=4, start=0)
    scores = model(stream.batch([0, 4]))
    padded = [0] * M + TEXT
    for row, start in enumerate((0, 4)):
        for t in range(4):
            expected, _ = oracle(model, padded[start + t : start + t + M])
            assert_close(scores[row, t], torch.tensor(expected, dtype=torch.float64))


def test_looking_back_gives_each_hops_weights_over_the_words_before():
    model = build()
    maps = model.lookback(WordStream(TEXT, context=M, predict=4, start=0).batch([2]))
    assert [name for name, _ in maps] == ["hop 1", "hop 2", "hop 3"]
    padded = [0] * M + TEXT
    for t in range(4):
        _, attended = oracle(model, padded[2 + t : 2 + t + M])
        for (_, weights), expected in zip(maps, attended, strict=True):
            assert_close(weights[t, t : t + M], torch.tensor(expected, dtype=torch.float64))
            assert weights[t].count_nonzero() == M


def test_settings_that_cannot_be_are_named():
    with pytest.raises(ConfigError, match=r"^memn2n-lm: `context` has 0; expected 1 or more\.$"):
        build(context=0)
    with pytest.raises(ConfigError, match=r"^memn2n-lm: `spread` has 0; expected a finite number above 0\.$"):
        MemN2NLanguageConfig(vocab=5, spread=0)
    with pytest.raises(ConfigError, match=r"^memn2n-lm: `relu` has 1\.5; expected 0 to 1\.$"):
        build(relu=1.5)
    with pytest.raises(ConfigError, match=r"^memn2n-lm: `dropout` has 1; expected 0 or more, less than 1\.$"):
        build(dropout=1)


def test_dropout_is_for_training_alone():
    plain, dropped = build(), build(dropout=0.5)
    dropped.load_state_dict(plain.state_dict())
    batch = WordStream(TEXT, context=M, predict=4, start=0).batch([0, 4])
    assert_close(dropped(batch), plain(batch))
    dropped.train()
    assert not torch.equal(dropped(batch), dropped(batch))
