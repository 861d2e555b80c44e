"""The embedded stories: where is the person, where is the thing? They need no download."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.questions import Question
from regard.data.stories import make_question
from regard.errors import ConfigError, check_sizes
from regard.tasks.base import Split, own_card
from regard.tasks.questions import QuestionTask


@dataclass(frozen=True, kw_only=True)
class StoriesSettings:
    """How many facts an answer needs, how long the stories are, how many there are."""

    facts: int = 2  # 1: where is a person; 2: where is a thing; 0: both kinds in turn
    sentences: int = 8
    train: int = 10_000
    valid: int = 500
    test: int = 1_000
    memory: int = 50

    def __post_init__(self) -> None:
        if self.facts not in (0, 1, 2):
            raise ConfigError(f"stories: `task.facts` has {self.facts}; expected 1, 2, or 0 for both.")
        check_sizes("stories", self, "sentences", least=2)


@own_card(
    "stories",
    title="Embedded stories",
    sentence="Where is the person, where is the thing: generated stories, without a download.",
)
class StoriesTask(QuestionTask):
    """Questions about stories from `regard.data.stories`; example numbers are seeds."""

    Settings = StoriesSettings

    @classmethod
    def read(cls, settings: StoriesSettings, split: Split) -> Sequence[Question]:
        return [
            make_question(split, number, facts=settings.facts or 1 + number % 2, sentences=settings.sentences)
            for number in range(getattr(settings, split))
        ]
