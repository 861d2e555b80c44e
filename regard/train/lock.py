"""The lock of a run folder: it belongs to one process, or to the main one of several that train together."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from regard.lock import FILE, FolderLock, Taken

LOOK = 0.5  # seconds between attempts to own a folder


class RunLock(FolderLock):
    """Context manager that owns the run folder inside the block."""

    def refuse(self, who: str) -> Taken:
        return Taken(
            f"{self.folder}: it is in use by a training ({who}); expected a free folder. "
            "Wait until the training ends, or choose another folder."
        )


@contextmanager
def own_run(folder: Path, *, wait: float = 0.0) -> Iterator[RunLock]:
    """Own the run folder; while another process does, retry for up to `wait` seconds."""
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
    """Raise Taken if a training owns the folder."""
    if (folder / FILE).exists():
        with RunLock(folder):
            pass
