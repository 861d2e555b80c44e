"""Run a file of tests under Triton's interpreter, in a process of its own.

The interpreter must be chosen before Triton is first imported, which another test may have done already.
"""

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
