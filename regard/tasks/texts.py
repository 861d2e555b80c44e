"""Base of tasks on text: learns tokenizers, leaves out long sentences, encodes the text once.

The text is streamed, never held in a list, so its size does not matter. A large corpus is prepared in
regard's cache (regard/data/prepared.py) and mapped from there by all processes and later runs.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice, tee
from pathlib import Path
from typing import Any, Literal, Self

import torch

from regard.data.batches import PairBatch, Plan, Room, in_memory, plan_by_tokens
from regard.data.encoded import EncodedPairs, Pair, collect, open_pairs, store
from regard.data.parallel import Example
from regard.data.plans import PairLengths, mapped_plan
from regard.data.prepared import Encoder, digest, is_large, kept_tokenizers, prepare_pairs
from regard.data.shared import made_once
from regard.data.tokens import Tokenizer
from regard.errors import ConfigError, DataError, check_sizes
from regard.storage import cache_folder
from regard.tasks.base import Split
from regard.tasks.translation import CHUNK, TranslationTask, encode_examples

Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")
SLICE = 1 << 20  # rows of a plan renumbered at once
PARTS: dict[Split, str] = {"train": "training", "valid": "validation"}


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """How text is cut, and what of it is learnt."""

    pieces: Literal["words", "characters", "bpe"] = "bpe"  # Chinese is cut into characters, unless jointly
    size: int = 8000  # pieces of each vocabulary
    joint: bool = False  # one vocabulary for both sides (byte-pairs)
    lowercase: bool = False
    longest: int = 100  # pieces of a sentence; longer ones are left out of training and validation
    smoothing: float = 0.0  # label smoothing, in training alone
    r_drop: float = 0.0  # R-Drop: how strongly two passes under different dropout must agree
    bpe_dropout: float = 0.0  # share of byte-pair merges left out of training text at random
    bpe_samples: int = 8  # how often training text is cut that way; epochs take turns
    reversed_epochs: int = 0  # number of first epochs that also train target to source

    def __post_init__(self) -> None:
        if self.joint and self.pieces != "bpe":
            raise ConfigError(f"task: `joint` is true and `pieces` has {self.pieces!r}; expected 'bpe'.")
        check_sizes("task", self, "longest")
        dropout = self.bpe_dropout
        if not 0.0 <= dropout < 1.0:
            raise ConfigError(f"task: `bpe_dropout` has {dropout}; expected 0 or more, and less than 1.")
        if dropout and self.pieces != "bpe":
            raise ConfigError(
                f"task: `bpe_dropout` has {dropout} and `pieces` {self.pieces!r}; expected 'bpe'."
            )
        check_sizes("task", self, "bpe_samples")
        check_sizes("task", self, "r_drop", "reversed_epochs", least=0)
        if self.reversed_epochs and not self.joint:
            raise ConfigError(
                f"task: `reversed_epochs` has {self.reversed_epochs} and `joint` is false; expected one "
                "vocabulary for both sides. Set task.joint=true."
            )


class Texts:
    """Where the sentence pairs come from."""

    languages: tuple[str, str]

    def stream(self, split: Split) -> Iterator[Example]:
        """The pairs of a split as a stream; can be called repeatedly."""
        raise NotImplementedError(f"{type(self).__name__} defines no stream(split).")

    def files(self) -> Sequence[Path]:
        """The files with the training pairs; none if they are in memory."""
        return ()

    def choice(self) -> str:
        """Which pairs of the files are trained on, as part of the cache key."""
        return ""


class TextTask(TranslationTask):
    """Sentence pairs from streamed text."""

    settings: TextSettings

    def __init__(self, settings: TextSettings, texts: Texts, source: Tokenizer, target: Tokenizer) -> None:
        super().__init__(settings, source, target)
        self.r_drop, self.texts, self.languages = settings.r_drop, texts, texts.languages
        self._recut: dict[int, EncodedPairs] = {}

    @classmethod
    def open_texts(cls, settings: Any) -> Texts:
        """The text that the settings name."""
        raise NotImplementedError(f"{cls.__name__} defines no open_texts(settings).")

    @classmethod
    def restore(cls, settings: Any, folder: Path) -> Self:
        return cls(settings, cls.open_texts(settings), *cls.load_tokenizers(folder))

    def sizes(self) -> dict[str, int]:
        """`shared_vocab` is 1 if both sides have one vocabulary, so that embeddings can be shared."""
        return {**super().sizes(), "shared_vocab": int(self.source is self.target)}

    def read(self, split: Split) -> Sequence[Example]:
        return [example for example, _ in self._kept(split)]

    def encode(self, split: Split) -> Iterator[Pair]:
        return (pair for _, pair in self._kept(split, report=split != "test"))

    def encoded(self, split: Split) -> EncodedPairs:
        """The pairs of a split as ids; those of a large corpus are mapped from the cache."""
        if split not in self._encoded and split == "train" and self.is_large:
            self._encoded[split] = prepare_pairs(
                self._folder(),
                ((example.source, example.target) for example in self.texts.stream(split)),
                Encoder(self.source, self.target, self.settings.longest),
                partial(self._report_left_out, PARTS[split]),
            )
        return super().encoded(split)

    @cached_property
    def is_large(self) -> bool:
        """Whether the training text is prepared in the cache."""
        return is_large(self.texts.files())

    def prepare(self) -> Path | None:
        """Put the training pairs into the cache, in every cut; returns the folder, None for small text."""
        if not self.is_large:
            return None
        for cut in range(1 + self.settings.bpe_samples if self.settings.bpe_dropout else 1):
            self.recut(cut)
        return self._folder()

    def plan(self, epoch: int, *, seed: int, batch: int) -> Plan:
        """One epoch; with BPE dropout, of one of the text's cuts; the first `reversed_epochs` go both ways.

        Pair n of N has the number n in the regular cut, and N + n, 2 N + n, … in the others. Pair number k
        from target to source has the number -1 - k.

        Ding, Wu, Tao. Improving neural machine translation by bidirectional training. 2021.
        https://arxiv.org/abs/2109.07780
        """
        cut = 1 + epoch % self.settings.bpe_samples if self.settings.bpe_dropout else 0
        both_ways = epoch < self.settings.reversed_epochs
        pairs = self.recut(cut)
        size = len(pairs)

        def make(room: Room) -> Plan:
            lengths = PairLengths(pairs, both_ways=both_ways)
            plan = plan_by_tokens(lengths, budget=batch, epoch=epoch, seed=seed, room=room)
            for start in range(0, len(plan.rows), SLICE):
                rows = plan.rows[start : start + SLICE]
                numbers = rows % size + cut * size
                plan.rows[start : start + SLICE] = torch.where(rows < size, numbers, -1 - numbers)
            return plan

        if not self.is_large:
            return make(in_memory)
        folder = self._folder(cut)
        name = f"epoch{epoch}-seed{seed}-batch{batch}" + ("-both" if both_ways else "")
        return mapped_plan(folder.with_name(f"{folder.name}.plans") / name, (cut + 2) * size, make)

    def batch(self, split: Split, rows: Sequence[int]) -> PairBatch:
        numbers = torch.as_tensor(rows, dtype=torch.long)
        backwards = numbers < 0
        if split != "train" or not (self.settings.bpe_dropout or backwards.any()):
            return super().batch(split, rows)
        size = len(self.encoded(split))
        numbers = torch.where(backwards, -1 - numbers, numbers)
        cuts = set((numbers // size).tolist())
        if len(cuts) > 1:
            raise ConfigError("task: `rows` mixes two cuts of the text; expected one, as `plan` gives them.")
        pairs = self.recut(cuts.pop() if cuts else 0).batch((numbers % size).tolist())
        return pairs.turned(backwards) if backwards.any() else pairs

    def recut(self, cut: int) -> EncodedPairs:
        """The training pairs with merges dropped at random, seeded by `cut`; 0: none dropped."""
        if cut == 0:
            return self.encoded("train")
        if cut not in self._recut:
            sizes = (len(self.source), len(self.target))
            if self.is_large:
                self._recut[cut] = open_pairs(made_once(self._folder(cut), partial(self._store_cut, cut)))
            else:
                self._recut[cut] = collect(self._cut_anew(cut), sizes=sizes)
        return self._recut[cut]

    def _store_cut(self, cut: int, work: Path) -> None:
        logging.getLogger("regard").info("cutting the corpus anew into %s", self._folder(cut))
        store(work / "whole", self._cut_anew(cut), sizes=(len(self.source), len(self.target)))

    def _cut_anew(self, cut: int) -> Iterator[Pair]:
        share = self.settings.bpe_dropout
        source = self.source.recut(share=share, seed=2 * cut)
        target = self.target.recut(share=share, seed=2 * cut + 1)
        kept = (example for example, _ in self._kept("train"))
        while chunk := list(islice(kept, CHUNK)):
            sources, targets = [x.source for x in chunk], [x.target for x in chunk]
            yield from zip(source(sources), target(targets), strict=True)

    def _kept(self, split: Split, *, report: bool = False) -> Iterator[tuple[Example, Pair]]:
        """The examples of a split with their ids; those that are too long only in the test split."""
        count = left_out = 0
        examples, again = tee(self.texts.stream(split))
        for example, pair in zip(examples, encode_examples(again, self.source, self.target), strict=True):
            count += 1
            if split == "test" or max(map(len, pair)) <= self.settings.longest:
                yield example, pair
            else:
                left_out += 1
        if report:
            self._report_left_out(PARTS[split], count, left_out)

    def _report_left_out(self, part: str, count: int, left_out: int) -> None:
        longest = self.settings.longest
        if count and left_out == count and part == PARTS["train"]:
            raise DataError(
                f"task: `longest` has {longest}, and each of the {count} training pairs has a side of more "
                "pieces; expected some that are shorter. Set task.longest higher."
            )
        if left_out:
            text = "%d of %d %s pairs have a side of more than %d pieces and are left out (task.longest)."
            logging.getLogger("regard").warning(text, left_out, count, part, longest)

    def _folder(self, cut: int = 0) -> Path:
        """The cache folder of the encoded training pairs, named by a digest of all that determines them."""
        settings, tokenizers = self.settings, [x.to_json() for x in (self.source, self.target)]
        decided = [self.texts.choice(), str(settings.longest), *tokenizers]
        if cut:
            decided.append(str(settings.bpe_dropout))
        name = digest(self.texts.files(), *decided) + (f"-cut{cut}" if cut else "")
        return cache_folder() / "encoded" / name


def learn_tokenizers(texts: Texts, settings: TextSettings) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of both sides, learnt from the training pairs; one for both if `joint`."""

    def learn(*sides: Side) -> Tokenizer:
        language = texts.languages[SIDES.index(sides[-1])]
        kind = "characters" if is_unspaced(language) and not settings.joint else settings.pieces
        return Tokenizer.train(
            (getattr(example, side) for side in sides for example in texts.stream("train")),
            kind=kind,
            language=language,
            size=settings.size,
            minimum=2 if kind == "words" else 1,  # words seen once become <unk>, to train its embedding
            lowercase=settings.lowercase,
        )

    learners = {f"{side}.tokenizer.json": partial(learn, side) for side in SIDES}
    if settings.joint:
        learners = {"tokenizer.json": partial(learn, *SIDES)}
    if texts.files() and is_large(texts.files()):
        decided = (settings.pieces, settings.size, settings.joint, settings.lowercase, texts.languages)
        name = digest(texts.files(), texts.choice(), repr(decided))
        return TextTask.load_tokenizers(kept_tokenizers(cache_folder() / "tokenizers" / name, learners))
    learnt = [learner() for learner in learners.values()]
    return learnt[0], learnt[-1]


def is_unspaced(language: str) -> bool:
    """Whether text of this language is cut into characters."""
    return language.lower().replace("_", "-").partition("-")[0] == "zh"
