"""Folders that one process makes and many use: ranks of a training, machines, trainings side by side.

    NAME            what was made; it appears whole, by a rename
    NAME.making/    what is finished of it, and owner.json: who makes it (regard/lock.py)

Whoever needs the folder and does not find it makes it or, where another process does that, waits. If that
process dies, one of those who wait goes on from what is finished. Nobody has to know who else there is: on a
disk that machines share one of them all makes the folder, else one on each machine.
"""

import logging
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from regard.errors import DataError
from regard.lock import FolderLock, Taken

LOOK = 0.2  # seconds from one look at a folder that another process makes to the next


def made_once(folder: Path, make: Callable[[Path], Path]) -> Path:
    """The folder; where it is not there, `make(work)` fills a folder within `work` and gives its name.

    It finds in `work` what another process left there that was killed.
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
                    _rename(make(work), folder)
                shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise DataError(
            f"{error.filename or folder}: {(error.strerror or str(error)).lower()}; expected room for the "
            "prepared text. REGARD_CACHE names another folder."
        ) from error
    return folder


def _own(work: Path, owned: ExitStack, *, say: bool) -> bool:
    """Whether the folder is now this process's, until `owned` is closed."""
    try:
        owned.enter_context(FolderLock(work))
    except Taken as taken:
        if say:
            logging.getLogger("regard").info("waiting: %s", taken)
        return False
    except FileNotFoundError:  # removed in this moment by the process that has made the folder
        return False
    return True


def _rename(made: Path, folder: Path) -> None:
    try:
        made.rename(folder)
    except OSError:
        if not folder.exists():  # otherwise a machine that was taken for dead was first, with the same
            raise
