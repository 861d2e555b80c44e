"""Random clauses that describe: qualities, states, places and the weather."""

from functools import cache

from regard.data.grammar.adjuncts import CITIES, TIMES, place, places_by_length, time_first, without_zai
from regard.data.grammar.choosing import person_with_relative, pick, thing_with_relative
from regard.data.grammar.clauses import Clause, Relative, clause_length
from regard.data.grammar.lexicon import KIN, NAMES, NOUNS, PEOPLE, SINGULAR_ONLY, TOPICS
from regard.data.grammar.phrases import UNKNOWN_GENDER, WE, Choice, I, phrase
from regard.data.grammar.pieces import by_length
from regard.data.grammar.planning import Random
from regard.data.grammar.pools import NAME, ByLength, english_length, subjects
from regard.data.grammar.states import FORECASTS, STATES, WITHOUT_GENDER, existing, located, predicate

_NAMES = tuple(NAMES)
QUALITIES_OF_PEOPLE = ("tall", "kind", "young")
# Things that can be described, and things that can be somewhere.
DESCRIBED = tuple(
    noun for noun, entry in NOUNS.items() if entry.predicates and noun not in PEOPLE.union(KIN, TOPICS)
)
_DESCRIBED_TOPICS = tuple(noun for noun in TOPICS if NOUNS[noun].predicates)
_SHARED = frozenset(
    {
        *("kitchen", "garden", "park", "school", "station", "library", "restaurant", "hospital", "museum"),
        *("hotel", "bridge", "film", "bus", "taxi"),
    }
)
PLACED = {
    "furniture": (
        *("apple", "orange", "cake", "book", "newspaper", "letter", "hat", "key", "umbrella", "bag", "phone"),
        *("computer", "flower", "photo", "glasses", "watch", "novel"),
    ),
    "animal": ("dog", "cat"),
    "building": ("car", "bike", "bus", "taxi"),
    "seeing": ("man", "woman", "child", "girl", "boy", "student"),
    "sky": ("bird", "horse", "flower"),
}


def _named(random: Random, choice: Choice) -> Choice:
    return (pick(random, _NAMES), *choice[1:]) if choice[0] == NAME else choice


def state(random: Random, length: int, question: bool) -> Clause | None:
    """ "Marie is tired", "the old man is not very happy", "my mother is kind"."""
    negative = not question and random() < 0.25
    very = not negative and not question and random() < 0.35
    extra = 2 + (negative or very)
    rest = length - extra
    relative: Relative | None = None
    pool = subjects("person").get(rest)
    if rest >= 5 and (pool is None or random() < 0.7):
        head = person_with_relative(
            random, rest, False, "", ("progressive", "progressive", "present", "past")
        )
        if head is None:
            return None
        choice, relative = head
    elif pool is None:
        return None
    else:
        choice = _named(random, pick(random, pool))
    who = phrase(choice)
    if question and who.agreement in (I, WE):
        return None
    keys: tuple[str, ...] = STATES
    if who.agreement in UNKNOWN_GENDER:
        keys = WITHOUT_GENDER
    elif who.agreement != WE and random() < 0.35:
        noun = NOUNS.get(choice[2])
        # Calling a tall person tall would be redundant.
        keys = tuple(k for k in (noun.predicates if noun else QUALITIES_OF_PEOPLE) if k not in choice[1])
        if not keys or "old.being" in choice[1]:
            return None
    key = pick(random, keys)
    if very and key in ("ill", "late"):
        return None
    return Clause(predicate(key, who.agreement, negative, very, question), who, relative)


@cache
def described(noun: str) -> ByLength:
    """The phrases for a thing that is described, by length."""
    entry = NOUNS[noun]
    owners = () if noun in _SHARED else ("my", "your", "his", "her", NAME)
    found: list[Choice] = []
    if noun in TOPICS:
        found = [("the", adjectives, noun, False) for adjectives in entry.adjectives if len(adjectives) > 1]
        found = [choice for choice in found if choice[1][0] != "new"]
    elif entry.mass:
        found = [(word, (), noun, False) for word in ("the", "the", "this")]
    else:
        if entry.singular:
            found = [(word, (), noun, False) for word in ("the", "the", "the", "this", "that", *owners)]
        if entry.plural:
            found += [(word, (), noun, True) for word in ("the", "these", *owners[:2])]
    return by_length((english_length(choice), choice) for choice in found)


