"""What compiled kernels share: the machine's own C++ compiler, Triton where it is there, and threads.

C++ loops beside a module are compiled on first use, in under a second.
"""

import ctypes
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import torch

FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC")


@cache
def library(source: str, instead: str) -> ctypes.CDLL | None:
    """The compiled file of this folder, built once per process; None without a compiler, which is said once.

    `instead` is what runs then, as a clause.
    """
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        _say(instead, "there is no C++ compiler")
        return None
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        target = Path(folder) / "loops.so"
        command = [compiler, *FLAGS, "-o", str(target), str(Path(__file__).with_name(source))]
        built = subprocess.run(command, capture_output=True, text=True)
        if built.returncode != 0:
            _say(instead, f"{compiler} failed: {built.stderr.strip()[-500:]}")
            return None
        return ctypes.CDLL(str(target))


def in_threads(run: Callable[[int, int], None], items: int, *, worth: bool) -> None:
    """run(first, last) over all items, on as many threads as torch uses, if that is worth it.

    Compiled loops run without Python's lock.
    """
    threads = min(torch.get_num_threads() if worth else 1, items)
    if threads <= 1:
        run(0, items)
        return
    edges = [items * i // threads for i in range(threads + 1)]
    first, *rest = pairwise(edges)
    pool = _pool(threads, os.getpid())
    others = [pool.submit(run, *span) for span in rest]
    run(*first)
    for other in others:
        other.result()


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads that stay: starting them takes as long as a small call. A process of its own has its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="regard")


def _say(instead: str, reason: str) -> None:
    logging.getLogger("regard").warning("%s: %s.", instead, reason)


# looked up once, when this is imported: torch.compile takes a plain constant as it is, and marking a function
# as constant for it would import all of torch._dynamo, a second and more of every command
_HAS_TRITON = find_spec("triton") is not None


def triton_missing() -> str | None:
    """None: Triton is there; otherwise the reason why a kernel written in it cannot run, as a clause."""
    return None if _HAS_TRITON else "Triton is not installed"
