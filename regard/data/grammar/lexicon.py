"""Nouns and adjectives in three languages, with the adjectives that make sense for each noun.

A key such as ``old.thing`` names one sense of an ambiguous English word: the English form is what stands
before the dot, and the nouns say which sense they take.
"""

from typing import Literal, NamedTuple

from regard.data.grammar.pieces import Words, rows


class Adjective(NamedTuple):
    """One sense of an adjective.

    ``attachment`` says how the Chinese word goes before a noun: ``de`` with the particle 的, ``bare``
    without it, ``close`` when it belongs to a name-like compound and nothing may come between.
    ``predicate`` is the Chinese word after a subject (with 很 or 不), or empty for "是 ... 的".
    """

    english: Words
    french: tuple[str, str, str, str]
    french_before_vowel: str
    before_noun: bool
    chinese: Words
    attachment: Literal["de", "bare", "close"]
    predicate: str


class Noun(NamedTuple):
    """A noun; an empty plural marks nouns used in the singular, an empty singular those in the plural."""

    singular: Words
    plural: Words
    french_singular: Words
    french_plural: Words
    feminine: bool
    mass: bool
    chinese: Words
    classifier: str
    adjectives: tuple[tuple[str, ...], ...]
    predicates: tuple[str, ...]


_ADJECTIVES = """
green           | vert verte verts vertes                              | after | 绿色 de |
green.tea       | vert verte verts vertes                              | after | 绿 bare |
red             | rouge rouge rouges rouges                            | after | 红色 de |
blue            | bleu bleue bleus bleues                              | after | 蓝色 de |
white           | blanc blanche blancs blanches                        | after | 白色 de |
black           | noir noire noirs noires                              | after | 黑色 de |
yellow          | jaune jaune jaunes jaunes                            | after | 黄色 de |
light_blue      | bleu_clair bleu_clair bleu_clair bleu_clair          | after | 浅_蓝色 de |
big             | grand grande grands grandes                          | before | 大 bare | 大
big.fat         | gros grosse gros grosses                             | before | 大 bare | 大
small           | petit petite petits petites                          | before | 小 bare | 小
old.being       | vieux vieille vieux vieilles vieil                   | before | 老 bare | 老
old.thing       | vieux vieille vieux vieilles vieil                   | before | 旧 bare | 旧
new             | nouveau nouvelle nouveaux nouvelles nouvel           | before | 新 bare |
beautiful       | beau belle beaux belles bel                          | before | 漂亮 de | 漂亮
beautiful.poem  | beau belle beaux belles bel                          | before | 优美 de | 优美
beautiful.place | beau belle beaux belles bel                          | before | 美丽 de | 漂亮
good            | bon bonne bons bonnes                                | before | 好 bare | 好
good.food       | bon bonne bons bonnes                                | before | 好吃 de | 好吃
good.drink      | bon bonne bons bonnes                                | before | 好喝 de | 好喝
young           | jeune jeune jeunes jeunes                            | before | 年轻 de | 年轻
tall            | grand grande grands grandes                          | before | 高个子 de | 高
kind            | gentil gentille gentils gentilles                    | before | 善良 de | 善良
famous          | célèbre célèbre célèbres célèbres                    | before | 著名 de | 有名
interesting     | intéressant intéressante intéressants intéressantes  | after | 有趣 de | 有趣
expensive       | cher chère chers chères                              | after | 昂贵 de | 贵
heavy           | lourd lourde lourds lourdes                          | after | 沉重 de | 重
light           | léger légère légers légères                          | after | 轻便 de | 轻
long.letter     | long longue longs longues                            | before | 长 bare | 长
long            | long longue longs longues                            | after | 长 bare | 长
warm            | chaud chaude chauds chaudes                          | after | 暖和 de | 暖和
hot             | chaud chaude chauds chaudes                          | after | 热 bare | 热
cold            | froid froide froids froides                          | after | 冷 bare | 凉
fresh           | frais fraîche frais fraîches                         | after | 新鲜 de | 新鲜
clean           | propre propre propres propres                        | after | 干净 de | 干净
dirty           | sale sale sales sales                                | after | 脏 bare | 脏
important       | important importante importants importantes          | after | 重要 de | 重要
electric        | électrique électrique électriques électriques        | after | 电动 close |
economic        | économique économique économiques économiques        | after | 经济 close |
Economic        | économique économique économiques économiques        | after | 经济 close |
political       | politique politique politiques politiques            | after | 政治 close |
military        | militaire militaire militaires militaires            | after | 军事 close |
scientific      | scientifique scientifique scientifiques scientifiques | after | 科学 close |
cultural        | culturel culturelle culturels culturelles            | after | 文化 close |
national        | national nationale nationaux nationales              | after | 国家 close |
central         | central centrale centraux centrales                  | after | 中央 close |
nuclear         | nucléaire nucléaire nucléaires nucléaires            | after | 核 close |
presidential    | présidentiel présidentielle présidentiels présidentielles | after | 总统 close |
European        | européen européenne européens européennes            | after | 欧洲 close |
American        | américain américaine américains américaines          | after | 美国 close |
French          | français française français françaises               | after | 法国 close |
Chinese         | chinois chinoise chinois chinoises                   | after | 中国 close |
German          | allemand allemande allemands allemandes              | after | 德国 close |
Japanese        | japonais japonaise japonais japonaises               | after | 日本 close |
"""

