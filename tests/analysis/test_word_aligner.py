"""The word aligner: exact sums over alignments, padding, unseen words, and what it learns."""

import itertools
import math
import random

import pytest
import torch

from regard.analysis.word_aligner import FARTHEST, NeuralHMM, WordAligner, learn
from regard.errors import DataError
from regard.evaluate.alignment import Gold, Link, score_alignment

PAIRS = [
    (["the", "green", "house"], ["la", "maison"]),
    (["green"], ["la", "verte", "maison", "ici"]),
    (["the", "old", "green", "house"], ["verte"]),
]


@pytest.fixture
def model():
    """A small untrained model in float64, moved away from its regular start."""
    model = NeuralHMM(PAIRS, width=6).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model


def every_alignment(model, source, target):
    """log p and the probability of each link, by a loop over all alignments."""
    emissions = model.emissions([(source, target)])
    S, T = len(source), len(target)
    jump = torch.tensor([[model.jumps[i - k + FARTHEST].item() for i in range(S)] for k in range(S)])
    jump = jump.double().softmax(1)
    total, linked = 0.0, torch.zeros(T, S, dtype=torch.float64)
    for places in itertools.product(range(S), repeat=T):
        for empty in itertools.product((False, True), repeat=T):
            p = 1 / S
            for j, place in enumerate(places):
                p *= jump[places[j - 1], place].item() if j else 1.0
                if empty[j]:
                    p *= 0.2 * emissions.empty[0, j].exp().item()
                else:
                    p *= 0.8 * emissions.aligned[0, j, place].exp().item()
            total += p
            for j, place in enumerate(places):
                linked[j, place] += 0.0 if empty[j] else p
    return math.log(total), linked / total


def test_probabilities_are_the_sum_over_all_alignments_in_a_padded_batch(model):
    with torch.no_grad():
        found = model(PAIRS)
    for own, links, (source, target) in zip(found, model.alignments(PAIRS), PAIRS, strict=True):
        with torch.no_grad():
            total, linked = every_alignment(model, source, target)
        assert own.item() == pytest.approx(total, abs=1e-6)
        torch.testing.assert_close(links, linked, atol=1e-6, rtol=0)


def test_emissions_are_normalised_over_the_words_of_the_table(model):
    words = sorted({word for _, target in PAIRS for word in target})
    emissions = model.emissions([(["house"], words)])
    assert emissions.aligned.exp().sum().item() == pytest.approx(1.0)
    assert emissions.empty.exp().sum().item() == pytest.approx(1.0)


def test_an_unseen_word_has_the_vector_of_its_n_grams():
    words = NeuralHMM(PAIRS, width=512).source
    with torch.no_grad():
        words.own.weight.zero_()
        seen, unseen, other = words(["house", "houses", "zebra"])
    alike = torch.cosine_similarity(seen, unseen, dim=0)
    assert alike > torch.cosine_similarity(seen, other, dim=0) + 0.2


def test_a_model_learns_by_its_seed_alone_and_says_how_far_it_is():
    pairs, told = PAIRS * 20, []
    before = torch.get_rng_state()
    first = learn(pairs, epochs=3, progress=lambda step, steps: told.append((step, steps)))
    assert torch.equal(torch.get_rng_state(), before)
    again, longer = learn(pairs, epochs=3), learn(pairs, epochs=12)
    assert told == [(step, len(told)) for step in range(1, len(told) + 1)]
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    with torch.no_grad():
        assert longer(PAIRS).sum() > first(PAIRS).sum()


def test_nothing_to_align_is_refused(model):
    with pytest.raises(DataError, match="word aligner: `pairs` has no pair"):
        learn([])
    for pairs in ([*PAIRS, (["a"], [])], [*PAIRS, ([], ["a"])]):
        for run in (learn, model.alignments):
            with pytest.raises(DataError, match="empty sentence at number 3, counted from 0"):
                run(pairs)


def test_words_written_backwards_are_aligned():
    chance = random.Random(torch.initial_seed())
    words = {word: word[::-1].upper() for word in ("one", "two", "three", "four", "five", "six", "seven")}
    pairs = []
    for _ in range(60):
        source = chance.sample([*words], chance.randint(2, 5))
        pairs.append((source, [words[word] for word in reversed(source)]))
    gold = [frozenset(Link(n, len(source) - 1 - n) for n in range(len(source))) for source, _ in pairs]
    found = WordAligner.learn(pairs).links(pairs)
    assert score_alignment(found, [Gold(links, links) for links in gold]).error_rate < 0.1
