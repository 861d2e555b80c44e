"""The embedded corpus: English to French or Chinese, with gold links. It needs no download."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from random import Random
from typing import Any, Literal, Self

from regard.data.encoded import Pair as Encoded
from regard.data.grammar import Pair, generate
from regard.data.parallel import Example, Links
from regard.data.tokens import UNK, Tokenizer
from regard.errors import ConfigError
from regard.tasks.base import Split, own_card
from regard.tasks.translation import TranslationTask, encode_examples

# English words, and the share of training sentences of that length: most are short, as in real text
TRAINING_MIX = (((3, 10), 0.55), ((11, 20), 0.25), ((21, 35), 0.12), ((36, 60), 0.08))
# in evaluation all lengths are equally frequent, so that a curve over length is equally reliable throughout
EVALUATION_MIX = tuple(((low, low + 9 if low > 3 else 10), 1 / 6) for low in (3, 11, 21, 31, 41, 51))

HIDDEN_EVERY = 20  # one training sentence in this many has a word hidden


@dataclass(frozen=True, kw_only=True)
class GrammarSettings:
    """Which language, how much, how long."""

    target: Literal["fr", "zh"] = "fr"
    train: int = 60_000
    valid: int = 480
    test: int = 1_200
    longest: int = 60  # English words, punctuation counted
    seed: int = 1
    smoothing: float = 0.0  # label smoothing, in training alone


@own_card(
    "grammar",
    title="The embedded corpus",
    sentence="English to French or Chinese from a synchronous grammar, with gold word links.",
)
class GrammarTask(TranslationTask):
    """Sentence pairs from the synchronous grammar of `regard.data.grammar`."""

    Settings = GrammarSettings

    def __init__(self, settings: GrammarSettings, source: Tokenizer, target: Tokenizer) -> None:
        super().__init__(settings, source, target)
        self.languages = ("en", settings.target)

    @classmethod
    def create(cls, settings: GrammarSettings) -> Self:
        if settings.longest < 10:
            raise ConfigError(f"grammar: `longest` has {settings.longest}; expected 10 or more words.")
        examples = make_examples(settings, "train")
        task = cls(
            settings,
            Tokenizer.train((example.source for example in examples), kind="words", language="en"),
            Tokenizer.train(
                (example.target for example in examples),
                kind="characters" if settings.target == "zh" else "words",
                language=settings.target,
            ),
        )
        task._examples["train"] = examples
        return task

    def read(self, split: Split) -> Sequence[Example]:
        return make_examples(self.settings, split)

    def encode(self, split: Split) -> Iterator[Encoded]:
        """The examples as ids; in some training examples a word is hidden on both sides.

        The vocabulary covers the whole grammar. Hidden words teach a model what to do with an unseen word:
        write `<unk>` in its place, so that the word can be copied from the source.
        """
        examples = self.examples(split)
        for number, pair in enumerate(encode_examples(examples, self.source, self.target)):
            if split == "train" and number % HIDDEN_EVERY == 0:
                chance = Random(f"{self.settings.seed} {number}")
                yield hide_word(*pair, examples[number].links or (), chance)
            else:
                yield pair


def hide_word(
    source: list[int], target: list[int], links: Links, chance: Random
) -> tuple[list[int], list[int]]:
    """Make one word unknown: a source piece, and the target pieces that come from it alone."""
    sources: dict[int, set[int]] = defaultdict(set)
    targets: dict[int, set[int]] = defaultdict(set)
    for s, t in links:
        sources[t].add(s)
        targets[s].add(t)
    alone = [
        s
        for s, ts in targets.items()
        if all(sources[t] == {s} for t in ts) and max(ts) - min(ts) == len(ts) - 1  # a run
    ]
    if not alone:
        return source, target
    s = chance.choice(alone)
    first, last = min(targets[s]), max(targets[s])
    return [*source[:s], UNK, *source[s + 1 :]], [*target[:first], UNK, *target[last + 1 :]]


def make_examples(settings: GrammarSettings, split: Split) -> list[Example]:
    """The examples of a split, with links between words for French and to characters for Chinese."""
    return [
        Example(
            pair.source_text,
            pair.target_text,
            character_links(pair) if settings.target == "zh" else pair.links,
        )
        for pair in pairs(settings, split)
    ]


def character_links(pair: Pair) -> Links:
    """Links to each character of a linked word."""
    starts = [0, *accumulate(map(len, pair.target))]
    return tuple((s, piece) for s, t in pair.links for piece in range(starts[t], starts[t + 1]))


def pairs(settings: GrammarSettings, split: Split) -> Iterator[Pair]:
    """The pairs of a split, with lengths interleaved in a fixed order; splits share no sentences."""
    mix = []
    for number, ((low, high), share) in enumerate(TRAINING_MIX if split == "train" else EVALUATION_MIX):
        if low <= settings.longest:
            words, seed = (low, min(high, settings.longest)), settings.seed + number
            mix.append((generate(settings.target, split, seed=seed, words=words), share))
    return islice(interleave(mix), getattr(settings, split))


def interleave(mix: Sequence[tuple[Iterator[Any], float]]) -> Iterator[Any]:
    """Draw from several streams in proportion to their shares, in a fixed order."""
    debts = [0.0] * len(mix)
    while True:
        for number, (_, share) in enumerate(mix):
            debts[number] += share
        chosen = max(range(len(mix)), key=debts.__getitem__)
        debts[chosen] -= sum(share for _, share in mix)
        yield next(mix[chosen][0])
