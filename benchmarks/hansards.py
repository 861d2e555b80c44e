"""A word aligner that learns from Tatoeba's sentence pairs alone, measured on the Hansards' hand-made links.

    python benchmarks/hansards.py --data corpora        # an hour on one core; into results/hansards.json

Tatoeba's pairs are written in the words of the Hansards: lower case, `l'eau` as `le eau`, `don't` as `do
not`. The two directions are joined by grow-diag, as is usual; the other ways of joining them are recorded
too. The settings are the aligner's defaults; nothing was chosen by the Hansards' links.
"""

import re
import time
from collections.abc import Sequence
from statistics import mean
from typing import Any

from common import arguments, keep

from regard.analysis.alignments import METHODS, symmetrize
from regard.analysis.word_aligner import WordAligner
from regard.data.corpora import find_corpus
from regard.evaluate.alignment import Gold, Link, Links, score_alignment
from regard.tasks.grammar import GrammarSettings, GrammarTask

METHOD = "grow-diag"
Words = tuple[list[str], list[str]]  # of both languages

# Text in the words of the Hansards: every mark a word, elisions and contractions written out ----------------

_MARKS = re.compile(r"\d+(?:[.,]\d+)+|\w+|[^\w\s]")
_ENGLISH = (
    (r"\bwon't\b", "will not"),
    (r"\bcan't\b", "cannot"),
    (r"\bshan't\b", "shall not"),
    (r"n't\b", " not"),
    (r"\blet's\b", "let us"),
    (r"\b(it|he|she|that|what|there|who|where|how|here|when|why)'s\b", r"\1 is"),
    (r"\bi'm\b", "i am"),
    (r"'re\b", " are"),
    (r"'ve\b", " have"),
    (r"'ll\b", " will"),
    (r"'d\b", " would"),
)
_FRENCH = (
    (r"\baujourd'hui\b", "aujourd’ hui"),
    (r"\b(s)'(?=ils?\b)", "si "),
    (r"\b(c|d|j|l|m|n|s|t|\w*qu)'", r"\1e "),
    (r"\bdu\b", "de le"),
    (r"\bdes\b", "de les"),
    (r"\bau\b", "à le"),
    (r"\baux\b", "à les"),
)
_EXPANDED = {
    language: [(re.compile(pattern), written) for pattern, written in rules]
    for language, rules in (("en", _ENGLISH), ("fr", _FRENCH))
}


def words_of(text: str, language: str) -> list[str]:
    """A sentence in lower-case words, cut as the Hansards are: `l'eau` is `le eau`, `don't` is `do not`."""
    text = text.lower().replace("’", "'")
    for pattern, written in _EXPANDED[language]:
        text = pattern.sub(written, text)
    words: list[str] = []
    for word in _MARKS.findall(text):
        if word in ("'", "’") and words and words[-1] == "aujourd":
            words[-1] = "aujourd'"
        elif word == "s" and words and words[-1] == "'":
            words[-1] = "'s"
        else:
            words.append(word)
    return words


def tatoeba(data: str) -> list[Words]:
    """The training pairs of Tatoeba in the words of the Hansards."""
    pairs = find_corpus("tatoeba-en-fr").stream("train", data)
    cut = ((words_of(pair.source, "en"), words_of(pair.target, "fr")) for pair in pairs)
    return [pair for pair in cut if all(pair)]


def hansards(data: str) -> tuple[list[Words], list[Gold]]:
    """The hand-aligned sentences and their links."""
    pairs, gold = [], []
    for pair in find_corpus("hansards").stream("test", data):
        assert pair.words is not None
        source, target = ([word.lower() for word in side] for side in pair.words)
        pairs.append((source, target))
        gold.append(Gold(_links(pair.links or ()), _links(pair.possible)))
    return pairs, gold


def embedded(count: int) -> tuple[list[Words], list[Gold]]:
    """Validation sentences of the embedded corpus; links of contractions, written out, are possible ones."""
    task = GrammarTask.create(GrammarSettings(train=2000, valid=count))
    pairs, gold = [], []
    for example in task.examples("valid"):
        sides: list[list[str]] = []
        places: list[list[range]] = []  # of each piece, the words that it is written as
        for tokenizer, text in ((task.source, example.source), (task.target, example.target)):
            words: list[str] = []
            own = []
            for piece in tokenizer.pieces(text):
                more = words_of(piece, tokenizer.language)
                own.append(range(len(words), len(words) + len(more)))
                words += more
            sides.append(words)
            places.append(own)
        sure, possible = [], []
        for s, t in example.links or ():
            kind = sure if len(places[0][s]) == len(places[1][t]) == 1 else possible
            kind += [(a, b) for a in places[0][s] for b in places[1][t]]
        pairs.append((sides[0], sides[1]))
        gold.append(Gold(_links(sure), _links(possible)))
    return pairs, gold


def _links(pairs: Sequence[Sequence[int]]) -> Links:
    return frozenset(Link(source, target) for source, target in pairs)


def rates(aligner: WordAligner, pairs: Sequence[Words], gold: Sequence[Gold]) -> dict[str, float]:
    """The alignment error rate of both directions and of every way of joining them."""
    forward, backward = aligner.directions(pairs)
    found = {"en-fr": forward, "fr-en": backward}
    for method in METHODS:
        found[method] = [symmetrize(a, b, method) for a, b in zip(forward, backward, strict=True)]
    return {name: round(score_alignment(links, gold).error_rate, 4) for name, links in found.items()}


def told(step: int, steps: int) -> None:
    """A line every hundred updates."""
    if step % 100 == 0:
        print(f"update {step} of {steps}", flush=True)


def main() -> None:
    """Learn with each seed, measure, write."""
    parser = arguments(__doc__)
    parser.add_argument("--data", required=True, help="the folder with tatoeba/ and hansards/")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    given = parser.parse_args()
    pairs = tatoeba(given.data)
    sets = {"embedded": embedded(240), "hansards": hansards(given.data)}
    began, rows = time.perf_counter(), []
    for seed in given.seeds:
        aligner = WordAligner.learn(pairs, seed=seed, progress=told)
        row: dict[str, Any] = {"seed": seed} | {name: rates(aligner, *each) for name, each in sets.items()}
        print(row, flush=True)
        rows.append(row)
    means = {
        name: {way: round(mean(row[name][way] for row in rows), 4) for way in rows[0][name]} for name in sets
    }
    keep(
        "hansards",
        "alignment error rate",
        means["hansards"][METHOD],
        seconds=time.perf_counter() - began,
        details={"pairs": len(pairs), "joined by": METHOD, "means": means, "rows": rows},
        note="Tatoeba's pairs alone; both directions joined by grow-diag",
        seeds=tuple(given.seeds),
    )


if __name__ == "__main__":
    main()
