"""A sequence read word by word, and what each word looked back at on the tapes."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from regard.attention.record import record_any
from regard.attention.result import AttentionResult
from regard.data.text_windows import StreamBatch
from regard.decode.base import evaluating
from regard.tasks.recall import RecallTask
from regard.tasks.sentences import SentenceTask
from regard.train.run import Run
from regard.views.shared import is_page, require_attention
from regard.viz.lookback import draw_lookback

START = "⟨s⟩"


def view(run: Run, text: str | None, out: Path, *, beam: int | None) -> str:
    """Read a sentence, or one of the test set, draw its look-back and return it with its perplexity."""
    task, model = run.task, run.model
    assert isinstance(task, SentenceTask)
    words, batch = task.read(text) if text is not None else _test_sentence(task)
    with evaluating(model), record_any(model) as trace:
        loss = task.loss(model, batch.to(next(model.parameters()).device))
    draw(of_words(lookback(trace[require_attention(run)]), len(words)), [START, *words], out)
    perplexity = float((loss.total / loss.count).exp())
    return f"{' '.join(words)}\nperplexity {perplexity:.1f}"


def view_pairs(run: Run, text: str | None, out: Path, *, beam: int | None) -> str:
    """Read pairs such as "3=7 5=1 3", or a test sequence, draw the look-back and return the answer."""
    task, model = run.task, run.model
    assert isinstance(task, RecallTask)
    example = task.example("test", 2 * task.settings.test) if text is None else task.read(text)
    batch = task.tensors([example], steps=len(example.pairs) + 1)
    with evaluating(model), record_any(model) as trace:
        answer = int(model(batch.to(next(model.parameters()).device)).argmax(-1))
    weights = lookback(trace[require_attention(run)])[:, 1:]  # slot 0 holds no pair
    asked, value = example.pairs[example.place]
    names = [*(f"{k}={v}" for k, v in example.pairs), f"{asked}=?"]
    draw(weights, names, out)
    return f"{' '.join(names[:-1])}; {asked} = {answer} ({'right' if answer == value else f'it was {value}'})"


def _test_sentence(task: SentenceTask) -> tuple[list[str], StreamBatch]:
    """The first sentence of the test set that has six words or more."""
    sentences = task.held("test")
    for number in range(len(sentences)):
        batch = sentences.batch([number])
        count = int(batch.counts[0])
        if count > 6:
            break
    return [task.words.words[i] for i in batch.targets[0, : count - 1].tolist()], batch


def of_words(weights: Tensor, count: int) -> Tensor:
    """(T, T + 1) over the slots -> (1 + n, 1 + n) over the mark before a sentence and its n words."""
    # slot 0 is empty and slot 1 the mark before the sentence: neither is a word
    joined = torch.cat([weights[:, :2].sum(1, keepdim=True), weights[:, 2:]], 1)
    return joined[: count + 1, : count + 1]  # the rest is padding


def lookback(results: Sequence[AttentionResult], row: int = 0) -> Tensor:
    """The weights of T steps over a growing tape -> (T, T + 1), column s being slot s."""
    T = len(results)
    rows = torch.zeros(T, T + 1)
    for t, result in enumerate(results):
        weights = result.weights[row, 0].float().cpu()
        rows[t, t + 1 - len(weights) : t + 1] = weights  # a span keeps only the last slots
    return rows


def draw(weights: Tensor, words: Sequence[str], out: Path) -> None:
    """Draw the look-back as a picture, or as a page if the file ends in .html."""
    from regard.viz.report import AlignmentSection, write_report

    if is_page(out):
        section = AlignmentSection("each row's word looked back at its columns' words", weights, words, words)
        write_report(out, title="Looking back", summary=" ".join(words), sections=[section])
        return
    draw_lookback(weights, words, path=out)
