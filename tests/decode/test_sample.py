import pytest
import torch
from seeds import offset_seed
from tiny_decoders import NetDecoder, Peeking, TableDecoder, alone, sentences

from regard.data.batches import pair_batch
from regard.data.tokens import BOS, EOS, PAD
from regard.decode.base import Lengths
from regard.decode.greedy import greedy
from regard.decode.sample import draw, sample
from regard.errors import ConfigError


def generators(*seeds):
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def frequencies(probabilities, *, count=4000, **options):
    """How often each first token is drawn from a model with these probabilities."""
    model = Peeking({(): probabilities}, 8)
    (drawn,) = sample(
        model, pair_batch([[3]], [[]]), count=count, maximum=1, generator=generators(1)[0], **options
    )
    first = torch.tensor([h.tokens[0] if h.tokens else EOS for h in drawn])
    return first.bincount(minlength=8) / count


def test_frequencies_are_the_probabilities():
    p = torch.zeros(8)
    p[EOS], p[3], p[4], p[7] = 0.1, 0.5, 0.15, 0.25
    found = frequencies({v: float(p[v]) for v in (EOS, 3, 4, 7)})
    deviation = (4000 * (found - p) ** 2 / p)[p > 0].sum()
    assert deviation < 16.3  # chi-square, 3 degrees of freedom, 0.1 %
    assert not found[p == 0].any()


def test_temperature_sharpens():
    found = frequencies({3: 0.8, 4: 0.2}, temperature=0.5)
    assert float(found[3]) == pytest.approx(0.64 / 0.68, abs=0.02)


def test_top_k_draws_from_the_k_likeliest_only():
    found = frequencies({3: 0.5, 4: 0.3, 5: 0.15, 6: 0.05}, top_k=2)
    assert found.nonzero().flatten().tolist() == [3, 4]
    assert float(found[3]) == pytest.approx(0.5 / 0.8, abs=0.03)


def test_top_p_draws_from_the_fewest_that_hold_the_mass():
    assert frequencies({3: 0.5, 4: 0.3, 5: 0.15, 6: 0.05}, top_p=0.7).nonzero().flatten().tolist() == [3, 4]
    assert frequencies({3: 0.5, 4: 0.3, 5: 0.15, 6: 0.05}, top_p=0.45).nonzero().flatten().tolist() == [3]
    both = frequencies({3: 0.4, 4: 0.4, 5: 0.1, 6: 0.1}, top_k=3, top_p=0.85)
    assert both.nonzero().flatten().tolist() == [3, 4]


def test_top_one_is_greedy():
    model, batch = TableDecoder(9, seed=3), sentences(3, 5, 1)
    assert [each[0] for each in sample(model, batch, top_k=1, maximum=8)] == greedy(model, batch, maximum=8)


@pytest.mark.parametrize("chance", [0.0, 1.0 - 2.0**-24, 1.0])
@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.99}])
def test_an_impossible_token_is_never_drawn(chance, options):
    log_weights = torch.full((50, 7), -torch.inf)
    log_weights[:, 2:5] = torch.randn(50, 3)
    tokens = draw(log_weights, torch.full((50,), chance), **options)
    assert ((tokens >= 2) & (tokens < 5)).all()


def test_with_a_generator_each_a_sentence_does_not_depend_on_its_batch():
    model, batch = TableDecoder(9, seed=3), sentences(3, 6, 1)
    options = {"count": 4, "maximum": Lengths(2, 1)}
    together = sample(model, batch, generator=generators(5, 6, 7), **options)
    single = [sample(model, alone(batch, r), generator=generators(5 + r), **options)[0] for r in range(3)]
    assert together == single


def test_one_generator_repeats_and_the_default_generator_is_torchs():
    model, batch = TableDecoder(9, seed=3), sentences(3, 6)
    options = {"count": 3, "maximum": 6}
    assert sample(model, batch, generator=generators(5)[0], **options) == sample(
        model, batch, generator=generators(5)[0], **options
    )
    torch.manual_seed(offset_seed(8))
    first = sample(model, batch, **options)
    torch.manual_seed(offset_seed(8))
    assert first == sample(model, batch, **options)


def test_limits_log_probabilities_and_attention_hold_for_every_sample():
    model, batch = NetDecoder(9, seed=4), sentences(2, 5, vocabulary=9)
    for row, each in enumerate(
        sample(
            model,
            batch,
            count=6,
            temperature=3.0,
            maximum=5,
            minimum=2,
            attention=True,
            generator=generators(2)[0],
        )
    ):
        assert len(each) == 6
        assert len({h.tokens for h in each}) > 1
        for h in each:
            assert not {PAD, BOS, EOS} & set(h.tokens)
            assert 2 <= len(h.tokens) <= 5
            steps = len(h.tokens) + h.finished
            assert h.attention["attention"].shape == (steps, batch.source_lengths[row])
            assert h.log_probability == pytest.approx(h.score)


def test_a_generator_for_each_sentence_or_one():
    with pytest.raises(
        ConfigError, match=r"sample: `generator` has 1 items; expected 2, one for each sentence."
    ):
        sample(TableDecoder(9, 0), sentences(1, 2), maximum=3, generator=generators(1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "sample: `count` has 0; expected 1 or more."),
        (
            {"temperature": 0.0},
            "sample: `temperature` has 0.0; expected more than 0. For 0, use greedy",
        ),
        ({"top_k": -1}, "sample: `top_k` has -1; expected 0"),
        ({"top_p": 0.0}, "sample: `top_p` has 0.0; expected more than 0, at most 1."),
    ],
)
def test_impossible_options_are_errors(options, message):
    with pytest.raises(ConfigError, match=message):
        sample(TableDecoder(9, 0), sentences(1), maximum=3, **options)
