import pytest
from encoded_lists import lists

from regard.data.tokens import UNK
from regard.errors import ConfigError
from regard.tasks.grammar import GrammarSettings, GrammarTask, hide_word, interleave

SMALL = {"train": 300, "valid": 24, "test": 24}


@pytest.fixture(scope="module", params=["fr", "zh"])
def task(request):
    return GrammarTask.create(GrammarSettings(target=request.param, **SMALL))


def test_the_splits_have_the_sizes_asked_for_and_share_no_sentence(task):
    splits = {split: {example.source for example in task.examples(split)} for split in SMALL}
    assert [len(task.examples(split)) for split in SMALL] == list(SMALL.values())
    assert not splits["train"] & splits["test"]
    assert not splits["train"] & splits["valid"]
    assert not splits["valid"] & splits["test"]


def test_links_join_pieces_of_both_sides(task):
    for example in task.examples("test"):
        source, target = task.source.pieces(example.source), task.target.pieces(example.target)
        assert example.links
        assert all(s < len(source) and t < len(target) for s, t in example.links)
        linked = {t for _, t in example.links}
        assert {t for t, piece in enumerate(target) if piece.isalnum()} <= linked


def test_links_of_punctuation_show_that_pieces_are_counted_alike(task):
    for example in task.examples("test"):
        if example.source.endswith("."):
            source, target = task.source.pieces(example.source), task.target.pieces(example.target)
            assert (len(source) - 1, len(target) - 1) in example.links


def test_text_goes_in_and_comes_out(task):
    for example in task.examples("train"):
        assert task.source.decode(task.source.encode(example.source)) == example.source
        assert task.target.decode(task.target.encode(example.target)) == example.target


def test_lengths_reach_the_longest_asked_for(task):
    lengths = [source - 1 for source, _ in task.lengths("test")]
    assert min(lengths) <= 10
    assert max(lengths) > 50
    assert max(lengths) <= 60


def test_a_task_is_restored_from_its_folder(task, tmp_path):
    task.save(tmp_path)
    again = GrammarTask.restore(task.settings, tmp_path)
    assert again.sizes() == task.sizes()
    assert lists(again.encoded("test")) == lists(task.encoded("test"))


def test_one_training_sentence_in_twenty_has_a_hidden_word_on_both_sides(task):
    hidden = [(UNK in source, UNK in target) for source, target in lists(task.encoded("train"))]
    assert all(source == target for source, target in hidden)
    assert 0.03 < sum(source for source, _ in hidden) / len(hidden) <= 0.05


def test_nothing_is_hidden_in_evaluation(task):
    expected = [task.source.encode(example.source) for example in task.examples("test")]
    assert [source for source, _ in lists(task.encoded("test"))] == expected


def test_a_hidden_word_takes_all_its_pieces_with_it():
    class First:
        def choice(self, found):
            return found[0]

    source, target = hide_word([10, 11, 12], [20, 21, 22, 23], ((0, 0), (1, 1), (1, 2), (2, 3)), First())
    assert (source, target) == ([UNK, 11, 12], [UNK, 21, 22, 23])
    source, target = hide_word([10, 11], [20, 21, 22], ((0, 1), (0, 2), (1, 0)), First())
    assert (source, target) == ([UNK, 11], [20, UNK])


def test_a_word_that_shares_its_translation_is_not_hidden():
    assert hide_word([10, 11], [20], ((0, 0), (1, 0)), None) == ([10, 11], [20])


def test_streams_are_drawn_in_proportion():
    from itertools import islice, repeat

    drawn = list(islice(interleave([(repeat("a"), 0.75), (repeat("b"), 0.25)]), 100))
    assert drawn.count("a") == 75


def test_a_longest_sentence_below_ten_words_is_refused():
    with pytest.raises(ConfigError, match="grammar: `longest` has 5; expected 10 or more words"):
        GrammarTask.create(GrammarSettings(longest=5))
