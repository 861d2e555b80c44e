"""What compiled kernels share: the machine's own C++ compiler, Triton where it is there, and threads.

C++ loops beside a module are compiled on first use, in under a second, and kept in the cache:

    CACHE/loops/sparsemax_cpu-KEY-DIGEST.so

KEY is the digest of all that decides the machine code: source, compiler, flags and processor. So machines
that share a home folder never run each other's instructions. DIGEST is that of the file itself.
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
LIMIT = 60.0  # seconds that a compiler may take
KINDS = {"p": ctypes.c_void_p, "l": ctypes.c_long, "f": ctypes.c_float}


@cache
def library(source: str, instead: str, **functions: str) -> ctypes.CDLL | None:
    """The compiled file of this folder, from the cache or built; None if that fails, which is said once.

    `instead` is what runs without the loops, as a clause. `functions` are those that return nothing, with the
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
    """Where the cache cannot be used, since it is not writable or mounted noexec, a temporary folder is."""
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
        except (OSError, RuntimeError) as error:  # RuntimeError: nobody knows the home folder
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
    """The library of this name as it was written; one that is not is removed."""
    for path in home.glob(f"{name}-*.so"):
        if hasattr(os, "geteuid") and path.stat().st_uid != os.geteuid():
            raise OSError(f"{path} belongs to another user")  # whose code is not run
        if _digest(path.read_bytes()) == path.stem.rpartition("-")[2]:
            return path
        path.unlink(missing_ok=True)
    return None


def _keep(built: Path, home: Path | None) -> Path:
    """Copy a library into the cache; two processes at once leave one whole file, or two of equal use."""
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
    """Run the compiler; raises SubprocessError where it fails or takes too long."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that its children can be ended with it
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
    """The digest of all that decides the machine code; an updated compiler has another size or date."""
    found = Path(compiler).resolve()
    known = (str(found), found.stat().st_size, found.stat().st_mtime_ns, FLAGS, _processor())
    return _digest(source.read_bytes() + repr(known).encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


@cache
def _processor() -> str:
    """What -march=native sees: model and instruction sets; where they cannot be read, this very machine."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        return repr(platform.uname())
    # the clock's speed and the like change from moment to moment
    steady = r"vendor_id|cpu family|model|stepping|flags|Features|CPU |isa|uarch|cpu\t"
    lines = (line for line in first.splitlines() if re.match(steady, line))
    return "\n".join([platform.machine(), *lines])


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
