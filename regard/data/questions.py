"""Stories with a question: sentences as words, ids, tensors.

A batch holds each distinct sentence once, and for each question the rows of its sentences: stories repeat
sentences, and most are shorter than the longest. Batches have few shapes: sentences are padded to the longest
in the data; stories and the list of sentences are rounded up. Padding is the null word, id 0, which also
stands for words unseen in training.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batches import pad
from regard.data.tensor_batch import TensorBatch
from regard.data.wordlist import WordList

NULL = "<null>"  # id 0; never an answer
STORY_SIZES = (10, 20)  # story lengths to round up to, before the full memory
LIST_STEP = 128  # the distinct sentences of a batch are rounded up to a multiple of this

_WORD = re.compile(r"[\w'-]+")

Sentence = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A story, what is asked about it, and the answer; `supports` are the sentences that hold the answer."""

    story: tuple[Sentence, ...]
    question: Sentence
    answer: str
    supports: tuple[int, ...] = ()  # positions in the story, from 0
    task: int = 0
    origin: int = 0  # questions of one story share this number


@dataclass(frozen=True)
class StoryBatch(TensorBatch):
    """Questions as ids. `counts` defines the padding of stories."""

    sentences: Tensor  # (N, J) words of each distinct sentence, questions included
    stories: Tensor  # (B, S) rows of `sentences`, the oldest first
    counts: Tensor  # (B,) sentences of each story
    question: Tensor  # (B,) rows of `sentences`
    answer: Tensor  # (B,) words

    @property
    def size(self) -> int:
        return self.stories.shape[0]


def cut_sentence(text: str) -> Sentence:
    """The words of a sentence in lower case, without its punctuation."""
    return tuple(_WORD.findall(text.lower()))


def split_story(text: str) -> tuple[str, ...]:
    """The sentences of a text as written, separated by newlines or ended by . ! ? or 。！？"""
    parts = re.split(r"(?<=[.!?])\s+|(?<=[。！？])|\n+", text)
    return tuple(part.strip() for part in parts if cut_sentence(part))


def all_words(questions: Sequence[Question]) -> set[str]:
    """Every word of the questions, stories and answers."""
    sentences = {sentence for q in questions for sentence in (*q.story, q.question, (q.answer,))}
    return {word for sentence in sentences for word in sentence}


class EncodedQuestions:
    """Questions as tensors: each distinct sentence once, and for each question the rows of its sentences."""

    def __init__(self, questions: Sequence[Question], words: WordList, *, memory: int) -> None:
        self.memory = memory
        self._numbers: dict[Sentence, int] = {(): 0}
        rows = [[self._sentence(s) for s in q.story[-memory:]] for q in questions]
        asked = [self._sentence(q.question) for q in questions]
        self._stories, self._counts = pad(rows)
        self._asked = torch.tensor(asked, dtype=torch.long)
        self._answers = torch.tensor([words.number(q.answer) for q in questions], dtype=torch.long)
        self._pool, _ = pad([words.numbers(s) for s in self._numbers])

    def batch(self, rows: Sequence[int]) -> StoryBatch:
        """The questions in these rows, rounded up to few shapes."""
        chosen = torch.tensor(rows, dtype=torch.long)
        counts = self._counts[chosen]
        longest = int(counts.max())
        S = next((size for size in STORY_SIZES if longest <= size < self.memory), self.memory)
        stories = F.pad(self._stories[chosen, :S], (0, max(S - self._stories.shape[1], 0)))
        both = torch.cat([stories, self._asked[chosen, None]], 1)
        different, places = torch.unique(both, return_inverse=True)
        N = -(-len(different) // LIST_STEP) * LIST_STEP
        sentences = F.pad(self._pool[different], (0, 0, 0, N - len(different)))
        return StoryBatch(sentences, places[:, :-1], counts, places[:, -1], self._answers[chosen])

    def _sentence(self, sentence: Sentence) -> int:
        return self._numbers.setdefault(sentence, len(self._numbers))
