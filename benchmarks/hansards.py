"""Word alignments from a Transformer's attention: learnt on Tatoeba alone, measured on the Hansards.

    python benchmarks/hansards.py --data corpora --out found --seconds 560       # one GPU
    python benchmarks/hansards.py --record found                                 # into results/hansards.json

Tatoeba's pairs are written in the words of the Hansards (lower case, `l'eau` as `le eau`, `don't` as `do
not`), alone and joined in rows of two to four, because the Hansards' sentences are longer. Two ways to have
both directions are trained side by side, three seeds each: one model for both, and one for each direction,
which sees half as many tokens. All trainings run at once and end together: each measures its speed first and
plans as many steps as fit.

Every decoder layer is read, its attention credited to the word written or to the word read, and the two
directions are joined by grow-diag. The Hansards' gold links choose nothing: the way, the layer and the credit
are chosen by the lowest alignment error rate on sentences of the embedded corpus, as a mean over the seeds.

found/hansards.json has the figures, links.json.gz all links, *.safetensors weights in int8 (of the models for
both directions, and of the first seed of the others), tokenizer.json their vocabulary.
"""

import argparse
import gzip
import json
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from common import arguments  # noqa: E402
from timed import answer, answers, say, speed, start, together, wait  # noqa: E402

from regard.analysis.alignments import (  # noqa: E402
    METHODS,
    Cut,
    agreement,
    layer_links,
    symmetrize,
    turned,
)
from regard.data.corpora import find_corpus  # noqa: E402
from regard.data.spacing import Spacing  # noqa: E402
from regard.data.tokens import Tokenizer  # noqa: E402
from regard.evaluate.alignment import Gold, Link, Links, score_alignment  # noqa: E402

DIRECTIONS = ("en-fr", "fr-en")
WAYS = {"one model": ("both",), "two models": DIRECTIONS}
METHOD = "grow-diag"  # as in the literature; the others are shown too
MEASURING = 70.0  # seconds reserved for reading links from trainings that the deadline stopped
SHOWN = 500  # validation pairs of Tatoeba, on which the directions are compared
CONFIG = """
[model]
name = "transformer"
layers = 4
d_model = 256
d_ff = 1024
dropout = 0.1
tied = "all"

[model.attention]
heads = 4

[task]
name = "files"
pieces = "bpe"
joint = true
size = 6000
smoothing = 0.1
bpe_dropout = 0.1
bpe_samples = 2

[train]
steps = 6000
batch = 16384
lr = 0.001
schedule = "cosine"
warmup = 800
betas = [0.9, 0.98]
precision = "bf16"
evaluate_every = 0
checkpoint_every = 0
log_every = 50

[decode]
beam = 1
"""

# Text in the words of the Hansards: every mark a word, elisions and contractions written out ----------------

_MARKS = re.compile(r"\d+(?:[.,]\d+)+|\w+|[^\w\s]")
_ENGLISH = (
    (r"\bwon't\b", "will not"),
    (r"\bcan't\b", "cannot"),
    (r"\bshan't\b", "shall not"),
    (r"n't\b", " not"),
    (r"\blet's\b", "let us"),
    (r"\b(it|he|she|that|what|there|who|where|how|here|when|why)'s\b", r"\1 is"),
    (r"\bi'm\b", "i am"),
    (r"'re\b", " are"),
    (r"'ve\b", " have"),
    (r"'ll\b", " will"),
    (r"'d\b", " would"),
)
_FRENCH = (
    (r"\baujourd'hui\b", "aujourd’ hui"),
    (r"\b(s)'(?=ils?\b)", "si "),
    (r"\b(c|d|j|l|m|n|s|t|\w*qu)'", r"\1e "),
    (r"\bdu\b", "de le"),
    (r"\bdes\b", "de les"),
    (r"\bau\b", "à le"),
    (r"\baux\b", "à les"),
)
_EXPANDED = {
    language: [(re.compile(pattern), written) for pattern, written in rules]
    for language, rules in (("en", _ENGLISH), ("fr", _FRENCH))
}


