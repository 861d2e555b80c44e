"""Clauses without an action: being tired, being red, being somewhere, and the weather."""

from functools import cache

from regard.data.grammar.lexicon import ADJECTIVES
from regard.data.grammar.phrases import HE, SHE, THEY, THEY_FEMININE
from regard.data.grammar.pieces import Links, Words, linked
from regard.data.grammar.verbs import FRONTED, SINGULAR_THIRD, Group, be, french_present

# English -> French words ("avoir" before nouns, "être" before the rest), Chinese word, and whether Chinese
# treats it as an event (生病了) or as a quality (很累).
_STATES: dict[str, tuple[str, tuple[str, str, str, str], str, bool]] = {
    "tired": ("être", ("fatigué", "fatiguée", "fatigués", "fatiguées"), "累", False),
    "happy": ("être", ("heureux", "heureuse", "heureux", "heureuses"), "高兴", False),
    "busy": ("être", ("occupé", "occupée", "occupés", "occupées"), "忙", False),
    "sad": ("être", ("triste", "triste", "tristes", "tristes"), "难过", False),
    "ill": ("être", ("malade", "malade", "malades", "malades"), "生病", True),
    "late": ("être", ("en_retard",) * 4, "迟到", True),
    "hungry": ("avoir", ("faim",) * 4, "饿", False),
    "thirsty": ("avoir", ("soif",) * 4, "渴", False),
    "cold.feeling": ("avoir", ("froid",) * 4, "冷", False),
}
# What comes over somebody: 她饿了的时候, 如果她累了.
_SETTING_IN = frozenset({"tired", "hungry", "thirsty"})
STATES = tuple(_STATES)
# The French word has one form whatever the gender, so that I and you can be its subject.
WITHOUT_GENDER = ("sad", "ill", "late", "hungry", "thirsty", "cold.feeling")

_IMPERFECT = {
    "être": {HE: "était", SHE: "était", THEY: "étaient", THEY_FEMININE: "étaient"},
    "avoir": {HE: "avait", SHE: "avait", THEY: "avaient", THEY_FEMININE: "avaient"},
}
_FORM = {HE: 0, SHE: 1, THEY: 2, THEY_FEMININE: 3, 2: 2}


def _with_positions(pairs: list[tuple[str, tuple[int, ...]]]) -> tuple[Words, Links]:
    return (
        tuple(word for word, _ in pairs),
        tuple((source, target) for target, (_, sources) in enumerate(pairs) for source in sources),
    )


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
    result: list[tuple[str, tuple[int, ...]]] = [(verb, (is_at,))]
    if negative:
        result = [("ne", (not_at,)), *result, ("pas", (not_at,))]
    if very:
        result.append(("très", (not_at,)))
    last = at + len(english) - 1
    result += [(word, (last - index if len(english) > 1 else at,)) for index, word in enumerate(french)]
    target: list[tuple[str, tuple[int, ...]]]
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
        # 很 fills a statement without stressing it; conditions and questions do without.
        plain = condition or question
        target = [(chinese, (at,))] if plain else [("很", (is_at,)), (chinese, (at,))]
        if condition and key in _SETTING_IN:
            target.append(("了", (at,)))
    return Group(
        copula if question else "", tuple(words), *_with_positions(result), (), (), *_with_positions(target)
    )


@cache
def located(agreement: int, negative: bool = False, question: bool = False) -> Group:
    """ "is" or "is not" before a phrase of place; Chinese 在 comes with the place."""
    copula = be(agreement)
    verb = french_present("be", agreement)
    if question:
        return Group(copula, (), (verb,), ((FRONTED, 0),), (), (), (), ())
    if negative:
        return Group(
            "", (copula, "not"), ("ne", verb, "pas"), ((1, 0), (0, 1), (1, 2)), ("不",), ((1, 0),), (), ()
        )
    return Group("", (copula,), (verb,), ((0, 0),), (), (), (), ())


