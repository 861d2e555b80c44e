"""The error of each task, their mean, and the paper's beside."""

import pytest
import torch
from seeds import offset_seed

from regard.errors import DataError
from regard.evaluate.answering import answers, as_text, ask
from regard.evaluate.questions import PAPER, QuestionsEvaluation, evaluate_questions
from regard.models.memn2n import MemN2N, MemN2NConfig
from regard.tasks.babi import BabiSettings, BabiTask
from regard.tasks.stories import StoriesSettings, StoriesTask


@pytest.fixture(scope="module")
def task():
    return StoriesTask.create(StoriesSettings(facts=0, train=40, valid=4, test=20, memory=8))


class Constant(torch.nn.Module):
    """Always the same answer; null is likelier still, and is none."""

    def __init__(self, size, number):
        super().__init__()
        self.scores = torch.nn.Parameter(torch.zeros(size))
        self.scores.data[number] = 5.0
        self.scores.data[0] = 9.0

    def forward(self, batch):
        return self.scores.expand(batch.size, -1)


def test_errors_are_counted_by_task(task):
    model = Constant(len(task.words), task.words.number("garden"))
    told = []
    found = evaluate_questions(model, task, "test", progress=told.append)
    for number in (1, 2):
        answers = [q.answer for q in task.questions("test") if q.task == number]
        assert found.count[number] == len(answers) == 10
        assert found.error(number) == pytest.approx(100 * sum(a != "garden" for a in answers) / 10)
    assert sum(told) == 20
    assert found.headline() == ("mean error", pytest.approx((found.error(1) + found.error(2)) / 2))
    assert found.paper == {}
    [table] = found.tables()
    assert table.rows[0] == ("1 one supporting fact", f"{found.error(1):.1f}", "")


def test_a_task_fails_above_five_per_cent_and_the_paper_stands_beside():
    found = QuestionsEvaluation("test", {1: 50, 2: 51, 19: 900}, {1: 1000, 2: 1000, 19: 1000}, PAPER["en"])
    assert found.failed == [2, 19]
    measures = dict(found.measures())
    assert measures["failed tasks (> 5 %)"] == "2 of 3"
    assert measures["mean error in the paper"] == f"{(0.0 + 11.4 + 88.0) / 3:.1f} %"
    assert found.summary()["errors"] == {"1": 5.0, "2": 5.1, "19": 90.0}
    assert found.tables()[0].rows[1] == ("2 two supporting facts", "5.1", "11.4")


def test_a_model_in_training_is_measured_without_dropout_and_goes_on_training(task):
    model, modes = MemN2N(MemN2NConfig(**task.sizes(), embedding=8)).train(), []
    model.register_forward_pre_hook(lambda module, _: modes.append(module.training))
    evaluate_questions(model, task, "test")
    assert modes
    assert not any(modes)
    assert model.training


def test_the_papers_means_are_the_papers():
    for babi_set, mean in (("en", 12.4), ("en-10k", 4.2)):
        assert sum(PAPER[babi_set].values()) / 20 == pytest.approx(mean, abs=0.05)


def test_the_papers_column_is_that_of_the_set(tmp_path):
    for babi_set in PAPER:
        for split in ("train", "test"):
            file = tmp_path / "babi" / babi_set / f"qa2_two-supporting-facts_{split}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("1 Mary left.\n2 Who left?\tmary\t1\n" * 12)
        task = BabiTask.create(BabiSettings(tasks="2", set=babi_set, data=str(tmp_path)))
        found = evaluate_questions(Constant(len(task.words), task.words.number("mary")), task, "test")
        assert found.summary()["paper"] == {"2": PAPER[babi_set][2]}
    rows = [{"story": "Mary left.", "question": "Who left?", "answer": "Mary"}]
    own = BabiTask.from_dataset(rows, BabiSettings(set="dataset"))
    assert evaluate_questions(Constant(len(own.words), 1), own, "test").paper == {}


def test_an_answer_shows_what_was_read(task):
    model = MemN2N(MemN2NConfig(**task.sizes(), embedding=8, hops=2)).eval()
    story = "Anna went to the attic. " * 9 + "Omar took the wand.\nPaul ran to the cellar!"
    found = ask(model, task, story, " Where is Anna? ")
    assert found.sentences[-1] == "Paul ran to the cellar!"
    assert len(found.sentences) == 8
    assert found.forgotten == 3
    assert found.unknown == ("wand",)
    assert found.weights.shape == (2, 8)
    torch.testing.assert_close(found.weights.sum(1), torch.ones(2))
    assert found.question == "Where is Anna?"
    assert found.text in task.words
    assert len(found.others) == 3
    assert found.probability >= found.others[0][1]


def test_a_question_of_the_task_is_answered_as_in_a_batch(task):
    torch.manual_seed(offset_seed(0))
    model = MemN2N(MemN2NConfig(**task.sizes(), embedding=8)).eval()
    with torch.no_grad():
        scores = model(task.batch("test", range(20)))
    for row in (0, 7):
        [found] = answers(model, task, [task.questions("test")[row]])
        assert task.words.number(found.text) == int(scores[row, 1:].argmax()) + 1
        assert found.probability == pytest.approx(float(scores[row, 1:].softmax(-1).max()), rel=1e-4)


def test_a_story_or_a_question_without_words_is_refused(task):
    model = MemN2N(MemN2NConfig(**task.sizes(), embedding=8))
    with pytest.raises(
        DataError, match=r"^ask: the story has no sentences; expected one per line, or several that end"
    ):
        ask(model, task, " \n . \n", "Where is Anna?")
    with pytest.raises(
        DataError, match=r"^ask: the question has no words; expected e\.g\. 'Where is the lamp\?'\.$"
    ):
        ask(model, task, "Anna went to the attic.", "?!")


def test_sentences_are_written_for_a_reader():
    assert as_text(("anna", "left")) == "Anna left."
    assert as_text(("where", "is", "anna"), end="?") == "Where is anna?"