def words_of(text: str, language: str) -> list[str]:
    """A sentence in lower-case words, cut as the Hansards are: `l'eau` is `le eau`, `don't` is `do not`."""
    text = text.lower().replace("’", "'")
    for pattern, written in _EXPANDED[language]:
        text = pattern.sub(written, text)
    words: list[str] = []
    for word in _MARKS.findall(text):
        if word in ("'", "’") and words and words[-1] == "aujourd":
            words[-1] = "aujourd'"
        elif word == "s" and words and words[-1] == "'":
            words[-1] = "'s"
        else:
            words.append(word)
    return words


Words = tuple[list[str], list[str]]  # of both languages
LINKS = ((".", "."), (",", ","), (";", ";"), ("and", "et"), ("but", "mais"), ("because", "parce que"))
LONGEST = 4  # pairs joined into one


def joined(pairs: Sequence[Words], seed: int) -> Iterator[Words]:
    """Each pair alone, and again in a row of two, of three, … : the Hansards' sentences are longer."""
    chance = random.Random(seed)
    yield from pairs
    for size in range(2, LONGEST + 1):
        order = chance.sample(range(len(pairs)), len(pairs))
        for first in range(0, len(order) - size + 1, size):
            source, target = (list(side) for side in pairs[order[first]])
            for number in order[first + 1 : first + size]:
                link = chance.choice(LINKS)
                for side, word, more in zip((source, target), link, pairs[number], strict=True):
                    if side[-1] in (".", "!", "?"):
                        side.pop()
                    side += [*word.split(), *more]
            yield source, target


def write_text(stem: Path, pairs: Iterable[Words]) -> None:
    """Two files, `stem.en` and `stem.fr`."""
    spacings = Spacing("en"), Spacing("fr")
    lines = [tuple(s.join(side) for s, side in zip(spacings, pair, strict=True)) for pair in pairs]
    for side, language in enumerate(("en", "fr")):
        text = "".join(f"{line[side]}\n" for line in lines)
        stem.with_name(f"{stem.name}.{language}").write_text(text, encoding="utf-8")


# What is aligned: pairs in words, with gold links where there are any ----------------------------------


def tatoeba(split: str, data: str) -> list[Words]:
    """A split of Tatoeba in the words of the Hansards."""
    pairs = find_corpus("tatoeba-en-fr").stream(split, data)
    cut = ((words_of(pair.source, "en"), words_of(pair.target, "fr")) for pair in pairs)
    return [pair for pair in cut if all(pair)]


def embedded(count: int) -> list[dict[str, Any]]:
    """Validation sentences of the embedded corpus; links of contractions, written out, are possible ones."""
    from regard.tasks.grammar import GrammarSettings, GrammarTask

    task = GrammarTask.create(GrammarSettings(train=2000, valid=count))
    found = []
    for example in task.examples("valid"):
        sides, places = [], []
        for tokenizer, text in ((task.source, example.source), (task.target, example.target)):
            words: list[str] = []
            own = []
            for piece in tokenizer.pieces(text):
                more = words_of(piece, tokenizer.language)
                own.append(range(len(words), len(words) + len(more)))
                words += more
            sides.append(words)
            places.append(own)
        sure, possible = [], []
        for s, t in example.links or ():
            kind = sure if len(places[0][s]) == len(places[1][t]) == 1 else possible
            kind += [(a, b) for a in places[0][s] for b in places[1][t]]
        found.append({"words": sides, "sure": sure, "possible": possible})
    return found


def hansards(data: str) -> list[dict[str, Any]]:
    """The hand-aligned sentences."""
    return [
        {
            "words": [[word.lower() for word in side] for side in pair.words],
            "sure": pair.links,
            "possible": pair.possible,
        }
        for pair in find_corpus("hansards").stream("test", data)
        if pair.words is not None
    ]


# One training, in a process of its own -----------------------------------------------------------------


