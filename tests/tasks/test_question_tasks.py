"""Questions about stories as tasks: splits, batches, plans, and what is wrong with settings."""

import logging

import pytest
import torch

from regard.errors import ConfigError, DataError
from regard.tasks.babi import BabiSettings, BabiTask, chosen_tasks, task_numbers
from regard.tasks.stories import StoriesSettings, StoriesTask


def babi_text(stories, word="kitchen"):
    lines = []
    for number in range(stories):
        lines += [
            f"1 Mary went to the room{number % 7}.",
            "2 John left.",
            f"3 Where is Mary?\troom{number % 7}\t1",
        ]
        lines += ["4 Mary sat down.", f"5 Where is John?\t{word}\t2"]
    return "\n".join(lines)


@pytest.fixture
def data(tmp_path):
    """A small folder of the form of bAbI: two tasks, the second without training file in `en-10k`."""
    for babi_set, tasks in (("en", (1, 2)), ("en-10k", (1,))):
        folder = tmp_path / "babi" / babi_set
        folder.mkdir(parents=True)
        for task in (1, 2):
            (folder / f"qa{task}_x_test.txt").write_text(babi_text(5))
            if task in tasks:
                (folder / f"qa{task}_x_train.txt").write_text(babi_text(40))
    return str(tmp_path)


def test_one_story_in_ten_is_for_validation_with_all_its_questions(data):
    settings = BabiSettings(tasks="1,2", data=data)
    task = BabiTask.create(settings)
    train, valid, test = (task.questions(split) for split in ("train", "valid", "test"))
    assert (len(train), len(valid), len(test)) == (144, 16, 20)
    assert {q.task for q in train} == {1, 2}
    assert not {(q.task, q.origin) for q in train} & {(q.task, q.origin) for q in valid}


def test_batches_have_few_shapes_and_say_what_counts(data):
    task = BabiTask.create(BabiSettings(tasks=1, data=data, memory=2))
    batch = task.batch("train", [0, 1])
    assert batch.stories.shape == (2, 2)
    assert batch.sentences.shape[0] == 128
    assert batch.counts.tolist() == [2, 2]
    words = task.words.words
    read = [[words[n] for n in batch.sentences[row] if n] for row in batch.stories[1].tolist()]
    assert read == [["john", "left"], ["mary", "sat", "down"]]  # the most recent two of three
    assert [words[n] for n in batch.sentences[batch.question[1]] if n] == ["where", "is", "john"]
    assert words[batch.answer[0]] == "room0"
    assert batch.to("meta").answer.device == torch.device("meta")


def test_plans_hold_every_question_once_in_another_order_each_epoch(data):
    task = BabiTask.create(BabiSettings(tasks="1", data=data))
    first, second = (task.plan(epoch, seed=1, batch=8) for epoch in (0, 1))
    assert sorted(row for rows in first for row in rows) == list(range(72))
    assert first != second
    assert first == task.plan(0, seed=1, batch=8)
    assert [len(rows) for rows in task.plan(0, seed=1, batch=10)] == [
        10
    ] * 7  # the last two wait for another epoch
    assert [row for rows in task.evaluation_plan("test", batch=4) for row in rows] == list(range(10))


def test_a_task_without_training_questions_plans_no_batch():
    assert StoriesTask.create(StoriesSettings(train=0, valid=4, test=4)).plan(0, seed=1, batch=8) == []


def test_a_saved_task_comes_back(data, tmp_path):
    settings = BabiSettings(tasks="1", data=data)
    task = BabiTask.create(settings)
    task.save(tmp_path)
    restored = BabiTask.restore(settings, tmp_path)
    assert restored.sizes() == task.sizes() == {"vocab": len(task.words), "memory": 50}
    assert restored.batch("test", [3]).sentences.tolist() == task.batch("test", [3]).sentences.tolist()


def test_words_and_answers_that_training_never_saw_are_null(data, tmp_path):
    task = BabiTask.create(BabiSettings(tasks="1", data=data))
    assert task.words.words[0] == "<null>"
    assert task.words.number("zoo") == 0
    assert "room3" in task.words


def test_a_missing_training_file_is_told_and_left_out(data, caplog, monkeypatch):
    from regard.tasks import babi

    monkeypatch.setattr(babi, "TASKS", range(1, 3))
    with caplog.at_level(logging.WARNING, logger="regard"):
        assert chosen_tasks(BabiSettings(set="en-10k", data=data)) == [1]
    assert caplog.messages == ["babi: the set 'en-10k' has no training file of task 2; it is left out."]
    with pytest.raises(
        DataError, match=r"^babi: the set 'en-10k' has no training file of task 2; choose others\.$"
    ):
        chosen_tasks(BabiSettings(set="en-10k", data=data, tasks="2"))


def test_task_numbers():
    assert task_numbers("all") == list(range(1, 21))
    assert task_numbers("5, 2,5") == [2, 5]
    assert task_numbers(7) == [7]
    for wrong in ("0", "21", "one", "1;2", ""):
        with pytest.raises(ConfigError, match=r"expected 'all' or numbers of 1 to 20, '1,2,5'\.$"):
            task_numbers(wrong)


def test_settings_that_cannot_be_are_named(data):
    with pytest.raises(ConfigError, match=r"^stories: `task\.facts` has 3; expected 1, 2, or 0 for both\.$"):
        StoriesSettings(facts=3)
    with pytest.raises(ConfigError, match=r"^stories: `sentences` has 1; expected 2 or more\.$"):
        StoriesSettings(sentences=1)
    with pytest.raises(ConfigError, match=r"^questions: `memory` has 0; expected 1 or more\.$"):
        BabiTask.create(BabiSettings(tasks="1", data=data, memory=0))


def test_the_embedded_stories_ask_for_one_or_two_facts():
    task = StoriesTask.create(StoriesSettings(facts=0, train=20, valid=4, test=6))
    assert [q.task for q in task.questions("test")] == [1, 2, 1, 2, 1, 2]
    assert task.sizes()["memory"] == 50
    assert task.batch("train", [0, 3]).stories.shape == (2, 10)


def test_the_loss_is_a_sum_over_questions():
    task = StoriesTask.create(StoriesSettings(train=20, valid=4, test=6))

    class Even(torch.nn.Module):
        def forward(self, batch):
            return torch.zeros(batch.size, len(task.words))

    loss = task.loss(Even(), task.batch("train", range(5)))
    assert loss.total.item() == pytest.approx(5 * torch.tensor(float(len(task.words))).log().item())
    assert loss.count.item() == 5
