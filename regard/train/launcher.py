"""The processes that a launcher (torchrun, `accelerate launch`) started: how many, which, and their end.

A process ends with its launcher, even if the launcher is killed. The training then saves and stops as on
SIGTERM. If other processes are gone too, a step may never end: after `GRACE` seconds this process ends
without saving; what was saved before is whole.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LOOK = 1.0  # seconds from one look at the parent to the next
GRACE = 60.0  # seconds for the last step and its checkpoint
STATUS = 128 + signal.SIGTERM

_watched = False


def count_launched() -> int:
    """How many processes the launcher started; 1 without one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main_process() -> bool:
    """False in all but the first of the processes that a launcher started."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def ends_with_launcher() -> Iterator[None]:
    """Inside the block, of one of several processes, the end of its parent is a SIGTERM."""
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
