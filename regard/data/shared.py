"""Folders that one process makes and many use: ranks of one training, machines, concurrent trainings.

    NAME            the result; it appears whole, by a rename
    NAME.making/    the work in progress, and owner.json: which process is at it (regard/lock.py)

A process that needs the folder and does not find it makes it, or waits if another is making it. If that one
dies, a waiting process continues from what is finished. The processes need not know of each other: on a disk
that machines share, one of them all makes the folder; otherwise one on each machine does.
"""

import logging
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from regard.errors import DataError
from regard.lock import FolderLock, Taken

LOOK = 0.2  # seconds between checks for a folder that another process is making


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """The folder; if it is missing, `make(work)` makes it under the name `work / "whole"`.

    `work` may contain what a killed process left there.
    """
    work = folder.with_name(f"{folder.name}.making")
    waited = False
    try:
        while not folder.exists():
            with ExitStack() as owned:
                if not _own(work, owned, say=not waited):
                    waited = True
                    time.sleep(LOOK)
                    continue
                if not folder.exists():
                    make(work)
                    _rename(work / "whole", folder)
                shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise DataError(
            f"{error.filename or folder}: {(error.strerror or str(error)).lower()}; expected room for the "
            "prepared text. REGARD_CACHE names another folder."
        ) from error
    return folder


def _own(work: Path, owned: ExitStack, *, say: bool) -> bool:
    """Try to lock the folder for this process until `owned` is closed."""
    try:
        owned.enter_context(FolderLock(work))
    except Taken as taken:
        if say:
            logging.getLogger("regard").info("waiting: %s", taken)
        return False
    except FileNotFoundError:  # just removed by the process that has made the folder
        return False
    return True


def _rename(made: Path, folder: Path) -> None:
    try:
        made.rename(folder)
    except OSError:
        if not folder.exists():  # else a machine presumed dead was first, with the same
            raise
