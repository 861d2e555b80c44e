"""Run a file of tests under Triton's interpreter, in a process of its own.

The interpreter must be chosen before Triton is first imported, which another test may have done already.
"""

import functools
import inspect
import os
import subprocess
import sys
from dataclasses import replace
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


def hasten():
    """Let Triton's interpreter leave out what has no effect, two thirds of the time of these tests.

    It patches its language for every call of a device function, where once a launch is enough; it computes
    whether integers overflow, and looks at the answer only with its option `debug`; and it makes a table of
    all dtypes to look one up. Called in the process that interprets, by conftest.py.
    """
    from triton.runtime import interpreter

    patch, patched = interpreter._patch_lang, set()
    look_up, known = interpreter._get_np_dtype, {}
    launch = interpreter.GridExecutor.__call__

    @functools.cache
    def modules_of(function):
        return frozenset(id(value) for value in function.__globals__.values() if inspect.ismodule(value))

    def patch_lang(function):
        modules = modules_of(function)
        if modules <= patched:
            return None
        patched.update(modules)
        return patch(function)

    def np_dtype(dtype):
        scalar = dtype.scalar
        if scalar.name not in known:
            known[scalar.name] = look_up(scalar)
        return known[scalar.name]

    def call(self, *arguments, **options):
        patched.clear()
        return launch(self, *arguments, **options)

    interpreter._patch_lang, interpreter.GridExecutor.__call__ = patch_lang, call
    interpreter._get_np_dtype = np_dtype
    builder = interpreter.interpreter_builder
    assert not builder.options.debug
    builder.options = replace(builder.options, sanitize_overflow=False)
