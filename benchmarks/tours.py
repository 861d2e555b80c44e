"""Tours of the shipped pointer network, compared with the shortest, Christofides' and nearest insertion's.

    python benchmarks/tours.py [--sets 1000] [--sizes 5 10 20]

The test sets of the network's own task; it was trained on 5 to 10 points. Writes results/tours.json: one
record per size, the mean lengths of all four with those of table 2 of the paper.
"""

import time
from statistics import fmean

from common import arguments, keep

import regard
from regard.data.geometry import perimeter
from regard.decode.pointing import point
from regard.evaluate.tour_baselines import BASELINES
from regard.tasks.pointing import PointingTask

BATCH = 50
PAPER = {  # table 2: its network for 20 points was trained on 5 to 20; A3 is Christofides
    5: {"network": 2.12, "shortest": 2.12, "Christofides": 2.12},
    10: {"network": 2.88, "shortest": 2.87, "Christofides": 2.87},
    20: {"network": 3.88, "shortest": 3.83, "Christofides": 3.85},
}


def main() -> None:
    """Decode, solve, write."""
    parser = arguments(__doc__)
    parser.add_argument("--sets", type=int, default=1000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[5, 10, 20])
    given = parser.parse_args()
    trained = regard.load("tour").trained
    task, config = trained.task, trained.config
    assert isinstance(task, PointingTask)
    lengths: dict[int, dict[str, list[float]]] = {
        n: {name: [] for name in ("network", *BASELINES)} for n in given.sizes
    }
    began = time.perf_counter()
    for rows in task.evaluation_plan("test", batch=BATCH):
        points, sizes, _ = task.solved("test", rows)
        n = int(sizes[0])
        if n not in lengths or len(lengths[n]["network"]) >= given.sets:
            continue
        found = point(trained.model, task.batch("test", rows), rule=task.rule, decoding=config.decode)
        for own, pointed in zip(points[:, :n], found, strict=True):
            lengths[n]["network"].append(perimeter(own, pointed.order))
            for name, solve in BASELINES.items():
                lengths[n][name].append(perimeter(own, solve(own)))
    seconds = time.perf_counter() - began
    for n, each in lengths.items():
        means = {name: round(fmean(values), 4) for name, values in each.items()}
        details = {
            "n": n,
            "sets": len(each["network"]),
            "means": means,
            "above": {name: round(value / means["shortest"] - 1, 4) for name, value in means.items()},
            "paper": PAPER.get(n, {}),
            "catalogue": ["model:pointer"],
        }
        print(n, details)
        keep(
            "tours",
            f"mean tour length, n = {n}",
            means["network"],
            seconds=seconds,
            details=details,
            note="table 2: 5 and 10 trained on that size, 20 on 5 to 20",
            theory=PAPER.get(n, {}).get("network"),
            seeds=(1,),
        )


if __name__ == "__main__":
    main()
