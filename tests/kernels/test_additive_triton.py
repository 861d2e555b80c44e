"""The Triton kernels without a GPU: by Triton's interpreter, in a process of its own.

The interpreter must be chosen before Triton is first imported, which another test may have done already.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_kernels_equal_the_cpu_kernel_in_the_interpreter():
    pytest.importorskip("triton")
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here.parent), str(here.parents[1])])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore"]
    done = subprocess.run(
        [*command, here / "additive_interpreted.py"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
