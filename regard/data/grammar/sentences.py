"""Whole sentences: clauses joined by conjunctions until the English side has the requested length."""

from regard.data.grammar.adjuncts import TIMES, time_first
from regard.data.grammar.choosing import Action, choose_action, pick
from regard.data.grammar.clauses import Clause, clause_length, lay_out
from regard.data.grammar.phrases import (
    HE,
    SHE,
    SUBJECT_PRONOUN,
    THEY,
    THEY_FEMININE,
    UNKNOWN_GENDER,
    Choice,
    phrase,
)
from regard.data.grammar.planning import PERSONS, Random
from regard.data.grammar.pools import subjects
from regard.data.grammar.scenes import scene
from regard.data.grammar.states import STATES, WEATHER, WITHOUT_GENDER, having_time, predicate
from regard.data.grammar.translation import CONJUNCTIONS, Segment, Sentence
from regard.data.grammar.verbs import GroupChoice, group

REPORTS = {"say": "说", "think": "认为", "know_that": "知道", "hope": "希望"}
COMINGS = (("come", "来"), ("leave", "走"), ("arrive", "到"))
_THIRD = frozenset({HE, SHE, THEY})


class _Writer:
    """Collects the segments of a sentence and counts the remaining words."""

    def __init__(self, random: Random, words: int) -> None:
        self.random = random
        self.left = words
        self.source: list[str] = []
        self.segments: list[Segment] = []

    def add(self, conjunction: str, clause: Clause) -> None:
        before = len(self.source)
        self.source += CONJUNCTIONS[conjunction].english
        self.segments.append((conjunction, before, lay_out(clause, self.source)))
        self.left -= len(self.source) - before


def _begins_with_that(clause: Clause) -> bool:
    """ "says that that man" is correct but hard to read."""
    return clause.subject is not None and clause.subject.english[0] == "that"


def _pronoun(agreement: int) -> Choice:
    return ("", (), SUBJECT_PRONOUN[agreement], False)


def circumstance(random: Random, keys: str, subject: Choice, form: int) -> Clause | None:
    """Why or when something happens: a state of the subject, or the weather.

    ``form`` is 0 for a present fact, 1 for a condition, 2 for the past.
    """
    key = pick(random, tuple(keys.split()))
    if key == "weather":
        key = pick(random, ("rain", "snow", "cold weather"))
    elif key == "cold":
        key = "cold weather" if random() < 0.6 else "cold.feeling"
    if key in ("rain", "snow", "cold weather", "hot"):
        return Clause(WEATHER[key.removesuffix(" weather")][form])
    who = phrase(subject)
    agreement = who.agreement
    if key == "time":
        return Clause(having_time(agreement), who) if form == 1 else None
    if key not in STATES or agreement == THEY_FEMININE:
        return None
    if agreement in UNKNOWN_GENDER and key not in WITHOUT_GENDER:
        return None
    if form == 2 and agreement not in _THIRD:
        return None
    very = key not in ("ill", "late") and random() < 0.3
    return Clause(predicate(key, agreement, False, very, False, form == 2, form == 1), who)


def _chain_length(random: Random, left: int) -> int:
    """The length of the next clause when ``left`` words remain; leaves room for another clause or nothing."""
    if left <= 9 or (left <= 13 and random() < 0.5):
        return left
    return min(4 + int(random() * 7), left - 6)


_JOINTS = {
    "past": ("and", "and", "then", "then", "but"),
    "progressive": ("and", "and", "while", "but", "but"),
    "present": ("and", "and", "but"),
    "future": ("and", "then", "but", "or"),
    "can": ("and", "or", "but"),
    "must": ("and", "and"),
    "want": ("and", "but"),
    "like": ("and", "but"),
}
_TENSES = (*("past", "progressive", "present") * 3, "future", "can", "must", "want", "like")


