"""How much faster several processes train, measured here, and on paper for 8 to 512 GPUs.

    python benchmarks/processes.py --folder /tmp/regard-processes --processes 1 2 4     # throughput here
    python benchmarks/processes.py --step --record                                      # one step on one GPU
    python benchmarks/processes.py --paper                                              # the projection

`--record` writes to results/processes.json, where `--paper` finds the step; its table is in
docs/how-to/several-gpus.md.

On paper, a step of N GPUs takes as long as one GPU's, plus the part of the gradient exchange that is not
hidden behind the backward pass. The exchange is a ring within a machine, then one between machines:

    t = 2 (n-1)/n · bytes / link  +  2 (m-1)/m · bytes / network  +  2 (m-1) · latency · buckets
    step(N) = step(1) + max(0, t - hidden)           n GPUs in each of m machines, N = n m

with the figures in `ASSUMED`, which are assumptions and not measurements. Hidden is all of the backward pass
at best, and nothing at worst. Input, checkpoints and stragglers are left out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
ASSUMED = {
    "GPUs of a machine": 8,
    "link between GPUs, bytes a second": 300e9,  # NVLink 4, as all-reduce reaches it
    "latency of a message, seconds": 10e-6,
    "bytes of a bucket": 25 << 20,  # DDP's default
    "share of the backward pass in a step": 2 / 3,
}
BASE = {"layers": 6, "d_model": 512, "d_ff": 2048}
VOCABULARY = 32_000
WARM_UP = 5  # steps before the measurement
STEP = "milliseconds of a step, Transformer base"
NETWORKS = {"400 Gb/s": 40e9, "100 Gb/s": 10e9}  # bytes per second of a machine: four fifths of the line rate
SETTINGS = ("model.layers=2", "model.d_model=64", "model.d_ff=256", "task.train=4000", "task.valid=8")


def throughput(folder: Path, processes: int, steps: int) -> dict[str, Any]:
    """Units per second of so many single-threaded CPU processes, with the same total batch."""
    from regard.train.run_folder import RunFolder

    run = folder / f"run-{os.getpid()}-{processes}"
    settings = (
        *SETTINGS,
        f"train.steps={steps}",
        f"train.batch={4096 // processes}",
        "train.evaluate_every=0",
    )
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
    command += ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1", "-m", "--"]
    command += ["regard", "train", "transformer-en-fr", "--run", str(run)]
    load = round(os.getloadavg()[0], 1)
    subprocess.run(
        [*command, *(word for setting in settings for word in ("--set", setting))],
        env=os.environ | {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        check=True,
    )
    checkpoint = RunFolder(run).load()
    assert checkpoint is not None
    state = checkpoint.state
    speed = round(state.units / state.training_seconds)
    return {"processes": processes, "units a second": speed, "load before": load, "cores": os.cpu_count()}


def measure_step(
    device: str = "cuda", *, tokens: int = 32_768, times: int = 20, **sizes: int
) -> dict[str, Any]:
    """A training step of the Transformer, by default of base size, in bfloat16; and how much is exchanged."""
    from regard.data.batches import pair_batch
    from regard.models.transformer import Transformer, TransformerConfig
    from regard.tasks.translation import cross_entropy

    config = TransformerConfig(
        source_vocab=VOCABULARY, target_vocab=VOCABULARY, shared_vocab=1, **(BASE | sizes)
    )
    model = Transformer(config).to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    rows, length = tokens // 64, 31  # both sides: 31 pieces and eos
    sentences = torch.randint(4, VOCABULARY, (2, rows, length)).tolist()
    batch = pair_batch(*sentences).to(torch.device(device))
    wait = torch.cuda.synchronize if device == "cuda" else torch.cpu.synchronize
    found = []
    for _ in range(times + WARM_UP):
        wait()
        began = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16):
            scores = model(batch)
        cross_entropy(scores, batch, smoothing=0.1).total.backward()
        optimizer.step()
        wait()
        found.append(time.perf_counter() - began)
    parameters = sum(p.numel() for p in model.parameters())
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "tokens a step, both sides": tokens,
        "milliseconds": round(1e3 * statistics.median(found[WARM_UP:]), 2),
        "parameters": parameters,
        "bytes exchanged": 4 * parameters,
    }


def on_paper(step: float, size: int, machines: int, *, network: float, hidden: float) -> float:
    """Seconds per step on so many machines."""
    n = int(ASSUMED["GPUs of a machine"])
    within = 2 * (n - 1) / n * size / ASSUMED["link between GPUs, bytes a second"]
    between = 2 * (machines - 1) / machines * size / network
    buckets = -(-size // ASSUMED["bytes of a bucket"])
    waiting = 2 * (machines - 1) * ASSUMED["latency of a message, seconds"] * buckets
    return step + max(0.0, within + between + waiting - hidden)


def project(found: dict[str, Any]) -> list[dict[str, Any]]:
    """For 8 to 512 GPUs, the share of ideal scaling: at best, and at worst."""
    step = found["milliseconds"] / 1e3
    best = step * ASSUMED["share of the backward pass in a step"]
    rows = []
    for machines in (1, 2, 4, 8, 16, 32, 64):
        row: dict[str, Any] = {"GPUs": int(ASSUMED["GPUs of a machine"]) * machines}
        for name, network in NETWORKS.items():
            for how, hidden in (("best", best), ("worst", 0.0)):
                seconds = on_paper(step, found["bytes exchanged"], machines, network=network, hidden=hidden)
                row[f"{name}, {how}"] = round(step / seconds, 2)
        rows.append(row)
    return rows


def page(found: dict[str, Any]) -> str:
    """The same as a table in Markdown."""
    lines = [f"| GPUs | {' | '.join(f'{name} a machine' for name in NETWORKS)} |", "|---" * 3 + "|"]
    for row in project(found):
        shares = (f"{row[f'{name}, worst']:.2f}–{row[f'{name}, best']:.2f}" for name in NETWORKS)
        lines.append(f"| {row['GPUs']} | {' | '.join(shares)} |")
    return "\n".join(lines)


def recorded_step() -> dict[str, Any]:
    """The last recorded step."""
    from regard.evaluate.results import newest, read_results

    records = newest(read_results(ROOT / "results"))
    [found] = [each.details for each in records if (each.recipe, each.metric) == ("processes", STEP)]
    return found


def record(metric: str, value: float, details: dict[str, Any], note: str, *, began: float) -> None:
    """A figure in results/processes.json."""
    from common import keep

    seconds = time.perf_counter() - began
    print("written:", keep("processes", metric, value, seconds=seconds, details=details, note=note))


def main() -> None:
    """Measure, compute, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="for the runs")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--step", action="store_true", help="measure a step on this machine's GPU")
    parser.add_argument("--paper", action="store_true", help="print what follows from the recorded step")
    parser.add_argument("--record", action="store_true", help="write results/processes.json")
    given = parser.parse_args()
    began = time.perf_counter()
    if given.step:
        found = measure_step()
        print(json.dumps(found))
        if given.record:
            record(STEP, found["milliseconds"], found, "one GPU, bf16", began=began)
    if given.folder:
        for processes in given.processes:
            began = time.perf_counter()
            figures = throughput(given.folder, processes, given.steps)
            print(json.dumps(figures))
            if given.record:
                metric, note = (
                    f"units a second, processes: {processes}",
                    "one thread each, the same batch in all",
                )
                record(metric, figures["units a second"], figures, note, began=began)
    if given.paper:
        print(page(recorded_step()))


if __name__ == "__main__":
    main()
