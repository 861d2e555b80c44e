"""Who trains into a run folder: one process, or the main one of several that train together."""

from pathlib import Path

from regard.lock import FILE, FolderLock, Taken


class RunLock(FolderLock):
    """Inside the block the run folder is this process's."""

    def refuse(self, who: str) -> Taken:
        return Taken(
            f"{self.folder}: a training goes on in it ({who}); expected a folder of its own. "
            "Wait for its end or choose another folder."
        )


def require_free(folder: Path) -> None:
    """Refuse a folder that a training goes on in."""
    if (folder / FILE).exists():
        with RunLock(folder):
            pass
