import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_decoders import NetDecoder, Peeking, TableDecoder, alone, attention_by_replay, everything, sentences

from regard.data.batches import pair_batch
from regard.data.tokens import BOS, EOS, PAD
from regard.decode.base import Decoding, LengthPenalty, Lengths, PowerPenalty, WuPenalty
from regard.decode.beam import beam_search
from regard.decode.greedy import greedy
from regard.errors import ConfigError, DataError

PENALTIES = [PowerPenalty(0.0), PowerPenalty(1.0), WuPenalty(0.6), WuPenalty(2.0)]


def ranked(found, penalty: LengthPenalty):
    """All outputs, finished ones first, by falling score."""

    def score(one):
        length = len(one.tokens) + one.finished
        return one.log_probability / float(penalty.divisor(torch.tensor(length)))

    return sorted((not one.finished, -score(one), one.tokens) for one in found)


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_what_exhaustive_search_finds(penalty, seed):
    V, maximum = 5, 4
    model, batch = TableDecoder(V, seed), sentences(3, 1, 4, seed=seed)
    results = beam_search(model, batch, width=100, nbest=12, maximum=maximum, penalty=penalty)
    for row, hypotheses in enumerate(results):
        best = ranked(everything(model, alone(batch, row), V, maximum), penalty)[:12]
        assert [(not h.finished, h.tokens) for h in hypotheses] == [(cut, tokens) for cut, _, tokens in best]
        torch.testing.assert_close([h.score for h in hypotheses], [-score for _, score, _ in best])


def test_a_wide_beam_is_exhaustive_under_a_minimum_too():
    model, batch = TableDecoder(5, seed=9), sentences(2)
    (hypotheses,) = beam_search(
        model, batch, width=100, nbest=5, maximum=4, minimum=2, penalty=PowerPenalty(0.0)
    )
    best = ranked(everything(model, batch, 5, 4, minimum=2), PowerPenalty(0.0))[:5]
    assert [h.tokens for h in hypotheses] == [tokens for _, _, tokens in best]


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_stopping_early_never_changes_the_result(penalty, width):
    model, batch = TableDecoder(9, seed=width), sentences(3, 5, 1, 2, 8)
    early = beam_search(model, batch, width=width, nbest=width, maximum=12, penalty=penalty)
    early_rows = sum(model.rows_run)
    model.rows_run.clear()
    late = beam_search(model, batch, width=width, nbest=width, maximum=12, penalty=Boundless(penalty))
    assert [[h.tokens for h in each] for each in early] == [[h.tokens for h in each] for each in late]
    assert len(model.rows_run) == 12 or width == 1
    assert early_rows <= sum(model.rows_run)
    if penalty == PowerPenalty(0.0) and width > 1:
        assert early_rows < sum(model.rows_run)


class Boundless(LengthPenalty):
    """The same scores, but the bound of what still runs is 0: a search never stops before its maximum."""

    def __init__(self, penalty: LengthPenalty) -> None:
        self.penalty = penalty

    def divisor(self, lengths):
        # the bound is asked for all running sentences at once, a score for one length
        return self.penalty.divisor(lengths) if lengths.numel() == 1 else torch.full(lengths.shape, torch.inf)


class OnlyProtocol:
    """A decoder that is not a module: it has what the protocol names and nothing else."""

    def __init__(self, model):
        self.start, self.step, self.select = model.start, model.step, model.select


def test_search_asks_for_nothing_but_the_protocol():
    model, batch = TableDecoder(9, seed=1), sentences(3, 5)
    assert beam_search(OnlyProtocol(model), batch, width=3, maximum=6) == beam_search(
        model, batch, width=3, maximum=6
    )


