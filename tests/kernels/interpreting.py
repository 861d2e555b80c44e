"""Run a file of tests under Triton's interpreter, in a process of its own.

The interpreter must be chosen before Triton is first imported, which another test may have done already.
"""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def check_in_interpreter(name):
    """All tests of kernels/NAME pass there; skipped where Triton is not installed."""
    pytest.importorskip("triton")
    paths = os.pathsep.join([str(HERE.parent), str(HERE.parents[1])])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", HERE / name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def patch_once_a_launch():
    """Triton's interpreter patches its language for every call of a device function; once a launch is enough.

    That is half the time of these tests. Called in the process that interprets, by conftest.py.
    """
    from triton.runtime import interpreter

    patch, patched = interpreter._patch_lang, set()
    launch = interpreter.GridExecutor.__call__

    def patch_lang(function):
        modules = {id(value) for value in function.__globals__.values() if inspect.ismodule(value)}
        if modules <= patched:
            return None
        patched.update(modules)
        return patch(function)

    def call(self, *arguments, **options):
        patched.clear()
        return launch(self, *arguments, **options)

    interpreter._patch_lang, interpreter.GridExecutor.__call__ = patch_lang, call