def train(order: dict[str, Any]) -> None:
    """Train until the deadline, force all pairs, write links and weights. SIGTERM ends only the training."""
    import torch
    from safetensors.torch import save_file

    from regard.tasks.files import FilesTask
    from regard.train.config import load_run, override
    from regard.train.interrupt import Interrupted
    from regard.train.loop import fit
    from regard.train.progress import Quiet
    from regard.train.quantization import encode
    from regard.train.run import build_model

    work, name = Path(order["work"]), order["name"]
    source, target = ("fr", "en") if order["direction"] == "fr-en" else ("en", "fr")
    changes = [
        *order["settings"],
        f'task.source="{work}/train.{source}"',
        f'task.target="{work}/train.{target}"',
        f'task.valid_source="{work}/valid.{source}"',
        f'task.valid_target="{work}/valid.{target}"',
        f"task.source_language={source}",
        f"task.target_language={target}",
        f"train.seed={order['seed']}",
    ]
    if order["direction"] == "both":
        changes.append("task.reversed_epochs=1000")
    config = load_run(work / "config.toml", changes)
    if order["direction"] != "both":
        config = override(config, [f"train.batch={config.train.batch // 2}"])
    task = FilesTask.restore(FilesTask.Settings(**config.task_settings), work)
    if config.task_settings.get("bpe_dropout"):
        task.recut(1)
    together(work, name, order["trainings"])

    steps = order["steps"]
    if not steps:
        own = speed(config, task, work / f"{name}.try", order["tried"])
        steps = own.steps(order["end"] - time.monotonic())
    config = override(config, [f"train.steps={steps}"])
    model = build_model(config, task)
    began, last = time.monotonic(), steps
    try:
        loss = fit(model, task, config, run=work / f"{name}.run", progress=Quiet()).best_loss
    except Interrupted as stopped:
        last, loss = stopped.step, None
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    seconds = time.monotonic() - began
    model.eval()
    weights = {key: tensor.cpu().contiguous() for key, tensor in dict(model.named_parameters()).items()}
    save_file(encode(weights, "int8-groups"), work / f"{name}.safetensors")
    found: dict[str, Any] = {
        "steps": steps,
        "stopped": last,
        "seconds": round(seconds, 1),
        "batch": config.train.batch,
        "loss": loss,
        "parameters": sum(tensor.numel() for tensor in weights.values()),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "links": {},
    }
    directions = DIRECTIONS if order["direction"] == "both" else (order["direction"],)
    for kind, pairs in json.loads((work / "pairs.json").read_text(encoding="utf-8")).items():
        sides = [[Cut(*task.source.encode_words(pair["words"][n])) for pair in pairs] for n in (0, 1)]
        for direction in directions:
            forward = direction == "en-fr"
            read = layer_links(model, *(sides if forward else sides[::-1]))  # type: ignore[arg-type]
            found["links"].setdefault(kind, {})[direction] = {
                f"{layer} {credit}": [sorted(own if forward else turned(own)) for own in links]
                for (layer, credit), links in read.items()
            }
    answer(work, name, found)


# All trainings -----------------------------------------------------------------------------------------


def run(given: argparse.Namespace) -> None:
    """Write the text, train everything side by side, choose, write what was found."""
    began = time.monotonic()
    end = began + given.seconds
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        text = tatoeba("train", given.data)
        if given.pairs:
            text = random.Random(1).sample(text, given.pairs)
        write_text(work / "train", joined(text, 1))
        valid = random.Random(2).sample(list(joined(tatoeba("valid", given.data), 2)), SHOWN)
        write_text(work / "valid", valid)
        learn_pieces(work)
        pairs = {
            "embedded": embedded(240),
            "tatoeba": [{"words": pair} for pair in valid],
            "hansards": hansards(given.data),
        }
        (work / "pairs.json").write_text(json.dumps(pairs), encoding="utf-8")
        (work / "config.toml").write_text(CONFIG, encoding="utf-8")
        say(f"text and pieces written after {time.monotonic() - began:.0f} s")
        orders = [
            {
                "name": f"{way.split()[0]}-{direction}-{seed}",
                "direction": direction,
                "seed": seed,
                "end": end - MEASURING,
                "settings": given.settings,
                "steps": given.steps,
                "tried": given.tried,
            }
            for way in given.ways
            for direction in WAYS[way]
            for seed in given.seeds
        ]
        children = start(__file__, [order | {"trainings": len(orders)} for order in orders], work)
        say(f"{len(orders)} trainings begun")
        wait(children, stop=end - MEASURING + 5, kill=end - 12)
        found = answers(children, work)
        keep(given.out, work, found)
        report(given, found, {kind: pairs[kind] for kind in ("embedded", "hansards")})
    say(f"done after {time.monotonic() - began:.0f} s")