def _continue(writer: _Writer, last: Action, tense: str) -> tuple[Action, str] | None:
    """Add a conjunction and one more clause; returns the new clause and its tense."""
    random = writer.random
    coreferent = last.frame.subject in PERSONS and last.agreement != THEY_FEMININE
    if writer.left >= 12 and random() < 0.15:
        tense = pick(random, tuple(t for t in ("past", "progressive", "future") if t != tense))
        time = time_first(pick(random, TIMES[tense][:2]))
        count = _chain_length(random, writer.left - 2 - len(time.english))
        subject = _pronoun(last.agreement) if coreferent else None
        action = choose_action(random, count, tense, False, subject=subject, times=0)
        if action is None:
            return None
        action = action._replace(clause=action.clause._replace(first=time), timed=True)
        writer.add("and" if writer.segments[-1][0] == "but" else pick(random, ("and", "but")), action.clause)
        return action, tense
    joint = pick(random, _JOINTS[tense])
    before = writer.segments[-1][0]
    if before == joint in ("but", "or", "while") or (
        joint == "while" and before in ("because", "when", "if")
    ):
        joint = "and"
    negative = random() < 0.12
    if joint == "but":
        negative = not last.negative
    elif joint in ("then", "or", "while"):
        negative = False
        if last.negative:
            joint = "and"
    if tense == "must":
        negative = False
    same = coreferent and (joint in ("then", "or") or (joint != "while" and random() < 0.5))
    if tense == "progressive" and not negative and not last.negative:
        # Nobody does two things at once.
        same = False
    subject = _pronoun(last.agreement) if same else None
    avoid = last.taken
    if not same:
        # A pronoun would seem to mean the last clause's subject, and "them" its object.
        avoid += (
            (SUBJECT_PRONOUN[last.agreement],) if last.frame.subject in PERSONS else ("he", "she", "they")
        )
    if last.clause.object:
        avoid += ("them",)
    count = _chain_length(random, writer.left - len(CONJUNCTIONS[joint].english))
    action = choose_action(random, count, tense, negative, subject=subject, times=0, avoid=avoid)
    if action is None:
        return None
    writer.add(joint, action.clause)
    return action, tense


def _coming(random: Random, other: int) -> Clause | None:
    """ "Marie arrived", about somebody who cannot be confused with the agreement ``other``."""
    who = phrase(pick(random, subjects("named")[1]))
    if who.agreement == other or who.agreement in UNKNOWN_GENDER:
        return None
    verb, chinese = pick(random, COMINGS)
    return Clause(group(GroupChoice(verb, "past", False, who.agreement, chinese, style="state")), who)


def _explain(writer: _Writer, last: Action, tense: str) -> bool:
    """Add a reason or a condition that fits the last clause, if the remaining words allow it."""
    random = writer.random
    keys = last.frame.negative_reasons if last.negative else last.frame.reasons
    pronoun = _pronoun(last.agreement)
    if last.agreement == THEY_FEMININE or last.frame.subject not in PERSONS:
        return False
    if tense == "like" or (tense == "present" and last.negative):
        # Being tired today does not explain a habit.
        return False
    clause: Clause | None = None
    joint = "because"
    if tense == "past" and last.frame.sudden and not last.negative and not last.timed and random() < 0.4:
        joint = "when"
        clause = _coming(random, last.agreement)
    elif tense in ("present", "future") and not last.timed and not last.negative and random() < 0.6:
        joint = "when" if tense == "present" and random() < 0.6 else "if"
        clause = circumstance(random, keys, pronoun, 1) if keys else None
        if clause and clause.subject and last.clause.subject != clause.subject:
            # Chinese puts the condition first, so its pronoun would precede the name.
            clause = None
    elif last.frame.name in ("go", "take", "study language") and not last.negative and tense != "past":
        count = writer.left - 1 if writer.left <= 11 else 5 + int(random() * 4)
        found = choose_action(random, count, "want", False, subject=pronoun, times=0, only=last.frame.name)
        clause = found.clause if found else None
    elif keys:
        clause = circumstance(random, keys, pronoun, 2 if tense == "past" else 0)
    if clause is None:
        return False
    after = writer.left - 1 - clause_length(clause)
    if after != 0 and after < 6:
        return False
    writer.add(joint, clause)
    return True


def _report(writer: _Writer) -> tuple[str, str]:
    """Begin with "Marie says that"; returns the speaker, and the required tense, if any."""
    random = writer.random
    verb = pick(random, ("say", "say", "think", "think", "know_that", "know_that", "hope"))
    pool = subjects("named")
    who = phrase(pick(random, pool[pick(random, (1, 1, 2))]))
    writer.add("", Clause(group(GroupChoice(verb, "present", False, who.agreement, REPORTS[verb])), who))
    return who.english[-1], "future" if verb == "hope" else ""


