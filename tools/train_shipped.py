"""Train models of regard/shipped/table.py and pack each: `python tools/train_shipped.py hull ntm-copy`.

    --out DIR        packed models and figures.json go here; default regard/shipped, where they ship from
    --runs DIR       the run folders; one that is there goes on where it stopped
    --jobs N         trainings at once
    --deadline S     after so many seconds trainings are stopped, and packed as they are

Tatoeba and Omniglot are looked for in the folder that REGARD_DATA names. Where a model has several seeds, the
run with the lowest validation loss is packed. figures.json grows with every model, so what is there is whole.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from textwrap import fill
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from regard.errors import DataError  # noqa: E402
from regard.shipped.find import read_packed  # noqa: E402
from regard.shipped.table import NAMES, Shipped, row  # noqa: E402
from regard.train.run_folder import RunFolder  # noqa: E402

SAVING = 60.0  # seconds that a stopped training has to save its state


class Training:
    """All trainings of one call."""

    def __init__(self, out: Path, runs: Path, jobs: int, deadline: float | None, settings: list[str]) -> None:
        self.out, self.runs, self.jobs, self.settings = out, runs, jobs, settings
        self.end = None if deadline is None else time.monotonic() + deadline
        self.file = out / "figures.json"
        known = json.loads(self.file.read_text(encoding="utf-8")) if self.file.exists() else []
        self.figures: dict[str, dict[str, Any]] = {figures["name"]: figures for figures in known}

    def run(self, models: list[Shipped]) -> int:
        """Train every seed of every model, pack each model after its last seed; how many failed."""
        failed = 0
        with ThreadPoolExecutor(self.jobs) as pool:
            left = {model.name: model.seeds for model in models}
            work: dict[Future[str], Shipped] = {
                pool.submit(self.train, model, seed): model
                for model in models
                for seed in range(1, model.seeds + 1)
            }
            for done in as_completed(work):
                model = work[done]
                if problem := done.result():
                    say(f"{model.name}: {problem}")
                left[model.name] -= 1
                if left[model.name] == 0:
                    failed += not self.pack(model)
        return failed

    def train(self, model: Shipped, seed: int) -> str:
        """One training, until it is over or the deadline comes; what went wrong, if anything did."""
        if self.end is not None and time.monotonic() >= self.end:
            return f"seed {seed} was not begun before the deadline"
        folder = self.folder(model, seed)
        words = [sys.executable, "-m", "regard", "train", "--run", str(folder)]
        if (folder / "config.toml").exists():
            words.append("--resume")
        else:
            words += [model.recipe, *(f"--set={setting}" for setting in (*model.settings, *self.settings))]
            words.append(f"--set=train.seed={seed}")
        say(f"{model.name}, seed {seed}: training")
        folder.parent.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        with folder.with_suffix(".log").open("wb") as log:
            process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=self.environment())
            try:
                process.wait(None if self.end is None else max(self.end - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.terminate()  # it saves its state
                try:
                    process.wait(SAVING)
                except subprocess.TimeoutExpired:
                    process.kill()
        say(f"{model.name}, seed {seed}: {time.monotonic() - started:.0f} s, status {process.returncode}")
        return "" if process.returncode in (0, 130) else f"seed {seed} failed; see {folder}.log"

    def pack(self, model: Shipped) -> bool:
        """Pack the best seed; False where nothing could be packed."""
        found = {seed: self.loss(model, seed) for seed in range(1, model.seeds + 1)}
        losses = {seed: loss for seed, loss in found.items() if loss is not None}
        if not losses:
            say(f"{model.name}: no seed has a checkpoint; nothing is packed")
            return False
        seed = min(losses, key=lambda seed: losses[seed])
        run, packed = self.folder(model, seed), self.out / model.name
        words = [sys.executable, "-m", "regard", "pack", str(run), str(packed)]
        done = subprocess.run(words, env=self.environment(), capture_output=True, text=True, check=False)
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["it said nothing"]
            say(f"{model.name}: not packed: {said[-1]}")
            return False
        result = read_packed(packed)
        record = result.record
        figures = {"bytes": result.bytes, "seed": seed, "validation_losses": losses}
        self.figures[model.name] = record | figures
        text = json.dumps(list(self.figures.values()), indent=1, ensure_ascii=False) + "\n"
        self.file.write_text(text, encoding="utf-8")
        say(f"{model.name}: {record['metric']} {record['value']:g}, {result.bytes / 1e6:.2f} MB packed")
        return True

    def loss(self, model: Shipped, seed: int) -> float | None:
        """The best validation loss of a run, 0 where its task has none; None where there is no checkpoint."""
        try:
            folder = RunFolder(self.folder(model, seed)).find("last")
        except DataError:
            return None
        if folder is None:
            return None
        return json.loads((folder / "state.json").read_text(encoding="utf-8")).get("best_loss") or 0.0

    def folder(self, model: Shipped, seed: int) -> Path:
        return self.runs / f"{model.name}-{seed}"

    def environment(self) -> dict[str, str]:
        threads = str(max((os.cpu_count() or 1) // self.jobs, 1))
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        return {**os.environ, "OMP_NUM_THREADS": threads, "PYTHONPATH": path}


def say(line: str) -> None:
    """A line with the time of day."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def main() -> int:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"one of\n{fill(', '.join(NAMES), 70, break_on_hyphens=False)}",
    )
    parser.add_argument("--all", action="store_true", help="every model of the table")
    parser.add_argument("--out", type=Path, default=ROOT / "regard" / "shipped", metavar="DIR")
    parser.add_argument("--runs", type=Path, default=Path("runs") / "shipped", metavar="DIR")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument("--deadline", type=float, metavar="SECONDS")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", dest="settings")
    given = parser.parse_args()
    unknown = [name for name in given.names if row(name) is None]
    if unknown or not (given.names or given.all):
        parser.error(f"unknown: {', '.join(unknown)}" if unknown else "expected names, or --all")
    models = [model for name in (NAMES if given.all else given.names) if (model := row(name)) is not None]
    training = Training(given.out, given.runs, max(given.jobs, 1), given.deadline, given.settings)
    return 1 if training.run(models) else 0


if __name__ == "__main__":
    sys.exit(main())