def quality(random: Random, length: int, question: bool) -> Clause | None:
    """ "the car is red", "the book that Marie bought is not expensive", topics included."""
    noun = pick(random, _DESCRIBED_TOPICS if random() < 0.3 else DESCRIBED)
    key = pick(random, NOUNS[noun].predicates)
    negative = not question and random() < 0.2
    very = not negative and not question and random() < 0.4
    words = len(key.partition(".")[0].split("_"))
    rest = length - 1 - words - (negative or very)
    if very and key in ("red", "blue", "white", "black", "green", "light_blue"):
        return None
    choices = described(noun).get(rest)
    relative: Relative | None = None
    if choices:
        choice = _named(random, pick(random, choices))
    elif noun not in TOPICS and rest >= 5:
        choice = ("the", (), noun, not NOUNS[noun].singular)
        relative = thing_with_relative(random, choice, rest - 2, "")
        if relative is None:
            return None
    else:
        return None
    if choice[3] and key in SINGULAR_ONLY and NOUNS[noun].singular:
        return None
    who = phrase(choice)
    return Clause(predicate(key, who.agreement, negative, very, question), who, relative)


@cache
def new_things(noun: str) -> ByLength:
    """The phrases for a thing mentioned for the first time, by length."""
    entry = NOUNS[noun]
    found: list[Choice] = []
    for adjectives in ((), *entry.adjectives) if entry.singular else ():
        found += [("a", adjectives, noun, False)] * 3
        if entry.plural and SINGULAR_ONLY.isdisjoint(adjectives):
            found += [(word, adjectives, noun, True) for word in ("two", "three", "some", "many")]
    return by_length((english_length(choice), choice) for choice in found)


def existence(random: Random, length: int) -> Clause | None:
    """ "there are two dogs in the garden"; Chinese begins with the place."""
    group = pick(random, ("furniture", "furniture", "animal", "building", "seeing", "sky"))
    noun = pick(random, PLACED[group])
    found = new_things(noun)
    if not found:
        return None
    count = pick(random, tuple(found))
    places = places_by_length(group).get(length - 2 - count)
    if places is None:
        return None
    choice = pick(random, found[count])
    where = without_zai(pick(random, places))
    return Clause(existing(choice[3]), object=phrase(choice), adjunct=where, position="front")


def location(random: Random, length: int, question: bool) -> Clause | None:
    """ "Marie is at the station", "my keys are not on the table"."""
    negative = not question and random() < 0.2
    if random() < 0.5:
        group = "person"
        pool = subjects("person")
        count = pick(random, (1, 1, 2, 3))
        choice = _named(random, pick(random, pool[count]))
    else:
        group = pick(random, ("furniture", "furniture", "animal", "building"))
        noun = pick(random, PLACED[group])
        known = described(noun)
        if not known:
            return None
        choice = _named(random, pick(random, known[pick(random, tuple(known))]))
    who = phrase(choice)
    if question and who.agreement in (I, WE):
        return None
    places = places_by_length(group).get(length - len(who.english) - 1 - negative)
    if places is None:
        return None
    located_there = located(who.agreement, negative, question)
    return Clause(located_there, who, adjunct=pick(random, places), position="after verb")


@cache
def forecasts() -> dict[int, tuple[Clause, ...]]:
    """All weather sentences, by length."""
    found: list[tuple[int, Clause]] = []
    for tense, groups in FORECASTS.items():
        for verb in groups:
            for city in ("", *CITIES):
                where = without_zai(place(city)) if city else None
                clauses = [Clause(verb, adjunct=where, position="front")]
                if tense in ("past", "future"):
                    days = [time for time in TIMES[tense] if time.english[-1] not in ("week", "year")]
                    clauses = [clauses[0]._replace(last=day) for day in days] + [
                        clauses[0]._replace(first=time_first(day)) for day in days
                    ]
                found += [(clause_length(clause), clause) for clause in clauses]
    return by_length(found)


def weather(random: Random, length: int) -> Clause | None:
    """ "it is raining in Paris", "tomorrow, it will snow"."""
    clauses = forecasts().get(length)
    return pick(random, clauses) if clauses else None


def scene(random: Random, length: int, question: bool = False) -> Clause | None:
    """A random descriptive clause."""
    chance = random()
    if chance < 0.25:
        return state(random, length, question)
    if chance < 0.58:
        return quality(random, length, question)
    if chance < 0.8:
        return location(random, length, question)
    if question:
        return None
    return existence(random, length) if chance < 0.93 else weather(random, length)
