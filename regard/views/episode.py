"""One episode of few-shot classification, and what the query attended to in each block."""

from pathlib import Path

import torch
from torch import Tensor

from regard.attention.record import record_any
from regard.decode.base import evaluating
from regard.errors import ConfigError
from regard.tasks.fewshot import FewShotTask
from regard.train.run import Run
from regard.views.shared import whole_number
from regard.viz.episode import draw_episode

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def view(run: Run, text: str | None, out: Path, *, beam: int | None) -> str:
    """Draw a test episode: `text` is its number, default 0; what the query was called."""
    task, model = run.task, run.model
    assert isinstance(task, FewShotTask)
    if out.suffix.lower() not in (".png", ".svg"):
        raise ConfigError(f"show: `--out` has the ending {out.suffix!r}; expected .png or .svg for episodes.")
    K = task.settings.tested[0]
    batch = task.episodes("test", [_number(text, task.settings.test)], K)
    with evaluating(model), record_any(model) as trace:
        chances = model(batch.to(next(model.parameters()).device))[0, 0].float().softmax(-1)
        blocks = [result.weights[0, -1].cpu() for results in trace.values() for result in results]
    weights: Tensor = torch.stack(blocks) if blocks else torch.zeros(0, batch.support.shape[1] + 1)
    answer, found = int(batch.answers[0, 0]), int(chances.argmax())
    names = [_name(label) for label in batch.labels[0].tolist()]
    images = torch.cat([batch.support[0], batch.queries[0]])
    draw(images, names, weights, answer=_name(answer), found=_name(found), out=out)
    verdict = "right" if answer == found else f"it is {_name(answer)}"
    return f"{_name(found)} ({verdict}), probability {float(chances[found]):.3f}"


def draw(
    images: Tensor, names: list[str], weights: Tensor, *, answer: str, found: str | None, out: Path
) -> None:
    """The labelled drawings, then the query, (T, H, W); (L, T) weights of its L attention blocks."""
    seen = "what the query (?) attended to" if len(weights) else "a model without attention"
    ways = len(set(names))
    draw_episode(
        images.numpy(),
        names,
        weights,
        answer=answer,
        found=found,
        title=f"{ways}-way {len(names) // ways}-shot: {seen}",
        path=out,
    )


def _name(label: int) -> str:
    return LETTERS[label] if label < len(LETTERS) else str(label)


def _number(text: str | None, count: int) -> int:
    number = whole_number(text or "0")
    if number is None or number >= count:
        raise ConfigError(
            f"show: `TEXT` has {text!r}; expected the number of a test episode, 0 to {count - 1}."
        )
    return number