# Two adjectives joined by + are used together, in the English order.
_NOUNS = """
man        | man men            | homme hommes m           | 男人 个     | young old.being | young tall kind
woman      | woman women        | femme femmes f           | 女人 个     | young old.being tall | young tall
    kind
girl       | girl girls         | fille filles f           | 女孩 个     | tall kind | tall kind
boy        | boy boys           | garçon garçons m         | 男孩 个     | tall kind | tall kind
child      | child children     | enfant enfants m         | 孩子 个     | kind tall | kind tall
teacher    | teacher teachers   | professeur professeurs m | 老师 位     | young kind tall | young kind tall
doctor     | doctor doctors     | médecin médecins m       | 医生 位     | young old.being famous | young
    kind famous
student    | student students   | étudiant étudiants m     | 学生 个     | kind tall young | young tall kind
neighbour  | neighbour neighbours | voisin voisins m         | 邻居 位     | old.being kind | kind
friend     | friend friends     | ami amis m               | 朋友 位     | old.being kind young | kind
    famous
mother     | mother -           | mère - f                 | 妈妈 位     | | young kind tall
father     | father -           | père - m                 | 爸爸 位     | | young kind tall
brother    | little_brother -   | petit_frère - m          | 弟弟 个     | | kind tall
sister     | big_sister -       | grande_sœur - f          | 姐姐 个     | | kind tall
daughter   | daughter -         | fille - f                | 女儿 个     | | young kind tall
son        | son -              | fils - m                 | 儿子 个     | | young kind tall
president  | president -        | président - m            | 总统 位     | French American |
government | government -       | gouvernement - m         | 政府 个     | French American Chinese German
    Japanese |
dog        | dog dogs           | chien chiens m           | 狗 只       | big.fat small black white
    old.being big.fat+black small+white | big.fat small old.being
cat        | cat cats           | chat chats m             | 猫 只       | big.fat small black white
    old.being small+black big.fat+white | big.fat small old.being
bird       | bird birds         | oiseau oiseaux m         | 鸟 只       | small white black beautiful
    small+yellow beautiful+white | small beautiful
horse      | horse horses       | cheval chevaux m         | 马 匹       | white black old.being beautiful
    beautiful+black | old.being beautiful
bat.animal | bat bats           | chauve-souris chauves-souris f | 蝙蝠 只     | small black |
apple      | apple apples       | pomme pommes f           | 苹果 个     | green red big.fat small good.food
    big.fat+red small+green | red green good.food
orange     | orange oranges     | orange oranges f         | 橙子 个     | big.fat small good.food |
    good.food
egg        | egg eggs           | œuf œufs m               | 鸡蛋 个     | big.fat small fresh | fresh
cake       | cake cakes         | gâteau gâteaux m         | 蛋糕 个     | big.fat small good.food |
    good.food
fish       | fish -             | poisson - m              | 鱼 条       | big.fat small fresh | fresh
bread      | bread =            | pain - m                 | 面包 块     | fresh good.food | fresh good.food
cheese     | cheese =           | fromage - m              | 奶酪 块     | French good.food | good.food
meat       | meat =             | viande - f               | 肉 块       | fresh good.food | fresh good.food
rice       | rice =             | riz - m                  | 米饭 碗     | hot | hot good.food
soup       | soup =             | soupe - f                | 汤 碗       | hot good.drink | hot cold
    good.drink
water      | water =            | eau - f                  | 水 杯       | cold hot | cold hot
coffee     | coffee =           | café - m                 | 咖啡 杯     | hot cold good.drink | hot cold
    good.drink
tea        | tea =              | thé - m                  | 茶 杯       | hot green.tea Chinese good.drink
    | hot cold good.drink
milk       | milk =             | lait - m                 | 牛奶 杯     | cold hot fresh | cold hot fresh
book       | book books         | livre livres m           | 书 本       | old.thing new good interesting |
    interesting expensive good
newspaper  | newspaper newspapers | journal journaux m       | 报纸 份     | old.thing French Chinese |
    interesting
letter     | letter letters     | lettre lettres f         | 信 封       | long.letter old.thing interesting
    | interesting long.letter
novel      | novel novels       | roman romans m           | 小说 本     | new good interesting famous
    Chinese French | interesting good famous
poem       | poem poems         | poème poèmes m           | 诗 首       | beautiful.poem famous Chinese
    French | beautiful.poem famous
film       | film films         | film films m             | 电影 部     | old.being new good interesting
    Chinese French American | interesting good
car        | car cars           | voiture voitures f       | 汽车 辆     | red blue black new old.thing big
    small expensive electric Japanese+electric German+electric big+red small+white old.thing+green new+black
    | red blue black expensive clean dirty
bike       | bike bikes         | vélo vélos m             | 自行车 辆   | red blue new old.thing light
    small+red old.thing+black | red blue light expensive
bus        | bus -              | bus - m                  | 公共汽车 辆 | |
train      | train -            | train - m                | 火车 列     | |
taxi       | taxi -             | taxi - m                 | 出租车 辆   | |
plane      | plane planes       | avion avions m           | 飞机 架     | big small white |
coat       | coat coats         | manteau manteaux m       | 大衣 件     | red black long warm new old.thing
    light old.thing+green new+black | red black warm expensive light
shirt      | shirt shirts       | chemise chemises f       | 衬衫 件     | white blue light_blue new clean
    dirty old.thing+blue | white blue clean dirty light_blue
dress      | dress dresses      | robe robes f             | 连衣裙 条   | red white beautiful long new
    light_blue beautiful+red beautiful+white | red white beautiful expensive light_blue
hat        | hat hats           | chapeau chapeaux m       | 帽子 顶     | black new old.thing beautiful
    small+white | black beautiful
scarf      | scarf scarves      | écharpe écharpes f       | 围巾 条     | red green warm beautiful+yellow |
    red green warm
shoes      | - shoes            | - chaussures f           | 鞋子 双     | black new old.thing clean dirty |
    clean dirty black
glasses    | - glasses          | - lunettes f             | 眼镜 副     | new black old.thing | black
watch      | watch watches      | montre montres f         | 手表 块     | new expensive beautiful old.thing
    | expensive beautiful
key        | key keys           | clé clés f               | 钥匙 把     | small new old.thing |
umbrella   | umbrella umbrellas | parapluie parapluies m   | 雨伞 把     | black red new old.thing big+black
    small+red | black red
bag        | bag -              | sac - m                  | 包 个       | heavy light new black small+black
    big+red | heavy light black
phone      | phone -            | téléphone - m            | 手机 部     | new old.thing expensive |
    expensive
computer   | computer -         | ordinateur - m           | 电脑 台     | new old.thing expensive light |
    expensive heavy light
flower     | flower flowers     | fleur fleurs f           | 花 朵       | red white yellow beautiful
    beautiful+white small+yellow | beautiful
photo      | photo photos       | photo photos f           | 照片 张     | old.being beautiful | beautiful
house      | house houses       | maison maisons f         | 房子 座     | big white old.being beautiful new
    small big+white small+yellow | big beautiful expensive
chair      | chair -            | chaise - f               | 椅子 把     | |
table      | table -            | table - f                | 桌子 张     | |
door       | door -             | porte - f                | 门 扇       | big |
window     | window windows     | fenêtre fenêtres f       | 窗户 扇     | big small | clean dirty
medicine   | medicine -         | médicament - m           | 药 种       | | expensive
bat.club   | bat -              | batte - f                | 球棒 根     | old.thing heavy |
kitchen    | kitchen -          | cuisine - f              | 厨房 个     | small | big clean dirty
garden     | garden -           | jardin - m               | 花园 个     | beautiful.place | big
    beautiful.place
park       | park -             | parc - m                 | 公园 个     | big beautiful.place | big
    beautiful.place
school     | school -           | école - f                | 学校 所     | new | big
station    | station -          | gare - f                 | 车站 个     | new old.thing | big
market     | market -           | marché - m               | 市场 个     | |
library    | library -          | bibliothèque - f         | 图书馆 座   | big new | big beautiful
restaurant | restaurant -       | restaurant - m           | 餐厅 家     | new Chinese French | expensive
    famous
hospital   | hospital -         | hôpital - m              | 医院 家     | new | big
office     | office -           | bureau - m               | 办公室 间   | |
museum     | museum -           | musée - m                | 博物馆 座   | new famous | famous interesting
hotel      | hotel -            | hôtel - m                | 酒店 家     | new big | expensive famous
bank       | bank -             | banque - f               | 银行 家     | |
bridge     | bridge -           | pont - m                 | 桥 座       | old.being new | long
river      | river -            | fleuve - m               | 河 条       | |
sea        | sea -              | mer - f                  | 海 片       | |
street     | street -           | rue - f                  | 街 条       | |
crisis     | crisis -           | crise - f                | 危机 场     | European+economic
    American+economic Chinese+economic French+political German+political European+political |
reform     | reform -           | réforme - f              | 改革 项     | Chinese+economic French+economic
    European+economic German+political new+European+economic new+Chinese+political | important
project    | project -          | projet - m               | 项目 个     | European+scientific
    Japanese+scientific American+military new+European+military Chinese+cultural French+cultural
    new+German+scientific | important interesting expensive
system     | system -           | système - m              | 制度 种     | French+political
    American+political German+economic Chinese+economic Japanese+political |
team       | team -             | équipe - f               | 队 支       | French+national Chinese+national
    German+national Japanese+national American+national | famous
base       | base -             | base - f                 | 基地 个     | American+military French+military
    Chinese+military new+American+military | important big
central_bank | bank -             | banque - f               | 银行 家     | European+central
    Chinese+central Japanese+central | important
plant      | power_plant -      | centrale - f             | 电站 座     | French+nuclear Japanese+nuclear
    American+nuclear new+Chinese+nuclear | big important expensive
festival   | festival -         | festival - m             | 节 个       | Chinese+cultural French+cultural
    Japanese+cultural German+cultural | famous interesting
election   | election -         | élection - f             | 选举 次     | American+presidential
    French+presidential | important
area       | Area -             | espace - m               | 区 个       | European+Economic | important
"""


