"""Every translator with the same number of parameters, the same sentences and the same processor seconds.

    python benchmarks/fixed_budget.py --seconds 100 --seeds 1,2,3 --out measured.json
    python benchmarks/fixed_budget.py --record measured.json

The first line measures, and goes on where it was stopped. The second writes the means over the seeds into
results/fixed-budget.json. `--split valid --seeds 11 --set train.lr=0.008` helps to choose settings.

Each model has the settings of its recipe, and a width that makes all of them equally large; all learn English
to French from the embedded corpus. Before a training a short one tells how many updates fit into the
processor seconds, and the schedule ends with the last of them. Processor seconds count what this process
computed; wall time would also count what others on the machine do. Only the updates are counted, not the
short training, the validation or the evaluation.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import torch
from common import RESULTS, arguments
from timed import Clock, say, speed

from regard.bench.records import measured
from regard.evaluate.base import evaluate
from regard.evaluate.results import commit, machine, write_result
from regard.tasks.base import Split, Task
from regard.train.config import RunConfig, load_recipe, override
from regard.train.loop import fit
from regard.train.run import build_model, create_task, open_run

NAME = "fixed-budget"
PARAMETERS = 577_581  # those of the demo's network, RNNsearch with coverage
WITHIN = 0.05  # how far the others may be from it
TRIED = 40  # updates that tell the speed
ALIKE = ("task.train=20000", "task.test=600", "train.evaluate_every=0", "train.checkpoint_every=0")


class Entry(NamedTuple):
    """A model: the recipe that has its settings, and what is changed."""

    recipe: str
    changes: tuple[str, ...] = ()


def _luong(hidden: int, *changes: str) -> Entry:
    return Entry("luong-en-fr", (f"model.hidden={hidden}", f"model.attention.hidden={hidden}", *changes))


GENERAL, LOCAL = "model.attention.score=general", "model.attention.window=local-predictive"
MODELS = {
    "no attention": Entry("seq2seq-en-fr", ("model.embedding=64", "model.hidden=184")),
    "RNNsearch": Entry(
        "rnnsearch-en-fr", ("model.hidden=116", "model.attention.hidden=116", "model.readout=116")
    ),
    "RNNsearch with coverage": Entry("rnnsearch-coverage-en-fr"),
    "Luong, global, dot": _luong(148),
    "Luong, global, general": _luong(144, GENERAL),
    "Luong, local-p, general": _luong(144, GENERAL, LOCAL),
    "Transformer": Entry("transformer-en-fr", ("model.d_model=96", "model.d_ff=320")),
}


def config_of(name: str, seed: int, more: Sequence[str] = ()) -> RunConfig:
    """What a model is trained with; its steps are planned later."""
    entry = MODELS[name]
    return override(load_recipe(entry.recipe), [*ALIKE, *entry.changes, f"train.seed={seed}", *more])


def measure(config: RunConfig, task: Task, seconds: float, split: Split) -> dict[str, Any]:
    """Train for so many processor seconds, evaluate."""
    now = time.process_time
    with tempfile.TemporaryDirectory() as folder:
        steps = speed(config, task, Path(folder) / "trial", TRIED, now).steps(seconds)
        config = override(config, [f"train.steps={steps}"])
        clock = Clock(now)
        fit(build_model(config, task), task, config, run=Path(folder) / "run", progress=clock)
        opened = open_run(Path(folder) / "run", device="cpu")
        began = now()
        found = evaluate(opened.model, opened.task, split, decoding=config.decode).summary()
    return found | {
        "steps": steps,
        "seconds": round(clock.times[steps] - clock.times[0], 1),
        "translating": round(now() - began, 1),
        "parameters": sum(p.numel() for p in opened.model.parameters()),
    }


def rows(found: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """What was measured of each model, one for each seed."""
    for name in MODELS:
        if own := [each for each in found if each["model"] == name]:
            yield name, own


def numbers(found: Mapping[str, Any]) -> dict[str, float]:
    """What is averaged over the seeds."""
    alignments = {name: found[name] and found[name]["error_rate"] for name in ("alignment", "alignment_read")}
    longest = {"bleu_longest": found["by_length"][-1]["bleu"]}
    plain = {name: found[name] for name in ("bleu", "chrf", "exact", "steps", "seconds", "translating")}
    return {name: value for name, value in {**plain, **longest, **alignments}.items() if value is not None}


def record(folder: Path, found: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Write the means of each model over its seeds."""
    written = []
    for order, (name, own) in enumerate(rows(found)):
        each = [numbers(one) for one in own]
        means = {key: statistics.fmean(one[key] for one in each) for key in each[0]}
        spreads = {key: statistics.stdev(one[key] for one in each) for key in means} if len(own) > 1 else {}
        details = {
            "catalogue": [f"model:{load_recipe(MODELS[name].recipe).model}"],
            "headline": False,
            "order": order,
            "model": name,
            "recipe": MODELS[name].recipe,
            "settings": [*ALIKE, *MODELS[name].changes],
            "split": own[0]["split"],
            "budget": own[0]["budget"],
            "parameters": own[0]["parameters"],
            "means": _rounded(means),
            "std": _rounded(spreads),
            "values": {str(one["seed"]): _rounded(numbers(one)) for one in own},
            "signature": own[0]["signature"],
        }
        result = measured(
            NAME,
            f"{name}: BLEU",
            round(means["bleu"], 2),
            seconds=means["seconds"],
            note="the papers have no such comparison",
            seeds=tuple(one["seed"] for one in own),
            details=details,
        )
        written.append(replace(result, **{key: own[0][key] for key in ("commit", "machine", "date")}))
    return [write_result(folder, result) for result in written]


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {key: round(value, 4) for key, value in values.items()}


def main() -> None:
    """Measure, or record what was measured."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=100.0, help="processor seconds of a training")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--only", help="models, separated by semicolons")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", help="for every model")
    parser.add_argument("--split", choices=("valid", "test"), default="test")
    parser.add_argument("--out", type=Path, default=Path("fixed-budget.json"))
    parser.add_argument("--record", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.record is not None:
        record(RESULTS, json.loads(options.record.read_text(encoding="utf-8")))
        return
    torch.set_num_threads(1)
    names = options.only.split(";") if options.only else list(MODELS)
    task = create_task(config_of(names[0], 1, options.set))  # that of all of them
    found = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else []
    for seed in map(int, options.seeds.split(",")):
        for name in names:
            asked = {"model": name, "seed": seed, "set": options.set, "budget": options.seconds}
            if any(asked.items() <= each.items() for each in found):
                continue
            own = measure(config_of(name, seed, options.set), task, options.seconds, options.split)
            made = {"commit": commit(), "machine": machine(), "date": date.today().isoformat()}
            found.append(asked | own | made)
            options.out.write_text(json.dumps(found, indent=1), encoding="utf-8")
            text = f"{own['steps']} updates in {own['seconds']:.0f} s, BLEU {own['bleu']:.1f}"
            say(f"{name}, seed {seed}, {', '.join([*options.set, text])}")


if __name__ == "__main__":
    main()
