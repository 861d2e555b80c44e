"""The baseline without attention."""

import pytest
import torch
from seeds import offset_seed

from regard.attention.record import record
from regard.data.batches import PairBatch
from regard.errors import ConfigError
from regard.models.base import teacher_inputs
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig

CHOICES = [
    {"cell": cell, "context": context, "feed": feed, "reverse": reverse}
    for cell in ("lstm", "gru")
    for context in ("last", "mean", "sum")
    for feed in (False, True)
    for reverse in (False, True)
]


def build(**choices):
    torch.manual_seed(offset_seed(0))
    sizes = {"source_vocab": 17, "target_vocab": 19, "embedding": 5, "hidden": 7, "layers": 2}
    return Seq2Seq(Seq2SeqConfig(**sizes, **choices)).eval()


def batch():
    torch.manual_seed(offset_seed(1))
    source, target = torch.randint(4, 17, (2, 7)), torch.randint(4, 19, (2, 5))
    return PairBatch(source, torch.tensor([7, 3]), target, torch.tensor([5, 2]))


@pytest.mark.parametrize("choices", CHOICES, ids=lambda c: "-".join(str(v) for v in c.values()))
def test_one_step_at_a_time_equals_teacher_forcing(choices):
    model = build(**choices)
    forced = model(batch()).log_softmax(-1)
    state, tokens = model.start(batch()), teacher_inputs(batch())
    for t in range(tokens.shape[1]):
        log_probabilities, state = model.step(tokens[:, t], state)
        torch.testing.assert_close(log_probabilities, forced[:, t])


@pytest.mark.parametrize("choices", CHOICES, ids=lambda c: "-".join(str(v) for v in c.values()))
def test_a_sentence_does_not_see_the_padding_of_its_batch(choices):
    model, both = build(**choices), batch()
    alone = PairBatch(
        both.source[1:, :3], both.source_lengths[1:], both.target[1:, :2], both.target_lengths[1:]
    )
    torch.testing.assert_close(model(both)[1:, :2], model(alone))


def test_reversing_is_reading_the_words_from_the_end():
    forward, both = build(reverse=False), batch()
    backward = build(reverse=True)
    turned = both.source.clone()
    turned[0], turned[1, :3] = both.source[0].flip(0), both.source[1, :3].flip(0)
    given = PairBatch(turned, both.source_lengths, both.target, both.target_lengths)
    torch.testing.assert_close(backward(both), forward(given))


def test_the_context_is_the_mean_or_the_sum_of_the_states():
    mean, total = build(context="mean"), build(context="sum")
    expected = mean.start(batch()).context * batch().source_lengths[:, None]
    torch.testing.assert_close(total.start(batch()).context, expected)


def test_rows_can_be_selected_for_beam_search():
    model = build(cell="lstm", feed=True)
    state = model.start(batch())
    rows = torch.tensor([1, 1, 0])
    tokens = torch.tensor([5, 6])
    expected = model.step(tokens, state)[0][rows]
    torch.testing.assert_close(model.step(tokens[rows], model.select(state, rows))[0], expected)


def test_there_is_no_attention():
    model = build()
    assert model.aligner is None
    refusal = pytest.raises(ConfigError, match=r"^record: `model` has no attention inside its Seq2Seq; ")
    with refusal, record(model):
        pass


def test_the_papers_sizes_have_the_papers_384_million_parameters():
    with torch.device("meta"):
        model = Seq2Seq(Seq2SeqConfig(source_vocab=160_000, target_vocab=80_000))
    assert round(sum(p.numel() for p in model.parameters()) / 1e6) == 384