@given(seed=st.integers(0, 10**6), lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_width_one_is_greedy(seed, lengths):
    model, batch = TableDecoder(8, seed), sentences(*lengths, seed=seed)
    best = beam_search(model, batch, width=1, maximum=Lengths(2, 3), penalty=PowerPenalty(0.0))
    assert [each[0] for each in best] == greedy(model, batch, maximum=Lengths(2, 3))


def test_width_one_is_greedy_where_probabilities_are_equal():
    model, batch = TableDecoder(30, seed=0, spread=0.0), sentences(3, 2)
    best = beam_search(model, batch, width=1, maximum=6, minimum=6)
    assert [each[0].tokens for each in best] == [h.tokens for h in greedy(model, batch, maximum=6, minimum=6)]


@given(
    seed=st.integers(0, 10**6),
    width=st.integers(1, 5),
    lengths=st.lists(st.integers(0, 7), min_size=2, max_size=6),
)
@settings(max_examples=30, deadline=None)
def test_a_sentence_does_not_depend_on_its_batch(seed, width, lengths):
    model, batch = TableDecoder(11, seed), sentences(*lengths, seed=seed)
    options = {"width": width, "nbest": width, "maximum": Lengths(1.5, 2)}
    together = beam_search(model, batch, **options)
    assert together == [beam_search(model, alone(batch, row), **options)[0] for row in range(batch.size)]


def test_a_sentence_does_not_depend_on_its_batch_in_a_network():
    model, batch = NetDecoder(11, seed=3), sentences(2, 7, 4, 1, 5, vocabulary=11)
    options = {"width": 4, "nbest": 4, "maximum": Lengths(1.5, 3), "attention": True}
    for row, together in enumerate(beam_search(model, batch, **options)):
        (single,) = beam_search(model, alone(batch, row), **options)
        assert [h.tokens for h in together] == [h.tokens for h in single]
        for one, other in zip(together, single, strict=True):
            torch.testing.assert_close(dict(one.attention), dict(other.attention))


@given(seed=st.integers(0, 10**6), width=st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_hypotheses_are_sorted_distinct_and_made_of_words(seed, width):
    batch = sentences(3, 5, seed=seed)
    for each in beam_search(TableDecoder(9, seed), batch, width=width, nbest=width, maximum=7, minimum=2):
        assert len(each) == width
        assert len({(h.tokens, h.finished) for h in each}) == width
        assert [(not h.finished, -h.score) for h in each] == sorted((not h.finished, -h.score) for h in each)
        for h in each:
            assert not {PAD, BOS, EOS} & set(h.tokens)
            assert 2 <= len(h.tokens) <= 7
            assert len(h.tokens) == 7 if not h.finished else len(h.tokens) < 7


def test_each_sentence_has_its_own_maximum():
    never = TableDecoder(6, seed=1)
    with torch.no_grad():
        never.table[:, EOS] = -torch.inf
    results = beam_search(never, sentences(1, 4, 2), width=3, maximum=Lengths(2.0, 1))
    assert [len(each[0].tokens) for each in results] == [5, 11, 7]
    assert not any(each[0].finished for each in results)


def test_a_finished_hypothesis_comes_before_a_better_scored_cut_one():
    loop = {(): {3: 0.5, 4: 0.5}, (4,): {EOS: 0.01, 3: 0.99}}
    loop |= {(*start, *[3] * n): {3: 1.0} for start in [(), (4,)] for n in range(1, 9)}
    (first, second), *_ = beam_search(
        Peeking(loop, 5), pair_batch([[3, 3]], [[]]), width=3, nbest=2, maximum=6, penalty=PowerPenalty(1.0)
    )
    assert first.finished
    assert not second.finished
    assert second.score > first.score


def test_log_probability_and_score_are_those_of_the_formulas():
    model, batch = TableDecoder(9, seed=5), sentences(4)
    for penalty, divide in [
        (PowerPenalty(0.7), lambda n: n**0.7),
        (WuPenalty(0.7), lambda n: ((5 + n) / 6) ** 0.7),
    ]:
        for h in beam_search(model, batch, width=4, nbest=4, maximum=9, penalty=penalty)[0]:
            steps = len(h.tokens) + h.finished
            assert h.score == pytest.approx(h.log_probability / divide(steps), rel=1e-5)


def test_over_sentences_leave_the_batch():
    model, batch = TableDecoder(9, seed=2), sentences(1, 9)
    beam_search(model, batch, width=3, maximum=Lengths(1, 0), penalty=PowerPenalty(1.0), minimum=2)
    assert model.rows_run[:3] == [2, 6, 3]


def test_attention_follows_the_back_pointers():
    """4 leads after one step, but 3 wins: its history must not be that of the slot it moved into."""
    probabilities = {
        (): {4: 0.6, 3: 0.4},
        (4,): {5: 0.34, 3: 0.33, 4: 0.33},
        (3,): {5: 1.0},
        (3, 5): {4: 1.0},
    }
    model, batch = Peeking(probabilities, 6), pair_batch([[3, 3, 3, 3]], [[]])
    (best, *_), *_ = beam_search(
        model, batch, width=2, nbest=2, maximum=6, penalty=PowerPenalty(0.0), attention=True
    )
    assert best.tokens == (3, 5, 4)
    weights = best.attention["attention"]
    assert weights.shape == (4, 5)  # the step of eos and the source's eos are counted
    assert weights.argmax(-1).tolist() == [0, 1, 3, 2]  # bos, then where 3, 5 and 4 look


@pytest.mark.parametrize("penalty", [PowerPenalty(1.0), WuPenalty(0.6)], ids=str)
def test_attention_is_that_of_the_hypothesis_alone(penalty):
    model, batch = NetDecoder(9, seed=7), sentences(6, 2, 4, vocabulary=9)
    moved = 0
    for row, each in enumerate(
        beam_search(model, batch, width=4, nbest=4, maximum=8, penalty=penalty, attention=True)
    ):
        model.eval()
        for h in each:
            fed = h.tokens if h.finished else h.tokens[:-1]
            steps = attention_by_replay(model, alone(batch, row), fed)
            T, S = len(steps), int(batch.source_lengths[row])
            assert set(h.attention) == {"attention", "multihead.attention", "over_past"}
            assert h.attention["attention"].shape == (T, S)
            assert h.attention["multihead.attention"].shape == (2, T, S)
            assert h.attention["over_past"].shape == (T, T)
            for t, step in enumerate(steps):
                torch.testing.assert_close(h.attention["attention"][t], step["attention"])
                torch.testing.assert_close(
                    h.attention["multihead.attention"][:, t], step["multihead.attention"]
                )
                torch.testing.assert_close(h.attention["over_past"][t, : t + 1], step["over_past"])
                assert not h.attention["over_past"][t, t + 1 :].any()
        moved += len({h.tokens[:1] for h in each}) > 1
    assert moved  # otherwise the histories could not have been mixed up


def test_training_mode_is_restored_and_dropout_is_off():
    model, batch = NetDecoder(9, seed=1), sentences(3, 5, vocabulary=9)
    model.train()
    model.out.eval()
    first = beam_search(model, batch, width=3, maximum=6)
    assert first == beam_search(model, batch, width=3, maximum=6)
    assert model.training
    assert not model.out.training


def test_training_mode_is_restored_after_an_error():
    model = NetDecoder(9, seed=1)
    model.step = None
    with pytest.raises(TypeError):
        beam_search(model, sentences(3), width=3, maximum=6)
    assert model.training


def test_half_precision_log_probabilities_are_summed_in_single():
    model, batch = TableDecoder(9, seed=4), sentences(4, 2)
    model.to(torch.bfloat16)
    for each in beam_search(model, batch, width=3, maximum=6):
        assert isinstance(each[0].score, float)


def test_an_empty_batch_gives_no_results():
    assert beam_search(TableDecoder(6, 0), pair_batch([], []), width=2, maximum=3) == []


def test_numbers_that_are_none_are_an_error():
    model = TableDecoder(6, 0)
    with torch.no_grad():
        model.table.fill_(torch.nan)
    message = "decode: `model.step` returned NaN; expected log-probabilities, finite or -inf"
    with pytest.raises(DataError, match=message):
        beam_search(model, sentences(2), width=2, maximum=3)
    with pytest.raises(DataError, match=message):
        greedy(model, sentences(2), maximum=3)


def test_a_model_that_allows_nothing_is_an_error():
    model = TableDecoder(6, 0)
    with torch.no_grad():
        model.table.fill_(-torch.inf)
    with pytest.raises(DataError, match="sentence 0 has no possible output; every token has -inf"):
        beam_search(model, sentences(2), width=2, maximum=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 2, "nbest": 3, "maximum": 4}, "beam_search: `nbest` has 3; expected 1 to `width` = 2."),
        ({"width": 0, "maximum": 4}, "beam_search: `nbest` has 1; expected 1 to `width` = 0."),
        ({"width": 2, "maximum": 0}, "decode: `maximum` has 0; expected 1 or more steps."),
        ({"width": 2, "maximum": 3, "minimum": 5}, "decode: `maximum` has 3; expected 5 or more steps."),
        ({"width": 2, "maximum": 3, "minimum": -1}, "decode: `minimum` has -1; expected 0 or more."),
    ],
)
def test_impossible_options_are_errors(options, message):
    with pytest.raises(ConfigError, match="^" + message.replace("(", r"\(")):
        beam_search(TableDecoder(6, 0), sentences(2), **options)


def test_a_falling_divisor_is_an_error():
    with pytest.raises(ConfigError, match=r"WuPenalty: `alpha` has -0.5; expected 0 or more."):
        WuPenalty(-0.5)
    with pytest.raises(ConfigError, match=r"PowerPenalty: `alpha` has -1; expected 0 or more."):
        PowerPenalty(-1)


def test_a_penalty_that_there_is_not_is_an_error():
    with pytest.raises(ConfigError, match=r"^'decode\.penalty' is 'powr'; expected power or wu\.$"):
        Decoding(penalty="powr")


def test_recording_needs_a_module():
    with pytest.raises(
        ConfigError, match=r"`model` has type OnlyProtocol; expected nn.Module to record attention"
    ):
        beam_search(OnlyProtocol(TableDecoder(6, 0)), sentences(2), width=2, maximum=3, attention=True)
