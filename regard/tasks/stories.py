"""The embedded stories: people move and take things; where is the person, where is the thing?

    Omar ran to the attic. Anna went to the kitchen. Omar took the lamp. Omar went to the cellar.
    Where is Anna?      kitchen      one fact: her last move
    Where is the lamp?  cellar       two facts: who took it, and where that person went last

A number always gives the same story. A stable hash of its words assigns it to one split, so that training,
validation and test never share a story. The stories need no download.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from zlib import crc32

from regard.data.questions import Question, cut_sentence
from regard.errors import ConfigError, check_sizes
from regard.tasks.base import Split, own_card
from regard.tasks.questions import QuestionTask

PEOPLE = ("Anna", "Omar", "Lena", "Paul")
PLACES = ("kitchen", "garden", "cellar", "attic", "library")
THINGS = ("lamp", "book", "kettle")
GO = ("went", "walked", "ran")
TAKE = ("took", "grabbed")


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
    """Questions about stories; example numbers are seeds."""

    Settings = StoriesSettings

    @classmethod
    def read(cls, settings: StoriesSettings, split: Split) -> Sequence[Question]:
        return [
            make_question(split, number, facts=settings.facts or 1 + number % 2, sentences=settings.sentences)
            for number in range(getattr(settings, split))
        ]


def make_question(split: Split, number: int, *, facts: int, sentences: int) -> Question:
    """The question of this number: about a person (one fact) or a thing (two facts)."""
    seed = f"regard stories {split} {number} {facts} {sentences}"
    attempts = (_tell(Random(f"{seed} {attempt}"), facts, sentences) for attempt in count())
    return next(made for made in attempts if made is not None and split_of(made.story) == split)


def split_of(story: tuple[tuple[str, ...], ...]) -> Split:
    """The split a story belongs to."""
    share = crc32(" ".join(word for sentence in story for word in sentence).encode()) % 10
    return "train" if share < 8 else "valid" if share == 8 else "test"


def _tell(chance: Random, facts: int, sentences: int) -> Question | None:
    """One story, or None if it has nothing to ask about."""
    story: list[str] = []
    moved: dict[str, tuple[int, str]] = {}  # person -> (sentence, place) of the last move
    taken: dict[str, tuple[int, str]] = {}  # thing -> (sentence, person); a thing is taken once
    for position in range(sentences):
        person = chance.choice(PEOPLE)
        free = [thing for thing in THINGS if thing not in taken]
        if free and person in moved and chance.random() < 0.3:
            thing = chance.choice(free)
            taken[thing] = (position, person)
            story.append(f"{person} {chance.choice(TAKE)} the {thing}")
        else:
            here = moved[person][1] if person in moved else None
            place = chance.choice([place for place in PLACES if place != here])
            moved[person] = (position, place)
            story.append(f"{person} {chance.choice(GO)} to the {place}")
    told = tuple(map(cut_sentence, story))
    if facts == 1:
        person = chance.choice(sorted(moved))
        position, place = moved[person]
        return Question(told, cut_sentence(f"Where is {person}"), place, (position,), 1)
    if not taken:
        return None
    thing = chance.choice(sorted(taken))
    position, person = taken[thing]
    last, place = moved[person]
    return Question(told, cut_sentence(f"Where is the {thing}"), place, tuple(sorted((position, last))), 2)
