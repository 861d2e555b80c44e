"""Stories generated from a number: people move and take things; the question is where something is.

    Omar ran to the attic. Anna went to the kitchen. Omar took the lamp. Omar went to the cellar.
    Where is Anna?      kitchen      one fact: her last move
    Where is the lamp?  cellar       two facts: who took it, and where that person went last

A number always gives the same story. A stable hash of its words assigns it to one split, so that training,
validation and test never share a story.
"""

from itertools import count
from random import Random
from typing import Literal
from zlib import crc32

from regard.data.questions import Question, cut_sentence

PEOPLE = ("Anna", "Omar", "Lena", "Paul")
PLACES = ("kitchen", "garden", "cellar", "attic", "library")
THINGS = ("lamp", "book", "kettle")
GO = ("went", "walked", "ran")
TAKE = ("took", "grabbed")

Split = Literal["train", "valid", "test"]


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
