"""Verbs: forms, and verb groups for every tense, polarity and subject in three languages."""

from functools import cache
from typing import NamedTuple

from regard.data.grammar.phrases import HE, OBJECT_PRONOUNS, SHE, THEY, THEY_FEMININE, I
from regard.data.grammar.pieces import Linked, LinkedWord, Words, table


class Verb(NamedTuple):
    """Forms of a verb. The French present has five forms: je, il, nous, vous, ils."""

    base: str
    third: str
    progressive: str
    past: str
    french: tuple[str, str, str, str, str]
    infinitive: str
    participle: str
    with_être: bool
    known: bool  # can identify a person in a relative clause


def _read_verbs() -> dict[str, Verb]:
    read: dict[str, Verb] = {}
    for key, english, french, known in table("verbs"):
        base, third, progressive, past = english.split()
        words = french.split()
        present = (words[0], words[1], words[2], words[3], words[4])
        être = words[7:] == ["être"]
        read[key] = Verb(base, third, progressive, past, present, words[5], words[6], être, bool(known))
    return read


VERBS = _read_verbs()

# The seven agreements (I, you, we, he, she, they, they feminine) -> index of the French form.
_PERSON = (0, 3, 2, 1, 1, 4, 4)
# The ending of an agreeing participle; the gender of I and you is unknown, so nothing agrees with them.
_AGREEMENT = {HE: "", SHE: "e", THEY: "s", THEY_FEMININE: "es", 2: "s"}
SINGULAR_THIRD = frozenset({HE, SHE})

# Verbs that take an infinitive.
_WITH_INFINITIVE = {
    "future": ("go", "会"),
    "can": ("can", "能"),
    "must": ("must", "必须"),
    "want": ("want", "想"),
    "like": ("like", "喜欢"),
}
ADVERBS = {
    "often": ("souvent", "常常"),
    "always": ("toujours", "总是"),
    "sometimes": ("parfois", "有时"),
    "never": ("jamais", "从不"),
}


def french_present(verb: str, agreement: int) -> str:
    """The French present form of a verb for one of the seven agreements."""
    return VERBS[verb].french[_PERSON[agreement]]


def french_participle(verb: str, agreement: int) -> str:
    """The French past participle of a verb agreeing with one of the seven agreements."""
    participle = VERBS[verb].participle
    ending = _AGREEMENT[agreement]
    return participle + (ending.lstrip("s") if participle.endswith("s") else ending)


def be(agreement: int) -> str:
    """The English present of "be"."""
    return "am" if agreement == I else "is" if agreement in SINGULAR_THIRD else "are"


def _auxiliary(tense: str, agreement: int) -> str:
    third = agreement in SINGULAR_THIRD
    if tense == "progressive":
        return be(agreement)
    if tense == "past":
        return "did"
    if tense in ("future", "can", "must"):
        return "will" if tense == "future" else tense
    return "does" if third else "do"


class Group(NamedTuple):
    """A verb group: auxiliaries, verb, negation, adverb, and an object pronoun.

    In a question the English auxiliary precedes the subject: it is then stored in ``auxiliary``, and links to
    it use the source position FRONTED.
    """

    auxiliary: str
    english: Words
    french: Linked
    before: Linked
    chinese: Linked

    def fronted(self, place: int) -> "Group":
        """The same group with its auxiliary at ``place``."""

        def resolved(words: Linked) -> Linked:
            return tuple(
                (word, tuple(place if at == FRONTED else at for at in sources)) for word, sources in words
            )

        return Group(
            self.auxiliary, self.english, resolved(self.french), resolved(self.before), resolved(self.chinese)
        )


FRONTED = -100


class GroupChoice(NamedTuple):
    """Everything that decides the form of a verb group."""

    verb: str
    tense: str
    negative: bool
    agreement: int
    chinese: str
    particle: str = ""
    tail: str = ""
    adverb: str = ""
    pronoun: str = ""
    question: bool = False
    style: str = ""
    preceding: int = -1


def _english(choice: GroupChoice) -> tuple[str, list[str], dict[str, int]]:
    """The fronted auxiliary, the English words, and where each kind of word stands."""
    verb = VERBS[choice.verb]
    tense = choice.tense
    third = choice.agreement in SINGULAR_THIRD
    words: list[str] = []
    at: dict[str, int] = {}

    def add(kind: str, word: str) -> None:
        at[kind] = len(words)
        words.append(word)

    fronted = ""
    negated = choice.negative and choice.adverb != "never"
    simple = tense in ("present", "past", "want", "like")
    if choice.question:
        fronted = _auxiliary(tense, choice.agreement)
        at["auxiliary"] = FRONTED
    elif not simple or negated:
        auxiliary = _auxiliary(tense, choice.agreement)
        if tense == "can" and negated:
            add("auxiliary", "cannot")
            at["not"] = at["auxiliary"]
        else:
            add("auxiliary", auxiliary)
    if negated and "not" not in at:
        add("not", "not")
    if choice.adverb:
        add("adverb", choice.adverb)
    inflected = not at.keys() & {"auxiliary"}
    if tense in ("want", "like"):
        modal = VERBS[tense]
        add("modal", (modal.third if third else modal.base) if inflected else modal.base)
        add("to", "to")
    if tense == "progressive":
        add("verb", verb.progressive)
    elif tense == "past" and inflected:
        add("verb", verb.past)
    elif tense == "present" and inflected:
        add("verb", verb.third if third else verb.base)
    else:
        add("verb", verb.base)
    if choice.particle:
        add("particle", choice.particle)
    if choice.pronoun:
        add("pronoun", choice.pronoun)
    return fronted, words, at


