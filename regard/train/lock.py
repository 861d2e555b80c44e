"""Who trains into a run folder: one process, or the main one of several that train together."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from regard.lock import FILE, FolderLock, Taken

LOOK = 0.5  # seconds from one try to own a folder to the next


class RunLock(FolderLock):
    """Inside the block the run folder is this process's."""

    def refuse(self, who: str) -> Taken:
        return Taken(
            f"{self.folder}: it is in use by a training ({who}); expected a folder of its own. "
            "Wait for its end or choose another folder."
        )


@contextmanager
def own_run(folder: Path, *, wait: float = 0.0) -> Iterator[RunLock]:
    """Own the run folder; where another process does, try again for so many seconds."""
    end = time.monotonic() + wait
    with ExitStack() as owned:
        while True:
            try:
                lock = owned.enter_context(RunLock(folder))
                break
            except Taken:
                if time.monotonic() >= end:
                    raise
                time.sleep(LOOK)
        yield lock


def require_free(folder: Path) -> None:
    """Refuse a folder that a training goes on in."""
    if (folder / FILE).exists():
        with RunLock(folder):
            pass
