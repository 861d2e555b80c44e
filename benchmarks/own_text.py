"""Which Transformer is best for how much text: the sizes of regard/train/own_text.py and others.

    python benchmarks/own_text.py --source train.en --target train.de --valid-source val.en \
        --valid-target val.de --pairs 1000 3000 10000 29000 --minutes 9 --jobs 16 --out own-text.json
    python benchmarks/own_text.py --corpus tatoeba-en-fr --data corpora --pairs 10000 100000 --out other.json

For each number of pairs, drawn at random, it trains the recurrent network that was the default before
(`rnnsearch`), the row of the table (`table`) and a few variants of it, several at once, each in a process of
its own. Each is measured on the validation text: BLEU and chrF of the best weights, and of the mean of the
last five evaluations' weights. At the deadline trainings are stopped and measured as they are; those without
figures five seconds before `--minutes` are over are left out. The file is written after every result.

    python benchmarks/own_text.py --record own-text.json other.json

writes what such files hold into results/own-text.json, means over the seeds.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from timed import say  # noqa: E402

MEASURING = 60.0  # seconds reserved for measuring trainings that the deadline stopped
SIDES = ("source", "target", "valid_source", "valid_target")
SHOWN = {  # settings in a record, and their place in a config
    "layers": ("model", "layers"),
    "d_model": ("model", "d_model"),
    "d_ff": ("model", "d_ff"),
    "heads": ("model", "attention.heads"),
    "dropout": ("model", "dropout"),
    "vocabulary": ("task", "size"),
    "smoothing": ("task", "smoothing"),
    "r_drop": ("task", "r_drop"),
    "batch": ("train", "batch"),
    "lr": ("train", "lr"),
    "warmup": ("train", "warmup"),
}


def variants(pairs: int) -> dict[str, list[str]]:
    """Changes to the row of the table, by name."""
    agreeing = ["task.r_drop=3.0"]
    if pairs < 2_000:
        return {
            "R-Drop": agreeing,
            "3 layers, width 256, dropout 0.4, 2000 pieces, R-Drop": [
                *_network(3, 256, 1024, 4, 0.4),
                "task.size=2000",
                *agreeing,
            ],
            "smoothing 0.2, 500 pieces, R-Drop": ["task.smoothing=0.2", "task.size=500", *agreeing],
        }
    if pairs < 6_000:
        return {
            "R-Drop": agreeing,
            "width 256, R-Drop": [*_network(3, 256, 1024, 4, 0.3), *agreeing],
            "width 256, dropout 0.4, 4000 pieces, R-Drop": [
                *_network(3, 256, 1024, 4, 0.4),
                "task.size=4000",
                *agreeing,
            ],
        }
    if pairs < 20_000:
        return {
            "R-Drop": agreeing,
            "8000 pieces, R-Drop": ["task.size=8000", *agreeing],
            "width 512, R-Drop, lr 0.0005": [*_network(3, 512, 1024, 8, 0.3), "train.lr=0.0005", *agreeing],
        }
    if pairs < 60_000:
        return {
            "R-Drop": agreeing,
            "dropout 0.2, R-Drop": ["model.dropout=0.2", *agreeing],
            "width 512, R-Drop, lr 0.0005": [*_network(3, 512, 1024, 8, 0.3), "train.lr=0.0005", *agreeing],
        }
    if pairs < 200_000:
        return {
            "R-Drop 1": ["task.r_drop=1.0"],
            "dropout 0.1": ["model.dropout=0.1"],
            "width 512, dropout 0.2, lr 0.0005": [*_network(4, 512, 1024, 8, 0.2), "train.lr=0.0005"],
        }
    return {
        "dropout 0.2, R-Drop 1": ["model.dropout=0.2", "task.r_drop=1.0"],
        "width 512, lr 0.0007": [*_network(6, 512, 2048, 8, 0.1), "train.lr=0.0007"],
    }


def _network(layers: int, width: int, inner: int, heads: int, dropout: float) -> list[str]:
    return [
        f"model.layers={layers}",
        f"model.d_model={width}",
        f"model.d_ff={inner}",
        f"model.attention.heads={heads}",
        f"model.dropout={dropout}",
    ]


def train(order: dict[str, Any]) -> dict[str, Any]:
    """One training and its figures; SIGTERM ends the training, not the measurement."""
    from regard.cli.text import Text
    from regard.cli.train import choose_config
    from regard.evaluate.base import evaluate
    from regard.evaluate.results import machine
    from regard.train.interrupt import Interrupted
    from regard.train.loop import fit
    from regard.train.progress import Quiet
    from regard.train.run import create, open_run

    source, target = order["languages"]
    text = Text(**order["files"], source_language=source, target_language=target)
    config = choose_config(None, text, "", order["settings"])
    model, task = create(config)
    run = Path(order["run"])
    began, whole = time.perf_counter(), True
    try:
        fit(model, task, config, run=run, progress=Quiet())
    except Interrupted:
        whole = False
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    found: dict[str, Any] = {
        "whole": whole,
        "minutes": round((time.perf_counter() - began) / 60, 2),
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": config.train.steps,
        "settings": config.tables(),
        "machine": machine(),
        "date": date.today().isoformat(),
    }
    for checkpoint in ("best", "averaged") if config.train.average and whole else ("best",):
        opened = open_run(run, checkpoint=checkpoint)
        scores = evaluate(opened.model, opened.task, "valid", decoding=config.decode).summary()
        found[checkpoint] = {"step": opened.step, "bleu": scores["bleu"], "chrf": scores["chrf"]}
    return found


class Benchmark:
    """All trainings of one call."""

    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self.given, self.folder = given, folder
        self.end = time.monotonic() + 60 * given.minutes
        self.results: list[dict[str, Any]] = []
        self.lock = Lock()

    def run(self) -> None:
        orders = [
            order
            for pairs in sorted(self.given.pairs, reverse=True)  # the longest first
            for order in self.orders(pairs)
        ]
        say(f"{len(orders)} trainings, {self.given.jobs} at once, {self.given.minutes:g} minutes")
        self.write()
        with ThreadPoolExecutor(self.given.jobs) as pool:
            list(pool.map(self.measure, range(len(orders)), orders))

    def orders(self, pairs: int) -> list[dict[str, Any]]:
        """What to train on so many pairs."""
        files = self.given.files | self.draw(pairs)
        common = {"pairs": pairs, "files": files, "languages": self.given.languages}
        more, only = self.given.settings, self.given.only
        # captured steps compute the same as plain ones, in a fraction of the time
        old = ["train.capture=true", "model.name=rnnsearch", *(more if self.given.tiny else [])]
        settings = {"rnnsearch": old}
        for name, changes in {"table": [], **variants(pairs)}.items():
            settings[name] = ["train.average=5", *changes, *more]
        return [
            common | {"variant": name, "seed": seed, "settings": [*own, f"train.seed={seed}"]}
            for seed in self.given.seeds
            for name, own in settings.items()
            if only is None or name in only
        ]

    def draw(self, pairs: int) -> dict[str, str]:
        """So many pairs at random, in the order of the files."""
        from regard.data.parallel import Parallel

        source, target = (Path(self.given.files[side]) for side in ("source", "target"))
        every = list(Parallel(source, target))
        chosen = sorted(random.Random(1).sample(range(len(every)), min(pairs, len(every))))
        return write_text(self.folder / f"{pairs}", ("source", "target"), [every[n] for n in chosen])

    def measure(self, number: int, order: dict[str, Any]) -> None:
        """One training in a process of its own."""
        name = f"{order['pairs']:,} pairs, {order['variant']}, seed {order['seed']}"
        if time.monotonic() > self.end - MEASURING - 30:
            say(f"{name}: not begun")
            return
        words = [
            sys.executable,
            __file__,
            "--train",
            json.dumps(order | {"run": str(self.folder / f"run{number}")}),
        ]
        threads = str(max((os.cpu_count() or 1) // self.given.jobs, 1))
        log = self.folder / f"run{number}.log"
        environment = os.environ | {"OMP_NUM_THREADS": threads, "REGARD_CACHE": str(self.folder / "cache")}
        with log.open("wb") as errors:
            child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, env=environment)
            out = self.wait(child)
        lines = out.decode().splitlines()
        if child.returncode or not lines:
            said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or [
                "no figures in time"
            ]
            say(f"{name}: {said[-1]}")
            return
        found = json.loads(lines[-1])
        kept = {key: order[key] for key in ("pairs", "variant", "seed")}
        with self.lock:
            self.results.append(kept | found)
            self.write()
        best, mean = found["best"], found.get("averaged", {})
        say(
            f"{name}: BLEU {best['bleu']:.2f} at step {best['step']} of {found['steps']}, "
            f"averaged {mean.get('bleu', float('nan')):.2f}, {found['minutes']} min"
        )

    def wait(self, child: "subprocess.Popen[bytes]") -> bytes:
        """Its output; the deadline ends its training, and the end of all time the process."""
        for left, stop in ((self.end - MEASURING, child.terminate), (self.end - 5, child.kill)):
            try:
                return child.communicate(timeout=max(left - time.monotonic(), 0.1))[0]
            except subprocess.TimeoutExpired:
                stop()
        return child.communicate()[0]

    def write(self) -> None:
        found = {"text": self.given.name, "commit": self.given.commit, "results": self.results}
        text = json.dumps(found, indent=1, ensure_ascii=False)
        self.given.out.write_text(text + "\n", encoding="utf-8")


def corpus_files(name: str, data: str, folder: Path) -> tuple[dict[str, str], tuple[str, str]]:
    """The training and validation text of a corpus by name as four files, and its languages."""
    from regard.data.corpora import find_corpus

    corpus = find_corpus(name)
    files: dict[str, str] = {}
    for split, sides in (("train", SIDES[:2]), ("valid", SIDES[2:])):
        pairs = [(found.source, found.target) for found in corpus.stream(split, data)]
        files |= write_text(folder / split, sides, pairs)
    return files, corpus.languages


def write_text(stem: Path, sides: Sequence[str], pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Two files, one line for each pair."""
    paths = {}
    for side, lines in zip(sides, zip(*pairs, strict=True), strict=True):
        path = stem.with_name(f"{stem.name}.{side}")
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        paths[side] = str(path)
    return paths