def _words(text: str) -> Words:
    return () if text in ("-", "=", "") else tuple(text.split("_"))


def _read_adjectives() -> dict[str, Adjective]:
    table: dict[str, Adjective] = {}
    for line in rows(_ADJECTIVES):
        key, french, place, chinese, predicate = (column.strip() for column in line.split("|"))
        forms = french.split()
        word, attachment = chinese.split()
        assert attachment in ("de", "bare", "close")
        table[key] = Adjective(
            english=_words(key.partition(".")[0]),
            french=(forms[0], forms[1], forms[2], forms[3]),
            french_before_vowel=forms[4] if len(forms) > 4 else forms[0],
            before_noun=place == "before",
            chinese=_words(word),
            attachment=attachment,  # type: ignore[arg-type]
            predicate=predicate,
        )
    return table


def _read_nouns() -> dict[str, Noun]:
    table: dict[str, Noun] = {}
    for line in rows(_NOUNS):
        key, english, french, chinese, adjectives, predicates = (part.strip() for part in line.split("|"))
        singular, plural = english.split()
        french_singular, french_plural, gender = french.split()
        word, classifier = chinese.split()
        table[key] = Noun(
            singular=_words(singular),
            plural=_words(plural),
            french_singular=_words(french_singular),
            french_plural=_words(french_plural),
            feminine=gender == "f",
            mass=plural == "=",
            chinese=(word,),
            classifier=classifier,
            adjectives=tuple(tuple(group.split("+")) for group in adjectives.split()),
            predicates=tuple(predicates.split()),
        )
    return table


