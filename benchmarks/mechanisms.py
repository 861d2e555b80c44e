"""Every mechanism on one small task: what it learns, and what its alignment looks like.

    python benchmarks/mechanisms.py [--jobs 2] [--only score:dot,window:local-monotonic]

RNNsearch learns to write 4 to 12 symbols backwards under another alphabet, once with each score, normalizer
and window of the catalogue in place of the paper's, each under the same budget. Measured on 256 new sequences
of length 12: the share of right symbols (greedy), and the alignment error rate when the right answer is
forced. The gold alignment is the anti-diagonal. Windows are also measured on the same task in reading order,
since a window that moves on with the target cannot follow a reversed text.

Writes results/mechanisms.json and docs/pictures/KIND-KEY.png.
"""

import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import torch
from common import PICTURES, RESULTS, arguments, caption
from reversing import EXAMPLE, share_right, tested, train

from regard import catalog
from regard.attention.config import AttentionConfig
from regard.bench.records import measured
from regard.decode.forced import forced
from regard.evaluate.alignment import Gold, Link, argmax_links, score_alignment
from regard.evaluate.results import Result, write_result
from regard.models.rnnsearch import RNNsearch, RNNsearchConfig
from regard.tasks.reverse import ReverseSettings, ReverseTask
from regard.train.config import RunConfig, TrainConfig
from regard.viz.heatmap import draw_alignment, draw_heads

LENGTH, STEPS, SEED = 12, 500, 1
# query and annotations have the same size, so that every score fits
SIZES = {
    "embedding": 32,
    "hidden": 64,
    "encoder_hidden": 48,
    "readout": 64,
}
NOTES = {"hard": " (its scores learn only by REINFORCE, which is not used here)"}

Measure = tuple[str, str, AttentionConfig, bool]  # kind, key, the mechanism, backwards


def measures() -> list[Measure]:
    """All cases to measure."""
    paper = AttentionConfig("additive", hidden=64, half_width=3)
    found = [("score", key, replace(paper, score=key), True) for key in catalog.names("score")]
    found += [
        ("normalizer", key, replace(paper, normalizer=key), True) for key in catalog.names("normalizer")
    ]
    for key in catalog.names("window"):
        found += [("window", key, replace(paper, window=key), backwards) for backwards in (False, True)]
    return [*found, ("layer", "multi-head", replace(paper, score="scaled-dot", heads=4), True)]


def measure(kind: str, key: str, attention: AttentionConfig, backwards: bool) -> list[Result]:
    """Train one, measure it, draw it."""
    torch.set_num_threads(1)
    task = ReverseTask.create(ReverseSettings(train=20_000, valid=64, backwards=backwards))
    torch.manual_seed(SEED)
    query: Literal["state", "state+word"] = "state" if attention.heads else "state+word"
    model = RNNsearch(RNNsearchConfig(**task.sizes(), **SIZES, query=query, attention=attention))
    how = TrainConfig(
        steps=STEPS, batch=1500, lr=3e-3, schedule="linear", evaluate_every=0, checkpoint_every=0
    )
    config = RunConfig(model="rnnsearch", model_settings={}, task="reverse", task_settings={}, train=how)
    started = time.perf_counter()
    train(model, task, config)
    seconds = time.perf_counter() - started
    right, error = share_right(model, task, LENGTH), alignment_error(model, tested(task, LENGTH))
    order = "backwards" if backwards else "in order"
    if kind != "window" or not backwards:
        draw(model, tested(task, LENGTH), PICTURES / f"{kind}-{key}.png")
    print(f"{kind} {key}, {order}: {100 * right:.1f} % right, AER {error:.3f}, {seconds:.0f} s", flush=True)
    return [
        measured(
            "mechanisms",
            f"{key}: {metric}, written {order}",
            round(value, 4),
            seconds=seconds,
            note="a small task with known alignments, not the paper's",
            seeds=(SEED,),
            details={
                "catalogue": [f"{kind}:{key}"],
                "headline": kind != "window" or not backwards or metric == "symbols right",
                "summary": summary + NOTES.get(key, ""),
                "order": order_,
                "steps": STEPS,
                "length": LENGTH,
                "parameters": sum(p.numel() for p in model.parameters()),
            },
        )
        for order_, (metric, value, summary) in enumerate(
            (
                ("symbols right", right, f"{100 * right:.0f} % {order}"),
                ("alignment error rate", error, f"AER {error:.2f}"),
            )
        )
    ]


def alignment_error(model: RNNsearch, task: ReverseTask) -> float:
    """The alignment error rate when the right answers are forced."""
    examples = task.examples("test")
    tracks = forced(model, task.batch("test", range(len(examples))))
    found = [argmax_links(weights(model, track.attention).mean(0)) for track in tracks]
    links = [frozenset(Link(*link) for link in example.links or ()) for example in examples]
    return score_alignment(found, [Gold(sure, sure) for sure in links]).error_rate


def weights(model: RNNsearch, attention: object) -> torch.Tensor:
    """(H, T, S) of one sequence, without eos; by their size, since `count` has negative ones too."""
    found = attention[model.aligner]  # type: ignore[index]
    return found.reshape(-1, *found.shape[-2:])[:, :-1, :-1].abs()


def draw(model: RNNsearch, task: ReverseTask, path: Path) -> None:
    """The alignment of one test sequence, with its gold links."""
    example = task.examples("test")[EXAMPLE]
    [track] = forced(model, task.batch("test", [EXAMPLE]))
    shown = weights(model, track.attention)
    source, target = example.source.split(), example.target.split()
    if len(shown) > 1:
        draw_heads(shown, source, target, path=path)
    else:
        draw_alignment(shown[0], source, target, gold=example.links, path=path)
    order = "backwards" if task.settings.backwards else "in order"
    caption(
        path.stem,
        f"RNNsearch with this mechanism writes {order}: rows are symbols written, columns symbols read. "
        "Orange squares are the right alignment.",
    )


def main() -> None:
    """Measure all, or those named, several at a time."""
    parser = arguments(__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    wanted = set(filter(None, options.only.split(",")))
    chosen = [one for one in measures() if not wanted or f"{one[0]}:{one[1]}" in wanted]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for results in pool.map(measure, *zip(*chosen, strict=True)):
            for result in results:
                write_result(RESULTS, result)


if __name__ == "__main__":
    main()
