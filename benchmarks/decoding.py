"""How fast a Transformer decodes on one CPU thread, compared with CTranslate2 with the same weights.

    python benchmarks/decoding.py [--runs 7] [--record]

Six layers on each side, d_model 256, d_ff 1024, 4 heads, 5,300 pieces, random weights, float32; 96 sentences
of 20 pieces in batches of 32, every output 20 pieces long, greedily and with a beam of 5. Parity comes first:
both must write the same pieces. Then they run in turns, in one process; speed is by the least processor time,
which other load on the machine changes little, and the ratio is between the two. The ratio by wall-clock time
and the machine's load are printed too.

The cost of a longer output: greedy decoding of 20, 40, 80, 160 and 320 pieces; the exponent is the slope of a
least-squares line through them in log-log scale. Recomputing all earlier pieces would give 2 or more.

`--record` writes results/decoding.json.
"""

import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from common import arguments, keep

from regard.attention.config import AttentionConfig
from regard.data.batches import pair_batch
from regard.data.tokens import SPECIAL
from regard.decode.base import PowerPenalty
from regard.decode.beam import beam_search
from regard.decode.greedy import greedy
from regard.export.ctranslate2 import save
from regard.models.transformer import Transformer, TransformerConfig

V, SENTENCES, LENGTH, BATCH, SEED = 5300, 96, 20, 32, 1
BEAMS = {1: 1.0, 5: 1.0}  # the required share of CTranslate2's speed
LENGTHS = (20, 40, 80, 160, 320)

Written = list[tuple[int, ...]]


@dataclass
class Times:
    """Processor and wall-clock seconds of each run."""

    processor: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def run(self, work: Callable[[], Written]) -> Written:
        processor, wall = time.process_time(), time.perf_counter()
        found = work()
        self.processor.append(time.process_time() - processor)
        self.wall.append(time.perf_counter() - wall)
        return found

    def speed(self, tokens: int) -> float:
        return tokens / min(self.processor)


class Ours:
    """Our model and our search."""

    def __init__(self, model: Transformer, sources: list[list[int]]) -> None:
        self.model, self.sources = model, sources

    def write(self, beam: int, length: int = LENGTH) -> Written:
        written: Written = []
        for start in range(0, len(self.sources), BATCH):
            rows = self.sources[start : start + BATCH]
            batch = pair_batch(rows, [[] for _ in rows])
            if beam == 1:
                found = greedy(self.model, batch, maximum=length, minimum=length)
                written += [each.tokens for each in found]
            else:
                several = beam_search(
                    self.model, batch, width=beam, maximum=length, minimum=length, penalty=PowerPenalty(0.0)
                )
                written += [each[0].tokens for each in several]
        return written


class Theirs:
    """CTranslate2 with the same weights."""

    def __init__(self, model: Transformer, sources: list[list[int]]) -> None:
        import ctranslate2

        self.pieces = [*SPECIAL, *map(str, range(len(SPECIAL), V))]
        self.numbers = {piece: number for number, piece in enumerate(self.pieces)}
        self.sources = [[self.pieces[number] for number in row] for row in sources]
        with tempfile.TemporaryDirectory() as folder:
            save(model, self.pieces, self.pieces, Path(folder))
            self.engine = ctranslate2.Translator(
                folder, device="cpu", compute_type="float32", inter_threads=1, intra_threads=1
            )

    def write(self, beam: int, length: int = LENGTH) -> Written:
        results = self.engine.translate_batch(
            self.sources,
            max_batch_size=BATCH,
            beam_size=beam,
            length_penalty=0,
            max_decoding_length=length,
            min_decoding_length=length,
            suppress_sequences=[[piece] for piece in SPECIAL[:2]],
        )
        return [tuple(self.numbers[piece] for piece in each.hypotheses[0]) for each in results]


def random_transformer() -> Transformer:
    """The model of the comparison; gains and biases are random too, so that parity covers them."""
    torch.manual_seed(SEED)
    config = TransformerConfig(
        source_vocab=V,
        target_vocab=V,
        layers=6,
        d_model=256,
        d_ff=1024,
        tied="all",
        attention=AttentionConfig("scaled-dot", heads=4),
    )
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += 0.1 * torch.randn_like(parameter)
    return model


def compare(ours: Ours, theirs: Theirs, beam: int, runs: int) -> dict[str, Any]:
    """Check parity, then run both in turns."""
    same = sum(a == b for a, b in zip(ours.write(beam), theirs.write(beam), strict=True))
    if same < SENTENCES:
        raise SystemExit(f"beam {beam}: only {same} of {SENTENCES} outputs are the same.")
    mine, other = Times(), Times()
    for _ in range(runs):
        mine.run(lambda: ours.write(beam))
        other.run(lambda: theirs.write(beam))
    tokens = SENTENCES * LENGTH
    found = {
        "tokens/s": round(mine.speed(tokens), 1),
        "tokens/s of CTranslate2": round(other.speed(tokens), 1),
        "ratio": round(mine.speed(tokens) / other.speed(tokens), 3),
        "ratio of the medians": round(
            statistics.median(other.processor) / statistics.median(mine.processor), 3
        ),
        "ratio by the clock on the wall": round(min(other.wall) / min(mine.wall), 3),
        "load of the machine": round(os.getloadavg()[0], 1),
    }
    print(f"beam {beam}: {same} of {SENTENCES} outputs the same;", found, flush=True)
    return found


def growth(ours: Ours, runs: int) -> dict[str, Any]:
    """Seconds of greedy decoding by output length, and the fitted exponent."""
    short = Ours(ours.model, ours.sources[:BATCH])
    seconds = {}
    for length in LENGTHS:
        times = Times()
        for _ in range(max(2, runs // 2)):
            times.run(lambda length=length: short.write(1, length))  # type: ignore[misc]
        seconds[length] = min(times.processor)
    x = [math.log(length) for length in seconds]
    y = [math.log(each) for each in seconds.values()]
    slope = statistics.linear_regression(x, y).slope
    found = {
        "exponent": round(slope, 3),
        "seconds": {str(length): round(each, 3) for length, each in seconds.items()},
        "milliseconds a step": {str(n): round(1000 * each / n, 2) for n, each in seconds.items()},
    }
    print("growth with the output's length:", found, flush=True)
    return found


def record(metric: str, value: float, seconds: float, details: dict[str, Any]) -> None:
    """One record in results/decoding.json."""
    print(
        keep(
            "decoding",
            metric,
            value,
            seconds=seconds,
            note="CTranslate2 is the measure, not a paper",
            seeds=(SEED,),
            details=details,
        )
    )


def main() -> None:
    """Measure and, if requested, record."""
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = random_transformer()
    sources = torch.randint(len(SPECIAL), V, (SENTENCES, LENGTH)).tolist()
    ours, theirs = Ours(model, sources), Theirs(model, sources)
    for beam, wanted in BEAMS.items():
        started = time.perf_counter()
        found = compare(ours, theirs, beam, given.runs)
        if given.record:
            name = "greedy" if beam == 1 else f"beam {beam}"
            details = found | {"wanted": wanted, "runs": given.runs}
            record(
                f"{name}: share of CTranslate2's speed",
                found["ratio"],
                time.perf_counter() - started,
                details,
            )
    started = time.perf_counter()
    found = growth(ours, given.runs)
    if given.record:
        record(
            "exponent of the cost in the output's length",
            found["exponent"],
            time.perf_counter() - started,
            found,
        )


if __name__ == "__main__":
    main()
