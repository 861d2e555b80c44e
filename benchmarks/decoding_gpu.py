"""How fast translators decode on a GPU: by captured graphs, step by step, and by transformers' `generate`.

    python benchmarks/decoding_gpu.py [--batches 1 32 256] [--runs 5] [--record results]

Random weights; 20 pieces in, 32 out, for every sentence, greedily and with a beam of 5. The Transformer has
6 + 6 layers, d_model 512, 8 heads, d_ff 2048, 32,000 pieces; it is compared with a Marian model of that size.
RNNsearch and Luong's model have the sizes of their recipes and are compared only with their own steps. Parity
comes first: graphs must write the pieces that steps write. Needs an NVIDIA GPU and transformers.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from common import arguments, keep

from regard.attention import paths
from regard.data.batches import PairBatch, pair_batch
from regard.decode.base import PowerPenalty
from regard.decode.beam import beam_search
from regard.decode.greedy import greedy
from regard.models.luong import Luong, LuongConfig
from regard.models.rnnsearch import RNNsearch, RNNsearchConfig
from regard.models.transformer import Transformer, TransformerConfig

V, SOURCE, TARGET, SEED = 32000, 20, 32, 1
SIZES = {"source_vocab": V, "target_vocab": V}


def models() -> dict[str, Any]:
    """Ours, on the GPU."""
    torch.manual_seed(SEED)
    made = {
        "transformer": Transformer(TransformerConfig(**SIZES, shared_vocab=1)),
        "rnnsearch": RNNsearch(RNNsearchConfig(**SIZES)),
        "luong": Luong(LuongConfig(**SIZES)),
    }
    return {name: model.cuda().eval() for name, model in made.items()}


def marian() -> Any:
    """Theirs, of the Transformer's sizes."""
    config = transformers.MarianConfig(
        vocab_size=V,
        d_model=512,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
        pad_token_id=0,
        eos_token_id=2,
        forced_eos_token_id=None,
        decoder_start_token_id=1,
    )
    torch.manual_seed(SEED)
    return transformers.MarianMTModel(config).cuda().eval()


def batch_of(B: int, seed: int) -> PairBatch:
    """Random sentences of one length."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(4, V, (B, SOURCE - 1), generator=generator).tolist()
    return pair_batch(rows, [[] for _ in rows]).to("cuda")


def write(model: Any, batch: PairBatch, beam: int) -> list[tuple[int, ...]]:
    """What our model writes, greedily or with a beam."""
    if beam == 1:
        return [each.tokens for each in greedy(model, batch, maximum=TARGET, minimum=TARGET)]
    found = beam_search(model, batch, width=beam, maximum=TARGET, minimum=TARGET, penalty=PowerPenalty(1.0))
    return [each[0].tokens for each in found]


def step_by_step(work: Callable[[], Any]) -> Any:
    """The same without graphs."""
    paths._places, kept = {k: v for k, v in paths._places.items() if k != "decoding"}, paths._places
    try:
        return work()
    finally:
        paths._places = kept


def generate(model: Any, batch: PairBatch, beam: int) -> None:
    """What transformers writes."""
    mask = torch.ones_like(batch.source)
    with torch.no_grad():
        model.generate(
            input_ids=batch.source,
            attention_mask=mask,
            num_beams=beam,
            do_sample=False,
            min_new_tokens=TARGET,
            max_new_tokens=TARGET,
        )


def speed(work: Callable[[], Any], pieces: int, runs: int) -> float:
    """Pieces per second: the median of some runs."""
    times = []
    for _ in range(runs):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return pieces / sorted(times)[len(times) // 2]


def main() -> None:
    """Measure, print, record."""
    parser = arguments(__doc__)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32, 256])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--autocast", action="store_true", help="bfloat16")
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    begun = time.time()
    ours, theirs, rows = models(), marian(), []
    with torch.autocast("cuda", torch.bfloat16, enabled=options.autocast):
        for name, model in ours.items():
            for beam in (1, 5):
                for B in options.batches:
                    rows.append(row(name, model, theirs, beam, B, options.runs))
                    print(json.dumps(rows[-1]), flush=True)
    if options.record:
        details = {"sizes": {"vocab": V, "source": SOURCE, "target": TARGET}, "rows": rows}
        ratio = rows[0]["times"]["generate"]
        keep(
            "decoding-gpu",
            "times generate, one sentence",
            ratio,
            seconds=time.time() - begun,
            details=details,
            folder=options.record,
        )


def row(name: str, model: Any, theirs: Any, beam: int, B: int, runs: int) -> dict[str, Any]:
    """One line: pieces per second each way, in one run."""
    first, second = batch_of(B, 1), batch_of(B, 2)
    for batch in (first, first, first):  # captured the second time
        write(model, batch, beam)
    found, expected = write(model, second, beam), step_by_step(lambda: write(model, second, beam))
    same = sum(a == b for a, b in zip(found, expected, strict=True)) / B
    pieces = B * TARGET
    ways: dict[str, Callable[[], Any]] = {
        "captured": lambda: write(model, second, beam),
        "steps": lambda: step_by_step(lambda: write(model, second, beam)),
    }
    if name == "transformer":
        generate(theirs, second, beam)
        ways["generate"] = lambda: generate(theirs, second, beam)
    speeds = {way: round(speed(work, pieces, runs)) for way, work in ways.items()}
    ratios = {way: round(speeds["captured"] / speeds[way], 2) for way in ways if way != "captured"}
    return {"model": name, "beam": beam, "sentences": B, "same": same, **speeds, "times": ratios}


if __name__ == "__main__":
    main()