ADJECTIVES = _read_adjectives()
NOUNS = _read_nouns()

KIN = frozenset({"mother", "father", "brother", "sister", "daughter", "son"})
PEOPLE = frozenset(
    {"man", "woman", "girl", "boy", "child", "teacher", "doctor", "student", "neighbour", "friend"}
)
TOPICS = (
    *("crisis", "reform", "project", "system", "team", "base", "central_bank", "plant", "festival"),
    *("election", "area"),
)

# Subjects known by their role: Chinese says 老师 for "the teacher".
ROLES = frozenset({"child", "teacher", "doctor", "student", "neighbour", "friend"})

# With "the", these are known without pointing: Chinese says 坐公共汽车, not 坐那辆公共汽车.
UNIQUE = frozenset(
    {
        *("president", "government", "bus", "train", "taxi", "door", "medicine", "kitchen", "garden", "park"),
        *(
            "school",
            "station",
            "market",
            "library",
            "hospital",
            "office",
            "museum",
            "bank",
            "bridge",
            "river",
        ),
        *("sea", "street", *TOPICS),
    }
)

# Chinese has its own words for these two; the plain compounds would sound wrong.
CHINESE_COMPOUNDS = {("old.being", "man"): "人", ("old.being", "woman"): "妇人"}

NAMES = {
    "Marie": ("玛丽", True),
    "Anna": ("安娜", True),
    "Julie": ("朱莉", True),
    "Paul": ("保罗", False),
    "Thomas": ("托马斯", False),
    "Pierre": ("皮埃尔", False),
}
# Adjectives that are not used in the plural, which keeps the French vocabulary small.
SINGULAR_ONLY = frozenset(
    {
        *("long", "long.letter", "warm", "heavy", "light", "expensive", "electric", "German", "Japanese"),
        *("American", "famous", "light_blue", "blue", "clean", "dirty"),
    }
)
FEMININE_NAMES = tuple(name for name, (_, feminine) in NAMES.items() if feminine)
