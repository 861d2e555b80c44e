import json
import os
import random
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

SCRIPT = Path(__file__).parent / "train_killed.py"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes")
def test_a_run_killed_at_any_moment_ends_bit_for_bit_like_one_never_stopped(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    memory = Path(
        "/dev/shm"
    )  # where there is one, a thousand syncs take no time; what is proved is the order
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
        command = [sys.executable, str(SCRIPT), folder, str(seed)]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=120, check=False
        )
    assert done.returncode == 0, f"seed {seed}\n{done.stderr}"
    kills = json.loads(done.stdout)
    assert kills["again"] >= 3
    assert kills["random"] >= 1
