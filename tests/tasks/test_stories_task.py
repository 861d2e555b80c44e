"""The embedded stories: the answer follows from the story, and splits never share one."""

import pytest

from regard.data.questions import split_story
from regard.tasks.stories import GO, TAKE, make_question, split_of


def solve(question):
    """Walk through the story and keep where everybody is and who has what."""
    places, holders = {}, {}
    for sentence in question.story:
        if sentence[1] in GO:
            places[sentence[0]] = sentence[-1]
        else:
            assert sentence[1] in TAKE
            holders[sentence[-1]] = sentence[0]
    asked = question.question[-1]
    return places[holders.get(asked, asked)]


@pytest.mark.parametrize("facts", [1, 2])
def test_the_answer_follows_from_the_story(facts):
    for number in range(200):
        question = make_question("train", number, facts=facts, sentences=8)
        assert len(question.story) == 8
        assert question.answer == solve(question)
        assert len(question.supports) in (facts, 1)  # who took a thing may have moved before and not after
        assert question.answer in question.story[question.supports[-1]] or facts == 2


def test_a_number_always_gives_the_same_story():
    first = make_question("test", 7, facts=2, sentences=8)
    assert first == make_question("test", 7, facts=2, sentences=8)
    assert first != make_question("test", 8, facts=2, sentences=8)


def test_splits_share_no_story():
    stories = {
        split: {make_question(split, number, facts=1, sentences=2).story for number in range(300)}
        for split in ("train", "valid", "test")
    }
    assert not stories["train"] & stories["valid"]
    assert not stories["train"] & stories["test"]
    assert not stories["valid"] & stories["test"]
    assert all(split_of(story) == split for split, told in stories.items() for story in told)


def test_a_text_is_cut_at_its_full_stops_chinese_ones_too():
    assert split_story("Anna left. Omar came!\nWho? ") == ("Anna left.", "Omar came!", "Who?")
    assert split_story("安娜去了厨房。安娜拿了灯。") == ("安娜去了厨房。", "安娜拿了灯。")
    assert split_story(" ... \n\n") == ()
