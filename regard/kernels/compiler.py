"""Shared by compiled kernels: the local C++ compiler, the check for Triton, and threads.

C++ loops next to a module are compiled on first use, in under a second, and cached:

    CACHE/loops/sparsemax_cpu-KEY-DIGEST.so

KEY is the digest of everything that determines the machine code: source, compiler, flags and processor. So
machines that share a home folder never run each other's code. DIGEST is that of the file itself.
"""

import ctypes
import hashlib
import logging
import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import torch

from regard import storage

FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC")
LIMIT = 60.0  # timeout of the compiler, in seconds
KINDS = {"p": ctypes.c_void_p, "l": ctypes.c_long, "f": ctypes.c_float}


def library(source: str, instead: str, **functions: str) -> ctypes.CDLL | None:
    """The compiled `source` of this folder, from the cache or built; None, with one warning, if that fails.

    `instead` is a clause that says what runs without the loops. `functions` are the void functions with the
    types of their arguments: "4p 2l f" are four pointers, two longs and a float.
    """
    loops = _library(source, instead)
    if loops is not None:
        for name, arguments in functions.items():
            function, types = getattr(loops, name), re.findall(r"(\d*)([plf])", arguments)
            function.argtypes = [KINDS[kind] for count, kind in types for _ in range(int(count or 1))]
            function.restype = None
    return loops


def _library(source: str, instead: str) -> ctypes.CDLL | None:
    """Builds in a temporary folder if the cache cannot be used (not writable, mounted noexec)."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        _say(instead, "there is no C++ compiler")
        return None
    path, home, faults = Path(__file__).parent / source, None, []
    try:
        name = f"{path.stem}-{_key(path, compiler)}"
        try:
            folder = storage.cache_folder() / "loops"
            kept = _find(folder, name)
            if kept is not None:
                return ctypes.CDLL(str(kept))
            home = folder
        except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
            faults.append(str(error))
        with tempfile.TemporaryDirectory(prefix="regard-", ignore_cleanup_errors=True) as temporary:
            built = Path(temporary) / f"{name}.so"
            _compile([compiler, *FLAGS, "-o", str(built), str(path)])
            try:
                return ctypes.CDLL(str(_keep(built, home)))
            except OSError as error:
                faults.append(str(error))
            return ctypes.CDLL(str(built))
    except OSError as error:
        faults.append(str(error))
        _say(instead, f"the compiled loops cannot be loaded ({'; '.join(dict.fromkeys(faults))})")
    except subprocess.SubprocessError as error:
        _say(instead, str(error))
    return None


def _find(home: Path, name: str) -> Path | None:
    """The library of this name if its digest is right; damaged ones are removed."""
    for path in home.glob(f"{name}-*.so"):
        if hasattr(os, "geteuid") and path.stat().st_uid != os.geteuid():
            raise OSError(f"{path} belongs to another user")  # do not run their code
        if _digest(path.read_bytes()) == path.stem.rpartition("-")[2]:
            return path
        path.unlink(missing_ok=True)
    return None


def _keep(built: Path, home: Path | None) -> Path:
    """Copy a library into the cache, atomically; concurrent processes leave one file, or equivalent ones."""
    if home is None:
        return built
    home.mkdir(parents=True, exist_ok=True)
    storage.remove_left_over(home)
    aside = storage.aside(home / built.name)
    try:
        shutil.copyfile(built, aside)
        return aside.rename(home / f"{built.stem}-{_digest(built.read_bytes())}.so")
    finally:
        aside.unlink(missing_ok=True)


def _compile(command: list[str]) -> None:
    """Run the compiler; raises SubprocessError if it fails or takes too long."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that its children can be killed with it
    ) as process:
        try:
            _, errors = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired as error:
            raise subprocess.SubprocessError(f"{command[0]} took more than {LIMIT:.0f} s") from error
        finally:
            if process.returncode is None:
                _end(process)
    if process.returncode != 0:
        raise subprocess.SubprocessError(f"{command[0]} failed: {errors.strip()[-500:]}")


def _end(process: "subprocess.Popen[str]") -> None:
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def _key(source: Path, compiler: str) -> str:
    """The digest of everything that determines the machine code; a compiler counts by path, size and date."""
    found = Path(compiler).resolve()
    known = (str(found), found.stat().st_size, found.stat().st_mtime_ns, FLAGS, _processor())
    return _digest(source.read_bytes() + repr(known).encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


@cache
def _processor() -> str:
    """What -march=native sees: model and instruction sets; if they cannot be read, the machine's identity."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        return repr(platform.uname())
    # leave out fields that change, such as the clock rate
    steady = r"vendor_id|cpu family|model|stepping|flags|Features|CPU |isa|uarch|cpu\t"
    lines = (line for line in first.splitlines() if re.match(steady, line))
    return "\n".join([platform.machine(), *lines])


def in_threads(run: Callable[[int, int], None], items: int, *, worth: bool) -> None:
    """Call run(first, last) over all items, on as many threads as torch uses if `worth` it, else on one.

    Compiled loops release the GIL.
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
    """Persistent threads: starting them takes as long as a small call. A forked process gets its own pool."""
    return ThreadPoolExecutor(threads, thread_name_prefix="regard")


def _say(instead: str, reason: str) -> None:
    logging.getLogger("regard").warning("%s: %s.", instead, reason)


# evaluated at import: torch.compile accepts a plain constant, while marking a function as constant would
# import torch._dynamo and add more than a second to every command
_HAS_TRITON = find_spec("triton") is not None


def triton_missing() -> str | None:
    """None if Triton is installed; otherwise the reason why its kernels cannot run, as a clause."""
    return None if _HAS_TRITON else "Triton is not installed"