def learn_pieces(work: Path) -> None:
    """One vocabulary for both languages and all trainings."""
    from regard.train.config import parse

    size = parse("hansards", CONFIG)["task"]["size"]
    lines = (
        line for language in ("en", "fr") for line in (work / f"train.{language}").open(encoding="utf-8")
    )
    Tokenizer.train((line.rstrip("\n") for line in lines), kind="bpe", language="fr", size=size).save(
        work / "tokenizer.json"
    )


# Choosing and telling ----------------------------------------------------------------------------------

Sentences = list[Links]


def keep(out: Path, work: Path, found: dict[str, Any]) -> None:
    """All links, and the weights of the models for both directions and of the first seed of the others."""
    with gzip.open(out / "links.json.gz", "wt", encoding="utf-8", compresslevel=5) as file:
        json.dump({name: each["links"] for name, each in found.items()}, file)
    shutil.copy(work / "tokenizer.json", out)
    for name in found:
        if name.startswith("one") or name.endswith("-1"):
            shutil.copy(work / f"{name}.safetensors", out)


def report(given: argparse.Namespace, found: dict[str, Any], gold: dict[str, list[dict[str, Any]]]) -> None:
    """Score every way and reading, choose on the embedded corpus, write and print the figures."""
    from regard.evaluate.results import commit, machine

    wanted = {
        kind: [Gold(_links(pair["sure"]), _links(pair["possible"])) for pair in pairs]
        for kind, pairs in gold.items()
    }
    rows = []
    for way, directions in WAYS.items():
        seeds = [s for s in given.seeds if all(f"{way.split()[0]}-{d}-{s}" in found for d in directions)]
        for seed in seeds:
            own = [found[f"{way.split()[0]}-{direction}-{seed}"] for direction in directions]
            links: dict[str, dict[str, dict[str, Sentences]]] = {}
            for each in own:
                for kind, by_direction in each["links"].items():
                    for direction, readings in by_direction.items():
                        links.setdefault(kind, {})[direction] = {
                            reading: [_links(sentence) for sentence in sentences]
                            for reading, sentences in readings.items()
                        }
            rows += [
                {"way": way, "seed": seed, "reading": reading, **scores(links, reading, wanted)}
                for reading in links["hansards"]["en-fr"]
            ]
    chosen = choose(rows)
    summary = {
        "chosen": chosen,
        "rows": rows,
        "trainings": {name: {k: v for k, v in each.items() if k != "links"} for name, each in found.items()},
        "seconds": given.seconds,
        "machine": machine(),
        "date": date.today().isoformat(),
        "commit": commit(),
        "config": CONFIG,
    }
    (given.out / "hansards.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    for row in sorted(rows, key=lambda row: (row["way"], row["reading"], row["seed"])):
        embedded_rate, rates = row["embedded"][METHOD], row["hansards"]
        say(
            f"{row['way']}, seed {row['seed']}, {row['reading']}: embedded {embedded_rate:.3f}, agreement "
            f"{row['agreement']:.3f}, Hansards "
            + ", ".join(f"{key} {rate:.3f}" for key, rate in rates.items())
        )
    say(f"chosen: {json.dumps(chosen)}")


def scores(
    links: dict[str, dict[str, dict[str, Sentences]]], reading: str, wanted: dict[str, list[Gold]]
) -> dict[str, Any]:
    """Error rates of both directions and all joins on both corpora; the directions' agreement on Tatoeba."""
    found: dict[str, Any] = {}
    for kind, gold in wanted.items():
        forward, backward = (links[kind][direction][reading] for direction in DIRECTIONS)
        made = {"en-fr": forward, "fr-en": backward}
        made |= {
            method: [symmetrize(a, b, method) for a, b in zip(forward, backward, strict=True)]
            for method in METHODS
        }
        found[kind] = {name: round(score_alignment(own, gold).error_rate, 4) for name, own in made.items()}
    found["agreement"] = round(agreement(*(links["tatoeba"][d][reading] for d in DIRECTIONS)), 4)
    return found


def choose(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The way and the reading with the lowest mean error rate on the embedded corpus."""
    groups = grouped(rows)
    means = {key: mean(row["embedded"][METHOD] for row in own) for key, own in groups.items()}
    if not means:
        return {}
    way, reading = min(means, key=lambda key: means[key])
    own = groups[way, reading]
    return {
        "way": way,
        "reading": reading,
        "seeds": [row["seed"] for row in own],
        "embedded": round(means[way, reading], 4),
        "hansards": {
            name: round(mean(row["hansards"][name] for row in own), 4) for name in own[0]["hansards"]
        },
    }


def grouped(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The seeds of each way and reading."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["way"], row["reading"]), []).append(row)
    return groups


def record(folder: Path, results: Path) -> None:
    """A run's figures as a record: the mean over the seeds, and every way and reading in the details."""
    from regard.evaluate.results import Result, commit, write_result

    found = json.loads((folder / "hansards.json").read_text(encoding="utf-8"))
    chosen, groups = found["chosen"], grouped(found["rows"])
    own = groups[chosen["way"], chosen["reading"]]
    layer, credit = chosen["reading"].split()
    details = {
        "catalogue": ["model:transformer"],
        "way": chosen["way"],
        "layer": int(layer),
        "credit": credit,
        "join": METHOD,
        "values": {str(row["seed"]): row["hansards"][METHOD] for row in own},
        "joins": chosen["hansards"],
        "readings": [
            {
                "way": way,
                "reading": reading,
                "embedded": round(mean(row["embedded"][METHOD] for row in rows), 4),
                "agreement": round(mean(row["agreement"] for row in rows), 4),
                "hansards": round(mean(row["hansards"][METHOD] for row in rows), 4),
            }
            for (way, reading), rows in groups.items()
        ],
        "trainings": found["trainings"],
        "config": found["config"],
    }
    seconds = [each["seconds"] for each in found["trainings"].values()]
    result = Result(
        recipe="hansards",
        metric="alignment error rate on hansards, both directions",
        value=chosen["hansards"][METHOD],
        paper_value=None,
        paper_note="analysis: Chen et al. 2020",
        seconds=round(mean(seconds), 1),
        machine=found["machine"],
        date=found["date"],
        commit=found["commit"] or commit(),
        seeds=tuple(chosen["seeds"]),
        details=details,
    )
    write_result(results, result)


def _links(links: Iterable[Sequence[int]]) -> Links:
    return frozenset(Link(*link) for link in links)


def main() -> None:
    """Read the command line."""
    parser = arguments(__doc__)
    parser.add_argument("--data", default="", metavar="DIR", help="folder with tatoeba and hansards")
    parser.add_argument("--out", type=Path, default=Path("hansards"), metavar="DIR")
    parser.add_argument("--seconds", type=float, default=560.0, help="wall clock for everything")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--steps", type=int, default=0, help="of each training; 0: as many as fit")
    parser.add_argument("--tried", type=int, default=120, help="steps that tell a training's speed")
    parser.add_argument("--pairs", type=int, default=0, help="so many training pairs; 0: all")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="A.B=C")
    parser.add_argument("--record", type=Path, metavar="DIR", help="write what a run found into results/")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        train(json.loads(given.train))
    elif given.record:
        record(given.record, ROOT / "results")
    else:
        run(given)


if __name__ == "__main__":
    main()
