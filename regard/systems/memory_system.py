"""Memory networks: a story and a question in, an answer out, with the sentences that each hop attended to."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.questions import cut_sentence
from regard.evaluate.answering import Answer, ask_all
from regard.systems.drawable import Drawable
from regard.systems.system import System, chunks, same_length, texts_of
from regard.tasks.questions import QuestionTask
from regard.views.hops import draw


@dataclass(frozen=True, eq=False, repr=False)
class Answered(Answer, Drawable):
    """An answer with its probability and attention: `weights` (K, S) has a row for each hop."""

    title = "Memory network"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Answered {self.question!r}: {self.text!r} ({self.probability:.0%})>"

    def draw(self, path: Path) -> None:
        draw(self, (), path)

    draw_page = draw


class MemorySystem(System):
    """A memory network that answers questions about a story.

        story = "Anna took the lamp. Anna went to the attic."
        answer = load("stories", device="cpu").ask(story, "Where is the lamp?")
        answer.text, answer.probability, answer.weights         # (hops, sentences)

    The weights show which sentences each hop attended to.
    """

    task: QuestionTask

    def ask(self, story: str | Sequence[str], question: str | Sequence[str]) -> Answered | list[Answered]:
        """Answer a question about a story: a text, or a list of sentences.

        With a list of questions, `story` is one text for all of them, or a list with one for each.
        """
        questions, stories = texts_of("ask", "question", question), texts_of("ask", "story", story)
        if isinstance(question, str):
            stories = ["\n".join(stories)]
        elif isinstance(story, str):
            stories *= len(questions)
        same_length("ask", question=questions, story=stories)
        pairs = list(zip(stories, questions, strict=True))
        with self.computing():
            found = [each for part in chunks(pairs) for each in ask_all(self.trained.model, self.task, part)]
        results = [Answered(**vars(each)) for each in found]
        return results[0] if isinstance(question, str) else results

    def unknown(self, *texts: str) -> list[str]:
        """The words of these texts that are not in the vocabulary; the model ignores them."""
        words = (word for text in texts for word in cut_sentence(text))
        return list(dict.fromkeys(word for word in words if word not in self.task.words.words))