def _begin_with_condition(writer: _Writer, tense: str) -> Action | None:
    """Begin with a clause after "when", "if" or "although", followed by the main clause."""
    random = writer.random
    word = pick(random, _OPENERS[tense])
    choice = pick(random, subjects("named")[pick(random, (1, 1, 2))])
    who = phrase(choice)
    before: Clause | None
    if word == "When" and tense == "past":
        if len(who.english) > 1:
            return None
        before, count = _coming(random, who.agreement), 2
        length = _chain_length(random, writer.left - 2 - count)
        main = choose_action(random, length, tense, False, subject=choice, times=0, only="sudden")
    else:
        count = 2 + len(who.english)
        length = _chain_length(random, writer.left - 2 - count)
        subject, avoid = _pronoun(who.agreement), (choice[0], choice[2])
        main = choose_action(random, length, tense, False, subject=subject, times=0, avoid=avoid)
        if main is None:
            return None
        keys = main.frame.negative_reasons if word == "Although" else main.frame.reasons
        form = 1 if word != "Although" else 2 if tense == "past" else 0
        before = circumstance(random, keys, choice, form) if keys else None
        if before and before.subject is None:
            # The weather has no subject, so the main clause must name the person.
            main = main._replace(clause=main.clause._replace(subject=who))
    if main is None or before is None or clause_length(before) != count:
        return None
    writer.add(word, before)
    writer.add("main", main.clause)
    return main


_OPENERS = {
    "future": ("If",),
    "present": ("When", "If"),
    "past": ("When", "Although"),
    "progressive": ("Although",),
}


def _question(random: Random, words: int) -> Clause | None:
    if random() < 0.3:
        return scene(random, words, question=True)
    tense = pick(
        random, ("present", "present", "progressive", "past", "past", "future", "can", "want", "like")
    )
    # "Does she read" has one word more than "she reads", whose words the plans count.
    extra = tense in ("present", "past", "want", "like")
    action = choose_action(random, words - extra, tense, False, times=1, question=True)
    return action.clause if action else None


def _statement(random: Random, words: int, tense: str = "", speaker: str = "") -> Clause | None:
    """A single clause; reported speech does not begin with a time phrase."""
    if random() < 0.28 and tense != "future":
        found = scene(random, words)
        if found and not (speaker and (found.first or (found.subject and speaker in found.subject.english))):
            return found
    tense = tense or pick(random, _TENSES)
    negative = tense != "must" and random() < 0.18
    action = choose_action(random, words, tense, negative, times=1 if speaker else 2, avoid=(speaker,))
    return action.clause if action else None


def _compound(writer: _Writer) -> bool:
    """Join clauses until no words are left; False if no clause fits at the end."""
    random = writer.random
    tense = pick(random, _TENSES)
    start = random()
    speaker = ""
    if start < 0.25 and writer.left >= 8:
        speaker, required = _report(writer)
        tense = required or tense
        if writer.left <= 9 or (writer.left <= 12 and random() < 0.5):
            clause = _statement(random, writer.left - 1, tense, speaker)
            if clause is None or _begins_with_that(clause):
                return False
            writer.add("that", clause)
            return True
        joint = "that"
    else:
        joint = ""
    explained = False
    if not joint and start < 0.45 and tense in _OPENERS:
        action = _begin_with_condition(writer, tense)
        explained = True
    else:
        room = writer.left - len(CONJUNCTIONS[joint].english)
        count = min(4 + int(random() * 7), room - 5)
        negative = tense != "must" and random() < 0.15
        action = choose_action(random, count, tense, negative, times=1 if joint else 2, avoid=(speaker,))
        if action and not (joint and _begins_with_that(action.clause)):
            writer.add(joint, action.clause)
        else:
            action = None
    if action is None:
        return False
    while writer.left:
        if not explained and random() < 0.45 and _explain(writer, action, tense):
            explained = True
            continue
        explained = False
        if writer.left < 5:
            return False
        found = None
        for _ in range(4):
            found = found or _continue(writer, action, tense)
        if found is None:
            return False
        action, tense = found
    return True


_SINGLE_CHANCE = (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.35, 0.3, 0.25, 0.2)


def choose_sentence(random: Random, low: int, high: int) -> Sentence:
    """A sentence of ``low`` to ``high`` English tokens; all lengths are about equally likely."""
    words = low + int(random() * (high - low + 1))
    while True:
        ending = "." if random() < 0.8 else ""
        if 4 <= words <= 14 and random() < 0.12:
            ending = "?"
        count = words - len(ending)
        writer = _Writer(random, count)
        if ending == "?":
            clause = _question(random, count)
        elif count < len(_SINGLE_CHANCE) and random() < _SINGLE_CHANCE[count]:
            clause = _statement(random, count)
        elif _compound(writer):
            clause = None
        else:
            continue
        if not writer.segments:
            if clause is None:
                continue
            writer.add("", clause)
        if ending:
            writer.source.append(ending)
        return Sentence(writer.source, writer.segments, ending)
