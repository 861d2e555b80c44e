"""Luong's scores and windows on one small task: what his model learns, and whose word its attention is.

    python benchmarks/luong.py [--only general,local-m]

The model writes 4 to 12 symbols under another alphabet: backwards with each of the paper's four scores, and
in order as well with its local windows (D = 3). Measured on 256 new sequences of length 12: the share of
right symbols (greedy), and the alignment error rate when the right answer is forced, with each step's
attention credited to the word it writes and to the word it has read.

Writes results/luong-reverse.json, and docs/pictures/model-luong.png from the general score.
"""

import time
from typing import Any

import reversing
import torch
from common import PICTURES, arguments, caption, keep
from reversing import EXAMPLE, share_right

from regard.attention.config import AttentionConfig
from regard.decode.forced import forced
from regard.evaluate.translation import measure_alignment
from regard.models.luong import Luong, LuongConfig
from regard.tasks.reverse import ReverseSettings, ReverseTask
from regard.train.config import RunConfig, TrainConfig
from regard.viz.heatmap import draw_alignment

LENGTH, SEED = 12, 1
SIZES = {
    "embedding": 32,
    "hidden": 64,
    "layers": 1,
    "dropout": 0.0,
    "initialization": "standard",
}
STEPS = {"local-p": 2000}  # the centre must be found before the words can be
USUAL = 600
LOCAL = {"feed": False}  # with input feeding the state counts steps and needs no window


def attending(score: str, **settings: Any) -> dict[str, object]:
    """The settings of a mechanism."""
    return {"attention": AttentionConfig(score, hidden=64, half_width=3, **settings)}


CASES: dict[str, tuple[dict[str, object], tuple[bool, ...]]] = {  # settings; backwards or not
    "general": (attending("general"), (True,)),
    "dot": (attending("dot"), (True,)),
    "concat": (attending("concat"), (True,)),
    "location": (attending("location"), (True,)),
    "local-m": (attending("general", window="local-monotonic") | LOCAL, (False, True)),
    "local-p": (attending("general", window="local-predictive") | LOCAL, (False, True)),
    "no attention": ({"attends": False, "feed": False}, (True,)),
}


def train(settings: dict[str, object], task: ReverseTask, steps: int) -> tuple[Luong, float]:
    """The model after its budget, and the seconds it took."""
    torch.manual_seed(SEED)
    model = Luong(LuongConfig(**(task.sizes() | SIZES | settings)))  # type: ignore[arg-type]
    how = TrainConfig(
        steps=steps, batch=1500, lr=5e-3, schedule="linear", evaluate_every=0, checkpoint_every=0
    )
    config = RunConfig(model="luong", model_settings={}, task="reverse", task_settings={}, train=how)
    started = time.perf_counter()
    reversing.train(model, task, config)
    return model, time.perf_counter() - started


def draw(model: Luong, task: ReverseTask) -> None:
    """The alignment of one test sequence, with its gold links."""
    path = PICTURES / "model-luong.png"
    example = task.examples("test")[EXAMPLE]
    [track] = forced(model, task.batch("test", [EXAMPLE]))
    weights = track.attention["attention"][:-1, :-1]
    draw_alignment(weights, example.source.split(), example.target.split(), gold=example.links, path=path)
    caption(
        path.stem,
        "Luong's model with the general score writes backwards: rows are symbols written, columns symbols "
        "read. Orange squares are the right alignment. The network reads the source in reverse; here it is "
        "shown in its own order.",
    )


def measure(name: str, settings: dict[str, object], backwards: bool) -> None:
    """Train one, measure it, record the numbers."""
    task = ReverseTask.create(ReverseSettings(train=20_000, valid=64, backwards=backwards))
    steps = STEPS.get(name, USUAL)
    model, seconds = train(settings, task, steps)
    tested = reversing.tested(task, LENGTH)
    order = "backwards" if backwards else "in order"
    found = [("symbols right", share_right(model, task, LENGTH), True)]
    for credit, word in (("written", "the word written"), ("read", "the word read")):
        counts = measure_alignment(model, tested, "test", credit=credit)  # type: ignore[arg-type]
        if counts is not None:
            found.append(
                (f"alignment error rate, credited to {word}", counts.error_rate, credit == "written")
            )
    if name == "general":
        draw(model, tested)
    print(
        f"{name}, {order}, {seconds:.0f} s:",
        *(f"{metric} {value:.3f};" for metric, value, _ in found),
        flush=True,
    )
    for position, (metric, value, main) in enumerate(found):
        shown = f"{100 * value:.0f} % {order}" if metric == "symbols right" else f"AER {value:.2f}"
        keep(
            "luong-reverse",
            f"{name}: {metric}, written {order}",
            round(value, 4),
            seconds=seconds,
            note="a small task with known alignments, not the paper's",
            seeds=(SEED,),
            details={
                "catalogue": ["model:luong"],
                "headline": main and name == "general",
                "summary": shown,
                "order": position,
                "steps": steps,
                "length": LENGTH,
                "parameters": sum(p.numel() for p in model.parameters()),
            },
        )


def main() -> None:
    """Measure all, or those named."""
    parser = arguments(__doc__)
    parser.add_argument("--only", default="")
    wanted = set(filter(None, parser.parse_args().only.split(",")))
    torch.set_num_threads(1)
    for name, (settings, orders) in CASES.items():
        if not wanted or name in wanted:
            for backwards in orders:
                measure(name, settings, backwards)


if __name__ == "__main__":
    main()