def _fixed(english: str, french: str, before: str, chinese: str) -> Group:
    return Group("", tuple(english.split()), *linked(french), *linked(before), *linked(chinese))


@cache
def existing(plural: bool) -> Group:
    """ "there is" or "there are"."""
    return _fixed(f"there {'are' if plural else 'is'}", "il/0 y/0 a/1", "", "有/0,1")


@cache
def having_time(agreement: int) -> Group:
    """ "has time", a condition for doing things."""
    has = "has" if agreement in SINGULAR_THIRD else "have"
    return _fixed(f"{has} time", f"{french_present('have', agreement)}/0 le/1 temps/1", "", "有/0 时间/1")


# Kind of weather -> how it is said of the present moment, as a habit or condition, and of the past (where
# the grammar knows no snow).
WEATHER = {
    "rain": (
        _fixed("it is raining", "il/0 pleut/1,2", "正在/1", "下雨/2"),
        _fixed("it rains", "il/0 pleut/1", "", "下雨/1"),
        _fixed("it was raining", "il/0 pleuvait/1,2", "", "下雨/2 了/1"),
    ),
    "snow": (
        _fixed("it is snowing", "il/0 neige/1,2", "正在/1", "下雪/2"),
        _fixed("it snows", "il/0 neige/1", "", "下雪/1"),
        _fixed("it was raining", "il/0 pleuvait/1,2", "", "下雨/2 了/1"),
    ),
    "cold": (
        _fixed("it is cold", "il/0 fait/1 froid/2", "", "天气/0 很/1 冷/2"),
        _fixed("it is cold", "il/0 fait/1 froid/2", "", "天气/0 冷/2"),
        _fixed("it was cold", "il/0 faisait/1 froid/2", "", "天气/0 很/1 冷/2"),
    ),
    "hot": (
        _fixed("it is hot", "il/0 fait/1 chaud/2", "", "天气/0 很/1 热/2"),
        _fixed("it is hot", "il/0 fait/1 chaud/2", "", "天气/0 热/2"),
        _fixed("it was hot", "il/0 faisait/1 chaud/2", "", "天气/0 很/1 热/2"),
    ),
}
# Weather as a whole sentence; the last two are for the past and the future.
FORECASTS = {
    "progressive": (
        WEATHER["rain"][0],
        WEATHER["snow"][0],
        WEATHER["cold"][0],
        WEATHER["hot"][0],
        _fixed("it is very cold", "il/0 fait/1 très/2 froid/3", "", "天气/0 非常/2 冷/3"),
        _fixed("it is very hot", "il/0 fait/1 très/2 chaud/3", "", "天气/0 非常/2 热/3"),
        _fixed("it is not raining", "il/0 ne/2 pleut/1,3 pas/2", "没有/2 在/1", "下雨/3"),
        _fixed("it is not cold", "il/0 ne/2 fait/1 pas/2 froid/3", "", "天气/0 不/2 冷/3"),
    ),
    "present": (
        _fixed("it often rains", "il/0 pleut/2 souvent/1", "常常/1", "下雨/2"),
        _fixed("it sometimes snows", "il/0 neige/2 parfois/1", "有时/1", "下雪/2"),
        _fixed("it never snows", "il/0 ne/1 neige/2 jamais/1", "从不/1", "下雪/2"),
        _fixed("it often snows", "il/0 neige/2 souvent/1", "常常/1", "下雪/2"),
    ),
    "past": (
        _fixed("it rained", "il/0 a/1 plu/1", "", "下雨/1 了/1"),
        _fixed("it snowed", "il/0 a/1 neigé/1", "", "下雪/1 了/1"),
        _fixed("it did not rain", "il/0 ne/2 a/1,3 pas/2 plu/3", "没有/1,2", "下雨/3"),
    ),
    "future": (
        _fixed("it will rain", "il/0 va/1 pleuvoir/2", "会/1", "下雨/2"),
        _fixed("it will not rain", "il/0 ne/2 va/1 pas/2 pleuvoir/3", "不/2 会/1", "下雨/3"),
    ),
}
