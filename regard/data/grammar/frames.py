"""Verb frames: which subject does what to which object, where, when, why, and how Chinese says it.

One English verb may have many frames, and then the object decides its translation ("play football",
"play the piano").
"""

from typing import NamedTuple

from regard.data.grammar.phrases import Mode
from regard.data.grammar.pieces import rows

# Letters for tenses: habit, now (progressive), past, future, can, must, want to, like to.
_TENSES = {
    "h": "present",
    "n": "progressive",
    "p": "past",
    "f": "future",
    "c": "can",
    "m": "must",
    "w": "want",
    "l": "like",
}


class Frame(NamedTuple):
    """What can be said with a verb; the reasons say why somebody does it, or does not."""

    name: str
    verb: str
    chinese: str
    tenses: frozenset[str]
    negatives: frozenset[str]
    objects: str = ""
    policy: str = "event"
    habit: str = "habit"
    mode: Mode = "plain"
    particle: str = ""
    tail: str = ""
    places: str = ""
    destination: str = ""
    adjunct: str = ""
    pronouns: bool = False
    adverbs: bool = True
    times: bool = True
    subject: str = "person"
    style: str = ""
    reasons: str = ""
    negative_reasons: str = ""
    sudden: bool = False
    span: str = "day"
    weight: int = 4


