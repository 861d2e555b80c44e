"""Draws an episode of few-shot classification, and what the query attended to in each block."""

from pathlib import Path

import torch
from torch import Tensor

from regard.attention.record import record_any
from regard.decode.base import evaluating
from regard.tasks.fewshot import FewShotTask
from regard.train.run import Run
from regard.views.shared import example_number, letter, require_picture
from regard.viz.episode import draw_episode


def view(run: Run, text: str | None, out: Path, *, beam: int | None) -> str:
    """Draw a test episode: `text` is its number, default 0. Returns the predicted label."""
    task, model = run.task, run.model
    assert isinstance(task, FewShotTask)
    require_picture(out, "episodes")
    K = task.settings.tested[0]
    batch = task.episodes("test", [example_number(text, task.settings.test, "episode")], K)
    with evaluating(model), record_any(model) as trace:
        chances = model(batch.to(next(model.parameters()).device))[0, 0].float().softmax(-1)
        blocks = [result.weights[0, -1].cpu() for results in trace.values() for result in results]
    weights: Tensor = torch.stack(blocks) if blocks else torch.zeros(0, batch.support.shape[1] + 1)
    answer, found = int(batch.answers[0, 0]), int(chances.argmax())
    names = [letter(label) for label in batch.labels[0].tolist()]
    images = torch.cat([batch.support[0], batch.queries[0]])
    draw(images, names, weights, answer=letter(answer), found=letter(found), out=out)
    verdict = "right" if answer == found else f"it is {letter(answer)}"
    return f"{letter(found)} ({verdict}), probability {float(chances[found]):.3f}"


def draw(
    images: Tensor, names: list[str], weights: Tensor, *, answer: str, found: str | None, out: Path
) -> None:
    """Draw the labelled drawings and the query, (T, H, W), with the (L, T) weights of L attention blocks."""
    seen = "what the query (?) attended to" if len(weights) else "a model without attention"
    ways = len(set(names))
    draw_episode(
        images,
        names,
        weights,
        answer=answer,
        found=found,
        title=f"{ways}-way {len(names) // ways}-shot: {seen}",
        path=out,
    )
