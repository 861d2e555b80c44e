"""What it costs to see the attention of a model that runs fused kernels, in time and in memory.

    python benchmarks/any_model.py --device cuda --record results
    python benchmarks/any_model.py --lengths 128 512 --batch 1 --record results        # on a CPU

An encoder of BERT-base's shape and a decoder of GPT-2's, with random weights, in inference; bfloat16 on a
GPU, float32 on a CPU. Parity comes first: a recording must not change the output, and its weights must be
those of eager attention. Then, run by turns:

    sdpa             the model as it is
    record           inside record(model)
    one layer        the same, and all weights of one layer
    top 8            the same, and the eight largest weights of each row in all layers, without the matrices
    eager            eager attention with output_attentions, the usual way

The peak is the memory in use at once beyond the model. Eager attention is left out where it does not fit.
Above LONGEST tokens the batch is 1. Needs transformers.
"""

import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
import transformers
from common import arguments, keep
from torch import Tensor

from regard import record
from regard.bench.clock import interleaved, peak

PARITY = 128  # tokens of the batch by which parity is checked
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
TOP = 8
LONGEST = 8192  # tokens of a whole batch
LENGTHS = {"cpu": [128, 512, 2048], "cuda": [128, 512, 2048, LONGEST, 32768]}


def models(longest: int) -> dict[str, Any]:
    """The two shapes, for the requested number of tokens."""
    return {
        "encoder": transformers.BertConfig(max_position_embeddings=longest),
        "decoder": transformers.GPT2Config(n_positions=longest),
    }


def made(config: Any, attention: str, device: str, dtype: torch.dtype) -> Any:
    """The model with weights that depend on the seed alone."""
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(deepcopy(config), attn_implementation=attention, dtype=dtype)
    return model.to(device).eval()


def batch_of(model: Any, B: int, T: int) -> dict[str, Any]:
    """Random tokens; a decoder keeps no cache."""
    ids = torch.randint(model.config.vocab_size, (B, T), device=model.device)
    return {"input_ids": ids} if model.config.model_type == "bert" else {"input_ids": ids, "use_cache": False}


def runs_of(sdpa: Any, eager: Any, batch: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """The runs to compare; each drops what it has computed."""

    def recorded(look: Callable[[Any], object]) -> object:
        with record(sdpa) as trace:
            sdpa(**batch)
        return look(trace)

    def top(trace: Any) -> list[Tensor]:
        return [result.top(TOP)[0] for results in trace.values() for result in results]

    return {
        "sdpa": lambda: sdpa(**batch),
        "record": lambda: recorded(lambda trace: None),
        "one layer": lambda: recorded(lambda trace: next(iter(trace.values()))[0].weights),
        "top 8": lambda: recorded(top),
        "eager": lambda: eager(**batch, output_attentions=True),
    }


def check_parity(sdpa: Any, eager: Any, batch: dict[str, Any]) -> float:
    """Check that outputs are equal bit for bit, and weights to rounding; their largest difference."""
    plain = sdpa(**batch)[0]
    with record(sdpa) as trace:
        out = sdpa(**batch)[0]
    assert torch.equal(out, plain)
    expected = eager(**batch, output_attentions=True).attentions
    results = [result for each in trace.values() for result in each]
    assert len(results) == len(expected)
    apart = max(
        float((own.weights - weights.float()).abs().max())
        for own, weights in zip(results, expected, strict=True)
    )
    assert apart <= TOLERANCE[plain.dtype], apart
    return apart


def fitting(
    runs: dict[str, Callable[[], object]], model: Any, B: int, T: int
) -> dict[str, Callable[[], object]]:
    """The runs that fit into memory; eager attention is not tried if its weights alone exceed it."""
    config, found = model.config, {}
    weights = config.num_hidden_layers * config.num_attention_heads * B * T * T * model.dtype.itemsize
    for name, run in runs.items():
        if name == "eager" and model.device.type == "cuda" and weights > torch.cuda.mem_get_info()[1]:
            continue
        try:
            run()
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
        else:
            found[name] = run
    return found


def main() -> None:
    """Measure, print and, if requested, record."""
    parser = arguments(__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--lengths", type=int, nargs="+", help="tokens; without them those of LENGTHS")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=2.0, help="seconds for each measurement")
    parser.add_argument("--record", type=Path, help="write records into this folder")
    words = parser.parse_args()
    torch.set_num_threads(words.threads)
    transformers.logging.set_verbosity_error()
    dtype = torch.bfloat16 if words.device == "cuda" else torch.float32
    lengths = words.lengths or LENGTHS[words.device]
    for name, config in models(max(*lengths, PARITY)).items():
        began = time.perf_counter()
        sdpa, eager = (made(config, kind, words.device, dtype) for kind in ("sdpa", "eager"))
        with torch.no_grad():
            apart = check_parity(sdpa, eager, batch_of(sdpa, 1, PARITY))
            print(f"{name}: outputs equal, weights within {apart:.1e} of eager")
            for T in lengths:
                B = words.batch if T <= LONGEST else 1
                runs = fitting(runs_of(sdpa, eager, batch_of(sdpa, B, T)), sdpa, B, T)
                times = interleaved(runs, words.device, budget=words.budget)
                peaks = {run: peak(runs[run], words.device) / 2**20 for run in runs}
                for run in runs:
                    ratio, most = times[run] / times["sdpa"], peaks[run]
                    print(f"{name} {T:6d}  {run:10s} {times[run]:10.2f} ms {ratio:6.3f} × {most:9.1f} MiB")
                if words.record:
                    details = {"ms": times, "MiB": peaks, "batch": B, "dtype": str(dtype)}
                    details |= {"device": words.device, "threads": words.threads, "T": T}
                    keep(
                        f"any-model-{name}-{T}-{words.device}",
                        "time of record over sdpa",
                        times["record"] / times["sdpa"],
                        seconds=time.perf_counter() - began,
                        details=details,
                        folder=words.record,
                    )


if __name__ == "__main__":
    main()