# Name, verb, Chinese verb, tenses, weight, and what differs from the defaults; a + joins several reasons.
_FRAMES = """
eat              | eat       | 吃   | hnpfmwl  | 10 | objects=food places=meal adjunct=company
    reasons=hungry negative_reasons=ill
eat soup         | eat       | 喝   | hnpfw    |  4 | objects=soup places=meal reasons=hungry
    negative_reasons=ill
drink            | drink     | 喝   | hnpfmwl  |  8 | objects=drink places=meal reasons=thirsty
    negative_reasons=ill
read             | read      | 看   | hnpfmwl  |  8 | objects=readable places=reading reasons=weather+time
    negative_reasons=tired+busy span=week
read poem        | read      | 读   | hnpfmwl  |  3 | objects=poem places=reading
write            | write     | 写   | npfmw    |  4 | objects=short_text policy=fresh places=desk
    reasons=time negative_reasons=tired+busy span=week
write long       | write     | 写   | hpl      |  3 | objects=writable policy=fresh habit=fresh_habit
    places=desk reasons=time negative_reasons=tired+busy span=week
buy              | buy       | 买   | npfcmw   |  5 | objects=goods policy=purchase places=shopping
    negative_reasons=busy span=week
buy big          | buy       | 买   | npfcmw   |  4 | objects=big_goods policy=big_purchase
    places=shopping negative_reasons=busy span=week
buy daily        | buy       | 买   | hl       |  4 | objects=groceries places=shopping reasons=time
    negative_reasons=busy
see              | see       | 看见 | pfc      |  5 | negatives=p objects=visible places=seeing span=week
see person       | see       | 看见 | pfc      |  5 | negatives=p objects=person places=seeing span=week
    pronouns
watch            | watch     | 看   | hnpfmwl  |  4 | objects=film policy=purchase places=home
    adjunct=company reasons=weather+time negative_reasons=tired+busy span=week
watch animals    | watch     | 看   | nl       |  2 | objects=watched policy=seen places=sky
look             | look      | 找   | npm      |  5 | objects=lost policy=definite_one particle=for
    places=searching
open             | open      | 打开 | pfcmw    |  3 | negatives=pfw objects=closable policy=definite_one
    reasons=hot negative_reasons=cold+weather sudden
open thing       | open      | 打开 | pfcmw    |  2 | negatives=pfw objects=openable policy=definite_one
open with key    | open      | 打开 | pf       |  1 | negatives=p objects=closable policy=the adjunct=key
close            | close     | 关上 | pfcmw    |  4 | negatives=pfw objects=closable policy=definite_one
    reasons=cold negative_reasons=hot sudden
wear             | wear      | 穿   | hnfw     |  5 | objects=clothes policy=one habit=habit_one
    reasons=cold negative_reasons=hot style=着
wear on head     | wear      | 戴   | hnfw     |  5 | objects=accessory policy=one habit=habit_one
    style=着
take             | take      | 坐   | hpfcmw   |  5 | objects=transport policy=the habit=the
    reasons=late+weather negative_reasons=ill
take photo       | take      | 拍   | pfw      |  3 | objects=photo policy=fresh places=seeing span=week
take medicine    | take      | 吃   | hpfm     |  2 | objects=medicine policy=definite_one habit=owner
    reasons=ill
take along       | take      | 拿   | pfm      |  3 | objects=carried policy=definite_one reasons=rain
play ball        | play      | 踢   | hnfmwl   |  2 | negatives=hnpfwl objects=sport places=sport
    adjunct=company reasons=time negative_reasons=ill+tired+weather
play racket      | play      | 打   | hnfmwl   |  2 | negatives=hnpfwl objects=racket places=sport
    adjunct=company reasons=time negative_reasons=ill+tired+weather
play chess       | play      | 下   | hnfwl    |  2 | objects=chess places=home adjunct=company
    reasons=weather+time negative_reasons=tired+busy
play keys        | play      | 弹   | hnfwl    |  2 | objects=keys places=music reasons=happy+time
    negative_reasons=tired+busy
play violin      | play      | 拉   | hnfwl    |  2 | objects=violin places=music reasons=happy+time
    negative_reasons=tired+busy
know             | know      | 认识 | h        |  7 | objects=person pronouns no_adverbs no_times
like kind        | like      | 喜欢 | h        |  6 | objects=liked_kind mode=generic no_adverbs no_times
like thing       | like      | 喜欢 | h        |  4 | objects=liked_thing habit=specific no_adverbs
    no_times
help             | help      | 帮助 | hnpfcmw  |  6 | objects=person habit=definite reasons=time
    negative_reasons=busy+tired pronouns
visit            | visit     | 参观 | npfcw    |  3 | objects=visited policy=place adjunct=company
    reasons=time negative_reasons=busy+ill span=week
visit city       | visit     | 游览 | pfcw     |  3 | objects=city_or_country adjunct=company reasons=time
    negative_reasons=busy span=year
visit person     | call_on   | 看望 | hpfcmw   |  5 | objects=person habit=definite mode=à tail=visite
    reasons=time negative_reasons=busy+ill span=week
wait             | wait      | 等   | nfm      |  4 | objects=person particle=for places=waiting pronouns
wait for bus     | wait      | 等   | hnfm     |  3 | objects=transport policy=the habit=the
    particle=for places=waiting
give             | give      | 给   | pfmw     |  6 | objects=gift adjunct=receiver span=week
send             | send      | 寄   | pfmw     |  4 | objects=mail adjunct=receiver span=week
wash             | wash      | 洗   | npfmw    |  3 | objects=vehicles policy=definite_one places=outdoors
    reasons=time negative_reasons=busy+tired
wash things      | wash      | 洗   | npfmw    |  3 | objects=laundry policy=definite places=washing
    reasons=time negative_reasons=busy+tired
wash windows     | wash      | 擦   | npfmw    |  1 | objects=windows policy=definite reasons=time
    negative_reasons=busy+tired
make             | make      | 做   | hnpfwl   |  3 | objects=baked policy=purchase places=cooking
    reasons=hungry negative_reasons=tired+busy
make brew        | make      | 煮   | npfw     |  2 | objects=brewed policy=purchase places=cooking
    reasons=cold negative_reasons=tired
make tea         | make      | 泡   | npfw     |  2 | objects=tea policy=purchase places=cooking
    reasons=thirsty+cold
speak            | speak     | 说   | hn       |  4 | objects=language places=talking
talk             | talk      | 谈论 | hnfw     |  7 | negatives=hnf objects=topic policy=new habit=the
    mode=de particle=about tail=de places=talking subject=adult span=week
government talks | talk      | 谈论 | hn       |  3 | objects=topic policy=new habit=the mode=de
    particle=about tail=de subject=political no_times
study            | study     | 研究 | hnfw     |  5 | objects=topic policy=the habit=the places=study
    subject=adult span=week
study language   | study     | 学习 | hnfmwl   |  4 | objects=subject_matter places=study reasons=time
    negative_reasons=tired+busy span=week
drive            | drive     | 开   | hnfw     |  3 | objects=drivable policy=definite_one habit=habit_own
    negative_reasons=tired subject=adult
drive bus        | drive     | 开   | hnf      |  2 | objects=driven policy=known habit=a
    negative_reasons=tired subject=adult
break            | break     | 打破 | p        |  4 | objects=breakable policy=broken adjunct=bat
    subject=young span=week
give_back        | give_back | 还   | pfmw     |  4 | objects=borrowed policy=borrowed
    negative_reasons=busy span=week
come_back        | come_back | 回到 | pfmw     |  4 | destination=back negative_reasons=ill span=year
quit             | quit      | 离开 | pfmw     |  2 | objects=left policy=the span=week sudden
leave city       | quit      | 离开 | pfmw     |  3 | objects=city_or_country span=year
leave            | leave     | 走   | pfmw     |  3 | reasons=late+tired span=week sudden
manage           | manage    | 经营 | hw       |  4 | negatives=- objects=managed policy=one
    habit=habit_one subject=owner no_adverbs no_times
have             | have      | 有   | h        |  7 | objects=owned habit=own no_adverbs no_times
sleep            | sleep     | 睡觉 | hnfcmwl  |  4 | negatives=hnpfcwl places=bed reasons=tired+ill
sleep long       | sleep     | 睡   | p        |  3 | negatives=- adjunct=duration reasons=tired
work             | work      | 工作 | hnfcmwl  |  5 | negatives=hnpfcwl places=work adjunct=company
    negative_reasons=ill+tired span=week
work long        | work      | 工作 | p        |  3 | negatives=- adjunct=duration span=week
run              | run       | 跑步 | hnfmwl   |  3 | negatives=hnpfwl places=running adjunct=company
    reasons=time negative_reasons=ill+tired+weather
run long         | run       | 跑   | p        |  2 | negatives=- adjunct=duration
swim             | swim      | 游泳 | hnfwl    |  3 | negatives=hnpfwl places=water adjunct=company
    reasons=hot+time negative_reasons=ill+cold
swim long        | swim      | 游   | p        |  2 | negatives=- adjunct=duration reasons=hot
sing             | sing      | 唱歌 | hnfwl    |  3 | negatives=hnpfwl places=joy adjunct=company
    reasons=happy negative_reasons=sad+ill+tired
sing long        | sing      | 唱   | p        |  2 | negatives=- adjunct=duration reasons=happy
dance            | dance     | 跳舞 | hnfwl    |  3 | negatives=hnpfwl places=joy adjunct=company
    reasons=happy negative_reasons=sad+ill+tired
dance long       | dance     | 跳   | p        |  2 | negatives=- adjunct=duration reasons=happy
cry              | cry       | 哭   | np       |  3 | places=joy reasons=sad negative_reasons=happy sudden
laugh            | laugh     | 笑   | np       |  3 | reasons=happy negative_reasons=sad sudden
cook             | cook      | 做饭 | hnfmwl   |  4 | negatives=hnpfwl places=cooking adjunct=company
    reasons=hungry+time negative_reasons=tired+busy
go               | go        | 去   | hpfcmw   |  9 | destination=to adjunct=company reasons=time
    negative_reasons=ill+tired+busy+weather span=year
come             | come      | 来   | pfcw     |  4 | adjunct=company negative_reasons=ill+busy+tired
    span=week
arrive           | arrive    | 到   | p        |  4 | destination=arrive span=week
stay             | stay      | 待   | hnpfcmw  |  5 | destination=stay reasons=ill+tired+weather
    style=state span=week
live             | live      | 住   | hw       |  6 | destination=living style=state no_adverbs no_times
animal eats      | eat       | 吃   | hn       |  2 | objects=animal_food places=animal subject=animal
    policy=animal
animal drinks    | drink     | 喝   | hnp      |  2 | objects=animal_drink places=animal subject=animal
    policy=animal
horse drinks     | drink     | 喝   | hnp      |  1 | objects=water policy=animal places=sky subject=horse
animal sleeps    | sleep     | 睡觉 | hn       |  3 | places=animal subject=animal
bird sings       | sing      | 唱歌 | hn       |  1 | places=sky subject=bird
bat sleeps       | sleep     | 睡觉 | n        |  1 | places=bridge subject=bat
fly              | fly       | 飞   | n        |  3 | places=sky subject=flying
plane flies      | fly       | 飞   | n        |  1 | subject=plane
"""