def record(files: Sequence[Path], folder: Path) -> None:
    """The mean over the seeds of each network on each amount of text, as result records."""
    from statistics import mean

    from regard.evaluate.results import Result, write_result

    for file in files:
        found = json.loads(file.read_text(encoding="utf-8"))
        groups: dict[tuple[int, str], list[dict[str, Any]]] = {}
        for each in found["results"]:
            groups.setdefault((each["pairs"], each["variant"]), []).append(each)
        for (pairs, variant), runs in sorted(groups.items()):
            averaged = [run["averaged"]["bleu"] for run in runs if "averaged" in run]
            result = Result(
                recipe="own-text",
                metric=f"{found['text']}, {pairs:,} pairs, {variant}: BLEU on the validation text",
                value=round(mean(run["best"]["bleu"] for run in runs), 2),
                paper_value=None,
                paper_note="",
                seconds=round(60 * mean(run["minutes"] for run in runs), 1),
                machine=runs[0]["machine"],
                date=runs[0]["date"],
                commit=found["commit"],
                seeds=tuple(sorted(run["seed"] for run in runs)),
                details={
                    "text": found["text"],
                    "pairs": pairs,
                    "variant": variant,
                    "values": {str(run["seed"]): run["best"]["bleu"] for run in runs},
                    "chrf": round(mean(run["best"]["chrf"] for run in runs), 2),
                    "averaged": round(mean(averaged), 2) if averaged else None,
                    "parameters": runs[0]["parameters"],
                    "steps": runs[0]["steps"],
                    "best_step": [run["best"]["step"] for run in runs],
                    "whole": all(run["whole"] for run in runs),
                    "settings": {
                        name: runs[0]["settings"][table][key]
                        for name, (table, key) in SHOWN.items()
                        if key in runs[0]["settings"][table]
                    },
                },
            )
            write_result(folder, result)


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for side in SIDES:
        parser.add_argument(f"--{side.replace('_', '-')}", default="", metavar="FILE")
    parser.add_argument("--corpus", default="", metavar="NAME", help="in place of the four files")
    parser.add_argument("--data", default="", metavar="DIR", help="the folder that holds the corpus")
    parser.add_argument("--languages", nargs=2, default=["", ""], metavar="CODE")
    parser.add_argument("--pairs", type=int, nargs="+", default=[1000, 3000, 10_000, 29_000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument(
        "--only", nargs="+", metavar="VARIANT", help="of rnnsearch, table, and the others' names"
    )
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", dest="settings")
    parser.add_argument("--tiny", action="store_true", help="the settings hold for rnnsearch too")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("own-text.json"))
    parser.add_argument("--record", type=Path, nargs="+", metavar="FILE", help="train nothing, write records")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.record:
        record(given.record, ROOT / "results")
        return
    if given.train:
        print(json.dumps(train(json.loads(given.train)), ensure_ascii=False, default=list))
        return
    from regard.evaluate.results import commit

    with TemporaryDirectory(prefix="own-text-") as name:
        folder = Path(name)
        given.files = {side: getattr(given, side) for side in SIDES}
        given.name, given.commit = given.corpus or Path(given.source).name, commit()
        if given.corpus:
            given.files, given.languages = corpus_files(given.corpus, given.data, folder)
        elif not all(given.files.values()):
            parser.error("expected --source, --target, --valid-source and --valid-target, or --corpus")
        else:
            from regard.tasks.files import guess_language

            guessed = [guess_language(given.files[side]) for side in SIDES[:2]]
            given.languages = [own or guess for own, guess in zip(given.languages, guessed, strict=True)]
        Benchmark(given, folder).run()


if __name__ == "__main__":
    main()
