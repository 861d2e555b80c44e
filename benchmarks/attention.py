"""`regard bench`, recorded among the repository's own results: mechanisms and training steps.

    python benchmarks/attention.py --device cpu [--threads 1] [--deadline 900]
    python benchmarks/attention.py --take bench     # `regard bench --out bench` from another machine

Writes results/attention-DEVICE.json, results/training-steps-DEVICE.json and docs/pictures/attention-*.png.
Afterwards run docs/generator/tables.py, which makes the README's tables.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from common import PICTURES, RESULTS, arguments

from regard.bench import attention, bench_plan, report, steps
from regard.evaluate.results import read_results, write_result


def run(device: str, threads: int, deadline: float, out: Path) -> None:
    """Measure both, into a folder."""
    torch.set_num_threads(threads)
    found = attention.measure(replace(bench_plan.standard(device), deadline=deadline), print)
    for result in report.records(found) + steps.records(steps.measure(device, say=print), device):
        write_result(out, result)


def take(folder: Path) -> None:
    """Records into results/, and their pictures into docs/pictures/."""
    found = read_results(folder)
    for result in found:
        write_result(RESULTS, result)
    mechanisms = [result for result in found if result.recipe.startswith("attention-")]
    for path in report.draw(mechanisms, PICTURES):
        print(path)


def main() -> None:
    """Measure here, or take measurements from elsewhere."""
    parser = arguments(__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--deadline", type=float, default=900.0)
    parser.add_argument("--take", type=Path)
    options = parser.parse_args()
    if options.take is not None:
        take(options.take)
        return
    with tempfile.TemporaryDirectory() as folder:
        run(options.device, options.threads, options.deadline, Path(folder))
        take(Path(folder))


if __name__ == "__main__":
    main()
