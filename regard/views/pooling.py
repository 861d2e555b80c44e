"""A picture, what it was called, and the places that the pooling weighed most."""

from pathlib import Path

from regard.attention.record import record
from regard.decode.base import evaluating
from regard.tasks.picture_classes import PictureClassesTask
from regard.train.run import Run
from regard.views.shared import example_number, require_picture
from regard.viz.pictures import draw_caption


def view(run: Run, text: str | None, out: Path, *, beam: int | None) -> str:
    """Draw a test picture: `text` is its number, default 0."""
    task, model = run.task, run.model
    assert isinstance(task, PictureClassesTask)
    require_picture(out, "pictures")
    batch = task.batch("test", [example_number(text, task.count("test"), "picture")])
    with evaluating(model), record(model) as trace:
        shares = model(batch.to(next(model.parameters()).device))[0].float().softmax(-1)
        (result,) = (result for results in trace.values() for result in results)
        weights = result.weights[0].float().cpu()  # (1, L)
    said, right = int(shares.argmax()), int(batch.labels[0])
    draw_caption(
        batch.pictures[0].numpy(),
        [task.labels[said]],
        weights,
        title=f"{task.labels[right]}, called {task.labels[said]}",
        path=out,
    )
    verdict = "right" if said == right else f"it is {task.labels[right]}"
    return f"{task.labels[said]} ({verdict}), probability {float(shares[said]):.3f}"
