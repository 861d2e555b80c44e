"""Memory networks: a story and a question in, an answer out, with the sentences that each hop attended to."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from regard.data.questions import cut_sentence
from regard.errors import DataError
from regard.evaluate.answering import Answer, ask_all
from regard.systems.drawable import Drawable
from regard.systems.system import System, chunks, same_length
from regard.tasks.questions import QuestionTask
from regard.views.hops import draw


@dataclass(frozen=True, eq=False, repr=False)
class Answered(Drawable):
    """An answer, how sure the model was, and where it looked."""

    found: Answer
    title = "Memory network"

    @property
    def text(self) -> str:
        return self.found.text

    @property
    def probability(self) -> float:
        return self.found.probability

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences that the model remembered, the oldest first."""
        return self.found.sentences

    @property
    def weights(self) -> Tensor:
        """(K, S) of each hop over the sentences."""
        return self.found.weights

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Answered {self.found.question!r}: {self.text!r} ({self.probability:.0%})>"

    def draw(self, path: Path) -> None:
        draw(self.found, (), path)

    draw_page = draw


class MemorySystem(System):
    """A memory network that answers questions about a story.

        story = "Anna took the lamp. Anna went to the attic."
        answer = load("stories", device="cpu").ask(story, "Where is the lamp?")
        answer.text, answer.probability, answer.weights         # (hops, sentences)

    The weights show which sentences each hop attended to.
    """

    def ask(self, story: str | Sequence[str], question: str | Sequence[str]) -> Answered | list[Answered]:
        """Answer a question about a story: a text, or a list of sentences.

        With a list of questions, `story` is the text that all are about, or a list with a text for each.
        """
        task = self.trained.task
        assert isinstance(task, QuestionTask)
        if isinstance(question, str):
            told = story if isinstance(story, str) else "\n".join(story)
            pairs = [(told, question)]
        else:
            stories = [story] * len(question) if isinstance(story, str) else list(story)
            same_length("ask", question=question, story=stories)
            pairs = list(zip(stories, question, strict=True))
        if not all(isinstance(text, str) for pair in pairs for text in pair):
            raise DataError("ask: `story` or `question` is not text; expected text.")
        with self.computing():
            found = [each for part in chunks(pairs) for each in ask_all(self.trained.model, task, part)]
        results = [Answered(each) for each in found]
        return results[0] if isinstance(question, str) else results

    def unknown(self, *texts: str) -> list[str]:
        """The words of these texts that the model has never read; it passes over them."""
        task = self.trained.task
        assert isinstance(task, QuestionTask)
        words = (word for text in texts for word in cut_sentence(text))
        return list(dict.fromkeys(word for word in words if word not in task.words.words))
