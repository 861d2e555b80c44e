"""Clauses without an action: being tired, being red, being somewhere, and the weather."""

from functools import cache

from regard.data.grammar.lexicon import ADJECTIVES
from regard.data.grammar.phrases import HE, SHE, THEY, THEY_FEMININE
from regard.data.grammar.pieces import LinkedWord, linked, table
from regard.data.grammar.verbs import FRONTED, SINGULAR_THIRD, Group, be, french_present

# English -> French forms ("avoir" before nouns, "être" before the rest), Chinese word, and whether Chinese
# treats it as an event (生病了) or a quality (很累).
_STATES = {
    key: (helper, forms.split() if " " in forms else [forms] * 4, chinese, kind == "event")
    for key, helper, forms, chinese, kind in table("states")
}
# States that set in: 她饿了的时候, 如果她累了.
_SETTING_IN = frozenset({"tired", "hungry", "thirsty"})
STATES = tuple(_STATES)
# The French word has a single form, so the subject can be I or you.
WITHOUT_GENDER = ("sad", "ill", "late", "hungry", "thirsty", "cold.feeling")

_IMPERFECT = {
    "être": {HE: "était", SHE: "était", THEY: "étaient", THEY_FEMININE: "étaient"},
    "avoir": {HE: "avait", SHE: "avait", THEY: "avaient", THEY_FEMININE: "avaient"},
}
_FORM = {HE: 0, SHE: 1, THEY: 2, THEY_FEMININE: 3, 2: 2}


@cache
def predicate(
    key: str,
    agreement: int,
    negative: bool = False,
    very: bool = False,
    question: bool = False,
    past: bool = False,
    condition: bool = False,
) -> Group:
    """ "is (not, very) tired" or "is red"; a condition drops the Chinese 很 ("when she is tired")."""
    state = _STATES.get(key)
    adjective = ADJECTIVES.get(key)
    copula = ("were" if agreement not in SINGULAR_THIRD else "was") if past else be(agreement)
    words = [] if question else [copula]
    is_at = FRONTED if question else 0
    not_at = len(words)
    words += ["not"] if negative else ["very"] if very else []
    at = len(words)
    english = adjective.english if adjective else (key.partition(".")[0],)
    words += english
    if state:
        helper, forms, chinese, event = state
        french = forms[_FORM.get(agreement, 0)].split("_")
    else:
        assert adjective is not None
        helper, chinese, event = "être", adjective.predicate, False
        french = adjective.french[_FORM.get(agreement, 0)].split("_")
    verb = (
        _IMPERFECT[helper][agreement]
        if past
        else french_present("be" if helper == "être" else "have", agreement)
    )
    result: list[LinkedWord] = [(verb, (is_at,))]
    if negative:
        result = [("ne", (not_at,)), *result, ("pas", (not_at,))]
    if very:
        result.append(("très", (not_at,)))
    last = at + len(english) - 1
    result += [(word, (last - index if len(english) > 1 else at,)) for index, word in enumerate(french)]
    target: list[LinkedWord]
    if not chinese:
        assert adjective is not None
        target = [("不", (not_at,))] if negative else []
        target.append(("是", (is_at,)))
        target += [(word, (at + index,)) for index, word in enumerate(adjective.chinese)]
        target.append(("的", (last,)))
    elif event:
        target = [("没有", (not_at,)), (chinese, (at,))] if negative else [(chinese, (at,))]
        if not negative and not condition:
            target.append(("了", (at,)))
    elif negative:
        target = [("不", (not_at,)), (chinese, (at,))]
    elif very:
        target = [("非常", (not_at,)), (chinese, (at,))]
    else:
        # 很 fills a statement without emphasis; conditions and questions do without it.
        plain = condition or question
        target = [(chinese, (at,))] if plain else [("很", (is_at,)), (chinese, (at,))]
        if condition and key in _SETTING_IN:
            target.append(("了", (at,)))
    return Group(copula if question else "", tuple(words), tuple(result), (), tuple(target))


@cache
def located(agreement: int, negative: bool = False, question: bool = False) -> Group:
    """ "is" or "is not" before a phrase of place; Chinese 在 comes with the place."""
    copula = be(agreement)
    verb = french_present("be", agreement)
    if question:
        return Group(copula, (), ((verb, (FRONTED,)),), (), ())
    if negative:
        return Group("", (copula, "not"), linked(f"ne/1 {verb}/0 pas/1"), linked("不/1"), ())
    return Group("", (copula,), ((verb, (0,)),), (), ())


def _fixed(english: str, french: str, before: str, chinese: str) -> Group:
    return Group("", tuple(english.split()), linked(french), linked(before), linked(chinese))


@cache
def existing(plural: bool) -> Group:
    """ "there is" or "there are"."""
    return _fixed(f"there {'are' if plural else 'is'}", "il/0 y/0 a/1", "", "有/0,1")


@cache
def having_time(agreement: int) -> Group:
    """ "has time", a condition for doing things."""
    has = "has" if agreement in SINGULAR_THIRD else "have"
    return _fixed(f"{has} time", f"{french_present('have', agreement)}/0 le/1 temps/1", "", "有/0 时间/1")


def _weather(kind: str) -> tuple[Group, ...]:
    return tuple(_fixed(*texts) for of, *texts in table("weather") if of == kind)


# Kind of weather -> wording for the present moment, for a habit or condition, and for the past (in which the
# grammar has no snow).
WEATHER = {kind: _weather(kind) for kind in ("rain", "snow", "cold", "hot")}
# The weather as a whole sentence.
FORECASTS = {tense: _weather(tense) for tense in ("progressive", "present", "past", "future")}
FORECASTS["progressive"] = (*(forms[0] for forms in WEATHER.values()), *FORECASTS["progressive"])
