"""Answers questions about stories, with the attention of each hop."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.attention.record import record
from regard.data.questions import Question, Sentence, cut_sentence, split_story
from regard.errors import DataError
from regard.models.base import Model
from regard.tasks.questions import QuestionTask

OTHERS = 3  # how many alternative answers to return


@dataclass(frozen=True)
class Answer:
    """The model's answer, its probability, and its attention."""

    sentences: tuple[str, ...]  # those in the memory, the oldest first
    question: str
    text: str
    probability: float
    others: tuple[tuple[str, float], ...]  # alternative answers
    weights: Tensor  # (K, S) of each hop over the sentences
    unknown: tuple[str, ...]  # words never seen in training; they are left out
    forgotten: int  # earlier sentences that did not fit into the memory


def ask(model: Model, task: QuestionTask, story: str, question: str) -> Answer:
    """Answer a question about a story, both as raw text; the answer quotes the sentences as written."""
    [found] = ask_all(model, task, [(story, question)])
    return found


def ask_all(model: Model, task: QuestionTask, asked: Sequence[tuple[str, str]]) -> list[Answer]:
    """Answer (story, question) pairs in one batch."""
    questions = [_cut(story, question) for story, question in asked]
    return [
        replace(found, sentences=split_story(story)[found.forgotten :], question=question.strip())
        for (story, question), found in zip(asked, answers(model, task, questions), strict=True)
    ]


def _cut(story: str, question: str) -> Question:
    told, asked = split_story(story), cut_sentence(question)
    if not told:
        raise DataError(
            "ask: the story has no sentences; expected one per line, or several that end with full stops."
        )
    if not asked:
        raise DataError("ask: the question has no words; expected e.g. 'Where is the lamp?'.")
    return Question(tuple(map(cut_sentence, told)), asked, "")


def answers(model: Model, task: QuestionTask, questions: Sequence[Question]) -> list[Answer]:
    """Answer tokenized questions in one batch."""
    if not questions:
        return []
    device = next(model.parameters()).device
    batch = task.encode(questions).batch(range(len(questions))).to(device)
    with record(model) as trace, torch.no_grad():
        scores = model(batch)[:, 1:].float()  # null is not an answer
    hops = [results[0].weights[:, 0].float().cpu() for results in trace.values()]
    return [
        _answer(task, question, scores[b], torch.stack([hop[b] for hop in hops]))
        for b, question in enumerate(questions)
    ]


def _answer(task: QuestionTask, question: Question, scores: Tensor, weights: Tensor) -> Answer:
    """(V,) scores and (K, S) weights of one question of a batch."""
    kept = question.story[-task.settings.memory :]
    seen = (*kept, question.question)
    best = scores.softmax(-1).topk(min(OTHERS + 1, len(scores)))
    found = [
        (task.words.words[number + 1], share)
        for share, number in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]
    return Answer(
        sentences=tuple(map(as_text, kept)),
        question=as_text(question.question, end="?"),
        text=found[0][0],
        probability=found[0][1],
        others=tuple(found[1:]),
        weights=weights[:, : len(kept)],
        unknown=tuple(dict.fromkeys(word for words in seen for word in words if word not in task.words)),
        forgotten=len(question.story) - len(kept),
    )


def as_text(words: Sentence, end: str = ".") -> str:
    """Capitalize a sentence and end it; names inside stay lower case, since the data does not mark them."""
    text = " ".join(words)
    return text[:1].upper() + text[1:] + end
