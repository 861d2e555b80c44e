"""Processes started by a launcher (torchrun, `accelerate launch`): how many, which one, and how they end.

A process ends with its launcher, even if the launcher is killed: training then saves and stops as on SIGTERM.
If other processes have died too, a step may hang forever, so this process exits after `GRACE` seconds
without saving; earlier checkpoints are complete.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LOOK = 1.0  # seconds between checks of the parent process
GRACE = 60.0  # seconds to finish the last step and its checkpoint
STATUS = 128 + signal.SIGTERM

_watched = False


def count_launched() -> int:
    """How many processes the launcher started; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main_process() -> bool:
    """False in all but the first of the launched processes."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def ends_with_launcher() -> Iterator[None]:
    """Inside the block a launched process receives SIGTERM when its parent ends."""
    global _watched
    if count_launched() == 1 or _watched:
        yield
        return
    over = threading.Event()
    threading.Thread(target=_watch, args=(os.getppid(), over), daemon=True).start()
    _watched = True
    try:
        yield
    finally:
        _watched = False
        over.set()


def _watch(parent: int, over: threading.Event) -> None:
    while not over.wait(LOOK):
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)
            if not over.wait(GRACE):
                os._exit(STATUS)
            return
