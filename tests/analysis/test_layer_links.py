"""Links of every layer of a Transformer: those that forced decoding gives, words from pieces, agreement."""

import pytest
import torch

from regard.analysis import alignments
from regard.analysis.alignments import Cut, Reading, agreement, layer_links, turned, word_argmax
from regard.attention.config import AttentionConfig
from regard.errors import DataError
from regard.evaluate.alignment import Gold, Link, score_alignment
from regard.evaluate.translation import measure_alignments
from regard.models.transformer import Transformer, TransformerConfig
from regard.tasks.reverse import ReverseSettings, ReverseTask


@pytest.fixture
def task():
    return ReverseTask.create(ReverseSettings(train=10, valid=6, test=12, shortest=2, longest=9))


def network(task, layer):
    torch.manual_seed(3)
    config = TransformerConfig(
        **task.sizes(), size="tiny", d_model=16, attention=AttentionConfig("scaled-dot", heads=2)
    )
    model = Transformer(config)
    model.aligner = f"decoder.layers.{layer}.source_attention.attention"
    return model


def cuts(task):
    examples = task.examples("test")
    owners = [task.owners(example) for example in examples]
    return tuple(
        [Cut(tokenizer.encode(getattr(e, side)), own[n]) for e, own in zip(examples, owners, strict=True)]
        for n, (side, tokenizer) in enumerate((("source", task.source), ("target", task.target)))
    )


@pytest.mark.parametrize("layer", [0, 1])
def test_links_are_those_of_forced_decoding(task, layer):
    model = network(task, layer)
    gold = [Gold(frozenset(Link(*link) for link in e.links), frozenset()) for e in task.examples("test")]
    found = layer_links(model, *cuts(task))
    assert set(found) == {Reading(n, credit) for n in (0, 1) for credit in ("written", "read")}
    for credit, counts in measure_alignments(model, task, "test").items():
        assert score_alignment(found[Reading(layer, credit)], gold) == counts


def test_neither_batches_nor_the_mode_matter(task, monkeypatch):
    model = network(task, 0).train()
    together = layer_links(model, *cuts(task))
    monkeypatch.setattr(alignments, "BUDGET", 1)
    assert layer_links(model, *cuts(task)) == together
    assert model.training


def test_the_other_direction_exchanges_the_sides(task):
    sources, targets = cuts(task)
    back = layer_links(network(task, 0), targets, sources)[Reading(0, "read")]
    for own, source, target in zip(back, sources, targets, strict=True):
        assert {link.target for link in own} == set(range(len(source.numbers)))
        assert {link.source for link in turned(own)} == set(range(len(source.numbers)))
        assert all(link.target < len(target.numbers) for link in turned(own))


def test_pieces_of_a_source_word_add_up_and_a_word_without_pieces_has_no_link():
    weights = torch.tensor([[0.4, 0.3, 0.3], [0.7, 0.2, 0.1], [0.9, 0.1, 0.0]])
    source = [(0,), (1,), (1,)]  # word 1 has two pieces: 0.6, 0.3, 0.1
    assert word_argmax(weights, [(0,), (1,), (3,)], source) == {(1, 0), (0, 1), (0, 3)}
    # a target word is the mean of its pieces, a piece may belong to two words or to none
    assert word_argmax(weights, [(0, 1), (1,), ()], source) == {(1, 0), (0, 1)}


def test_agreement_counts_links_of_the_whole_corpus():
    one = [frozenset({Link(0, 0), Link(1, 1)}), frozenset({Link(0, 1)})]
    other = [frozenset({Link(0, 0)}), frozenset({Link(1, 1), Link(2, 2)})]
    assert agreement(one, other) == pytest.approx(2 * 1 / 6)
    assert agreement(one, one) == 1.0
    assert agreement([frozenset()], [frozenset()]) == 1.0


def test_sides_of_different_lengths_are_refused(task):
    sources, targets = cuts(task)
    with pytest.raises(DataError, match="layer_links: `targets` has 11 sentences; expected 12, as `sources`"):
        layer_links(network(task, 0), sources, targets[1:])
    with pytest.raises(DataError, match="agreement: `backward` has 0 sentences; expected 1, as `forward`"):
        agreement([frozenset()], [])
