"""A question about a story, and what each hop of the model attended to."""

from pathlib import Path

from regard.data.questions import split_story
from regard.errors import DataError
from regard.evaluate.answering import Answer, answers, ask
from regard.tasks.questions import QuestionTask
from regard.train.run import Run
from regard.views.shared import draw_figure


def view(run: Run, text: str | None, out: Path, *, beam: int | None) -> str:
    """Answer the text's last sentence, which asks about those before it, or a question of the test set."""
    task, model = run.task, run.model
    assert isinstance(task, QuestionTask)
    supports: tuple[int, ...] = ()
    if text is None:
        question = task.questions("test")[0]
        [found] = answers(model, task, [question])
        supports = tuple(s - found.forgotten for s in question.supports if s >= found.forgotten)
    else:
        found = ask(model, task, *split_text(text))
    draw(found, supports, out)
    return f"{found.question} {found.text}"


def split_text(text: str) -> tuple[str, str]:
    """The story and the question after it."""
    *told, question = split_story(text) or ("",)
    if not told:
        raise DataError("show: the text has one sentence or none; expected a story, then a question.")
    return "\n".join(told), question


def draw(found: Answer, supports: tuple[int, ...], out: Path) -> None:
    """Draw the weights as a picture, or as a page if the file ends in .html."""
    from regard.viz.hops import draw_hops

    draw_figure(
        out,
        lambda path: draw_hops(
            found.weights,
            found.sentences,
            question=found.question,
            answer=found.text,
            supports=supports,
            path=path,
        ),
        title=found.question,
        summary=found.text,
        heading="What each hop attended to",
        alt="The story's sentences and how much each hop attended to each of them.",
    )
