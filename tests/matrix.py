"""Run the suite ten times: ten seed offsets, spread over instruction sets, threads and orders.

    python tests/matrix.py                        # all ten runs
    python tests/matrix.py --runs 2 5             # two of them
    python tests/matrix.py -- tests/kernels -x    # what follows -- goes to pytest

AVX-512 runs use AVX2 where the CPU has no more. Prints a line for each run, and what failed.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
RUNS = [  # ATEN_CPU_CAPABILITY, ONEDNN_MAX_CPU_ISA, threads; the order is the offset's
    ("", "", 1),
    ("default", "", 1),
    ("avx2", "", 1),
    ("avx512", "", 2),
    ("", "AVX2", 1),
    ("default", "AVX2", 2),
    ("avx2", "AVX2", 2),
    ("avx512", "AVX512_CORE", 1),
    ("avx2", "SSE41", 1),
    ("", "", 2),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, nargs="+", default=range(1, len(RUNS) + 1), metavar="N")
    parser.add_argument("--workers", default="2", help="processes of a run with one thread")
    parser.add_argument("pytest", nargs="*", help="after --: words for pytest")
    options = parser.parse_args()
    failed = 0
    for number in options.runs:
        variables, workers = plan(number, int(options.workers))
        print(f"{number:2d}  {' '.join(f'{name}={value}' for name, value in variables.items())}", flush=True)
        begun = time.monotonic()
        command = [sys.executable, "-m", "pytest", "-q", "-rf", "--dist", "worksteal", "-n", str(workers)]
        done = subprocess.run(
            [*command, *options.pytest], cwd=ROOT, env=os.environ | variables, capture_output=True, text=True
        )
        lines = done.stdout.splitlines() or [done.stderr[-500:]]
        for line in lines:
            if re.match(r"(FAILED|ERROR) ", line):
                print("   ", line)
        print(f"    {lines[-1].strip('= ')} ({time.monotonic() - begun:.0f} s)", flush=True)
        failed += done.returncode != 0
    print(f"{failed} of {len(options.runs)} runs failed")
    return 1 if failed else 0


def plan(number, workers):
    """The variables of a run, and its number of processes: half as many with two threads each."""
    capability, onednn, threads = RUNS[number - 1]
    if capability == "avx512" and "AVX512" not in torch.backends.cpu.get_cpu_capability():
        capability = "avx2"
    variables = {
        "REGARD_SEED_OFFSET": str(number),
        "REGARD_TEST_ORDER": str(number),
        "REGARD_TEST_THREADS": str(threads),
        "OMP_NUM_THREADS": str(threads),
        "ATEN_CPU_CAPABILITY": capability,
        "ONEDNN_MAX_CPU_ISA": onednn,
    }
    return {name: value for name, value in variables.items() if value}, max(1, workers // threads)


if __name__ == "__main__":
    sys.exit(main())
