from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_decoders import (
    NetDecoder,
    TableDecoder,
    alone,
    attention_by_replay,
    sentences,
    token_log_probabilities,
)

from regard.data.batches import pair_batch
from regard.data.tokens import BOS, EOS, PAD
from regard.decode.base import Lengths
from regard.decode.forced import forced
from regard.decode.greedy import greedy


def by_loop(model, batch, maximum, minimum):
    """Greedy decoding of one sentence, written plainly."""
    tokens = ()
    while len(tokens) < maximum:
        row = token_log_probabilities(model, batch, tokens)[-1].clone()
        row[[PAD, BOS, EOS] if len(tokens) < minimum else [PAD, BOS]] = -torch.inf
        if int(row.argmax()) == EOS:
            return tokens, True
        tokens += (int(row.argmax()),)
    return tokens, False


@given(
    seed=st.integers(0, 10**6),
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    minimum=st.integers(0, 3),
)
@settings(max_examples=25, deadline=None)
def test_greedy_is_the_plain_loop_sentence_by_sentence(seed, lengths, minimum):
    model, batch = TableDecoder(7, seed), sentences(*lengths, seed=seed)
    for row, h in enumerate(greedy(model, batch, maximum=6, minimum=minimum)):
        assert (h.tokens, h.finished) == by_loop(model, alone(batch, row), 6, minimum)
        rows = token_log_probabilities(model, alone(batch, row), h.tokens)
        chosen = [*h.tokens, EOS] if h.finished else list(h.tokens)
        expected = sum(float(rows[t, token]) for t, token in enumerate(chosen))
        assert h.log_probability == pytest.approx(expected)
        assert h.score == h.log_probability


def test_each_sentence_has_its_own_maximum():
    never = TableDecoder(6, seed=1)
    with torch.no_grad():
        never.table[:, EOS] = -torch.inf
    found = greedy(never, sentences(1, 4, 2), maximum=Lengths(1.5, 1))
    assert [len(h.tokens) for h in found] == [4, 8, 5]
    assert not any(h.finished for h in found)
    assert never.rows_run == [3, 3, 3, 3, 2, 1, 1, 1]  # who is over leaves the batch


def test_attention_has_a_row_for_each_step_and_a_column_for_each_own_source_position():
    model, batch = NetDecoder(9, seed=11), sentences(5, 2, 4, vocabulary=9)
    model.eval()
    for row, h in enumerate(greedy(model, batch, maximum=7, attention=True)):
        fed = h.tokens if h.finished else h.tokens[:-1]
        steps = attention_by_replay(model, alone(batch, row), fed)
        expected = torch.stack([step["multihead.attention"] for step in steps], dim=-2)
        torch.testing.assert_close(h.attention["multihead.attention"], expected)
        assert h.attention["attention"].shape == (len(fed) + 1, batch.source_lengths[row])


def test_forced_decoding_gives_the_log_probability_of_each_given_token():
    model = NetDecoder(9, seed=5)
    sources, targets = [[3, 4, 5], [6], [7, 8, 3, 4]], [[4, 4], [5, 6, 7, 8], []]
    batch = pair_batch(sources, targets)
    model.eval()
    for row, track in enumerate(forced(model, batch)):
        one, tokens = alone(batch, row), (*targets[row], EOS)
        rows = token_log_probabilities(model, one, tuple(targets[row]))
        assert track.tokens == tokens
        torch.testing.assert_close(track.log_probabilities, rows[range(len(tokens)), list(tokens)])
        assert track.log_probability == pytest.approx(float(track.log_probabilities.sum()), rel=1e-5)
        steps = attention_by_replay(model, one, tuple(targets[row]))
        expected = torch.stack([step["attention"] for step in steps])
        torch.testing.assert_close(track.attention["attention"], expected)


def test_forcing_what_greedy_found_gives_the_same_numbers():
    model, batch = NetDecoder(9, seed=6), sentences(4, 2, vocabulary=9)
    with torch.no_grad():
        model.out.bias[EOS] += 2.0
    found = greedy(model, batch, maximum=30, attention=True)
    assert all(h.finished for h in found)
    sources = [alone(batch, row).source[0, :-1].tolist() for row in range(batch.size)]
    for h, track in zip(found, forced(model, pair_batch(sources, [h.tokens for h in found])), strict=True):
        assert track.log_probability == pytest.approx(h.log_probability, rel=1e-4)
        torch.testing.assert_close(dict(track.attention), dict(h.attention))


def test_forced_and_greedy_leave_gradients_and_modes_alone():
    model, batch = NetDecoder(9, seed=6), sentences(4, 2, vocabulary=9)
    (track, _) = forced(model, batch)
    assert not track.log_probabilities.requires_grad
    assert not track.attention["attention"].requires_grad
    assert model.training
    assert greedy(model, batch, maximum=5) == greedy(model, batch, maximum=5)  # dropout is off
    assert model.training


def test_an_empty_batch_gives_no_results():
    assert greedy(TableDecoder(6, 0), pair_batch([], []), maximum=3) == []


def recorded(*steps):
    """A stand-in for `record` that gives these traces, one a step."""
    remaining = iter(steps)

    @contextmanager
    def record(model):
        yield {
            path: [SimpleNamespace(weights=torch.tensor(weights)) for weights in results]
            for path, results in next(remaining).items()
        }

    return record


def test_of_several_results_of_a_module_in_one_step_the_last_row_of_the_last_counts(monkeypatch):
    step = {"layer.attention": [[[[0.0, 0.0, 0.0]]], [[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]]]}
    monkeypatch.setattr("regard.decode.base.record_any", recorded(step))
    (h,) = greedy(TableDecoder(7, 0), sentences(2), maximum=1, attention=True)
    assert h.attention["layer.attention"].tolist() == [[3.0, 4.0, 5.0]]


def test_a_module_that_was_silent_in_a_step_has_an_empty_row_there(monkeypatch):
    steps = {}, {"tape": [[[[1.0]]]]}, {"tape": [[[[0.25, 0.75]]]]}
    monkeypatch.setattr("regard.decode.base.record_any", recorded(*steps))
    (h,) = greedy(TableDecoder(7, 0), sentences(4), maximum=3, minimum=3, attention=True)
    assert h.attention["tape"].tolist() == [[0.0, 0.0], [1.0, 0.0], [0.25, 0.75]]


def test_columns_that_are_not_source_positions_are_all_kept(monkeypatch):
    steps = [{"memory": [[[[0.5, 0.5]], [[0.25, 0.75]]]]}] * 2
    monkeypatch.setattr("regard.decode.base.record_any", recorded(*steps))
    found = greedy(TableDecoder(7, 0), sentences(0, 4), maximum=2, minimum=2, attention=True)
    assert [h.attention["memory"].shape for h in found] == [(2, 2), (2, 2)]