def _tenses(letters: str) -> frozenset[str]:
    return frozenset(_TENSES[letter] for letter in letters.strip("-"))


def _read_frame(row: str) -> Frame:
    name, verb, chinese, letters, weight, rest = (column.strip() for column in row.split("|"))
    tenses = _tenses(letters)
    # "must not" is a ban, which Chinese and French say with other words.
    negatives = tenses - {"must"}
    values: dict[str, str] = {}
    flags: set[str] = set()
    for item in rest.split():
        key, _, value = item.partition("=")
        if not value:
            flags.add(key)
        elif key == "negatives":
            negatives = _tenses(value)
        else:
            values[key] = value.replace("_", " ").replace("+", " ")
    return Frame(
        name,
        verb,
        chinese,
        tenses,
        negatives,
        **values,  # type: ignore[arg-type]
        pronouns="pronouns" in flags,
        adverbs="no_adverbs" not in flags,
        times="no_times" not in flags,
        sudden="sudden" in flags,
        weight=int(weight),
    )


FRAMES = tuple(_read_frame(row) for row in rows(_FRAMES))
FRAME_NAMED = {frame.name: frame for frame in FRAMES}
# What a person is known by: "the man who lives in Paris".
_RELATIVE_VERBS = frozenset(
    {
        *(
            "read",
            "write",
            "buy",
            "wear",
            "play",
            "know",
            "help",
            "wait",
            "speak",
            "study",
            "drive",
            "manage",
        ),
        *(
            "work",
            "sing",
            "dance",
            "cry",
            "live",
            "arrive",
            "wash",
            "make",
            "have",
            "look",
            "eat",
            "drink",
            "take",
        ),
    }
)
FRAME_GROUPS = {
    # What one goes somewhere for, takes the train for, or studies a language for.
    "go": frozenset({"visit person"}),
    "take": frozenset({"visit", "visit city", "visit person"}),
    "study language": frozenset({"visit city"}),
    # What happens at the moment somebody comes.
    "sudden": frozenset(frame.name for frame in FRAMES if frame.sudden),
    "relative": frozenset(
        frame.name
        for frame in FRAMES
        if frame.subject in ("person", "adult", "owner") and frame.verb in _RELATIVE_VERBS
    ),
}