def _french(choice: GroupChoice, at: dict[str, int]) -> Linked:
    verb = VERBS[choice.verb]
    tense = choice.tense
    result: list[LinkedWord] = []
    # A particle that governs the object is translated by the French preposition there; otherwise by the verb.
    main = (at["verb"], at["particle"]) if "particle" in at and choice.tail != "de" else (at["verb"],)
    helper = (at["auxiliary"],) if "auxiliary" in at and at["auxiliary"] != at.get("not") else ()
    if choice.question and tense in ("present", "past", "want", "like"):
        # "do" is translated by "est-ce que".
        helper = ()
    negative = (at["adverb"],) if choice.adverb == "never" else (at.get("not", 0),)
    tail = [(word, main) for word in choice.tail.split()] if choice.tail not in ("", "de") else []
    second = "jamais" if choice.adverb == "never" else "pas"
    pronoun: list[LinkedWord] = []
    if choice.pronoun:
        pronoun = [(OBJECT_PRONOUNS[choice.pronoun][1], (at["pronoun"],))]

    def finite(before: list[LinkedWord], word: str, sources: tuple[int, ...]) -> None:
        result.extend([*before, (word, sources)])
        if choice.negative:
            result.insert(0, ("ne", negative))
            result.append((second, negative))
        if choice.adverb and choice.adverb != "never":
            result.append((ADVERBS[choice.adverb][0], (at["adverb"],)))

    if tense in ("present", "progressive"):
        finite(pronoun, french_present(choice.verb, choice.agreement), helper + main)
        result += tail
    elif tense == "past":
        preceding = OBJECT_PRONOUNS[choice.pronoun][0] if choice.pronoun else choice.preceding
        auxiliary = french_present("be" if verb.with_être else "have", choice.agreement)
        if verb.with_être:
            participle = french_participle(choice.verb, choice.agreement)
        elif preceding in _AGREEMENT:
            participle = french_participle(choice.verb, preceding)
        else:
            participle = verb.participle
        finite(pronoun, auxiliary, helper + main)
        result += [(participle, main), *tail]
    else:
        modal, _ = _WITH_INFINITIVE[tense]
        sources = (at["auxiliary"],) if tense in ("future", "can", "must") else (*helper, at["modal"])
        finite([], french_present(modal, choice.agreement), sources)
        result += [*pronoun, (verb.infinitive, (at["to"], *main) if "to" in at else main), *tail]
    return tuple(result)


def _chinese(choice: GroupChoice, at: dict[str, int]) -> tuple[Linked, Linked]:
    """What stands before phrases of place and company, then the verb itself."""
    tense = choice.tense
    style = choice.style
    main: tuple[int, ...] = (at["verb"], at["particle"]) if "particle" in at else (at["verb"],)
    helper: tuple[int, ...] = (at["auxiliary"],) if "auxiliary" in at else ()
    negation = tuple(sorted({*helper, at["not"]})) if "not" in at else ()
    before: list[LinkedWord] = []
    after: list[LinkedWord] = []
    if choice.adverb:
        before.append((ADVERBS[choice.adverb][1], (at["adverb"],)))
    if choice.verb == "have" and choice.negative:
        before.append(("没有", negation + main))
        verb: list[LinkedWord] = []
    else:
        verb = [(choice.chinese, main)]
    if tense == "present" and "not" in at and verb:
        before.append(("不", negation))
    elif tense == "progressive":
        if style == "着":
            if "not" in at:
                before.append(("没有", negation))
            else:
                after.append(("着", (*helper, at["verb"])))
        elif style == "state":
            if "not" in at:
                before.append(("不", negation))
        elif "not" in at:
            before += [("没有", (at["not"],)), ("在", helper)]
        else:
            before.append(("正在", helper))
    elif tense == "past":
        if "not" in at:
            before.append(("没有", negation))
        elif style != "state" and choice.preceding < 0:
            after.append(("了", (at["verb"],)))
    elif tense not in ("present", "past"):
        _, word = _WITH_INFINITIVE[tense]
        if tense in ("future", "can", "must"):
            sources = helper
            if "not" in at:
                before.append(("不", (at["not"],)))
        else:
            sources = (at["modal"],)
            if "not" in at:
                before.append(("不", negation))
        before.append((word, sources))
        if "to" in at:
            verb = [(word, (at["to"], *sources)) for word, sources in verb]
    verb += after
    if choice.pronoun:
        verb.append((OBJECT_PRONOUNS[choice.pronoun][2], (at["pronoun"],)))
    return tuple(before), tuple(verb)


@cache
def group(choice: GroupChoice) -> Group:
    """Realise a verb group in all three languages."""
    auxiliary, english, at = _english(choice)
    return Group(auxiliary, tuple(english), _french(choice, at), *_chinese(choice, at))
